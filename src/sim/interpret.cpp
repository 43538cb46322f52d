// The life of an op:
//
//   consider --(may_start)--> core --> begin --(per_op)--> issued --(passes of the core)--> worked --(host: copying to the wire)-->
//   slice_done
//      ^                                                                                      '----(GPU: last byte left)---------'   |
//      '------------------------------------------ next slice, next op, next piece --------------------------------------------------'
//
// A message arrives a hop after it has left; its place is free again for the sender a hop after it was received. Where nobody waits for
// that when it is known, the channel keeps the time and no event is made (keep_arrival, credit_later).
#include <base/index.hpp>
#include <sim/interpret.hpp>

#include <algorithm>
#include <utility>

#include "world.hpp"

namespace peal::sim {

using schedule::Op;
using schedule::OpKind;

namespace {
constexpr int kOpsAhead = 3;

bool is_message(OpKind kind) { return schedule::sends(kind) || schedule::receives(kind); }
}  // namespace

std::int64_t World::View::signals(int event) const { return world.ranks_[at(world.strands_[strand].rank)].signals[at(event)]; }

std::int64_t World::View::signals_from(int peer, int event) const {
  const auto& from = world.ranks_[at(world.strands_[strand].rank)].signals_from;
  const auto it = from.find((static_cast<std::uint64_t>(peer) << 32) | static_cast<std::uint64_t>(event));
  return it == from.end() ? 0 : it->second;
}

void World::on_timer(Tag tag) {
  const auto index = static_cast<Index>(tag & kIndexMask);
  switch (static_cast<Kind>(tag >> 56)) {
    case Kind::begin:
      if (works_) launched(index);
      path_.happened(kNobody, PathRecorder::Why::start);
      return consider(index);
    case Kind::issued: return issued(index);
    case Kind::worked: return worked(index);
    case Kind::sent: return slice_done(index);
    case Kind::arrived: return arrived(index);
    case Kind::credit: return credit(index);
    case Kind::announce: return announced(index);
    case Kind::signal: return remote_signal(index);
    case Kind::mark: return look_back();
    case Kind::computed: return works_->computed(static_cast<int>(index), second_of(tag), engine_.now());
    case Kind::ended: return rank_ended(static_cast<std::int32_t>(index));
    default: return;
  }
}

bool World::wants_arrival(Tag tag, double time) {
  return static_cast<Kind>(tag >> 56) != Kind::wire || !keep_arrival(second_of(tag), time);
}

void World::on_flow_left(Tag tag) {
  const auto index = static_cast<Index>(tag & kIndexMask);
  if (static_cast<Kind>(tag >> 56) == Kind::pass) worked(index);
  // A GPU is done with a message when its last byte has left; the flow names the strand.
  if (static_cast<Kind>(tag >> 56) != Kind::wire) return;
  if (is_host_) return next_in_line(second_of(tag));
  slice_done(index);
}

void World::on_flow_arrived(Tag tag) {
  const auto index = static_cast<Index>(tag & kIndexMask);
  if (static_cast<Kind>(tag >> 56) == Kind::remote) slice_done(index);
  if (static_cast<Kind>(tag >> 56) == Kind::switched) switched(index);
  if (static_cast<Kind>(tag >> 56) == Kind::wire) arrived(second_of(tag));
}

void World::fetch_strand(Index index) const {
  const auto* lines = reinterpret_cast<const char*>(&strands_[index]);
  for (std::size_t at = 0; at < 128; at += 64) fetch_line(lines + at);
}

/// Of a strand that is at hand: its op, the one after it, and their channels.
void World::fetch_op(Index index) const {
  const Strand& s = strands_[index];
  const KeptOps::Line* line = ops_.at(s.first_op + s.cursor.position());
  fetch_line(line);
  fetch_line(line + 2);
  if (s.in != kNobody) fetch_line(&channels_[s.in]);
  if (s.out != kNobody) fetch_line(&channels_[s.out]);
}

/// Of a strand whose op comes to its end: the channels of the ops after it, and a while later what they send by.
void World::fetch_next(Index index, bool is_later) const {
  const Strand& s = strands_[index];
  if (s.cursor.done()) return;
  std::uint32_t position = s.cursor.position();
  if (!pairs_.is_empty() && ops_.at(s.first_op + position)->op->peer_step != 0) return fetch_next_pair(s, is_later);
  for (int i = 0; i < kOpsAhead; ++i) {
    position = s.cursor.after(position);
    const KeptOps::Line& next = *ops_.at(s.first_op + position);
    if (!is_later && next.in != kNobody) fetch_line(&channels_[next.in]);
    if (next.out == kNobody) continue;
    if (is_later) return fetch_wires(next.out);
    return fetch_line(&channels_[next.out]);
  }
}

/// Where peers move: first where the numbers of the next channels stand, then they.
void World::fetch_next_pair(const Strand& s, bool is_later) const {
  const KeptOps::OfRank ops = ops_of(s);
  schedule::StrandCursor next = s.cursor;
  next.advance(ops);
  if (next.done()) return;
  const schedule::BoundOp bound = next.current(ops);
  if (!is_message(bound.op->kind) || bound.op->channel != 0) return;
  const auto fetch = [&](int from, int to) {
    const std::uint32_t& after = pairs_.of(from, to);
    if (!is_later)
      fetch_line(&after);
    else if (after != 0)
      fetch_line(&channels_[after - 1]);
  };
  if (schedule::receives(bound.op->kind)) fetch(number_of(s, bound.peer), s.rank);
  if (schedule::sends(bound.op->kind)) fetch(s.rank, number_of(s, bound.op->kind == OpKind::send ? bound.peer : bound.peer2));
}

void World::fetch_wires(Index channel) const {
  for (const std::uint32_t wire : wire_of(channels_[channel])) engine_.fetch(wire);
}

/// What an event is about, and at which distance what of it is fetched: first it, then what it leads to.
void World::on_soon(int distance, Tag tag, Event event) const {
  const auto kind = static_cast<Kind>(tag >> 56);
  const auto low = static_cast<Index>(tag & kIndexMask);
  if (event == Event::left ? kind != Kind::switched : kind == Kind::issued || kind == Kind::worked || kind == Kind::sent) {
    switch (distance) {
      case 0:
        if (kind == Kind::wire && event == Event::left) fetch_line(&channels_[second_of(tag)]);
        return fetch_strand(low);
      case 1: return fetch_op(low);
      default: return fetch_next(low, distance == 3);
    }
  }
  if (kind != Kind::wire && kind != Kind::credit && kind != Kind::arrived) return;
  const Channel& c = channels_[kind == Kind::wire ? second_of(tag) : low];
  if (distance == 0) return fetch_line(&c);
  const Index waiting = kind == Kind::credit ? c.waiting_sender : c.waiting_receiver;
  if (waiting == kNobody) return;
  switch (distance) {
    case 1: return fetch_strand(waiting);
    case 2: return fetch_op(waiting);
    default:
      if (strands_[waiting].out != kNobody) fetch_wires(strands_[waiting].out);
  }
}

/// One after another, so that a long chain of ops that take no time does not nest.
void World::consider(Index index) {
  if (is_considering_) return to_consider_.push_back(index);
  is_considering_ = true;
  take_up(index);
  while (!to_consider_.empty()) {
    const Index next = to_consider_.front();
    to_consider_.pop_front();
    take_up(next);
  }
  is_considering_ = false;
}

void World::take_up(Index index) {
  for (;;) {
    Strand& s = strands_[index];
    if (!failure_ || s.is_at_work || s.cursor.done() || is_dead(s.rank)) return;
    const schedule::Program& program = ranks_[at(s.rank)].program;
    if (!s.is_bound) bind(s);
    if (!schedule::may_start(s.bound, program, View{*this, index})) {
      auto& waiting = ranks_[at(s.rank)].waiting;
      if (s.bound.op->kind == OpKind::wait && std::find(waiting.begin(), waiting.end(), index) == waiting.end()) waiting.push_back(index);
      return;
    }
    if (!step_sync(index)) break;
  }
  ask_for_core(index);
}

/// Looks at the op at hand: who its peers are, and by which channels.
void World::bind(Strand& s) {
  s.cursor.bind(ops_of(s), s.bound);
  s.is_bound = true;
  s.in = s.out = kNobody;
  const Op& op = *s.bound.op;
  if (!is_message(op.kind)) return;
  KeptOps::Line& known = ops_.line(s.first_op + s.cursor.position());
  if (op.peer_step != 0 || (known.in == kNobody && known.out == kNobody)) {
    if (schedule::receives(op.kind)) known.in = hold(number_of(s, s.bound.peer), s.rank, op);
    if (schedule::sends(op.kind)) known.out = hold(s.rank, number_of(s, op.kind == OpKind::send ? s.bound.peer : s.bound.peer2), op);
  }
  s.in = known.in;
  s.out = known.out;
}

/// On to the next op.
void World::advance(Index index) {
  Strand& s = strands_[index];
  const std::int32_t piece = s.cursor.piece();
  s.is_bound = false;
  if (reuses_channels_ && s.bound.op->peer_step != 0) {
    if (s.in != kNobody) let_go(s.in);
    if (s.out != kNobody) let_go(s.out);
  }
  s.cursor.advance(ops_of(s));
  if (s.cursor.done()) finish(s.rank);
  if (may_repeat_ && s.cursor.piece() != piece) piece_done(index);
}

/// Waits and local signals cost nothing; true when the op was one of them.
bool World::step_sync(Index index) {
  Strand& s = strands_[index];
  const OpKind kind = s.bound.op->kind;
  if (kind != OpKind::wait && (kind != OpKind::signal || s.bound.peer >= 0)) return false;
  s.began = s.since = engine_.now();
  if (notes_ops_) note(s);
  const std::int32_t rank = s.rank;
  const Op& op = *s.bound.op;
  advance(index);
  if (kind == OpKind::signal) {
    ++ranks_[at(rank)].signals[op.event];
    wake_waiting(rank);
  }
  return true;
}

void World::ask_for_core(Index index) {
  strands_[index].is_at_work = true;
  if (!is_host_) return begin(index);
  Core& core = cores_[at(core_of_[at(strands_[index].rank)])];
  if (core.is_busy) return core.queue.push_back(index);
  take_core(core, index);
}

void World::take_core(Core& core, Index index) {
  Strand& s = strands_[index];
  core.is_busy = true;
  s.turn = turns_->cost(core.last, s.rank);
  core.last = s.rank;
  begin(index);
}

void World::begin(Index index) {
  Strand& s = strands_[index];
  if (is_dead(s.rank)) return release_core(index);
  const Op& op = *s.bound.op;
  const tuning::Plan& plan = plan_of(s);
  if (s.slice == 0) {
    s.began = engine_.now();
    s.bytes = s.job->sizes->bytes_of(s.bound);
    if (op.kind == OpKind::copy) pack_at_once(s);
    s.slices = is_message(op.kind) ? static_cast<std::int32_t>(plan.slices(s.bytes)) : 1;
    if (s.slices > 1) s.whole = s.bytes;
  }
  if (s.slices > 1) {
    const auto most = static_cast<double>(plan.message_bytes);
    s.bytes = std::min(most, s.whole - static_cast<double>(s.slice) * most);
  }
  if (s.out != kNobody) {
    Channel& out = channels_[s.out];
    ++out.sent;
    if (const std::uint32_t log = log_of(s.out); log != MessageLog::kNone) message_log_.log(log).began.push(engine_.now());
  }
  const auto by = [this](Index channel) { return channel == kNobody ? nullptr : &cost_of(channels_[channel]); };
  double per_op = is_message(op.kind) ? tuning::issue_time(by(s.in), by(s.out)) : s.job->local.per_op;
  if (is_perturbed_) per_op *= s.stretch = stretch(s);
  if (path_.is_on()) {
    const int peer = s.out != kNobody ? channels_[s.out].to : s.bound.peer >= 0 ? number_of(s, s.bound.peer) : -1;
    s.step = path_.begin(op.kind, s.rank, peer, engine_.now());
    path_.step(s.step)->turn = s.turn;
  }
  if (is_host_) per_op += std::exchange(s.turn, 0);
  if (per_op > 0) return engine_.after(per_op, tag(Kind::issued, index));
  issued(index);
}

/// A device packs blocks that lie apart in one pass.
void World::pack_at_once(Strand& s) {
  if (is_host_ || !s.job->sizes->are_equal()) return;
  const std::int64_t copies = s.cursor.copies_left(ops_of(s));
  if (copies == 1) return;
  s.bytes *= static_cast<double>(copies);
  if (options_.keeps_log) {
    for (std::int64_t i = 1; i < copies; ++i) {
      note(s);
      s.cursor.advance(ops_of(s));
      s.cursor.bind(ops_of(s), s.bound);
    }
    return;
  }
  s.cursor.to_last_copy(ops_of(s));
}

void World::issued(Index index) {
  Strand& s = strands_[index];
  if (is_dead(s.rank)) return release_core(index);
  const Op& op = *s.bound.op;
  const tuning::Plan& plan = plan_of(s);
  if (auto* step = step_of(s)) step->issued = engine_.now();
  if (!is_message(op.kind)) return work_locally(index);
  double work = 0;
  Way side;
  if (s.in != kNobody) {
    const Channel& in = channels_[s.in];
    const tuning::MessageCost& cost = cost_of(in);
    work = cost.kept > 0 ? receive_work_after(s, in) : receive_work(s, kinds_[in.kind]);
    if (cost.is_memory) side = cost.is_read_in_place ? wire_of(in) : read_side(in);
  }
  if (s.out != kNobody && cost_of(channels_[s.out]).is_memory) {
    const Channel& out = channels_[s.out];
    const tuning::MessageCost& cost = cost_of(out);
    const schedule::SameSends same = plan.is_one_message_an_op() ? s.cursor.same_sends(ops_of(s)) : schedule::SameSends{};
    work += tuning::send_work(cost_to(s, cost), same, plan.sent_of(op, s.bytes), s.has_copied);
    if (s.in == kNobody || !cost_of(channels_[s.in]).is_memory) side = cost.is_written_in_place ? wire_of(out) : write_side(out);
  }
  if (auto* step = step_of(s)) step->work_alone = work;
  if (work <= 0) return worked(index);
  if (side.empty() || s.job->is_measured) return engine_.after(work, tag(Kind::worked, index));
  engine_.start({.bytes = s.bytes, .resources = side, .rate_cap = s.bytes / work, .wants_arrival = false, .tag = tag(Kind::pass, index)});
}

/// Nanoseconds of the receiving side of the op at hand.
double World::receive_work(const Strand& s, ChannelKind& kind) {
  const Op& op = *s.bound.op;
  if (is_perturbed_) return tuning::receive_work(cost_to(s, kind.cost), op.kind, plan_of(s).flags_of(op), s.bytes);
  if (kind.received_by != &op || kind.received != s.bytes) {
    kind.received_by = &op;
    kind.received = s.bytes;
    kind.receive_work = tuning::receive_work(kind.cost, op.kind, plan_of(s).flags_of(op), s.bytes);
  }
  return kind.receive_work;
}

/// The same where the message may have left the caches.
double World::receive_work_after(const Strand& s, const Channel& in) {
  std::deque<double>& sent_at = sent_at_[s.in];
  const double since = sent_within_host_of(in.to, *s.job) - sent_at.front();
  sent_at.pop_front();
  return tuning::receive_work(tuning::cost_after(cost_to(s, cost_of(in)), since), s.bound.op->kind, plan_of(s).flags_of(*s.bound.op),
                              s.bytes);
}

void World::work_locally(Index index) {
  Strand& s = strands_[index];
  const Op& op = *s.bound.op;
  if (schedule::is_switched(op.kind)) return issue_switched(index);
  if (op.kind == OpKind::signal) {
    emit_signal(index);
    return slice_done(index);
  }
  // Bytes from (or to) a peer's memory cross the way between the two; the rest is the rank's own work.
  int remote = (op.flags & (schedule::kRemoteSrc | schedule::kRemoteDst)) != 0 ? s.bound.peer : -1;
  double remote_bytes = remote >= 0 ? s.bytes : 0;
  for (std::uint32_t i = 0; op.kind == OpKind::reduce && i < op.more_count; ++i) {
    const std::int32_t peer = ranks_[at(s.rank)].program.sources[op.more + i].peer;
    if (peer < 0 || number_of(s, peer) == s.rank) continue;
    remote = peer;
    remote_bytes += s.bytes;
  }
  const double work = tuning::local_work(cost_to(s, s.job->local), op.kind, op.more_count, s.bytes);
  if (remote < 0 || number_of(s, remote) == s.rank || remote_bytes <= 0)
    return work > 0 ? engine_.after(work, tag(Kind::sent, index)) : slice_done(index);
  const std::int32_t other = number_of(s, remote);
  const Index way = (op.flags & schedule::kRemoteDst) != 0 ? channel(s.rank, other, op.channel) : channel(other, s.rank, op.channel);
  const Channel& c = channels_[way];
  if (auto* step = step_of(s)) {
    step->worked = engine_.now();
    step->is_on_wire = true;
    step->wire_alone = std::max(work, tuning::time_at(remote_bytes, cost_of(c).wire_rate)) + cost_of(c).hop;
  }
  const double cap = work > 0 ? remote_bytes / work : FairShare::kUnbounded;
  engine_.start(
      {.bytes = remote_bytes, .resources = wire_of(c), .latency = cost_of(c).hop, .rate_cap = cap, .tag = tag(Kind::remote, index)});
}

void World::worked(Index index) {
  Strand& s = strands_[index];
  if (is_dead(s.rank)) return release_core(index);
  if (s.out == kNobody) return slice_done(index);
  Channel& out = channels_[s.out];
  const tuning::MessageCost& cost = cost_of(out);
  const double hop = cost.hop * stretch_of(s);
  if (path_.is_on()) path_.push(PathRecorder::Line::messages, s.out, s.step);
  auto* step = step_of(s);
  if (step != nullptr) step->hop = hop;
  if (cost.is_memory) {
    if (!keep_arrival(s.out, engine_.now() + hop)) engine_.after(hop, tag(Kind::arrived, s.out));
    return slice_done(index);
  }
  const double bytes = plan_of(s).sent_of(*s.bound.op, s.bytes);
  const double copying = tuning::send_work(cost_to(s, cost), bytes);
  double cap = copying > 0 ? bytes / copying / cost.efficiency : FairShare::kUnbounded;
  // A slow GPU's wires are slow already (slow_outlet); what is left of the stretch is noise.
  const double noise = is_host_ || !is_perturbed_ ? stretch_of(s) : s.stretch / slowness(s.rank);
  if (!is_host_ && noise != 1 && cost.wire_rate > 0) cap = std::min(cap, cost.wire_rate / cost.efficiency / noise);
  if (step != nullptr) {
    step->worked = engine_.now();
    step->is_on_wire = true;
    step->wire_alone = noise * std::max(copying, tuning::wire_time(cost, framed(out, bytes)));
  }
  if (cost.kept > 0) sent_at_[s.out].push_back(sent_within_host_of(out.from, *s.job) += bytes);
  const Leaving message{index, on_wire(out, bytes), hop, cap};
  if (!is_host_) return put_on_wire(s.out, message);  // until the last byte has left
  std::deque<Leaving>& line = in_line_[s.out];
  line.push_back(message);
  if (line.size() == 1) put_on_wire(s.out, message);
  if (copying > 0) return engine_.after(copying, tag(Kind::sent, index));
  slice_done(index);
}

void World::put_on_wire(Index channel, const Leaving& message) {
  const Channel& c = channels_[channel];
  engine_.start({.bytes = message.bytes,
                 .resources = wire_of(c),
                 .latency = message.hop,
                 .rate_cap = message.rate_cap,
                 .tag = tag(Kind::wire, channel, message.strand),
                 .counts = counts_of(c),
                 .holds_up_for = holds_up_for(channel)});
}

/// A socket's stream keeps the order: what its sender has copied into it meanwhile begins to leave.
void World::next_in_line(Index channel) {
  std::deque<Leaving>& line = in_line_[channel];
  line.pop_front();
  if (!line.empty()) put_on_wire(channel, line.front());
}

void World::slice_done(Index index) {
  Strand& s = strands_[index];
  if (is_dead(s.rank)) return release_core(index);
  s.is_at_work = false;
  s.since = engine_.now();
  if (auto* step = step_of(s)) step->ended = engine_.now();
  if (path_.is_on()) path_.happened(s.step, PathRecorder::Why::ended);
  if (s.in != kNobody) {
    ++channels_[s.in].received;
    if (path_.is_on()) path_.push(PathRecorder::Line::credits, s.in, s.step);
    credit_later(s.in);
  }
  if (++s.slice >= s.slices) op_done(index);
  // First the strand itself: its rank keeps the core while it can go on.
  consider(index);
  release_core(index);
}

void World::op_done(Index index) {
  Strand& s = strands_[index];
  if (notes_ops_) note(s);
  s.slice = 0;
  advance(index);
}

/// One more thing that a rank had to wait for has happened.
void World::finish(std::int32_t rank) {
  ranks_[at(rank)].done = std::max(ranks_[at(rank)].done, engine_.now());
  path_.finish(rank, engine_.now());
  if (works_ && --strands_left_[at(rank)] == 0) rank_ended(rank);
}

void World::release_core(Index index) {
  if (!is_host_) return;
  Core& core = cores_[at(core_of_[at(strands_[index].rank)])];
  core.is_busy = false;
  if (core.queue.empty()) return;
  path_.happened(strands_[index].step, PathRecorder::Why::ended);
  const auto first = turns_->next(core.queue, core.last, [this](Index strand) { return strands_[strand].rank; });
  const Index next = *first;
  core.queue.erase(first);
  take_core(core, next);
}

void World::note(const Strand& s) {
  const double now = engine_.now();
  if (options_.keeps_log)
    outcome_.log.push_back({s.rank, s.number, s.cursor.position(), {s.bound.iteration[0], s.bound.iteration[1]}, s.bound.piece, now});
  if (!options_.keeps_trace || now <= s.began) return;
  std::string name(schedule::name_of(s.bound.op->kind));
  if (s.bound.peer >= 0) name += fmt::format(" {}", number_of(s, s.bound.peer));
  if (s.bound.peer2 >= 0) name += fmt::format(" > {}", number_of(s, s.bound.peer2));
  // With works the first lane is what is computed.
  outcome_.trace.add({std::move(name), "op", trace_row(s.rank), s.number + (works_ ? 1 : 0), s.began * 1e-3, (now - s.began) * 1e-3});
}

}  // namespace peal::sim
