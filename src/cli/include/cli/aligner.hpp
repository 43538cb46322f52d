// How the ranks of one host start a call together.
#pragma once

#include <atomic>
#include <base/result.hpp>
#include <comm/core.hpp>
#include <cstdint>

namespace peal::cli {

/// A spin barrier and the clocks of the ranks of one host. Ranks on several hosts meet by Peal's barrier alone. One thread a rank; every
/// function but the last is collective over the ranks of `core`, the one of open().
class Aligner {
 public:
  Status open(comm::Core& core);

  /// Who comes last starts earlier than the others, by the time in which they learn of it: as long as a small message, which a call that
  /// goes one way gains or loses by it.
  Status meet(const comm::Core& core);
  /// As meet(), but where each rank has a core, all start at one instant by the clock.
  Status start_by_clock(const comm::Core& core);
  /// The clocks of two cores differ by up to 25 ns on a virtual machine, by another time whenever it is moved, and a message of 70 ns takes
  /// so much more one way and less the other. From now on two ranks that start by the clock start at one instant all the same.
  Status compare_clocks(comm::Core& core);
  /// The time in which the first two ranks show each other a flag, nanoseconds: virtual machines move their cores together and apart. 0 by
  /// other ranks, and where cores are shared.
  Result<double> exchange_flags(const comm::Core& core);

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
  bool is_spinning_pair(const comm::Core& core) const { return segment_.data() != nullptr && !shares_cores_ && core.rank() < 2; }
  /// Of the messages from the other of the first two ranks, nanoseconds by both clocks.
  Result<double> delay_by_clocks(const comm::Core& core);
  static std::int64_t jitter_ns(std::uint32_t generation);

  transport::SharedSegment segment_;
  std::uint32_t ranks_ = 0;
  bool shares_cores_ = false;
  std::int64_t stamp_ns_ = 0;  // the last that the other has shown
  std::int64_t ahead_ns_ = 0;  // this rank's clock, of that of rank 0
};

}  // namespace peal::cli
