// Pieces that repeat. A plan in pieces soon runs full: then the state is what it was a while ago, with every strand some pieces further.
// What follows, as long as pieces have their full length, need not be simulated: what is under way is put off by so many of these whiles,
// and counts go on. Strands that only signals join may go at different paces; then the while is one in which each ends a whole number of
// pieces. Who stands at a switch is told by who has come to the op and is not at work.
#include "repeat.hpp"

#include <algorithm>
#include <base/index.hpp>
#include <cmath>
#include <iterator>
#include <limits>

#include "world.hpp"

namespace peal::sim {

namespace {

constexpr std::size_t kLeastBack = 2;     // marks whose like were a period before, beside the newest; of shorter periods as many as these
constexpr std::size_t kSample = 2048;     // strands, of many more
constexpr double kSameTime = 1e-13;       // of the time since the beginning: what rounding makes of a difference of two times
constexpr double kSameMoment = 4e-12;     // ... and the engine: moments that it takes for one instant are 1e-12 long, and add up
constexpr double kSlip = 1e-10;           // of a period that is counted many times over: as far off is then the whole
constexpr double kSameOfInstant = 1e-11;  // of it, too: well beyond what the engine takes for one instant
constexpr double kMoment = 0x1p-6;        // nanoseconds; at least
constexpr std::int32_t kLeastTimes = 2;
constexpr std::size_t kMarkedOfEvent = 16;  // strands and channels that a mark costs about as much to look at as an event to simulate

/// Strands whose state is the same in both; it gives up where `most_others` are not.
std::size_t same_strands(const StateMark& a, const StateMark& b, std::size_t most_others) {
  const double near = std::max(kSameTime * a.time, std::min(kSameMoment * a.time, kSlip * (a.time - b.time)));
  std::size_t same = 0;
  for (std::size_t i = 0; i < a.strands.size() && i <= same + most_others; ++i) {
    const StateMark::OfStrand& s = a.strands[i];
    const StateMark::OfStrand& t = b.strands[i];
    const bool is_alike = s.piece > t.piece && s.position == t.position && s.is_at_work == t.is_at_work;
    same += (s.has_ended && t.has_ended) || (is_alike && std::abs(s.since - t.since) <= near && std::abs(s.began - t.began) <= near);
  }
  return same;
}

}  // namespace

bool is_same_state(const StateMark& a, const StateMark& b) { return same_strands(a, b, 0) == a.strands.size() && a.channels == b.channels; }

/// What a mark does not say (how much of a message that is under way has left) follows from what went before, as far back as the longest op
/// at work began: that too must be the same.
std::size_t StateHistory::period() const {
  for (std::size_t k = 1; k < marks_.size(); ++k) {
    std::size_t back = std::min(k, kLeastBack);
    while (back < k && k + back < marks_.size() && marks_[0].time - marks_[back].time < marks_[0].longest) ++back;
    if (k + back >= marks_.size()) return 0;
    std::size_t i = 0;
    while (i <= back && is_same_state(marks_[i], marks_[i + k])) ++i;
    if (i > back) return k;
  }
  return 0;
}

void StateHistory::push(StateMark mark) { marks_.push_front(std::move(mark)); }

bool StateHistory::has_half_of_newest() const {
  const StateMark& newest = marks_.front();
  const std::size_t half = newest.strands.size() / 2;
  return std::any_of(marks_.begin() + 1, marks_.end(), [&](const StateMark& mark) { return same_strands(newest, mark, half) >= half; });
}

void StateHistory::clear() {
  std::move(marks_.begin(), marks_.end(), std::back_inserter(spare_));
  marks_.clear();
}

StateMark StateHistory::reuse() {
  if (marks_.size() > most_) {
    StateMark mark = std::move(marks_.back());
    marks_.pop_back();
    return mark;
  }
  if (spare_.empty()) return {};
  StateMark mark = std::move(spare_.back());
  spare_.pop_back();
  return mark;
}

/// The first strand that has not ended keeps the beat. Marks are taken a moment later, when all that happens at the same instant has:
/// strands that are in step go one after the other, in an order that rounding decides.
void World::piece_done(Index index) {
  if (index != beat_ || is_learning()) return;
  if (!strands_[beat_].cursor.done())
    return engine_.after(std::max(kMoment, std::exp2(std::ceil(std::log2(engine_.now() * kSameOfInstant)))), tag(Kind::mark, 0));
  while (beat_ < strands_.size() && strands_[beat_].cursor.done()) ++beat_;
  history_.clear();
}

/// Where little happens between two marks, looking at all strands would cost more than simulating them.
void World::look_back() {
  if ((engine_.events() - marked_at_) * kMarkedOfEvent < strands_.size() + channels_.size()) return;
  marked_at_ = engine_.events();
  const bool may_repeat = add_sample();  // every time: later ones are held against it
  if (!may_repeat || find_one_that_cannot_repeat()) return history_.clear();
  history_.push(mark(1, history_.reuse()));
  if (const std::size_t period = history_.period(); period > 0) repeat(history_.mark(0), history_.mark(period));
}

/// A strand in its first piece, or with too few before it for what repeats to be counted. It is looked for where the last one was.
bool World::find_one_that_cannot_repeat() {
  const std::int32_t last = jobs_.front().sizes->full_pieces() - kLeastTimes;
  const auto found = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const schedule::StrandCursor& cursor = strands_[i].cursor;
      if (cursor.done() || (cursor.piece() > 0 && cursor.piece() < last)) continue;
      unlike_ = i;
      return true;
    }
    return false;
  };
  return found(unlike_, strands_.size()) || found(0, unlike_);
}

