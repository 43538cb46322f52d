// When may an op start? The rule lives here, once; verifier, executor and simulator walk programs with this cursor.
//
// A strand runs its ops in order. Loops repeat; a plan in pieces walks the whole strand once a piece. An op may start when the
// channels it names and the events it waits for say so (`may_start`). Nothing else orders strands against one another.
#pragma once

#include <cstdint>
#include <schedule/op.hpp>
#include <schedule/schedule.hpp>
#include <vector>

namespace peal::schedule {

/// An op with its loop indices put in.
struct BoundOp {
  const Op* op = nullptr;
  std::int32_t peer = -1;
  std::int32_t peer2 = -1;
  std::int32_t iteration[2] = {0, 0};  ///< innermost first
  std::int32_t piece = 0;

  /// First chunk of `ref` in this iteration.
  std::int32_t chunk(const Ref& ref) const {
    const std::int32_t steps = ref.step[0] * iteration[0] + ref.step[1] * iteration[1];
    if (op->modulus == 0) return ref.first + steps;
    const std::int32_t block = ref.first / op->modulus * op->modulus;
    std::int32_t inside = (ref.first - block + steps) % op->modulus;
    if (inside < 0) inside += op->modulus;
    return block + inside;
  }
  /// Threshold of a wait, counted over all pieces.
  std::int64_t threshold(const Program& program) const {
    return op->operand + static_cast<std::int64_t>(op->src.step[0]) * iteration[0] +
           static_cast<std::int64_t>(op->src.step[1]) * iteration[1] + static_cast<std::int64_t>(piece) * program.event_quota[op->event];
  }
};

/// Sends that follow one another in a strand, each of the same bytes in the element's own type: how many stand before one and after it.
struct SameSends {
  std::int32_t before = 0;
  std::int32_t after = 0;
  bool has_others() const { return before + after > 0; }
};

/// One strand's place in a program. Plain state; copying it is a checkpoint. It walks a Program, or whatever else says of it `op(i)`,
/// `peer(i)`, `peer2(i)` and `ranks`.
class StrandCursor {
 public:
  StrandCursor() = default;
  StrandCursor(const Program& program, std::size_t strand, std::int32_t pieces)
      : StrandCursor(program, program.strand_begin[strand], program.strand_begin[strand + 1], pieces) {}
  /// The strand is the ops from `begin` to before `end`.
  template <class Ops>
  StrandCursor(const Ops& program, std::uint32_t begin, std::uint32_t end, std::int32_t pieces)
      : begin_(begin), end_(end), at_(begin), pieces_(pieces) {
    if (begin_ == end_)
      piece_ = pieces_;
    else
      settle(program);
  }

  bool done() const { return piece_ >= pieces_; }

  /// The op at hand; only when not done.
  template <class Ops>
  BoundOp current(const Ops& program) const {
    BoundOp bound;
    bind(program, bound);
    return bound;
  }
  /// The same, where it is to lie.
  template <class Ops>
  void bind(const Ops& program, BoundOp& bound) const {
    const Op& op = program.op(at_);
    bound.op = &op;
    bound.peer = program.peer(at_);
    bound.peer2 = program.peer2(at_);
    bound.piece = piece_;
    bound.iteration[0] = depth_ > 0 ? iteration_[depth_ - 1] : 0;
    bound.iteration[1] = depth_ > 1 ? iteration_[0] : 0;
    if (depth_ == 0 || op.peer_step == 0) return;
    bound.peer = wrapped(bound.peer, op.peer_step, bound.iteration[0], program.ranks);
    bound.peer2 = wrapped(bound.peer2, op.peer_step, bound.iteration[0], program.ranks);
  }

  /// Goes on to the next op, through loops and pieces.
  template <class Ops>
  void advance(const Ops& program) {
    ++at_;
    settle(program);
  }

  /// Of the op at hand; none where it is no send.
  template <class Ops>
  SameSends same_sends(const Ops& program) const {
    const Op& op = program.op(at_);
    SameSends same;
    if (op.kind != OpKind::send || op.src.count == 0 || op.wire != Wire::element) return same;
    if (is_alone(program, 1)) {
      if (op.src.step[0] != 0) return same;
      const std::int32_t i = iteration_[depth_ - 1];
      return {i, program.op(at_ - 1).operand - 1 - i};
    }
    const auto is_same = [&](const Op& other) {
      return other.kind == OpKind::send && other.src == op.src && other.modulus == op.modulus && other.wire == op.wire;
    };
    for (std::uint32_t i = at_; i > begin_ && is_same(program.op(i - 1)); --i) ++same.before;
    for (std::uint32_t i = at_ + 1; i < end_ && is_same(program.op(i)); ++i) ++same.after;
    return same;
  }

  /// Where the op at hand is a copy that stands alone in its loops, how often they still come to it, this time included; else 1.
  template <class Ops>
  std::int64_t copies_left(const Ops& program) const {
    const Op& op = program.op(at_);
    if (op.kind != OpKind::copy || (op.flags & (kRemoteSrc | kRemoteDst)) != 0 || !is_alone(program, 1)) return 1;
    const std::int64_t times = program.op(at_ - 1).operand;
    const std::int64_t left = times - iteration_[depth_ - 1];
    return is_alone(program, 2) ? left + times * (program.op(at_ - 2).operand - 1 - iteration_[0]) : left;
  }
  /// To the last of them.
  template <class Ops>
  void to_last_copy(const Ops& program) {
    iteration_[depth_ - 1] = program.op(at_ - 1).operand - 1;
    if (is_alone(program, 2)) iteration_[0] = program.op(at_ - 2).operand - 1;
  }

