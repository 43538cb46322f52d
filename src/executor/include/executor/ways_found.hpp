// What one communicator of a process has found out about filling slots to another rank, for its other communicators (fill_choice.hpp):
// where the cores of two ranks lie is the same for all of them, and each would pay some mebibytes to find it out.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace peal::executor {

/// To one rank. Any thread; a note that another overtakes is lost, which is no harm.
class WayFound {
 public:
  /// Grows with each note that says something new; 0: there was none.
  using Version = std::uint32_t;

  /// `is_paced`: of messages whose sender waits for his receiver, which may differ from others.
  void note(bool is_past, bool is_paced) noexcept {
    std::atomic<Version>& place = places_[is_paced ? 1 : 0];
    const Version last = place.load(std::memory_order_relaxed);
    if (last == 0 || is_past_in(last) != is_past) place.store(((last >> 1) + 1) << 1 | (is_past ? 1 : 0), std::memory_order_relaxed);
  }
  Version version(bool is_paced) const noexcept { return places_[is_paced ? 1 : 0].load(std::memory_order_relaxed); }
  static bool is_past_in(Version version) noexcept { return (version & 1) != 0; }

 private:
  std::array<std::atomic<Version>, 2> places_{};
};

/// To all ranks of a job. Any thread.
class WaysFound {
 public:
  /// Valid as long as this.
  WayFound& to(int job_rank) {
    const std::lock_guard lock(mutex_);
    return ways_[job_rank];
  }

 private:
  std::mutex mutex_;
  std::map<int, WayFound> ways_;
};

}  // namespace peal::executor
