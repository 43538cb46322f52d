// How a rank waits: spin, then yield, then sleep. More ranks than cores is a supported case: then it yields almost at once.
#pragma once

#include <sched.h>

#include <cstdint>

namespace peal::executor {

struct WaitPolicy {
  std::uint32_t spins = 4000;        ///< polls before the first yield
  std::uint32_t yields = 20000;      ///< yields before the first sleep
  std::int64_t sleep_us = 500;       ///< longest sleep; bounds the harm of a missed wake
  static WaitPolicy for_ranks(int ranks_on_host, int cores) {
    WaitPolicy policy;
    if (ranks_on_host > cores) policy.spins = 30;
    return policy;
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
  explicit Backoff(const WaitPolicy& policy) : policy_(&policy) {}
  void reset() { polls_ = 0; }
  /// Spins or yields; `look_around`: time to look at faults, clock and transport; `sleep`: nothing came for long.
  Next pause() {
    ++polls_;
    // A pause takes as long as a cache line from another core: what comes at once is polled for without.
    if (polls_ <= kEagerPolls && polls_ <= policy_->spins) return Next::polled;
    if (polls_ <= policy_->spins) {
      pause_cpu();
      return polls_ % kPollsALook == 0 ? Next::look_around : Next::polled;
    }
    if (polls_ <= policy_->spins + policy_->yields) {
      sched_yield();
      return polls_ % kYieldsALook == 0 ? Next::look_around : Next::polled;
    }
    return Next::sleep;
  }

 private:
  static constexpr std::uint32_t kEagerPolls = 100;
  static constexpr std::uint32_t kPollsALook = 512;
  static constexpr std::uint32_t kYieldsALook = 16;
  const WaitPolicy* policy_;
  std::uint32_t polls_ = 0;
};

}  // namespace peal::executor
