// One rank of a benchmark: buffers, the loop, the checks. The method is that of the peers' benchmarks: every timed call starts
// aligned (a barrier of Peal's, then a spin barrier in shared memory), a call's time is the maximum over ranks. What models are fitted to
// starts at one instant by the clock.
#include <algorithm>
#include <base/clock.hpp>
#include <base/names.hpp>
#include <base/percentile.hpp>
#include <cli/aligner.hpp>
#include <cli/bench.hpp>
#include <cli/bench_buffers.hpp>
#include <cli/bench_reals.hpp>
#include <cli/core_speed.hpp>
#include <cli/digest.hpp>
#include <cmath>
#include <functional>
#include <tuning/fit_constants.hpp>
#include <tuning/plan.hpp>

namespace peal::cli {

namespace {

constexpr int kMostIterations = 3000;
constexpr int kFirstCalls = 3;                                   // of a half row, before those that are timed
constexpr double kFaster = 0.95;                                 // times the call before: it was still warming up
constexpr double kFullSpeed = 1.1;                               // times as long as the fastest tenth takes: the clock's grain and no more
constexpr std::uint64_t kMostCompared = std::uint64_t{1} << 18;  // results over all ranks that are compared with a reference

// Collectives whose results begin alike whatever their size (BenchBuffers::fill_reals).
bool has_head(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce || collective == Collective::reduce_scatter;
}

class Bench {
 public:
  Bench(comm::Core& core, comm::Core& plain, const BenchOptions& options)
      : core_(&core), plain_(plain), options_(options), aligner_(plain), buffers_(options, core) {}
  Status open() { return aligner_.open(); }
  /// From now on calls go over `core`, which has the same ranks.
  void go_over(comm::Core& core) { core_ = &core; }
  Result<BenchRow> measure(Bytes size);
  /// Buffers for calls of up to this size, so that none need grow between rows.
  Status reserve(Bytes largest) { return buffers_.reserve(largest); }

 private:
  Status measure_half(bool in_place, BenchHalf& half);
  Status operate(bool in_place);
  Status count_wrong(bool in_place, BenchHalf& half);
  Status hash_repeats(bool in_place, BenchDigest& digest);
  Status conclude(BenchDigest& digest);
  Result<ErrorFigures> measure_numerics(bool in_place);
  Status align();
  Result<double> maximum(double value);
  /// Aligner::exchange_flags() as every rank is to know it: two of them measure, and what all do next depends on it.
  Result<double> core_line();
  Result<std::vector<double>> maxima(std::vector<double> values) { return over_ranks(std::move(values), ReduceOp::max); }
  Result<std::vector<double>> over_ranks(std::vector<double> values, ReduceOp op);

