// The table of a simulation in the form of nccl-tests, and its JSON (schema peal.sim/1). Pure functions of rows.
#pragma once

#include <base/result.hpp>
#include <optional>
#include <peal/types.hpp>
#include <span>
#include <string>
#include <vector>

namespace peal::sim {

/// Of several runs, microseconds.
struct Spread {
  int runs = 0;
  double least = 0;
  double p10 = 0;
  double p90 = 0;
  double p99 = 0;
  double most = 0;
};

/// algbw and busbw in GB/s, as nccl-tests defines them.
struct Timing {
  double time_us = 0;  ///< mean of the runs
  double p50_us = 0;
  double algbw = 0;
  double busbw = 0;
  std::optional<Spread> spread = {};
};

/// What one of several groups took, and how.
struct GroupTime {
  double time_us = 0;
  std::string algorithm;
  std::string protocol;
  bool operator==(const GroupTime&) const = default;
};

/// How much was simulated for the whole (interpret.hpp); of the out-of-place run.
struct Folded {
  int simulated_ranks = 0;
  int ranks = 0;
  int repeated_pieces = 0;
  double chunk_spread = 0;
};

/// A call that was made beside the one of the row; the slowest of its groups.
struct BesideTime {
  Collective collective = Collective::all_reduce;
  std::uint64_t bytes = 0;
  int ranks = 1;  ///< of a group
  std::size_t groups = 1;
  GroupTime slowest;
};

/// Times of a call by several choices of ways: by a seed of the fabric's hash and those after it. Microseconds.
struct OfHashes {
  std::uint64_t first_seed = 0;
  std::vector<double> out_of_place = {};
  std::vector<double> in_place = {};
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
  bool is_in_place_same = false;  ///< in place every rank does the very same ops: simulated once for both
  std::string bottleneck;         ///< busiest resource, empty when software is
  double utilisation = 0;
  std::vector<GroupTime> groups = {};  ///< of all, where there are several
  Folded folded = {};
  std::optional<Nanoseconds> kept_rates_from = {};  ///< Outcome::kept_rates_from
  std::vector<BesideTime> beside = {};
  std::optional<OfHashes> hashes = {};  ///< then the spreads of the timings are over these
  /// What would be chosen and cannot be simulated, and why not: then `algorithm` is the fastest that can be. Mostly empty.
  std::string instead_of = {};
  std::string evidence = {};  ///< what the prediction is worth; empty: this host, `peal tune --check` tells
};

struct Table {
  Collective collective = Collective::all_reduce;
  int ranks = 1;        ///< of a group
  int groups = 1;       ///< that run at the same time
  int nodes = 1;        ///< of a group
  std::string machine;  ///< "NVIDIA DGX H100", "this host"
  std::string wires;    ///< "nvlink-h100, infiniband"
};

/// Three lines that start with #, as nccl-tests prints them.
std::string header_text(const Table& table);
std::string row_text(const Row& row);
/// Lines that start with # and belong below a row: groups that differ, the spread of several runs; mostly none.
std::string notes_text(const Row& row);
/// Average bus bandwidth over all timings, how many ranks stood for all of them, and what the predictions are worth.
std::string footer_text(std::span<const Row> rows);
/// More about the largest call: a key of the table's JSON, and its value as JSON.
struct Detail {
  std::string key;
  std::string json;
};
std::string to_json(const Table& table, std::span<const Row> rows, std::span<const Detail> details = {});

}  // namespace peal::sim
