// The table of a simulation in the form of nccl-tests, and its JSON (schema peal.sim/1). Pure functions of rows.
#pragma once

#include <base/result.hpp>
#include <optional>
#include <peal/types.hpp>
#include <span>
#include <string>

namespace peal::sim {

/// algbw and busbw in GB/s, as nccl-tests defines them.
struct Timing {
  double time_us = 0;
  double p50_us = 0;
  double algbw = 0;
  double busbw = 0;
};

struct Row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  ///< elements a rank, as nccl-tests prints them
  DataType type = DataType::f32;
  std::string op = "none";  ///< "sum"; "none" where nothing is reduced
  int root = -1;
  std::string algorithm;
  std::string protocol;
  double predicted_us = 0;
  std::optional<Timing> out_of_place;
  std::optional<Timing> in_place;
  std::string bottleneck;  ///< busiest resource, empty when software is
  double utilisation = 0;
};

struct Table {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  int nodes = 1;
  std::string machine;  ///< "NVIDIA DGX H100", "this host"
  std::string wires;    ///< "nvlink-h100, infiniband"
};

/// Three lines that start with #, as nccl-tests prints them.
std::string header_text(const Table& table);
std::string row_text(const Row& row);
/// Average bus bandwidth over all timings.
std::string footer_text(std::span<const Row> rows);
std::string to_json(const Table& table, std::span<const Row> rows);

}  // namespace peal::sim
