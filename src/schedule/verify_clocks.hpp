// Happens-before for the verifier: vector clocks over strands, kept cheap by sharing. Private to this room.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace peal::schedule {

using StrandId = std::uint32_t;
inline constexpr StrandId kNoStrand = 0xffffffff;

/// A moment: everything that `strand` had done and knew at its op number `time` (from 1).
struct Stamp {
  std::shared_ptr<const std::vector<std::uint32_t>> known;
  StrandId strand = kNoStrand;
  std::uint32_t time = 0;
  /// Whether op `at` of strand `other` is in this moment's past.
  bool includes(StrandId other, std::uint32_t at) const {
    if (other == strand) return at <= time;
    return known && at <= (*known)[other];
  }
};

/// One strand's clock. What it knows of others is copied only when it learns something while a message still holds the old state.
class StrandClock {
 public:
  StrandClock(StrandId self, std::size_t strands) : self_(self), strands_(strands) {}

  std::uint32_t time() const { return time_; }
  void tick() { ++time_; }
  Stamp stamp() const { return {known_, self_, time_}; }
  std::uint32_t of(StrandId other) const { return other == self_ ? time_ : known_ ? (*known_)[other] : 0; }
  void learn(const Stamp& stamp);

 private:
  StrandId self_;
  std::size_t strands_;
  std::uint32_t time_ = 1;  // entry into the call is moment 1
  std::shared_ptr<std::vector<std::uint32_t>> known_;
};

/// Who touched one location, for races: the last write and the reads since.
class AccessLog {
 public:
  struct Access {
    StrandId strand = kNoStrand;
    std::uint32_t time = 0;
  };
  /// Records a read; returns the write that is not ordered before it, or an access without a strand.
  Access read(StrandId strand, const StrandClock& clock);
  /// Records a write; returns an access that is not ordered before it, or one without a strand.
  Access write(StrandId strand, const StrandClock& clock);
  Access last_write() const { return write_; }

 private:
  Access write_;
  std::vector<Access> reads_;
};

}  // namespace peal::schedule
