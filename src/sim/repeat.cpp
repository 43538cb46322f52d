// Pieces that repeat. A plan in pieces soon runs full: then every strand ends a piece a period after the one before it, and the state is what
// it was a period ago, with all counts one piece further. The pieces that follow, up to the last of full length, need not be simulated:
// what is under way is put off by so many periods, and counts go on by so many pieces.
#include <algorithm>
#include <cmath>

#include "world.hpp"

namespace peal::sim {

namespace {

constexpr int kSameTimes = 3;             // periods that are equal, of every strand
constexpr double kSamePeriod = 1e-11;     // relative, and
constexpr double kSameInstant = 1e-14;    // of the time since the beginning: what rounding makes of a difference of two times
constexpr std::int32_t kLeastSkipped = 4;

}  // namespace

void World::piece_done(Index index) {
  Strand& s = strands_[index];
  const double now = engine_.now();
  const double period = now - s.piece_ended;
  s.steady = std::abs(period - s.period) <= kSamePeriod * period + kSameInstant * now ? s.steady + 1 : 0;
  s.period = period;
  s.piece_ended = now;
  if (index != 0 || s.steady + 1 < kSameTimes || s.cursor.done()) return;
  const bool has_before = !bytes_before_.empty();
  if (has_before && is_steady(period)) return repeat(period);
  bytes_before_.assign(engine_.bytes_over().begin(), engine_.bytes_over().end());
  messages_before_ = messages_;
}

bool World::is_steady(double period) const {
  const double near = kSamePeriod * period + kSameInstant * engine_.now();
  return remote_signals_.empty() && std::all_of(strands_.begin(), strands_.end(), [&](const Strand& s) {
    return s.steady >= kSameTimes && !s.cursor.done() && std::abs(s.period - period) <= near;
  });
}

void World::repeat(double period) {
  may_repeat_ = false;
  std::int32_t furthest = 0;
  for (const Strand& s : strands_) furthest = std::max(furthest, s.cursor.piece());
  const std::int32_t times = jobs_.front().sizes->full_pieces() - 1 - furthest;
  if (times < kLeastSkipped) return;
  const double delay = period * times;
  std::vector<std::int64_t> a_piece(channels_.size(), 0);
  for (Strand& s : strands_) {
    count_messages(s, a_piece);
    s.cursor.skip_pieces(times);
    s.bound.piece += times;
    s.began += delay;
    s.since += delay;
  }
  for (std::size_t i = 0; i < a_piece.size(); ++i) {
    Channel& c = channels_[i];
    for (std::int64_t* count : {&c.sent, &c.arrived, &c.received, &c.credited, &c.posted, &c.announced}) *count += times * a_piece[i];
  }
  for (RankState& rank : ranks_)
    for (std::size_t e = 0; e < rank.signals.size(); ++e) rank.signals[e] += static_cast<std::int64_t>(times) * rank.program.event_quota[e];
  messages_ += times * (messages_ - messages_before_);
  outcome_.repeated_pieces = times;
  engine_.repeat(period, times, bytes_before_);
}

/// Adds the messages that a strand sends in a piece.
void World::count_messages(const Strand& s, std::vector<std::int64_t>& a_piece) {
  const RankState& rank = ranks_[static_cast<std::size_t>(s.rank)];
  schedule::StrandCursor walk(rank.program, static_cast<std::size_t>(s.number), 1);
  for (; !walk.done(); walk.advance(rank.program)) {
    const schedule::BoundOp bound = walk.current(rank.program);
    if (!schedule::sends(bound.op->kind)) continue;
    const std::int32_t peer = bound.op->kind == schedule::OpKind::send ? bound.peer : bound.peer2;
    ++a_piece[channel(s.rank, number_of(s, peer), bound.op->channel)];
  }
}

}  // namespace peal::sim
