// A strand comes to the front of the queue at the instant its next op can start; messages and credits carry the instant at which they are
// seen. Ranks that share a core, and messages that share a way out or in, wait for one another in the order in which they come.
#include "walk.hpp"

#include <algorithm>
#include <deque>
#include <queue>
#include <tuning/message_cost.hpp>
#include <unordered_map>

namespace peal::tuning {

namespace {

using schedule::BoundOp;
using schedule::Op;
using schedule::OpKind;
using schedule::Program;

enum Part { kLaunch, kLatency, kOverhead, kTransfer, kCopy, kReduce, kParts };

/// An instant, and what the path that led to it was made of.
struct Stamp {
  double at = 0;
  float parts[kParts] = {};

  Stamp plus(Part part, double ns) const {
    Stamp s = *this;
    s.at += ns;
    s.parts[part] += static_cast<float>(ns);
    return s;
  }
};
const Stamp& later(const Stamp& a, const Stamp& b) { return b.at > a.at ? b : a; }

/// The k-th entry is the instant from which k + 1 signals are seen.
void note(std::vector<Stamp>& signals, const Stamp& when) { signals.push_back(signals.empty() ? when : later(signals.back(), when)); }

struct Channel {
  MessageCost cost;
  int level = 0;
  int sender = 0;
  std::vector<Stamp> seen;   // when message i can be received
  std::vector<Stamp> freed;  // when the sender sees the place of message i free again
  std::size_t sent = 0;
  std::size_t received = 0;
  std::vector<Stamp> posted;  // rendezvous: when the sender sees that receive i stands ready
  int parked_sender = -1;
  int parked_receiver = -1;
};

struct Strand {
  int rank = 0;
  schedule::StrandCursor cursor;
  Stamp ready;
  std::int64_t slice = 0;
  bool is_queued = false;
  bool is_in_line = false;  // for its core
};

struct Core {
  Stamp free;             // when it has ended what it does
  std::deque<int> line;   // strands that are ready but for it; the first of them is queued
};

struct Rank {
  std::vector<std::vector<Stamp>> events;
  std::unordered_map<std::uint64_t, std::vector<Stamp>> events_from;
  std::vector<int> waiting;  // strands parked at a wait
  Stamp done;
};

class Walk {
 public:
  Walk(const Environment& environment, const Plan& plan, const std::vector<Program>& programs, const WalkExtent& extent);
  Result<Prediction> run();

 private:
  // What schedule::may_start asks: "known", not yet "seen"; the instant is settled in start_of.
  struct View {
    Walk& walk;
    int strand;
    bool can_send(int peer, int channel) { return walk.can_send(strand, peer, channel); }
    bool can_receive(int peer, int channel) { return walk.can_receive(strand, peer, channel); }
    std::int64_t signals(int event) const { return walk.signals(walk.strands_[static_cast<std::size_t>(strand)].rank, event); }
    std::int64_t signals_from(int peer, int event) const { return walk.signals_from(walk.strands_[static_cast<std::size_t>(strand)].rank, peer, event); }
  };
  struct Queued {
    double at;
    std::uint64_t order;
    int strand;
    bool operator>(const Queued& o) const { return at != o.at ? at > o.at : order > o.order; }
  };

  Channel& channel(int from, int to, int number);
  const topology::ProtocolConstants& constants(int level) const { return offer_.constants[level]; }
  bool can_send(int strand, int peer, int number);
  bool can_receive(int strand, int peer, int number);
  std::int64_t signals(int rank, int event) const;
  std::int64_t signals_from(int rank, int peer, int event) const;
  void queue(int strand, double at);
  void visit(int strand);
  Stamp start_of(int strand, const BoundOp& bound);
  Stamp do_messages(int strand, const BoundOp& bound, Stamp at, double bytes);
  Stamp do_local(int strand, const BoundOp& bound, Stamp at, double bytes);
  Stamp send_out(Channel& c, int from, int to, Stamp at, double bytes);
  void note_free(Channel& c, const Stamp& at);
  bool has_turn(int strand, Stamp& start);
  void hold_core(int rank, const Stamp& until);
  void signal(int rank, const BoundOp& bound, const Stamp& at);
  void wake(int& parked, double at);
  void wake_waiting(int rank, double at);
  int outlet(int rank, int level) const { return level == 0 ? rank : outlet_[static_cast<std::size_t>(rank)]; }

