// Why every slice of an op began when it did, and from that the chain of ops that the last rank waited for. Costs nothing but a look at a
// flag where nobody asks; else about a hundred bytes a slice. Private to this room.
#pragma once

#include <deque>
#include <sim/interpret.hpp>
#include <vector>

namespace peal::sim {

using Index = std::uint32_t;
inline constexpr Index kNobody = ~Index{0};

class PathRecorder {
 public:
  /// What made a slice possible: the last of all things that it waited for.
  enum class Why : std::uint8_t { start, own, core, message, credit, announce, signal };
  /// What crosses a channel in order.
  enum class Line : std::uint8_t { messages, credits, announces };

  struct Step {
    Index cause = kNobody;
    Why why = Why::start;
    schedule::OpKind kind = schedule::OpKind::end_loop;
    bool is_on_wire = false;  // from `worked` on bytes cross a wire; else the op's core copies
    std::int32_t rank = 0;
    std::int32_t peer = -1;
    double began = 0;
    double turn = 0;  // of the time to `issued`
    double issued = 0;
    double worked = -1;
    double ended = 0;
    double work_alone = 0;  // from `issued` to `worked`, if nobody shared the memory
    double wire_alone = 0;  // from `worked` on, if nobody shared the wires
    double hop = 0;         // from the last byte's leaving to its being seen
  };

  explicit PathRecorder(bool is_on) : is_on_(is_on) {}
  bool is_on() const { return is_on_; }

  /// From now on this is what slices begin by.
  void happened(Index step, Why why) {
    if (is_on_) by_ = {step, why};
  }
  /// A slice begins; returns its step.
  Index begin(schedule::OpKind kind, std::int32_t rank, std::int32_t peer, double now);
  /// Null where nobody asks.
  Step* step(Index index) { return is_on_ && index != kNobody ? &steps_[index] : nullptr; }
  void push(Line line, Index channel, Index step);
  Index pop(Line line, Index channel);
  /// A rank may be done by what happened last.
  void finish(std::int32_t rank, double now);
  /// The rank that was done last, -1 where none has done anything.
  std::int32_t last_rank() const { return last_rank_; }

  /// The chain in the order of time, from the first rank's launch on.
  std::vector<PathPart> walk() const;

 private:
  struct Trigger {
    Index step = kNobody;
    Why why = Why::start;
  };
  void add_step(const Step& step, std::uint32_t ordinal, double until, std::vector<PathPart>& backwards) const;

  bool is_on_;
  Trigger by_;
  Trigger last_;
  double last_time_ = -1;
  std::int32_t last_rank_ = -1;
  std::vector<Step> steps_;
  std::vector<std::deque<Index>> lines_;  // three a channel
};

}  // namespace peal::sim
