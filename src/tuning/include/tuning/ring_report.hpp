// The rings that a placement takes on a machine, what they carry, and the most that any rings could: for people, and for checks against
// what others found on the same machine.
#pragma once

#include <string>
#include <tuning/ring_set.hpp>
#include <tuning/wire_load.hpp>

namespace peal::tuning {

struct RingReport {
  RingSet set;               ///< at least one ring
  double rate = 0;           ///< GB/s that all of them carry together, one direction; each its share
  double bound = 0;          ///< GB/s that no rings exceed; 0: not known (several nodes)
  bool is_bound_met = true;  ///< some rings reach the bound; false: it may be too high
  std::vector<WireLoad> loads;
};

/// Of ranks on devices of one node, or of several whose constants are known. Fails where two ranks have no way to each other.
Result<RingReport> report_rings(const topology::Resources& resources, std::span<const int> device_of_rank);

/// A table for people; ranks are called by their devices.
std::string describe_rings(const topology::Resources& resources, std::span<const int> device_of_rank, const RingReport& report);
/// {"rings":[["gpu0",..],..],"shares":[1,..],"GBps":..,"bound_GBps":..,"is_bound_met":..,"rails":[..],"wires":[..]}
std::string rings_json(const topology::Resources& resources, std::span<const int> device_of_rank, const RingReport& report);

}  // namespace peal::tuning
