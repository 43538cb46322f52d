// How a rank waits: spin, then yield, then sleep. More ranks than cores is a supported case: then it yields almost at once.
#pragma once

#include <sched.h>

#include <atomic>
#include <base/clock.hpp>
#include <cstdint>

namespace peal::executor {

/// Settings of one communicator's waits, and what they have learnt. Several threads may wait under it.
struct WaitPolicy {
  std::uint32_t spins = 4000;                     ///< polls before the first yield
  std::uint32_t short_polls = 400;                ///< looks of a call of few short messages, before it waits as any call does
  std::uint32_t yields = 20000;                   ///< yields before the first sleep
  std::int64_t sleep_us = 500;                    ///< longest sleep; bounds the harm of a missed wake
  std::int64_t crowd_ns = 200'000;                ///< who waits longer than this for kYieldsALook yields is in a crowd
  std::int64_t crowded_for_ns = 200'000'000;      ///< and believes so for this long
  std::atomic<std::int64_t> crowded_until_ns{0};  ///< others compete for our cores until then: do not yield, sleep
  /// Before the first wait. Where ranks share cores, every look more is one that whoever has to come next waits for: who yields at once
  /// lets the rank run that it waits for. Yields take as long as the others' work: only somebody who holds the core for a whole tick (4 ms)
  /// is a stranger, and sleeping costs ten times the yields: it is not believed for long, because a rank that starts or prints holds the
  /// core as well, and who sleeps makes the others wait. A poll of sockets is a system call, during which a thread of the kernel that has
  /// the data waits for this core: as many as a message takes on loopback, and not thousands (bench/RESULTS.md, "Looks before a yield").
  void fit(bool shares_cores, bool polls_sockets) {
    if (!shares_cores && !polls_sockets) return;
    spins = shares_cores ? 0 : 16;
    short_polls = shares_cores ? 0 : 1;
    crowd_ns = 3'500'000;
    crowded_for_ns = 2'000'000;
  }
};

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Counts fruitless polls and says what to do next.
class Backoff {
 public:
  enum class Next : std::uint8_t { polled, look_around, sleep };
  explicit Backoff(WaitPolicy& policy) : policy_(&policy) {}
  void reset() {
    polls_ = 0;
    last_look_ns_ = 0;
  }
  /// Spins or yields; `look_around`: time to look at faults, clock and transport; `sleep`: nothing came for long.
  Next pause() {
    ++polls_;
    // A pause takes as long as a cache line from another core: what comes at once is polled for without.
    if (polls_ <= kEagerPolls && polls_ <= policy_->spins) return Next::polled;
    if (polls_ <= policy_->spins) {
      pause_cpu();
      return polls_ % kPollsALook == 0 ? Next::look_around : Next::polled;
    }
    if (const std::int64_t until = policy_->crowded_until_ns.load(std::memory_order_relaxed); until != 0) {
      if (now_ns() < until) return Next::sleep;
      policy_->crowded_until_ns.store(0, std::memory_order_relaxed);
    }
    if (polls_ <= policy_->spins + policy_->yields) {
      sched_yield();
      if (polls_ % kYieldsALook != 0) return Next::polled;
      notice_crowd();
      return Next::look_around;
    }
    return Next::sleep;
  }

 private:
  static constexpr std::uint32_t kEagerPolls = 100;
  static constexpr std::uint32_t kPollsALook = 512;
  static constexpr std::uint32_t kYieldsALook = 4;

  // Others want this core: who yields to them waits for a whole time slice again and again, who sleeps is let in soon after its wake.
  void notice_crowd() {
    const std::int64_t now = now_ns();
    if (last_look_ns_ != 0 && now - last_look_ns_ > policy_->crowd_ns)
      policy_->crowded_until_ns.store(now + policy_->crowded_for_ns, std::memory_order_relaxed);
    last_look_ns_ = now;
  }

  WaitPolicy* policy_;
  std::uint32_t polls_ = 0;
  std::int64_t last_look_ns_ = 0;
};

}  // namespace peal::executor