  const Environment& environment_;
  const Plan& plan_;
  const std::vector<Program>& programs_;
  const Offer& offer_;
  double scale_;
  MessageCost local_;
  std::vector<Strand> strands_;
  std::vector<Rank> ranks_;
  std::vector<Core> cores_;
  std::vector<int> outlet_;
  std::vector<Stamp> out_[kLevels];
  std::vector<Stamp> in_[kLevels];
  std::vector<double> sent_[kLevels];
  std::unordered_map<std::uint64_t, Channel> channels_;
  std::priority_queue<Queued, std::vector<Queued>, std::greater<>> queue_;
  std::uint64_t order_ = 0;
  double now_ = 0;
};

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Walk::Walk(const Environment& environment, const Plan& plan, const std::vector<Program>& programs, const WalkExtent& extent)
    : environment_(environment), plan_(plan), programs_(programs), offer_(*environment.offer(plan.protocol)), scale_(extent.scale) {
  const int own_level = environment.is_used(0) ? 0 : 1;
  local_ = message_cost(environment, constants(own_level), plan.protocol, own_level, {}, environment.level[own_level].bottleneck);
  const auto n = at(environment.ranks);
  ranks_.resize(n);
  cores_.resize(n);
  outlet_.resize(n);
  for (int l = 0; l < kLevels; ++l) {
    out_[l].resize(n);
    in_[l].resize(n);
    sent_[l].resize(n);
  }
  std::vector<int> members(n, 0);
  for (std::size_t r = 0; r < n; ++r) {
    const std::size_t group = environment.placement.group.empty() ? 0 : at(environment.placement.group[r]);
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

Channel& Walk::channel(int from, int to, int number) {
  const std::uint64_t key = ((static_cast<std::uint64_t>(from) * static_cast<std::uint64_t>(environment_.ranks) + static_cast<std::uint64_t>(to)) << 8) |
                            static_cast<std::uint64_t>(number);
  const auto [it, is_new] = channels_.try_emplace(key);
  Channel& c = it->second;
  if (is_new) {
    c.level = environment_.level_of(from, to);
    c.sender = from;
    const Level& level = environment_.level[c.level];
    c.cost = message_cost(environment_, constants(c.level), plan_.protocol, c.level, level.latency, level.bottleneck);
  }
  return c;
}

void Walk::queue(int strand, double when) {
  Strand& s = strands_[at(strand)];
  if (s.is_queued) return;
  s.is_queued = true;
  queue_.push({when, order_++, strand});
}

void Walk::wake(int& parked, double when) {
  if (parked < 0) return;
  const int strand = parked;
  parked = -1;
  queue(strand, std::max(when, strands_[at(strand)].ready.at));
}

void Walk::wake_waiting(int rank, double when) {
  for (int strand : ranks_[at(rank)].waiting) queue(strand, std::max(when, strands_[at(strand)].ready.at));
  ranks_[at(rank)].waiting.clear();
}

bool Walk::can_send(int strand, int peer, int number) {
  Channel& c = channel(strands_[at(strand)].rank, peer, number);
  const auto slots = static_cast<std::size_t>(plan_.slots);
  const bool is_possible = plan_.slots == 0 ? c.posted.size() > c.sent : c.sent < c.freed.size() + slots;
  if (!is_possible) c.parked_sender = strand;
  return is_possible;
}

bool Walk::can_receive(int strand, int peer, int number) {
  Channel& c = channel(peer, strands_[at(strand)].rank, number);
  if (c.seen.size() > c.received) return true;
  c.parked_receiver = strand;
  if (plan_.slots == 0 && c.posted.size() == c.received) {
    const Stamp& ready = strands_[at(strand)].ready;
    c.posted.push_back(ready.plus(kLatency, c.cost.hop));
    wake(c.parked_sender, c.posted.back().at);
  }
  return false;
}

std::int64_t Walk::signals(int rank, int event) const { return static_cast<std::int64_t>(ranks_[at(rank)].events[at(event)].size()); }

std::int64_t Walk::signals_from(int rank, int peer, int event) const {
  const auto& from = ranks_[at(rank)].events_from;
  const auto it = from.find((static_cast<std::uint64_t>(peer) << 32) | static_cast<std::uint64_t>(event));
  return it == from.end() ? 0 : static_cast<std::int64_t>(it->second.size());
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
    if (slots == 0) start = later(start, c.posted[c.sent]);
    else if (c.sent >= slots) start = later(start, c.freed[c.sent - slots]);
  }
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
  const double whole = plan_.bytes_of(bound) * scale_;
  const std::int64_t slices = plan_.slices(whole);
  const double bytes = std::min(whole - static_cast<double>(s.slice) * static_cast<double>(plan_.message_bytes), static_cast<double>(plan_.message_bytes));
  if (is_sync) {
    if (bound.op->kind == OpKind::signal) signal(s.rank, bound, start);
    s.ready = start;
  } else if (schedule::sends(bound.op->kind) || schedule::receives(bound.op->kind)) {
    s.ready = do_messages(index, bound, start, slices > 1 ? bytes : whole);
  } else {
    s.ready = do_local(index, bound, start, whole);
  }
  const bool moves = schedule::sends(bound.op->kind) || schedule::receives(bound.op->kind);
  if (moves && ++s.slice < slices) return queue(index, s.ready.at);
  s.slice = 0;
  s.cursor.advance(program);
  if (!s.cursor.done()) return queue(index, s.ready.at);
  ranks_[at(s.rank)].done = later(ranks_[at(s.rank)].done, s.ready);
}

/// First come, first served: true when the core is free and the strand is the next in its line; else the first in line comes when it is.
bool Walk::has_turn(int index, Stamp& start) {
  Core& core = cores_[at(environment_.core_of[at(strands_[at(index)].rank)])];
  Strand& s = strands_[at(index)];
  if (!s.is_in_line) core.line.push_back(index);
  s.is_in_line = true;
  if (core.line.front() != index || core.free.at > now_) {
    queue(core.line.front(), std::max(core.free.at, now_));
    return false;
  }
  core.line.pop_front();
  s.is_in_line = false;
  start = later(start, core.free);
  return true;
}

/// The core is taken until `when`; whoever is first in line comes then.
void Walk::hold_core(int rank, const Stamp& when) {
  if (!environment_.is_host) return;
  Core& core = cores_[at(environment_.core_of[at(rank)])];
  core.free = when;
  if (!core.line.empty()) queue(core.line.front(), when.at);
}

/// Bytes leave `from`; returns when `from` is done with them.
Stamp Walk::send_out(Channel& c, int from, int to, Stamp start, double bytes) {
  const Stamp copied = start.plus(kCopy, send_work(c.cost, bytes));
  sent_[c.level][at(from)] += bytes;
  Stamp left = copied;
  if (!c.cost.is_memory) {
    const double time = wire_time(c.cost, bytes);
    Stamp& out = out_[c.level][at(outlet(from, c.level))];
    Stamp& in = in_[c.level][at(outlet(to, c.level))];
    const Stamp begun = later(start, out);
    out = begun.plus(kTransfer, time);
    // The way in is held no longer than the link itself needs; several senders fill it.
    in = later(begun, in).plus(kTransfer, time_at(bytes, c.cost.link_rate));
    left = later(later(out, in), copied);
  }
  c.seen.push_back(left.plus(kLatency, c.cost.hop));
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
  when = when.plus(kOverhead, std::max(in != nullptr ? in->cost.per_op : 0, out != nullptr ? out->cost.per_op : 0));
  if (in != nullptr) when = when.plus(schedule::reduces(op.kind) ? kReduce : kCopy, receive_work(in->cost, op.kind, op.flags, bytes));
  if (out != nullptr) when = send_out(*out, rank, to, when, bytes);
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

void Walk::signal(int rank, const BoundOp& bound, const Stamp& when) {
  const Op& op = *bound.op;
  if (bound.peer < 0) {
    note(ranks_[at(rank)].events[op.event], when);
    return wake_waiting(rank, when.at);
  }
  const Stamp seen = when.plus(kLatency, channel(rank, bound.peer, op.channel).cost.hop);
  note(ranks_[at(bound.peer)].events_from[(static_cast<std::uint64_t>(rank) << 32) | op.event], seen);
  wake_waiting(bound.peer, seen.at);
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
  prediction.breakdown = {last.parts[kLaunch], last.parts[kLatency], last.parts[kOverhead], last.parts[kTransfer], last.parts[kCopy], last.parts[kReduce]};
  for (int l = 0; l < kLevels; ++l) prediction.bytes[l] = sent_[l].empty() ? 0 : *std::max_element(sent_[l].begin(), sent_[l].end());
  return prediction;
}

}  // namespace

Result<Prediction> walk(const Environment& environment, const Plan& plan, const std::vector<Program>& programs, const WalkExtent& extent) {
  return Walk(environment, plan, programs, extent).run();
}

}  // namespace peal::tuning
