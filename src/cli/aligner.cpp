#include <sched.h>

#include <base/clock.hpp>
#include <base/percentile.hpp>
#include <cli/aligner.hpp>
#include <cmath>
#include <vector>

namespace peal::cli {

Status Aligner::open() {
  if (core_.size() < 2 || static_cast<int>(core_.locals().size()) != core_.size()) return {};
  PEAL_ASSIGN(segment_, core_.share_segment(sizeof(Words), 0, "peal-bench"));
  shares_cores_ = core_.shares_cores();
  return {};
}

Status Aligner::meet() {
  if (segment_.data() == nullptr) return {};
  Words& shared = words();
  const auto ranks = static_cast<std::uint32_t>(core_.size());
  const std::uint32_t now = shared.generation.load(std::memory_order_acquire);
  if (shared.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks) {
    shared.arrived.store(0, std::memory_order_relaxed);
    shared.start_ns.store(now_ns() + kStartInNs + kForEachRankNs * ranks + jitter_ns(now), std::memory_order_relaxed);
    shared.generation.store(now + 1, std::memory_order_release);
    return {};
  }
  const std::uint32_t patience = shares_cores_ ? 50 : 20000;
  for (std::uint32_t spins = 0; shared.generation.load(std::memory_order_acquire) == now;) {
    if (++spins < patience) {
      executor::pause_cpu();
      continue;
    }
    PEAL_TRY(core_.fault());  // whoever died will not come
    sched_yield();
  }
  return {};
}

// 0 to 63, another one each time. A rank finds that the start has come when it looks at its clock next, and when that is depends on who
// came last: without this the same rank would start up to 30 ns after the other, call after call.
std::int64_t Aligner::jitter_ns(std::uint32_t generation) { return generation * 2654435769u >> 26; }

Status Aligner::start_by_clock() {
  PEAL_TRY(meet());
  if (!may_spin()) return {};
  const std::int64_t start = words().start_ns.load(std::memory_order_relaxed) + ahead_ns_;
  while (now_ns() < start - kWithoutPausesNs) executor::pause_cpu();
  while (now_ns() < start) {
  }
  return {};
}

template <class Condition>
Status Aligner::spin_until(Condition&& is_so) {
  for (std::uint32_t spins = 1; !is_so(); ++spins)
    if (spins % 65536 == 0) PEAL_TRY(core_.fault());
  return {};
}

Status Aligner::compare_clocks() {
  if (!may_spin() || core_.size() != 2) return {};
  PEAL_ASSIGN(const double delay, delay_by_clocks());
  double difference = core_.rank() == 0 ? -delay : delay;  // summed up: twice what the clock of rank 1 is ahead
  PEAL_TRY(core_.run({Collective::all_reduce, &difference, &difference, 1, DataType::f64, ReduceOp::sum}));
  if (core_.rank() == 1) ahead_ns_ = std::llround(difference / 2);
  return {};
}

// A rank remembers the last stamp that it has seen: the other one's next may be there before it looks.
Result<double> Aligner::delay_by_clocks() {
  constexpr int kMessages = 100;
  std::atomic<std::int64_t>& mine = words().stamps[core_.rank()].at_ns;
  const std::atomic<std::int64_t>& other = words().stamps[1 - core_.rank()].at_ns;
  std::vector<double> delays;
  for (int i = 0; i < kMessages; ++i) {
    if (core_.rank() == 0) mine.store(now_ns(), std::memory_order_release);
    std::int64_t sent = stamp_ns_;
    PEAL_TRY(spin_until([&] { return (sent = other.load(std::memory_order_acquire)) != stamp_ns_; }));
    delays.push_back(static_cast<double>(now_ns() - sent));
    stamp_ns_ = sent;
    if (core_.rank() == 1) mine.store(now_ns(), std::memory_order_release);
  }
  return mean_of_middle_half(std::move(delays));
}

Result<double> Aligner::exchange_flags() {
  constexpr std::uint32_t kWarm = 100, kTimed = 200;
  if (!may_spin() || core_.rank() > 1) return 0.0;
  std::atomic<std::uint32_t>& mine = words().flags[core_.rank()].value;
  const std::atomic<std::uint32_t>& other = words().flags[1 - core_.rank()].value;
  const std::uint32_t first = mine.load(std::memory_order_relaxed);
  std::int64_t begin = 0;
  for (std::uint32_t i = 1; i <= kWarm + kTimed; ++i) {
    if (i == kWarm + 1) begin = now_ns();
    mine.store(first + i, std::memory_order_release);
    PEAL_TRY(spin_until([&] { return other.load(std::memory_order_acquire) - first - i <= 0x7fffffffu; }));
  }
  return static_cast<double>(now_ns() - begin) / kTimed;
}

}  // namespace peal::cli