/// Marks some of many strands. False where fewer than half of those are as they were at some time before: then the others need not be
/// marked.
bool World::add_sample() {
  const std::size_t step = strands_.size() / kSample;
  if (step <= 1) return true;
  samples_.push(mark(step, samples_.reuse()));
  return samples_.has_half_of_newest();
}

/// Of one strand in `step`, and of all channels where that is each; in the room of a mark that is no longer needed.
StateMark World::mark(std::size_t step, StateMark mark) {
  const double now = engine_.now();
  mark.time = now;
  mark.longest = 0;
  mark.strands.resize((strands_.size() + step - 1) / step);
  for (std::size_t i = 0; i < mark.strands.size(); ++i) {
    const Strand& s = strands_[i * step];
    if (s.is_at_work) mark.longest = std::max(mark.longest, now - s.began);
    mark.strands[i] = {now - s.since, now - s.began, s.cursor.piece(), s.cursor.position(), s.is_at_work, s.cursor.done()};
  }
  if (step > 1) return mark;
  mark.channels.resize(channels_.size());
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    Channel& c = channels_[i];
    c.catch_up(now);
    mark.channels[i] = {c.under_way(), c.unread(), c.uncredited(), c.unannounced()};
  }
  return mark;
}

/// From `then` to `now` once more, and again, as often as all pieces on the way are whole.
void World::repeat(const StateMark& now, const StateMark& then) {
  const std::int32_t full = jobs_.front().sizes->full_pieces();
  std::int32_t times = full;
  std::vector<std::int32_t> pieces(strands_.size());
  for (std::size_t i = 0; i < strands_.size(); ++i) {
    pieces[i] = now.strands[i].piece - then.strands[i].piece;
    if (pieces[i] > 0) times = std::min(times, (full - 1 - now.strands[i].piece) / pieces[i]);
  }
  const std::int32_t most_pieces = *std::max_element(pieces.begin(), pieces.end());
  if (most_pieces == 0 || times < kLeastTimes || !signals_keep_up(pieces)) return;
  const double period = now.time - then.time;
  const double delay = period * times;
  std::vector<double> bytes(engine_.resources(), 0);
  const std::vector<Channel> logged = logged_channels();
  for (std::size_t i = 0; i < strands_.size(); ++i) {
    Strand& s = strands_[i];
    if (pieces[i] > 0) count_pieces(s, static_cast<double>(times) * pieces[i], bytes);
    s.cursor.skip_pieces(times * pieces[i]);
    s.bound.piece += times * pieces[i];
    s.began += delay;
    s.since += delay;
  }
  for (Channel& c : channels_) {
    c.arrives += delay;
    c.credits += delay;
  }
  skip_messages(logged, times, period);
  outcome_.repeated_pieces += times * most_pieces;
  engine_.delay_all(delay, bytes);
  history_.clear();
}

/// By the number of the log.
std::vector<Channel> World::logged_channels() const {
  std::vector<Channel> logged(message_log_.logs());
  if (!message_log_.is_empty())
    for (Index i = 0; i < channels_.size(); ++i)
      if (log_of(i) != MessageLog::kNone) logged[log_of(i)] = channels_[i];
  return logged;
}

