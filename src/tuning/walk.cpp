// A strand comes to the front of the queue at the instant its next op can start; messages and credits carry the instant at which they are
// seen. Ranks that share a core, and messages that share a way out or in, wait for one another in the order in which they come.
#include "walk.hpp"

#include <algorithm>

#include "walk_state.hpp"

namespace peal::tuning::walking {

Walk::Walk(const Environment& environment, const Plan& plan, const std::vector<Program>& programs, const WalkExtent& extent)
    : environment_(environment),
      plan_(plan),
      programs_(programs),
      offer_(plan.offer),
      turns_(environment),
      scale_(extent.scale),
      packs_at_once_(plan.has_equal_chunks()) {
  local_ = local_cost(environment, plan);
  const auto n = at(environment.ranks);
  ranks_.resize(n);
  cores_.resize(n);
  outlet_.resize(n);
  wires_.resize(environment.wiring.capacity.size());
  sent_within_.resize(at(environment.nodes));
  links_.resize(at(environment.nodes));
  for (int l = 0; l < kLevels; ++l) {
    out_[l].resize(n);
    in_[l].resize(n);
    sent_[l].resize(n);
  }
  std::vector<int> members(n, 0);
  for (std::size_t r = 0; r < n; ++r) {
    const std::size_t group = environment.group_of(static_cast<int>(r));
    // Ranks behind one NIC share the number of the first of them.
    const int index = members[group]++;
    const int shared = environment.level[1].ranks_per_outlet;
    outlet_[r] = index % shared == 0 ? static_cast<int>(r) : -1;
    if (outlet_[r] >= 0) continue;
    for (std::size_t q = r; q-- > 0 && outlet_[r] < 0;)
      if (environment.placement.group.empty() || environment.placement.group[q] == environment.placement.group[r]) outlet_[r] = outlet_[q];
  }
  double launch = 0;
  for (int l = 0; l < kLevels; ++l)
    if (environment.is_used(l)) launch = std::max(launch, constants(l).launch.value);
  for (std::size_t r = 0; r < n; ++r) {
    ranks_[r].events.resize(programs[r].event_quota.size());
    ranks_[r].done = Stamp{}.plus(kLaunch, launch);
    for (std::size_t s = 0; s < programs[r].strands(); ++s) {
      Strand strand;
      strand.rank = static_cast<int>(r);
      strand.cursor = schedule::StrandCursor(programs[r], s, extent.pieces);
      strand.ready = ranks_[r].done;
      strands_.push_back(strand);
      if (!strand.cursor.done()) queue(static_cast<int>(strands_.size()) - 1, launch);
    }
  }
}

/// The instant at which everything that the op waits for is seen.
Stamp Walk::start_of(int strand, const BoundOp& bound) {
  const Strand& s = strands_[at(strand)];
  const Op& op = *bound.op;
  Stamp start = s.ready;
  if (schedule::receives(op.kind)) {
    const Channel& c = channel(bound.peer, s.rank, op.channel);
    start = later(start, c.seen[c.received]);
  }
  if (schedule::sends(op.kind)) {
    const Channel& c = channel(s.rank, op.kind == OpKind::send ? bound.peer : bound.peer2, op.channel);
    const auto slots = static_cast<std::size_t>(plan_.slots);
    if (slots == 0)
      start = later(start, c.posted[c.sent]);
    else if (c.sent >= slots)
      start = later(start, c.freed[c.sent - slots]);
  }
  if (schedule::is_switched(op.kind))
    for (const int member : meeting_of(s.rank, op).come) start = later(start, strands_[at(member)].ready);
  if (op.kind == OpKind::wait) {
    const std::int64_t threshold = bound.threshold(programs_[at(s.rank)]);
    const auto& stamps = bound.peer < 0 ? ranks_[at(s.rank)].events[op.event]
                                        : ranks_[at(s.rank)].events_from.at((static_cast<std::uint64_t>(bound.peer) << 32) | op.event);
    if (threshold > 0) start = later(start, stamps[static_cast<std::size_t>(threshold - 1)]);
  }
  return start;
}

void Walk::visit(int index) {
  Strand& s = strands_[at(index)];
  const Program& program = programs_[at(s.rank)];
  const BoundOp bound = s.cursor.current(program);
  if (!schedule::may_start(bound, program, View{*this, index})) {
    if (bound.op->kind == OpKind::wait) ranks_[at(s.rank)].waiting.push_back(index);
    return;
  }
  const bool is_sync = bound.op->kind == OpKind::wait || (bound.op->kind == OpKind::signal && bound.peer < 0);
  Stamp start = start_of(index, bound);
  // Not yet: come back at that instant, behind whoever is due before.
  if (start.at > now_) return queue(index, start.at);
  if (!is_sync && environment_.is_host && !has_turn(index, start)) return;
  const double whole = plan_.bytes_of(bound) * scale_ * static_cast<double>(copies_at_once(s.cursor, program));
  const std::int64_t slices = plan_.slices(whole);
  const double bytes =
      std::min(whole - static_cast<double>(s.slice) * static_cast<double>(plan_.message_bytes), static_cast<double>(plan_.message_bytes));
  if (is_sync) {
    if (bound.op->kind == OpKind::signal) signal(s.rank, bound, start);
    s.ready = start;
  } else if (schedule::sends(bound.op->kind) || schedule::receives(bound.op->kind)) {
    s.ready = do_messages(index, bound, start, slices > 1 ? bytes : whole);
  } else if (schedule::is_switched(bound.op->kind)) {
    s.ready = do_switch(index, bound, start);
  } else {
    s.ready = do_local(index, bound, start, whole);
  }
  const bool moves = schedule::sends(bound.op->kind) || schedule::receives(bound.op->kind);
  if (!moves || ++s.slice >= slices) {
    s.slice = 0;
    s.cursor.advance(program);
    if (s.cursor.done()) ranks_[at(s.rank)].done = later(ranks_[at(s.rank)].done, s.ready);
  }
  if (!s.cursor.done()) queue(index, s.ready.at);
  // After the strand itself: its rank keeps the core while it can go on.
  if (!is_sync) call_next(s.rank);
}

/// A device packs blocks that lie apart in one pass; the strand stands at the last of these copies then.
std::int64_t Walk::copies_at_once(schedule::StrandCursor& cursor, const Program& program) const {
  if (environment_.is_host || !packs_at_once_) return 1;
  const std::int64_t copies = cursor.copies_left(program);
  if (copies > 1) cursor.to_last_copy(program);
  return copies;
}

std::deque<int>::const_iterator Walk::next_in_line(const Core& core) const {
  return turns_.next(core.line, core.last, [this](int strand) { return strands_[at(strand)].rank; });
}

/// True when the core is free and it is the strand's turn; else whose turn it is comes when the core is free.
bool Walk::has_turn(int index, Stamp& start) {
  Strand& s = strands_[at(index)];
  Core& core = cores_[at(environment_.core_of[at(s.rank)])];
  if (!s.is_in_line) core.line.push_back(index);
  s.is_in_line = true;
  const auto next = next_in_line(core);
  if (*next != index || core.free.at > now_) {
    queue(*next, std::max(core.free.at, now_), true);
    return false;
  }
  core.line.erase(next);
  s.is_in_line = false;
  start = later(start, core.free).plus(kOverhead, turns_.cost(core.last, s.rank));
  core.last = s.rank;
  return true;
}

/// The core is taken until `when`.
void Walk::hold_core(int rank, const Stamp& when) {
  if (environment_.is_host) cores_[at(environment_.core_of[at(rank)])].free = when;
}

/// Whoever has the core of `rank` next comes when it is free.
void Walk::call_next(int rank) {
  if (!environment_.is_host) return;
  const Core& core = cores_[at(environment_.core_of[at(rank)])];
  if (!core.line.empty()) queue(*next_in_line(core), core.free.at, true);
}

/// When the last byte is out of the way between the two.
Stamp Walk::cross(const Channel& c, int from, int to, const Stamp& start, double bytes) {
  if (c.way != nullptr) return cross_wires(c, from, start, bytes);
  const double time = wire_time(c.cost, bytes);
  Stamp& out = out_[c.level][at(outlet(from, c.level))];
  Stamp& in = in_[c.level][at(outlet(to, c.level))];
  const Stamp begun = later(start, out);
  out = begun.plus(kTransfer, time);
  // The way in is held no longer than the link itself needs; several senders fill it.
  in = later(begun, in).plus(kTransfer, time_at(bytes, c.cost.link_rate));
  return later(out, in);
}

/// Every wire is taken in turn, and held as long as it needs itself.
Stamp Walk::cross_wires(const Channel& c, int from, const Stamp& start, double bytes) {
  const Stamp begun = later(start, wires_[c.way->wires.front()]);
  Stamp left = begun;
  if (c.cost.pattern_cap > 0) {
    Stamp& out = out_[c.level][at(from)];
    out = later(begun, out).plus(kTransfer, time_at(bytes, c.cost.pattern_cap));
    left = out;
  }
  for (const std::uint16_t w : c.way->wires) {
    wires_[w] = later(begun, wires_[w]).plus(kTransfer, time_at(bytes, c.cost.efficiency * environment_.wiring.capacity[w]));
    left = later(left, wires_[w]);
  }
  return left;
}

/// Bytes leave `from`, who works on them for so long; returns when `from` is done with them.
Stamp Walk::send_out(Channel& c, int from, int to, Stamp start, double bytes, double work) {
  const Stamp copied = start.plus(kCopy, work);
  sent_[c.level][at(from)] += bytes;
  if (c.level == 1) {
    links_[environment_.group_of(from)].out += bytes;
    Link& into = links_[environment_.group_of(to)];
    into.in += bytes;
    into.channels_in += c.sent == 0 ? 1 : 0;
  }
  if (environment_.is_host && !environment_.are_on_one_core(from, to)) between_cores_ += bytes;
  Stamp left = copied;
  if (!c.cost.is_memory) left = later(cross(c, from, to, start, bytes), copied);
  c.seen.push_back(left.plus(kLatency, c.cost.hop));
  if (c.cost.kept > 0) c.sent_at.push_back(sent_within_[environment_.group_of(from)] += bytes);
  ++c.sent;
  wake(c.parked_receiver, c.seen.back().at);
  return environment_.is_host ? copied : left;
}

void Walk::note_free(Channel& c, const Stamp& when) {
  ++c.received;
  c.freed.push_back(when.plus(kLatency, c.cost.hop));
  if (!schedule::traits_of(plan_.protocol).snapshots) ranks_[at(c.sender)].done = later(ranks_[at(c.sender)].done, c.freed.back());
  wake(c.parked_sender, c.freed.back().at);
}

Stamp Walk::do_messages(int index, const BoundOp& bound, Stamp when, double bytes) {
  const int rank = strands_[at(index)].rank;
  const Op& op = *bound.op;
  Channel* in = schedule::receives(op.kind) ? &channel(bound.peer, rank, op.channel) : nullptr;
  const int to = op.kind == OpKind::send ? bound.peer : bound.peer2;
  Channel* out = schedule::sends(op.kind) ? &channel(rank, to, op.channel) : nullptr;
  when = when.plus(kOverhead, issue_time(in != nullptr ? &in->cost : nullptr, out != nullptr ? &out->cost : nullptr));
  if (in != nullptr) {
    const double since = in->cost.kept > 0 ? sent_within_[environment_.group_of(rank)] - in->sent_at[in->received] : 0;
    const double work = receive_work(since > 0 ? cost_after(in->cost, since) : in->cost, op.kind, plan_.flags_of(op), bytes);
    when = when.plus(schedule::reduces(op.kind) ? kReduce : kCopy, work);
  }
  if (out != nullptr) {
    const double sent = plan_.sent_of(op, bytes);
    Strand& s = strands_[at(index)];
    const schedule::SameSends same = plan_.is_one_message_an_op() ? s.cursor.same_sends(programs_[at(rank)]) : schedule::SameSends{};
    when = send_out(*out, rank, to, when, sent, send_work(out->cost, same, sent, s.has_copied));
  }
  if (in != nullptr) note_free(*in, when);
  hold_core(rank, when);
  return when;
}

Stamp Walk::do_local(int index, const BoundOp& bound, Stamp when, double bytes) {
  const int rank = strands_[at(index)].rank;
  const Op& op = *bound.op;
  const bool is_reduce = op.kind == OpKind::reduce;
  when = when.plus(kOverhead, local_.per_op);
  if (op.kind == OpKind::signal) {
    signal(rank, bound, when);
  } else {
    const bool is_remote = (op.flags & (schedule::kRemoteSrc | schedule::kRemoteDst)) != 0;
    if (is_remote) {
      const Channel& c = channel(rank, bound.peer, op.channel);
      when = when.plus(kLatency, c.cost.hop).plus(kTransfer, wire_time(c.cost, bytes));
    }
    when = when.plus(is_reduce ? kReduce : kCopy, local_work(local_, op.kind, op.more_count, bytes));
  }
  hold_core(rank, when);
  return when;
}

Result<Prediction> Walk::run() {
  while (!queue_.empty()) {
    const Queued next = queue_.top();
    queue_.pop();
    now_ = next.at;
    strands_[at(next.strand)].is_queued = false;
    visit(next.strand);
  }
  Prediction prediction;
  prediction.is_walked = true;
  Stamp last;
  for (const Rank& rank : ranks_) last = later(last, rank.done);
  for (const Strand& s : strands_) {
    if (s.cursor.done()) continue;
    return fail(ErrorCode::internal, "the plan of {} under {} blocks: rank {} waits for ever at op {}", plan_.schedule.name,
                schedule::name_of(plan_.protocol), s.rank, s.cursor.position());
  }
  prediction.time = {last.at};
  prediction.breakdown = {last.parts[kLaunch],   last.parts[kLatency], last.parts[kOverhead],
                          last.parts[kTransfer], last.parts[kCopy],    last.parts[kReduce]};
  for (int l = 0; l < kLevels; ++l) prediction.bytes[l] = sent_[l].empty() ? 0 : *std::max_element(sent_[l].begin(), sent_[l].end());
  if (environment_.nodes == 1) prediction.crossed = between_cores_;
  for (const Link& link : links_) {
    prediction.crossed += link.out;
    prediction.busiest_group = std::max({prediction.busiest_group, link.out, link.in});
    prediction.channels_into_group = std::max(prediction.channels_into_group, link.channels_in);
  }
  return prediction;
}

}  // namespace peal::tuning::walking

namespace peal::tuning {

Result<Prediction> walk(const Environment& environment, const Plan& plan, const std::vector<schedule::Program>& programs,
                        const WalkExtent& extent) {
  return walking::Walk(environment, plan, programs, extent).run();
}

}  // namespace peal::tuning
