// Whether the messages of a call should be read in their sender's memory, by how fast such calls were read before.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <transport/channel.hpp>
#include <utility>

namespace peal::executor {

/// Of one sender to its only peer. What nobody has written since the call before lies in the reader's own cache; what was just written must
/// be fetched line by line, and two copies through slots are faster then. The sender cannot know which it is, but the reader says how long
/// it took: calls of a kind (a plan) that were read slowly go through slots for a while, longer each time, and are then read again,
/// where the first does not count: what went through slots in between is not in the reader's cache either.
class SlowReads {
 public:
  /// A call of that plan (its address is all that counts) starts, of `bytes` to the peer. True: through slots. Else end() follows.
  bool spares(const void* plan, std::uint64_t bytes) {
    last_ = nullptr;
    if (bytes > kMostJudged) return false;
    Kind& kind = kind_of(plan);
    if (kind.spared > 0) {
      --kind.spared;
      return true;
    }
    last_ = &kind;
    bytes_ = bytes;
    return false;
  }

  /// That call has ended. `fetched`: what the peer has said so far; a call of which it says little, because both ends copied, or of which
  /// others were read meanwhile, is not judged. `slow_ns`: a byte that takes longer is slow.
  void end(transport::Drained fetched, double slow_ns) {
    const transport::Drained told{fetched.ns - since_.ns, fetched.bytes - since_.bytes};
    since_ = fetched;
    Kind* const kind = std::exchange(last_, nullptr);
    if (kind == nullptr || bytes_ == 0 || 4 * told.bytes < 3 * bytes_ || 4 * told.bytes > 5 * bytes_) return;
    if (!std::exchange(kind->is_warm, true)) return;
    if (static_cast<double>(told.ns) <= kSystemCallNs + slow_ns * static_cast<double>(told.bytes)) {
      kind->next = kFewest;
      kind->slow = 0;
      return;
    }
    if (++kind->slow < kSlowInARow) return;
    kind->spared = kind->next;
    kind->next = std::min(2 * kind->next, kMost);
    kind->slow = 0;
    kind->is_warm = false;
  }

 private:
  static constexpr std::uint64_t kMostJudged = 256 << 10;  // bytes of a call: of more the caches do not hold what was read before
  static constexpr double kSystemCallNs = 500;
  static constexpr std::uint32_t kSlowInARow = 3;  // one alone may have met something else
  static constexpr std::uint32_t kFewest = 16;     // calls
  static constexpr std::uint32_t kMost = 1024;
  struct Kind {
    const void* plan = nullptr;
    std::uint32_t spared = 0;  // so many calls yet
    std::uint32_t next = kFewest;
    std::uint32_t slow = 0;  // in a row
    bool is_warm = false;    // the next one read counts
  };

  /// A new one takes the place of the oldest.
  Kind& kind_of(const void* plan) {
    const auto known = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return kind.plan == plan; });
    if (known != kinds_.end()) return *known;
    Kind& kind = kinds_[next_kind_++ % kinds_.size()];
    kind = {plan};
    return kind;
  }

  std::array<Kind, 16> kinds_;
  std::size_t next_kind_ = 0;
  Kind* last_ = nullptr;      // of the call at hand; null: it is not judged
  transport::Drained since_;  // at the end of the call before
  std::uint64_t bytes_ = 0;
};

}  // namespace peal::executor