void World::skip_messages(const std::vector<Channel>& before, std::int32_t times, double period) {
  const std::vector<Channel> after = logged_channels();
  for (std::uint32_t i = 0; i < after.size(); ++i) {
    const std::uint32_t count = after[i].sent - before[i].sent;
    if (count == 0) continue;
    const std::uint64_t each = count / static_cast<std::uint32_t>(times);
    message_log_.log(i).began.skip(count, each, period);
    message_log_.log(i).arrived.skip(count, each, period);
  }
}

/// No strand ends more pieces than those that it waits for, unless these have ended all of theirs.
bool World::signals_keep_up(std::span<const std::int32_t> pieces) const {
  for (const RankState& rank : ranks_) {
    std::vector<std::int32_t> signalled(rank.signals.size(), 0);
    if (rank.program.strands() == 0 || signalled.empty()) continue;
    const KeptOps::Line* ops = ops_.at(strands_[rank.first_strand].first_op);
    const auto each = [&](schedule::OpKind kind, auto&& f) {
      for (std::size_t s = 0; s < rank.program.strands(); ++s)
        for (std::uint32_t i = rank.program.strand_begin[s]; i < rank.program.strand_begin[s + 1]; ++i)
          if (const schedule::Op& op = *ops[i].op; op.kind == kind) f(op.event, rank.first_strand + s);
    };
    each(schedule::OpKind::signal, [&](std::uint16_t event, std::size_t strand) {
      signalled[event] = strands_[strand].cursor.done() ? std::numeric_limits<std::int32_t>::max() : pieces[strand];
    });
    bool keeps_up = true;
    each(schedule::OpKind::wait, [&](std::uint16_t event, std::size_t strand) { keeps_up &= pieces[strand] <= signalled[event]; });
    if (!keeps_up) return false;
  }
  return true;
}

/// Counts what a strand sends and signals in so many pieces.
void World::count_pieces(const Strand& s, double pieces, std::vector<double>& bytes) {
  RankState& rank = ranks_[static_cast<std::size_t>(s.rank)];
  const auto whole = static_cast<std::int64_t>(pieces);
  const auto messages = static_cast<std::uint32_t>(whole);
  const KeptOps::OfRank ops = ops_of(s);
  schedule::StrandCursor walk(ops, rank.program.strand_begin[at(s.number)], rank.program.strand_begin[at(s.number) + 1], 1);
  for (; !walk.done(); walk.advance(ops)) {
    const schedule::BoundOp bound = walk.current(ops);
    if (bound.op->kind == schedule::OpKind::signal) rank.signals[bound.op->event] += whole;
    if (schedule::is_switched(bound.op->kind)) count_switched(s, bound, pieces, bytes);
    if (!schedule::sends(bound.op->kind)) continue;
    const std::int32_t peer = bound.op->kind == schedule::OpKind::send ? bound.peer : bound.peer2;
    Channel& c = channels_[channel(s.rank, number_of(s, peer), bound.op->channel)];
    c.sent += messages;
    for (std::uint16_t* count : {&c.arrived, &c.received, &c.credited, &c.posted, &c.announced})
      *count = static_cast<std::uint16_t>(*count + messages);
    const double sent = on_wire(c, plan_of(s).sent_of(*bound.op, rank.job->sizes->bytes_of(bound))) * pieces;
    const Way wire = wire_of(c);
    const std::span<const double> counts = counts_of(c);
    for (std::size_t i = 0; i < wire.size(); ++i) bytes[wire[i]] += sent * (counts.empty() ? 1 : counts[i]);
  }
}

/// What all members of a group have a switch compute: bytes are counted with the first of them.
void World::count_switched(const Strand& s, const schedule::BoundOp& bound, double pieces, std::vector<double>& bytes) {
  switched_ += pieces;
  Strand here = s;
  here.bound = bound;
  if (number_of(here, group_of(here).front().peer) != s.rank) return;
  const Meeting& meeting = meetings_[meeting_of(here)];
  for (std::size_t i = 0; i < meeting.crossed.size(); ++i)
    bytes[meeting.crossed[i]] += pieces * meeting.whole / meeting.efficiency * meeting.counts[i];
}

}  // namespace peal::sim
