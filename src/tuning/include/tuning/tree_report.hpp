// The trees from one rank of a node to all others that carry the most together: for people, and for checks.
#pragma once

#include <string>
#include <tuning/mixture.hpp>
#include <tuning/wire_load.hpp>

namespace peal::tuning {

struct TreeReport {
  std::int32_t root = 0;
  Mixture trees;  ///< its total: GB/s that all of them carry together, one direction
  std::vector<WireLoad> loads;
};

/// Of 2 to kMostWiredRanks ranks on devices of one node.
Result<TreeReport> report_trees(const topology::Resources& resources, std::span<const int> device_of_rank, std::int32_t root);

/// A table for people: "gpu0 (gpu1 (gpu2) gpu3)" sends to gpu1 and gpu3, and gpu1 on to gpu2.
std::string describe_trees(const topology::Resources& resources, std::span<const int> device_of_rank, const TreeReport& report);
/// {"root":"gpu0","ranks":..,"trees":[{"GBps":..,"parents":{"gpu1":"gpu0",..}},..],"GBps":..,"bound_GBps":..,"is_bound_met":..,
/// "rails":[..],"wires":[..]}
std::string trees_json(const topology::Resources& resources, std::span<const int> device_of_rank, const TreeReport& report);

}  // namespace peal::tuning
