// Whether the next long message to a rank of this machine is copied into its socket or lent to it (page_pipe.hpp). Where the kernel copies
// fast, the sender's copy and the receiver's overlap, and references to pages cost more than they save; where both cores are far from each
// other, what the sender writes lies in the other's cache, and copies crawl. So the rate of the copies decides: what is copied is timed,
// and where messages are lent, a few are copied now and then to see whether the cores have moved
// (docs/decisions/pages-are-lent-to-sockets.md).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace peal::transport {

/// Of one way to one peer; one thread at a time. Times are of one steady clock. The rates: copies of 64 KiB to 16 MiB took 0.09 to 0.20 ns
/// a byte between near cores and 0.23 to 0.69 between far ones (Zen 4, Linux 6.18; bench/RESULTS.md, "Lent pages").
class LendChoice {
 public:
  static constexpr double kCallNs = 8000;         ///< of the time of a copy: the call's and the protocol's
  static constexpr double kSlowNsPerByte = 0.22;  ///< copies that take longer are saved
  static constexpr double kFastNsPerByte = 0.19;  ///< and those that take less are made again
  static constexpr int kCopies = 4;               ///< of which the fastest counts: others were disturbed, or found nothing in the caches
  static constexpr std::int64_t kFirstLookNs = 10'000'000;
  static constexpr std::int64_t kLastLookNs = 160'000'000;
  static constexpr int kLeastBetweenLooks = 64;  ///< messages: calls that come rarely would only look

  /// Whether the message at hand is lent; false while the copies are looked at.
  bool lends(std::int64_t now_ns) const { return is_slow_ && (now_ns < look_at_ns_ || lent_ < kLeastBetweenLooks); }

  void note_lent() { ++lent_; }

  /// So many bytes (not 0) were copied by one call that took so long.
  void note_copied(std::size_t bytes, std::int64_t ns, std::int64_t now_ns) {
    least_ = std::min(least_, (static_cast<double>(ns) - kCallNs) / static_cast<double>(bytes));
    if (++copies_ < kCopies) return;
    look_after_ns_ = is_slow_ ? std::min(2 * look_after_ns_, kLastLookNs) : kFirstLookNs;
    is_slow_ = least_ > (is_slow_ ? kFastNsPerByte : kSlowNsPerByte);
    look_at_ns_ = now_ns + look_after_ns_;
    lent_ = 0;
    copies_ = 0;
    least_ = std::numeric_limits<double>::infinity();
  }

 private:
  double least_ = std::numeric_limits<double>::infinity();
  int copies_ = 0;
  int lent_ = 0;
  bool is_slow_ = false;
  std::int64_t look_after_ns_ = kFirstLookNs;
  std::int64_t look_at_ns_ = 0;
};

}  // namespace peal::transport
