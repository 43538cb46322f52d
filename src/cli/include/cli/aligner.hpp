// How the ranks of one host start a call together.
#pragma once

#include <atomic>
#include <base/result.hpp>
#include <comm/core.hpp>
#include <cstdint>

namespace peal::cli {

/// A spin barrier, and clocks that have been compared, of the ranks of one host. Ranks on several hosts meet by Peal's barrier alone. One
/// thread a rank; every function is collective over the ranks, and fails with the communicator's fault when one of them dies.
class Aligner {
 public:
  /// Of the ranks of `core`, which must outlive this.
  explicit Aligner(comm::Core& core) : core_(core) {}
  /// Before all others.
  Status open();

  /// Who comes last starts earlier than the others, by the time in which they learn of it: as long as a small message, which a call that
  /// goes one way gains or loses by it.
  Status meet();
  /// As meet(), but where each rank has a core, all start at one instant by the clock.
  Status start_by_clock();
  /// The clocks of two cores differ by up to 25 ns on a virtual machine, by another time whenever it is moved, and a message of 70 ns takes
  /// so much more one way and less the other. From now on two ranks that start by the clock start at one instant all the same.
  Status compare_clocks();
  /// The time in which the first two ranks show each other a flag, nanoseconds: virtual machines move their cores together and apart. Other
  /// ranks have 0, and so have all where cores are shared.
  Result<double> exchange_flags();

 private:
  static constexpr std::int64_t kStartInNs = 500, kForEachRankNs = 250;  // long enough for the news to be everywhere
  static constexpr std::int64_t kWithoutPausesNs = 200;                  // before the start

  struct Words {
    alignas(128) std::atomic<std::uint32_t> arrived;
    alignas(128) std::atomic<std::uint32_t> generation;
    std::atomic<std::int64_t> start_ns;
    struct alignas(128) Flag {
      std::atomic<std::uint32_t> value;
    } flags[2];
    struct alignas(128) Stamp {
      std::atomic<std::int64_t> at_ns;
    } stamps[2];
  };
  Words& words() { return *reinterpret_cast<Words*>(segment_.data()); }
  /// All ranks share memory, and each has a core.
  bool may_spin() const { return segment_.data() != nullptr && !shares_cores_; }
  /// Until `is_so`, or a rank has died.
  template <class Condition>
  Status spin_until(Condition&& is_so);
  /// Of the messages from the other of the first two ranks, nanoseconds by both clocks.
  Result<double> delay_by_clocks();
  static std::int64_t jitter_ns(std::uint32_t generation);

  comm::Core& core_;
  transport::SharedSegment segment_;
  bool shares_cores_ = false;
  std::int64_t stamp_ns_ = 0;  // the last that the other has shown
  std::int64_t ahead_ns_ = 0;  // this rank's clock, of that of rank 0
};

}  // namespace peal::cli
