// Whether a point-to-point message may stay in its sender's memory, which ties its sender to whoever comes for it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace peal::executor {

/// Of one way: a receiver that came late is spared references for some messages, which go through slots; for more each time that it comes
/// late again, and for fewer once it has come in time for as many.
class LateReceiver {
 public:
  bool is_spared() const noexcept { return spared_ > 0; }
  /// A message that could have been a reference went through a slot.
  void note_copied() noexcept {
    if (spared_ > 0) --spared_;
  }
  void note_referenced() noexcept {
    if (last_ == 0 || ++in_time_ < last_) return;
    last_ /= 2;
    in_time_ = 0;
  }
  /// Nobody came for a reference.
  void note_late() noexcept {
    spared_ = last_ = std::clamp(2 * last_, kFewest, kMost);
    in_time_ = 0;
  }

 private:
  static constexpr std::uint32_t kFewest = 8;
  static constexpr std::uint32_t kMost = 1024;

  std::uint32_t spared_ = 0;   // so many messages yet
  std::uint32_t last_ = 0;     // as many as the last time
  std::uint32_t in_time_ = 0;  // references since
};

}  // namespace peal::executor
