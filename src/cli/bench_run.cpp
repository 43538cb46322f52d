// One rank of a benchmark: buffers, the loop, the checks. The method is that of the peers' benchmarks: every timed call starts
// aligned (a barrier of Peal's, then a spin barrier in shared memory), a call's time is the maximum over ranks.
#include <algorithm>
#include <atomic>
#include <base/clock.hpp>
#include <base/names.hpp>
#include <cli/bench.hpp>
#include <cli/bench_values.hpp>
#include <cli/pages.hpp>
#include <cmath>
#include <functional>
#include <tuning/plan.hpp>

namespace peal::cli {

namespace {

constexpr double kBudgetSeconds = 0.08;  // of timed calls a half row
constexpr int kMostIterations = 3000;
constexpr int kFewestIterations = 5;

// A spin barrier that all ranks of one host share. Ranks on several hosts align by Peal's barrier alone.
struct Aligner {
  struct Words {
    alignas(128) std::atomic<std::uint32_t> arrived;
    alignas(128) std::atomic<std::uint32_t> generation;
    struct alignas(128) Flag {
      std::atomic<std::uint32_t> value;
    } flags[2];
  };
  transport::SharedSegment segment;
  std::uint32_t ranks = 0;
  bool is_crowded = false;

  Status meet(const comm::Core& core) const {
    if (segment.data() == nullptr) return {};
    auto& words = *reinterpret_cast<Words*>(segment.data());
    const std::uint32_t now = words.generation.load(std::memory_order_acquire);
    if (words.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks) {
      words.arrived.store(0, std::memory_order_relaxed);
      words.generation.store(now + 1, std::memory_order_release);
      return {};
    }
    const std::uint32_t patience = is_crowded ? 50 : 20000;
    for (std::uint32_t spins = 0; words.generation.load(std::memory_order_acquire) == now;) {
      if (++spins < patience) {
        executor::pause_cpu();
        continue;
      }
      PEAL_TRY(core.fault());  // whoever died will not come
      sched_yield();
    }
    return {};
  }
};

// The time in which two ranks show each other a flag, nanoseconds: virtual machines move their cores together and apart.
Result<double> exchange_flags(const Aligner& aligner, const comm::Core& core) {
  const int rank = core.rank();
  constexpr std::uint32_t kWarm = 100, kTimed = 200;
  if (aligner.segment.data() == nullptr || aligner.is_crowded || rank > 1) return 0.0;
  auto& words = *reinterpret_cast<Aligner::Words*>(aligner.segment.data());
  std::atomic<std::uint32_t>& mine = words.flags[rank].value;
  const std::atomic<std::uint32_t>& other = words.flags[1 - rank].value;
  const std::uint32_t first = mine.load(std::memory_order_relaxed);
  std::int64_t begin = 0;
  for (std::uint32_t i = 1; i <= kWarm + kTimed; ++i) {
    if (i == kWarm + 1) begin = now_ns();
    mine.store(first + i, std::memory_order_release);
    for (std::uint32_t spins = 1; other.load(std::memory_order_acquire) - first - i > 0x7fffffffu; ++spins)
      if (spins % 65536 == 0) PEAL_TRY(core.fault());
  }
  return static_cast<double>(now_ns() - begin) / kTimed;
}

class Bench {
 public:
  Bench(comm::Core& core, comm::Core& plain, const BenchOptions& options)
      : core_(core), plain_(plain), options_(options), n_(static_cast<std::uint64_t>(core.size())) {}
  Status open();
  Result<BenchRow> measure(Bytes size);

 private:
  Status shape(Bytes size);
  Status measure_half(bool in_place, BenchHalf& half);
  comm::Call call_of(bool in_place) const;
  Status operate(bool in_place);
  /// The operator that the inputs are made for; copies take those of max, which differ most from rank to rank.
  ReduceOp data_op() const { return has_reduction(options_.collective) ? options_.op : ReduceOp::max; }
  void fill(bool in_place);
  std::int64_t wrong(bool in_place) const;
  Status count_wrong(bool in_place, BenchHalf& half);
  Status align();
  Result<double> maximum(double value);
  Result<std::vector<double>> maxima(std::vector<double> values);