  comm::Core* core_;   // what is measured
  comm::Core& plain_;  // the same ranks, for everything around it: forced algorithms and protocols are not for that
  const BenchOptions& options_;
  Aligner aligner_;
  BenchBuffers buffers_;
  const executor::Plan* plan_ = nullptr;
  std::uint64_t head_count_ = 0;   // elements a rank in the first row
  Digest first_{}, first_head_{};  // of this rank's result in the first hashed call of a row
};

Status Bench::operate(bool in_place) {
  if (options_.collective == Collective::barrier) return core_->barrier();
  if (options_.collective != Collective::send_recv) return core_->run(buffers_.call(in_place));
  const int n = core_->size();
  const std::vector<comm::PairTransfer> ring = {
      {buffers_.send(), nullptr, true, buffers_.count(), options_.type, (core_->rank() + 1) % n},
      {nullptr, buffers_.receive(), false, buffers_.count(), options_.type, (core_->rank() + n - 1) % n},
  };
  return core_->run_group(ring);
}

Status Bench::count_wrong(bool in_place, BenchHalf& half) {
  buffers_.fill(in_place);
  PEAL_TRY(operate(in_place));
  std::int64_t bad = buffers_.wrong(in_place);
  std::int64_t total = 0;
  comm::Call sum{Collective::all_reduce, &bad, &total, 1, DataType::i64};
  PEAL_TRY(plain_.run(sum));
  half.wrong = std::max<std::int64_t>(half.wrong, 0) + total;
  return {};
}

Status Bench::align() {
  PEAL_TRY(plain_.barrier());
  return options_.only_aligned ? aligner_.start_by_clock() : aligner_.meet();
}

Result<std::vector<double>> Bench::over_ranks(std::vector<double> values, ReduceOp op) {
  comm::Call call{Collective::all_reduce, values.data(), values.data(), values.size(), DataType::f64, op};
  PEAL_TRY(plain_.run(call));
  return values;
}

Result<double> Bench::core_line() {
  PEAL_ASSIGN(const double mine, aligner_.exchange_flags());
  return maximum(mine);
}

Result<double> Bench::maximum(double value) {
  PEAL_ASSIGN(const std::vector<double> all, maxima({value}));
  return all[0];
}

// The ranks do not meet between these calls, so that each repeat finds them apart in another way.
Status Bench::hash_repeats(bool in_place, BenchDigest& digest) {
  const std::uint64_t element = size_of(options_.type);
  std::vector<double> differs(static_cast<std::size_t>(options_.digest_repeats));
  for (std::size_t i = 0; i < differs.size(); ++i) {
    PEAL_TRY(buffers_.fill_reals(in_place, digest.repeats == 0 && i == 0));
    PEAL_TRY(operate(in_place));
    const BenchBuffers::Output output = buffers_.output(in_place);
    const Digest now = sha256({output.data, output.count * element});
    if (digest.repeats == 0 && i == 0) {
      first_ = now;
      first_head_ = sha256({output.data, std::min(output.count, head_count_) * element});
    }
    differs[i] = now == first_ ? 0 : 1;
  }
  PEAL_ASSIGN(differs, maxima(std::move(differs)));
  digest.repeats += options_.digest_repeats;
  digest.differing += static_cast<int>(std::count(differs.begin(), differs.end(), 1.0));
  return {};
}

// One digest of all ranks' digests, in the order of ranks.
Status Bench::conclude(BenchDigest& digest) {
  const auto over_all = [&](const Digest& mine, std::string& text) -> Status {
    std::vector<Digest> all(static_cast<std::size_t>(core_->size()));
    comm::Call gather{Collective::all_gather, mine.data(), all.data(), sizeof mine, DataType::u8};
    PEAL_TRY(plain_.run(gather));
    text = hex_of(sha256(std::as_bytes(std::span(all))));
    return {};
  };
  PEAL_TRY(over_all(first_, digest.sha256));
  if (!has_head(options_.collective)) return {};
  digest.head_count = head_count_;
  return over_all(first_head_, digest.head_sha256);
}

Result<ErrorFigures> Bench::measure_numerics(bool in_place) {
  PEAL_TRY(buffers_.fill_reals(in_place, true));
  PEAL_TRY(operate(in_place));
  const BenchBuffers::Output output = buffers_.output(in_place);
  // Each result costs as many additions as there are ranks. Where that is too much, ranks look at every so many, each at others.
  const std::uint64_t most = std::max<std::uint64_t>(1024, kMostCompared / static_cast<std::uint64_t>(core_->size()));
  const std::uint64_t stride = std::max<std::uint64_t>(1, (output.count + most - 1) / most);
  const std::uint64_t first = std::min(output.count, static_cast<std::uint64_t>(core_->rank()) % stride);
  ErrorFigures mine;
  measure_errors(output.data + first * size_of(options_.type), output.count - first, stride, core_->size(), output.index + first,
                 options_.type, options_.op, mine);
  PEAL_ASSIGN(const std::vector<double> most_of, maxima({mine.max_ulps, mine.max_relative, mine.max_backward}));
  PEAL_ASSIGN(const std::vector<double> sums,
              over_ranks({static_cast<double>(mine.elements), static_cast<double>(mine.not_finite), mine.sum_ulps}, ReduceOp::sum));
  ErrorFigures all;
  all.elements = static_cast<std::uint64_t>(sums[0]);
  all.not_finite = static_cast<std::uint64_t>(sums[1]);
  all.sum_ulps = sums[2];
  all.max_ulps = most_of[0];
  all.max_relative = most_of[1];
  all.max_backward = most_of[2];
  return all;
}

/// What the fastest tenth is below.
double tenth_of(std::vector<double> values) { return value_at(std::move(values), 0.1); }

/// Those of the times during which the slowest core was as fast as in the fastest tenth of them.
std::vector<double> at_full_speed(const std::vector<double>& times, const std::vector<double>& slowness, double fastest) {
  std::vector<double> kept;
  for (std::size_t i = 0; i < times.size(); ++i)
    if (slowness[i] <= kFullSpeed * fastest) kept.push_back(times[i]);
  return kept;
}

Status Bench::measure_half(bool in_place, BenchHalf& half) {
  half.is_measured = true;
  if (options_.check) PEAL_TRY(count_wrong(in_place, half));
  if (!options_.only_aligned) buffers_.fill(in_place);
  if (in_place && has_reduction(options_.collective)) buffers_.clear_in_place();
  double best = 1e9;
  bool is_long = false;
  for (int i = 0; i < (is_long ? 1 : kFirstCalls); ++i) {
    const std::int64_t begin = now_ns();
    PEAL_TRY(align());
    PEAL_TRY(operate(in_place));
    best = std::min(best, static_cast<double>(now_ns() - begin) * 1e-9);
    if (i > 0 || !options_.only_aligned) continue;
    // One is enough where it fills the budget: such a row is measured again, or was before.
    PEAL_ASSIGN(const double first, maximum(best));
    is_long = first > options_.budget_s;
  }
  plan_ = options_.collective == Collective::send_recv ? nullptr : core_->last_plan();
  PEAL_ASSIGN(best, maximum(best));
  int iterations = options_.iterations;
  if (iterations == 0)
    iterations = static_cast<int>(std::clamp(options_.budget_s / std::max(best, 1e-7), double(options_.fewest), double(kMostIterations)));
  const int warmup = options_.warmup >= 0 ? options_.warmup : is_long ? 0 : iterations / 5 + 1;
  for (int i = 0; i < warmup; ++i) {
    if (options_.rewrites) buffers_.rewrite(in_place);
    const std::int64_t begin = now_ns();
    PEAL_TRY(operate(in_place));
    if (!options_.warms_while_faster) continue;
    PEAL_ASSIGN(const double now, maximum(static_cast<double>(now_ns() - begin) * 1e-9));
    if (now > kFaster * best) break;
    best = now;
  }
  std::vector<double> times(static_cast<std::size_t>(iterations)), slowness;
  for (double& time : times) {
    if (options_.rewrites) buffers_.rewrite(in_place);
    PEAL_TRY(align());
    const std::int64_t begin = now_ns();
    PEAL_TRY(operate(in_place));
    time = static_cast<double>(now_ns() - begin) * 1e-3;
    if (options_.only_full_speed) slowness.push_back(time_of_work());
  }
  if (!options_.only_aligned) {
    const int loops = iterations / 2 + 2;
    PEAL_TRY(align());
    const std::int64_t begin = now_ns();
    for (int i = 0; i < loops; ++i) PEAL_TRY(operate(in_place));
    PEAL_ASSIGN(half.time_us, maximum(static_cast<double>(now_ns() - begin) * 1e-3 / loops));
  }
  PEAL_ASSIGN(times, maxima(std::move(times)));
  if (options_.only_full_speed) {
    PEAL_ASSIGN(slowness, maxima(std::move(slowness)));
    half.all_us = value_at(times, 0.5);
    half.work_ns = tenth_of(slowness);
    times = at_full_speed(times, slowness, half.work_ns);
    half.full_speed = static_cast<double>(times.size()) / iterations;
  }
  std::sort(times.begin(), times.end());
  half.p50_us = times[times.size() / 2];
  half.middle_us = mean_of_middle_half(times);
  half.p99_us = times[static_cast<std::size_t>(static_cast<double>(times.size() - 1) * 0.99 + 0.5)];
  half.algbw = half.time_us > 0 ? static_cast<double>(buffers_.bytes()) / half.time_us * 1e-3 : 0;
  half.busbw = half.algbw * tuning::bus_factor(options_.collective, core_->size());
  if (options_.check) PEAL_TRY(count_wrong(in_place, half));
  return {};
}

Result<BenchRow> Bench::measure(Bytes size) {
  PEAL_TRY(buffers_.shape(size));
  if (head_count_ == 0) head_count_ = buffers_.count();
  BenchRow row;
  row.bytes = buffers_.bytes();
  row.count = buffers_.count();
  if (options_.only_aligned) PEAL_TRY(aligner_.compare_clocks());
  PEAL_TRY(align());
  PEAL_ASSIGN(double line, core_line());
  const bool wanted[2] = {options_.out_of_place, options_.in_place && has_in_place(options_.collective)};
  for (const bool in_place : {false, true}) {
    if (!wanted[in_place ? 1 : 0]) continue;
    BenchHalf& half = row.half[in_place ? 1 : 0];
    half.line_ns = line;
    PEAL_TRY(measure_half(in_place, half));
    if (options_.digest_repeats > 0) PEAL_TRY(hash_repeats(in_place, row.digest));
    if (options_.numerics && row.numerics.elements == 0) {
      PEAL_ASSIGN(row.numerics, measure_numerics(in_place));
    }
    PEAL_TRY(align());
    PEAL_ASSIGN(line, core_line());
    half.line_after_ns = line;
  }
  if (options_.digest_repeats > 0) PEAL_TRY(conclude(row.digest));
  row.algorithm = plan_ != nullptr ? plan_->algorithm : "direct";
  const int next = (core_->rank() + 1) % core_->size();
  row.protocol = schedule::name_of(plan_ != nullptr ? plan_->protocol : core_->protocol_of_exchange(buffers_.bytes(), next));
  return row;
}

}  // namespace

bool has_in_place(Collective collective) {
  return collective != Collective::all_to_all && collective != Collective::all_to_all_v && collective != Collective::send_recv &&
         collective != Collective::barrier;
}

Status run_bench(comm::Core& core, comm::Core& plain, const BenchOptions& options, const std::function<void(const BenchRow&)>& each) {
  Bench bench(core, plain, options);
  PEAL_TRY(bench.open());
  for (Bytes size = options.first; size.value <= options.last.value; size.value *= options.factor) {
    PEAL_ASSIGN(BenchRow row, bench.measure(size));
    if (options.collective != Collective::send_recv && !has_private_counts(options.collective)) {
      const int root = has_root(options.collective) ? options.root : -1;
      const BenchHalf& half = row.half[row.half[0].is_measured ? 0 : 1];
      PEAL_ASSIGN(const tuning::CoreDistance cores, tuning::core_distance(half.line_ns, half.line_after_ns));
      PEAL_ASSIGN(const tuning::PredictedTime predicted,
                  core.plans().predicted_time(options.collective, {row.bytes}, options.type, root, cores));
      PEAL_ASSIGN(const schedule::Protocol protocol, schedule::parse_protocol(row.protocol));
      const double exchange_ns = std::min(half.line_ns, half.line_after_ns);
      row.predicted_us = predicted.us * tuning::exchange_ratio(*core.plans().environment(), protocol, cores, exchange_ns);
    }
    each(row);
    if (options.collective == Collective::barrier || size.value == 0 || size.value > options.last.value / options.factor) break;
  }
  return {};
}

Status run_points(comm::Core& plain, const std::vector<BenchPoint>& points, const std::function<void(std::size_t, const BenchRow&)>& each) {
  if (points.empty()) return {};
  const auto largest =
      std::max_element(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.options.first < b.options.first; });
  BenchOptions now = largest->options;
  Bench bench(*largest->core, plain, now);
  PEAL_TRY(bench.open());
  PEAL_TRY(bench.reserve(now.first));
  for (std::size_t i = 0; i < points.size(); ++i) {
    now = points[i].options;
    bench.go_over(*points[i].core);
    PEAL_ASSIGN(const BenchRow row, bench.measure(now.first));
    each(i, row);
  }
  return {};
}

}  // namespace peal::cli
