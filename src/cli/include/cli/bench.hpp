// `peal bench`: what is asked, what one rank measures, what is printed.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <cli/bench_reals.hpp>
#include <comm/core.hpp>
#include <cstdint>
#include <functional>
#include <peal/types.hpp>
#include <string>
#include <vector>

namespace peal::cli {

struct BenchOptions {
  Collective collective = Collective::all_reduce;
  Bytes first{8};
  Bytes last{64ull << 20};
  std::uint64_t factor = 2;
  DataType type = DataType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int groups = 0;                   ///< ranks a group; 0: all in one
  int iterations = 0;               ///< 0: as many as fit the budget
  int warmup = -1;                  ///< -1: a fifth of the iterations
  bool warms_while_faster = false;  ///< only as many of them as take less time than the one before
  bool out_of_place = true;
  bool in_place = true;
  bool check = false;
  int digest_repeats = 0;  ///< calls a half row whose result is hashed; 0: none
  bool zero_copy = false;  ///< buffers from peal::allocate
  bool rewrites = false;   ///< each rank writes its input anew before each call that has an aligned start, and before those to warm up
  bool f32_partial_sums = false;  ///< of the communicator that is measured; only told in the report
  bool numerics = false;          ///< compare results of real inputs with a reference
  double budget_s = 0.08;         ///< of timed calls a half row, where `iterations` is 0
  int fewest = 5;                 ///< timed calls a half row, whatever they take
  bool only_aligned = false;      ///< no back-to-back calls, no prediction; where each rank has a core calls start by the clock
  bool only_full_speed = false;   ///< p50 and p99 of the calls during which the cores ran as fast as they did at best (core_speed.hpp)
};

/// One half (out of place or in place) of one row. Times in microseconds.
struct BenchHalf {
  bool is_measured = false;
  double time_us = 0;  ///< back to back, mean, maximum over ranks
  double p50_us = 0;   ///< per call with aligned starts, maximum over ranks
  double p99_us = 0;
  double algbw = 0;  ///< GB/s
  double busbw = 0;
  std::int64_t wrong = -1;  ///< elements, over all ranks; -1: not checked
  /// A flag exchange between ranks 0 and 1 before and after: how near their cores are, and whether they were moved. 0: not measured.
  double line_ns = 0;
  double line_after_ns = 0;
  double full_speed = 1;  ///< only_full_speed: share of the calls that p50 is of
  double all_us = 0;      ///< only_full_speed: p50 of all calls
  double work_ns = 0;     ///< only_full_speed: time_of_work of the slowest core in the fastest tenth of the calls
  double middle_us = 0;   ///< mean of the middle half of the calls that p50 is of: finer than a clock that goes in steps
};

/// What `digest_repeats` calls gave, of inputs whose sums depend on the order (bench_reals.hpp).
struct BenchDigest {
  std::string sha256;            ///< SHA-256 of the ranks' SHA-256s, in the order of ranks, each of that rank's result (none: of nothing)
  int repeats = 0;               ///< hashed calls, both halves together
  int differing = 0;             ///< of these: on some rank not bit for bit what the first gave
  std::string head_sha256;       ///< the same of each rank's first `head_count` elements: equal for all sizes that are summed alike
  std::uint64_t head_count = 0;  ///< elements a rank in the first row; 0: no such beginning
};

struct BenchRow {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string algorithm, protocol;
  double predicted_us = 0;  ///< 0: no prediction
  BenchHalf half[2];        ///< out of place, in place
  BenchDigest digest;
  ErrorFigures numerics;  ///< over all ranks that have a result; no elements: not measured
};

/// "auto", "shm" or "tcp"; empty: PEAL_TRANSPORT.
Result<comm::TransportChoice> transport_of(const std::string& asked);

/// True for the collectives that have an in-place form.
bool has_in_place(Collective collective);

/// Runs the whole table over `core`; `plain` has the same ranks and no forced algorithm (it may be the same), and carries everything
/// that is not measured. Every rank calls it; `each` is called with every finished row on every rank (the figures are the same).
Status run_bench(comm::Core& core, comm::Core& plain, const BenchOptions& options, const std::function<void(const BenchRow&)>& each);

/// One half row (of the first size in `options`) over `core`.
struct BenchPoint {
  comm::Core* core = nullptr;
  BenchOptions options;
};
/// One row for each point, with the same buffers; all cores have the ranks of `plain`. As run_bench else.
Status run_points(comm::Core& plain, const std::vector<BenchPoint>& points, const std::function<void(std::size_t, const BenchRow&)>& each);

/// nccl-tests' table, with p50, p99, algorithm, protocol and the prediction behind it.
std::string bench_heading(const BenchOptions& options, const std::vector<std::string>& rank_lines, int ranks, const std::string& transport);
std::string bench_line(const BenchOptions& options, const BenchRow& row);
std::string bench_ending(const std::vector<BenchRow>& rows);
/// Schema peal.bench/1.
std::string bench_json(const BenchOptions& options, const std::vector<BenchRow>& rows, int ranks, const std::string& transport);

}  // namespace peal::cli
