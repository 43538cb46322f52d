// Which messages of a stream are timed: of short ones few, since the clock is part of what they cost.
#pragma once

#include <cstdint>

namespace peal::transport {

/// One thread at a time.
class TimingTurns {
 public:
  /// Bytes. Messages of this length and more have a turn each; of shorter ones, one has each time that so much has gone.
  static constexpr std::uint32_t kEach = 128 * 1024;

  /// A message of `bytes` goes: true when it has a turn.
  bool next(std::uint64_t bytes) noexcept {
    if (bytes < kEach - untimed_) {
      untimed_ += static_cast<std::uint32_t>(bytes);
      return false;
    }
    untimed_ = 0;
    return true;
  }

 private:
  std::uint32_t untimed_ = 0;  // bytes that have gone since one had a turn
};

}  // namespace peal::transport
