// How algorithms write their strands: step by step, as the textbook has it.
#pragma once

#include <initializer_list>
#include <schedule/schedule.hpp>
#include <span>
#include <string>

namespace peal::schedule {

/// A reference with its steps: input(3).by(-1) is chunk 3 - i of the input in iteration i.
struct Chunks : Ref {
  Chunks by(std::int32_t inner, std::int32_t outer = 0) const {
    Chunks r = *this;
    r.step[0] = inner;
    r.step[1] = outer;
    return r;
  }
};
inline Chunks chunks_of(BufferId buffer, std::int32_t first, std::int32_t count = 1) {
  Chunks r;
  r.buffer = buffer;
  r.first = first;
  r.count = static_cast<std::uint16_t>(count);
  return r;
}
inline Chunks input(std::int32_t first, std::int32_t count = 1) { return chunks_of(kInput, first, count); }
inline Chunks output(std::int32_t first, std::int32_t count = 1) { return chunks_of(kOutput, first, count); }
inline Chunks scratch(std::int32_t first, std::int32_t count = 1) { return chunks_of(kScratch, first, count); }

/// Ranks that one switch, or one tree of switches, serves together.
struct SwitchGroup {
  std::uint32_t first = 0;
  std::uint16_t count = 0;
};

/// Writes ops to one strand. Each verb returns the op just written, to be refined at once (`.flags |= kFinish`); the reference
/// does not survive the next verb.
class StrandBuilder {
 public:
  StrandBuilder(RankSchedule& schedule, std::size_t strand) : schedule_(&schedule), strand_(strand) {}

  Op& send(std::int32_t peer, Ref src);
  /// Sends what `peer` adds to its own by recv_reduce: a contribution, or a sum that is not finished.
  Op& send_addend(std::int32_t peer, Ref src);
  Op& recv(std::int32_t peer, Ref dst);
  /// dst = src (+) what `peer` sent as an addend.
  Op& recv_reduce(std::int32_t peer, Ref dst, Ref src);
  Op& copy(Ref dst, Ref src);
  /// dst = the sources combined, in the canonical tree over their order, or left to right.
  Op& reduce(Ref dst, std::span<const Source> sources, bool canonical);
  /// Brings `src`; takes the sums of dst.count chunks from the `from`-th on (op.hpp).
  Op& switch_reduce(SwitchGroup group, Ref dst, Ref src, std::int32_t from = 0);
  Op& switch_multicast(SwitchGroup group, Ref dst, Ref src);
  Op& signal(std::int32_t event);
  /// Waits until `event` was signalled `threshold` times in this piece; .src.step advances the threshold in loops.
  Op& wait(std::int32_t event, std::int32_t threshold);
  /// Loops nest two deep. What runs once needs no loop, and is written without.
  template <class Body>
  void loop(std::int32_t times, Body&& body) {
    if (times <= 0) return;
    if (times == 1 && open_.empty()) {
      const std::size_t first = ops().size();
      body();
      drop_steps(first);
      return;
    }
    open_loop(times);
    body();
    close_loop();
  }

 private:
  Op& add(OpKind kind);
  void open_loop(std::int32_t times);
  void close_loop();
  void drop_steps(std::size_t first);
  std::vector<Op>& ops() { return schedule_->strands[strand_].ops; }

  RankSchedule* schedule_;
  std::size_t strand_;
  std::vector<std::size_t> open_;
};

/// Writes one rank's schedule.
class RankBuilder {
 public:
  /// A new strand; `name` is for people.
  StrandBuilder strand(std::string name);
  /// A new event number.
  std::int32_t event() { return events_++; }
  /// At most 65535 ranks, in any order.
  SwitchGroup switch_group(std::span<const std::int32_t> members);
  RankSchedule take() { return std::move(schedule_); }

 private:
  RankSchedule schedule_;
  std::int32_t events_ = 0;
};

}  // namespace peal::schedule