  comm::Core& core_;   // what is measured
  comm::Core& plain_;  // the same ranks, for everything around it: forced algorithms and protocols are not for that
  const BenchOptions& options_;
  std::uint64_t n_;
  Aligner aligner_;
  Pages send_, receive_;
  std::uint64_t count_ = 0;  // elements a rank gives or gets
  std::uint64_t input_ = 0, output_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> counts_, displs_, back_counts_, back_displs_;
  const executor::Plan* plan_ = nullptr;
};

Status Bench::open() {
  if (core_.size() > 1 && static_cast<int>(core_.locals().size()) == core_.size()) {
    PEAL_ASSIGN(aligner_.segment, plain_.share_segment(sizeof(Aligner::Words), "peal-bench"));
    aligner_.ranks = static_cast<std::uint32_t>(core_.size());
    aligner_.is_crowded = core_.size() > static_cast<int>(std::thread::hardware_concurrency());
  }
  return {};
}

// Sizes as nccl-tests has them: of block collectives the size is all ranks' blocks together, at least one element each.
Status Bench::shape(Bytes size) {
  const std::uint64_t element = size_of(options_.type);
  const std::uint64_t blocks = has_blocks(options_.collective) ? n_ : 1;
  count_ = options_.collective == Collective::barrier ? 0 : std::max<std::uint64_t>(1, size.value / element / blocks);
  bytes_ = count_ * element * blocks;
  input_ = output_ = count_ * blocks;
  // The v-collectives are measured with uneven counts around the mean, as far as there are elements.
  counts_.assign(n_, count_);
  for (std::uint64_t r = 0; r + 1 < n_; r += 2) {
    const std::uint64_t shift = count_ / 4;
    counts_[r] += shift;
    counts_[r + 1] -= shift;
  }
  displs_.assign(n_, 0);
  for (std::uint64_t r = 1; r < n_; ++r) displs_[r] = displs_[r - 1] + counts_[r - 1];
  back_counts_.assign(n_, counts_[static_cast<std::size_t>(core_.rank())]);
  back_displs_.assign(n_, 0);
  for (std::uint64_t r = 1; r < n_; ++r) back_displs_[r] = back_displs_[r - 1] + back_counts_[r - 1];
  const std::uint64_t room = std::max(input_, back_counts_[0] * n_) + 16;
  PEAL_TRY(send_.grow(room * element));
  return receive_.grow(room * element);
}

comm::Call Bench::call_of(bool in_place) const {
  const auto me = static_cast<std::uint64_t>(core_.rank());
  const std::uint64_t element = size_of(options_.type);
  comm::Call call;
  call.collective = options_.collective;
  call.send = send_.data();
  call.receive = receive_.data();
  call.count = count_;
  call.type = options_.type;
  call.op = options_.op;
  call.root = options_.root;
  call.premul = premul_factor(core_.rank());
  switch (options_.collective) {
    case Collective::all_gather:
    case Collective::gather:
      if (in_place) call.send = receive_.data() + me * count_ * element;
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      if (in_place) call.receive = send_.data() + me * count_ * element;
      break;
    case Collective::all_gather_v:
      if (in_place) call.send = receive_.data() + displs_[me] * element;
      call.receive_counts = counts_;
      call.receive_displs = displs_;
      break;
    case Collective::reduce_scatter_v:
      if (in_place) call.receive = send_.data() + displs_[me] * element;
      call.send_counts = counts_;
      call.send_displs = displs_;
      break;
    case Collective::all_to_all_v:
      call.send_counts = counts_;
      call.send_displs = displs_;
      call.receive_counts = back_counts_;
      call.receive_displs = back_displs_;
      break;
    default:
      if (in_place) call.send = receive_.data();
  }
  return call;
}

Status Bench::operate(bool in_place) {
  if (options_.collective != Collective::send_recv) return core_.run(call_of(in_place));
  const int n = core_.size();
  const std::vector<comm::PairTransfer> ring = {
      {send_.data(), nullptr, true, count_, options_.type, (core_.rank() + 1) % n},
      {nullptr, receive_.data(), false, count_, options_.type, (core_.rank() + n - 1) % n},
  };
  return core_.run_group(ring);
}

// Fresh inputs, and outputs that cannot be right by chance.
void Bench::fill(bool in_place) {
  const auto me = static_cast<std::uint64_t>(core_.rank());
  const std::uint64_t element = size_of(options_.type);
  const std::uint64_t room = std::max(input_, back_counts_[0] * n_);
  std::fill_n(receive_.data(), room * element, std::byte{0x5b});
  fill_contributions(send_.data(), input_, core_.rank(), 0, options_.type, data_op());
  if (!in_place) return;
  std::byte* own = receive_.data();
  std::uint64_t own_count = count_;
  switch (options_.collective) {
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_v:
    case Collective::scatter: return;  // works inside the send buffer
    case Collective::all_gather:
    case Collective::gather: own += me * count_ * element; break;
    case Collective::all_gather_v:
      own += displs_[me] * element;
      own_count = counts_[me];
      break;
    default: break;
  }
  fill_contributions(own, own_count, core_.rank(), 0, options_.type, data_op());
}

std::int64_t Bench::wrong(bool in_place) const {
  const int me = core_.rank();
  const auto own = static_cast<std::uint64_t>(me);
  const std::uint64_t element = size_of(options_.type);
  const std::byte* out = receive_.data();
  const auto copies = [&](const std::byte* at, std::uint64_t count, std::uint64_t from, std::uint64_t index) {
    return count_wrong_copies(at, count, static_cast<int>(from), index, options_.type, data_op());
  };
  const auto sums = [&](const std::byte* at, std::uint64_t count, std::uint64_t index) {
    return count_wrong_reductions(at, count, core_.size(), index, options_.type, options_.op);
  };
  std::int64_t bad = 0;
  switch (options_.collective) {
    case Collective::all_reduce: return sums(out, count_, 0);
    case Collective::reduce: return me == options_.root ? sums(out, count_, 0) : 0;
    case Collective::reduce_scatter: return sums(in_place ? send_.data() + own * count_ * element : out, count_, own * count_);
    case Collective::reduce_scatter_v: return sums(in_place ? send_.data() + displs_[own] * element : out, counts_[own], displs_[own]);
    case Collective::broadcast: return copies(out, count_, static_cast<std::uint64_t>(options_.root), 0);
    case Collective::scatter:
      return copies(in_place ? send_.data() + own * count_ * element : out, count_, static_cast<std::uint64_t>(options_.root),
                    own * count_);
    case Collective::send_recv: return copies(out, count_, (own + n_ - 1) % n_, 0);
    case Collective::gather:
      if (me != options_.root) return 0;
      [[fallthrough]];
    case Collective::all_gather:
      for (std::uint64_t r = 0; r < n_; ++r) bad += copies(out + r * count_ * element, count_, r, 0);
      return bad;
    case Collective::all_gather_v:
      for (std::uint64_t r = 0; r < n_; ++r) bad += copies(out + displs_[r] * element, counts_[r], r, 0);
      return bad;
    case Collective::all_to_all:
      for (std::uint64_t r = 0; r < n_; ++r) bad += copies(out + r * count_ * element, count_, r, own * count_);
      return bad;
    case Collective::all_to_all_v:
      for (std::uint64_t r = 0; r < n_; ++r) bad += copies(out + back_displs_[r] * element, back_counts_[r], r, displs_[own]);
      return bad;
    case Collective::barrier: return 0;
  }
  return bad;
}

Status Bench::count_wrong(bool in_place, BenchHalf& half) {
  fill(in_place);
  PEAL_TRY(operate(in_place));
  std::int64_t bad = wrong(in_place);
  std::int64_t total = 0;
  comm::Call sum{Collective::all_reduce, &bad, &total, 1, DataType::i64};
  PEAL_TRY(plain_.run(sum));
  half.wrong = std::max<std::int64_t>(half.wrong, 0) + total;
  return {};
}

Status Bench::align() {
  comm::Call barrier{Collective::barrier};
  PEAL_TRY(plain_.run(barrier));
  return aligner_.meet(plain_);
}

Result<std::vector<double>> Bench::maxima(std::vector<double> values) {
  comm::Call call{Collective::all_reduce, values.data(), values.data(), values.size(), DataType::f64, ReduceOp::max};
  PEAL_TRY(plain_.run(call));
  return values;
}

Result<double> Bench::maximum(double value) {
  PEAL_ASSIGN(const std::vector<double> all, maxima({value}));
  return all[0];
}

Status Bench::measure_half(bool in_place, BenchHalf& half) {
  half.is_measured = true;
  if (options_.check) PEAL_TRY(count_wrong(in_place, half));
  fill(in_place);
  if (in_place && has_reduction(options_.collective))  // repeated sums in place must not overflow
    std::fill_n(options_.collective == Collective::all_reduce || options_.collective == Collective::reduce ? receive_.data() : send_.data(),
                bytes_, std::byte{0});
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t begin = now_ns();
    PEAL_TRY(align());
    PEAL_TRY(operate(in_place));
    best = std::min(best, static_cast<double>(now_ns() - begin) * 1e-9);
  }
  plan_ = options_.collective == Collective::send_recv ? nullptr : core_.last_plan();
  PEAL_ASSIGN(best, maximum(best));
  int iterations = options_.iterations;
  if (iterations == 0)
    iterations = static_cast<int>(std::clamp(kBudgetSeconds / std::max(best, 1e-7), double(kFewestIterations), double(kMostIterations)));
  const int warmup = options_.warmup >= 0 ? options_.warmup : iterations / 5 + 1;
  for (int i = 0; i < warmup; ++i) PEAL_TRY(operate(in_place));
  std::vector<double> times(static_cast<std::size_t>(iterations));
  for (double& time : times) {
    PEAL_TRY(align());
    const std::int64_t begin = now_ns();
    PEAL_TRY(operate(in_place));
    time = static_cast<double>(now_ns() - begin) * 1e-3;
  }
  const int loops = iterations / 2 + 2;
  PEAL_TRY(align());
  const std::int64_t begin = now_ns();
  for (int i = 0; i < loops; ++i) PEAL_TRY(operate(in_place));
  PEAL_ASSIGN(half.time_us, maximum(static_cast<double>(now_ns() - begin) * 1e-3 / loops));
  PEAL_ASSIGN(times, maxima(std::move(times)));
  std::sort(times.begin(), times.end());
  half.p50_us = times[times.size() / 2];
  half.p99_us = times[static_cast<std::size_t>(static_cast<double>(times.size() - 1) * 0.99 + 0.5)];
  half.algbw = half.time_us > 0 ? static_cast<double>(bytes_) / half.time_us * 1e-3 : 0;
  half.busbw = half.algbw * tuning::bus_factor(options_.collective, core_.size());
  if (options_.check) PEAL_TRY(count_wrong(in_place, half));
  return {};
}

Result<BenchRow> Bench::measure(Bytes size) {
  PEAL_TRY(shape(size));
  BenchRow row;
  row.bytes = bytes_;
  row.count = count_;
  PEAL_TRY(align());
  PEAL_ASSIGN(double line, exchange_flags(aligner_, plain_));
  const bool wanted[2] = {options_.out_of_place, options_.in_place && has_in_place(options_.collective)};
  for (const bool in_place : {false, true}) {
    if (!wanted[in_place ? 1 : 0]) continue;
    BenchHalf& half = row.half[in_place ? 1 : 0];
    half.line_ns = line;
    PEAL_TRY(measure_half(in_place, half));
    PEAL_TRY(align());
    PEAL_ASSIGN(line, exchange_flags(aligner_, plain_));
    half.line_after_ns = line;
  }
  row.algorithm = plan_ != nullptr ? plan_->algorithm : "direct";
  row.protocol = plan_ != nullptr ? std::string(schedule::name_of(plan_->protocol)) : "staged";
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
    if (options.collective != Collective::send_recv && options.collective != Collective::all_to_all_v) {
      const int root = has_root(options.collective) ? options.root : -1;
      PEAL_ASSIGN(row.predicted_us, core.plans().predicted_us(options.collective, {row.bytes}, options.type, root));
    }
    each(row);
    if (options.collective == Collective::barrier || size.value == 0 || size.value > options.last.value / options.factor) break;
  }
  return {};
}

}  // namespace peal::cli