  /// How often it comes to an op in all pieces, and how much of that is over. O(ops of the strand).
  struct Visits {
    double over = 0;
    double all = 0;
  };
  template <class Ops>
  Visits visits(const Ops& program) const {
    struct Level {
      double times = 1;  // that a piece comes to an op here
      double over = 0;   // of those, what whole rounds of the loops outside are past
      bool is_at_hand = true;
    };
    Level levels[3];
    std::int32_t depth = 0;
    Visits piece;
    for (std::uint32_t i = begin_; i < end_; ++i) {
      const Op& op = program.op(i);
      const Level& level = levels[depth];
      const double passed = level.over + (level.is_at_hand && i < at_ ? 1 : 0);
      if (op.kind == OpKind::loop) {
        const bool holds = level.is_at_hand && i < at_ && at_ < i + op.more;
        const double before = holds ? level.over * op.operand + iteration_[depth] : passed * op.operand;
        levels[depth + 1] = {level.times * op.operand, before, holds};
        ++depth;
      } else if (op.kind == OpKind::end_loop) {
        --depth;
      } else {
        piece.all += level.times;
        piece.over += passed;
      }
    }
    return {piece_ * piece.all + (done() ? 0 : piece.over), pieces_ * piece.all};
  }

  /// To the same place so many pieces later.
  void skip_pieces(std::int32_t count) { piece_ += count; }

  std::uint32_t position() const { return at_; }
  std::uint32_t ops() const { return end_ - begin_; }
  /// The place after one, in this piece or the next; what loops make of it is not looked at.
  std::uint32_t after(std::uint32_t position) const { return position + 1 < end_ ? position + 1 : begin_; }
  std::int32_t piece() const { return piece_; }

 private:
  static std::int32_t wrapped(std::int32_t peer, std::int32_t step, std::int32_t i, std::int32_t ranks) {
    if (peer < 0) return peer;
    const auto at = (peer + static_cast<std::int64_t>(step) * i) % ranks;
    return static_cast<std::int32_t>(at < 0 ? at + ranks : at);
  }

  // Nothing but the op at hand stands in the `levels` innermost loops.
  template <class Ops>
  bool is_alone(const Ops& program, std::int32_t levels) const {
    if (depth_ < levels) return false;
    for (std::uint32_t i = 1; i <= static_cast<std::uint32_t>(levels); ++i)
      if (program.op(at_ - i).kind != OpKind::loop || program.op(at_ + i).kind != OpKind::end_loop) return false;
    return true;
  }

  template <class Ops>
  void settle(const Ops& program) {
    for (;;) {
      if (at_ == end_) {
        if (++piece_ >= pieces_) return;
        at_ = begin_;
        continue;
      }
      const Op& op = program.op(at_);
      if (op.kind == OpKind::loop) {
        if (op.operand <= 0) {
          at_ += op.more + 1;
        } else {
          iteration_[depth_++] = 0;
          ++at_;
        }
      } else if (op.kind == OpKind::end_loop) {
        const std::uint32_t start = at_ - op.more;
        if (++iteration_[depth_ - 1] < program.op(start).operand) {
          at_ = start + 1;
        } else {
          --depth_;
          ++at_;
        }
      } else {
        return;
      }
    }
  }

  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
  std::uint32_t at_ = 0;
  std::int32_t pieces_ = 0;
  std::int32_t piece_ = 0;
  std::int32_t depth_ = 0;
  std::int32_t iteration_[2] = {0, 0};  // outermost first
};

/// The rule of readiness. `State` answers for one rank:
///   bool can_send(peer, channel)       a slot of the channel to `peer` is free (or, without slots, the receiver stands at its receive)
///   bool can_receive(peer, channel)    the next message from `peer` is there
///   std::int64_t signals(event)        local signals of `event` so far
///   std::int64_t signals_from(peer, event)
///   bool have_come(bound)              every member of its group stands at this op; left out by who refuses ops that a switch computes
template <class State>
bool may_start(const BoundOp& bound, const Program& program, State&& state) {
  const Op& op = *bound.op;
  switch (op.kind) {
    case OpKind::send: return state.can_send(bound.peer, op.channel);
    case OpKind::recv:
    case OpKind::recv_reduce: return state.can_receive(bound.peer, op.channel);
    case OpKind::recv_send:
    case OpKind::recv_reduce_send: return state.can_receive(bound.peer, op.channel) && state.can_send(bound.peer2, op.channel);
    case OpKind::wait:
      return (bound.peer < 0 ? state.signals(op.event) : state.signals_from(bound.peer, op.event)) >= bound.threshold(program);
    case OpKind::switch_reduce:
    case OpKind::switch_multicast:
      if constexpr (requires { state.have_come(bound); }) return state.have_come(bound);
      return true;
    default: return true;
  }
}

}  // namespace peal::schedule
