// The life of an op:
//
//   consider --(may_start)--> core --> begin --(per_op)--> issued --(passes of the core)--> worked --(host: copying to the wire)-->
//   slice_done
//      ^                                                                                      '----(GPU: last byte left)---------'   |
//      '------------------------------------------ next slice, next op, next piece --------------------------------------------------'
//
// A message arrives a hop after it has left; its place is free again for the sender a hop after it was received.
#include <sim/interpret.hpp>

#include <algorithm>
#include <base/names.hpp>
#include <utility>

#include "world.hpp"

namespace peal::sim {

using schedule::Op;
using schedule::OpKind;

namespace {
std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
bool is_message(OpKind kind) { return schedule::sends(kind) || schedule::receives(kind); }
}  // namespace

World::World(const tuning::Plan& plan, const topology::Resources& resources, std::span<const int> device_of_rank,
             const tuning::Environment& environment, tuning::Wires wires, const InterpretOptions& options)
    : plan_(plan),
      resources_(resources),
      device_of_rank_(device_of_rank),
      environment_(environment),
      offer_(*environment.offer(plan.protocol)),
      turns_(environment),
      wires_(wires),
      options_(options) {
  const int own = environment.is_used(0) ? 0 : 1;
  local_ = tuning::message_cost(environment, offer_.constants[own], plan.protocol, own, {}, environment.level[own].bottleneck);
  for (int l = 0; l < tuning::kLevels; ++l)
    if (environment.is_used(l)) launch_ = std::max(launch_, offer_.constants[l].launch.value);
  const auto n = static_cast<std::size_t>(environment.ranks);
  ranks_.resize(n);
  pattern_.assign(n, kNobody);
  if (environment.is_host)
    cores_.resize(static_cast<std::size_t>(*std::max_element(environment.core_of.begin(), environment.core_of.end())) + 1);
  for (std::size_t r = 0; r < n; ++r) {
    RankState& rank = ranks_[r];
    rank.program = schedule::program_for(plan.schedule, static_cast<std::int32_t>(r));
    rank.signals.assign(rank.program.event_quota.size(), 0);
    rank.first_strand = static_cast<Index>(strands_.size());
    rank.done = launch_;
    for (std::size_t s = 0; s < rank.program.strands(); ++s) {
      Strand strand;
      strand.rank = static_cast<std::int32_t>(r);
      strand.number = static_cast<std::int32_t>(s);
      strand.cursor = schedule::StrandCursor(rank.program, s, plan.pieces.count);
      strands_.push_back(strand);
    }
  }
  for (Index s = 0; s < strands_.size(); ++s) engine_.at(launch_, tag(Kind::begin, s));
}

std::int64_t World::View::signals(int event) const { return world.ranks_[at(world.strands_[strand].rank)].signals[at(event)]; }

std::int64_t World::View::signals_from(int peer, int event) const {
  const auto& from = world.ranks_[at(world.strands_[strand].rank)].signals_from;
  const auto it = from.find((static_cast<std::uint64_t>(peer) << 32) | static_cast<std::uint64_t>(event));
  return it == from.end() ? 0 : it->second;
}

void World::on_timer(Tag tag) {
  const auto index = static_cast<Index>(tag & 0xffffffffU);
  switch (static_cast<Kind>(tag >> 56)) {
    case Kind::begin: return consider(index);
    case Kind::issued: return issued(index);
    case Kind::worked: return worked(index);
    case Kind::sent: return slice_done(index);
    case Kind::arrived: return arrived(index);
    case Kind::credit: return credit(index);
    case Kind::announce: ++channels_[index].announced; return wake(channels_[index].waiting_sender);
    case Kind::signal: return remote_signal(index);
    default: return;
  }
}

void World::on_flow_left(Tag tag) {
  const auto index = static_cast<Index>(tag & 0xffffffffU);
  if (static_cast<Kind>(tag >> 56) == Kind::pass) worked(index);
  // A GPU is done with a message when its last byte has left; the flow names the strand.
  if (static_cast<Kind>(tag >> 56) == Kind::wire && !environment_.is_host) slice_done(index);
}

void World::on_flow_arrived(Tag tag) {
  const auto index = static_cast<Index>(tag & 0xffffffffU);
  if (static_cast<Kind>(tag >> 56) == Kind::remote) slice_done(index);
  if (static_cast<Kind>(tag >> 56) == Kind::wire) arrived(static_cast<Index>((tag >> 32) & 0xffffffU));
}

/// One after another, so that a long chain of ops that take no time does not nest.
void World::consider(Index index) {
  to_consider_.push_back(index);
  if (is_considering_) return;
  is_considering_ = true;
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
    if (!failure_ || s.is_at_work || s.cursor.done()) return;
    const schedule::Program& program = ranks_[at(s.rank)].program;
    if (s.slice == 0) s.bound = s.cursor.current(program);
    if (!schedule::may_start(s.bound, program, View{*this, index})) {
      auto& waiting = ranks_[at(s.rank)].waiting;
      if (s.bound.op->kind == OpKind::wait && std::find(waiting.begin(), waiting.end(), index) == waiting.end()) waiting.push_back(index);
      return;
    }
    if (!step_sync(index)) break;
  }
  ask_for_core(index);
}

/// Waits and local signals cost nothing; true when the op was one of them.
bool World::step_sync(Index index) {
  Strand& s = strands_[index];
  const OpKind kind = s.bound.op->kind;
  if (kind != OpKind::wait && (kind != OpKind::signal || s.bound.peer >= 0)) return false;
  s.began = engine_.now();
  note(s);
  const std::int32_t rank = s.rank;
  const Op& op = *s.bound.op;
  s.cursor.advance(ranks_[at(rank)].program);
  if (s.cursor.done()) ranks_[at(rank)].done = std::max(ranks_[at(rank)].done, engine_.now());
  if (kind == OpKind::signal) {
    ++ranks_[at(rank)].signals[op.event];
    wake_waiting(rank);
  }
  return true;
}

void World::ask_for_core(Index index) {
  strands_[index].is_at_work = true;
  if (!environment_.is_host) return begin(index);
  Core& core = cores_[at(environment_.core_of[at(strands_[index].rank)])];
  if (core.is_busy) return core.queue.push_back(index);
  take_core(core, index);
}

void World::take_core(Core& core, Index index) {
  Strand& s = strands_[index];
  core.is_busy = true;
  s.turn = turns_.cost(core.last, s.rank);
  core.last = s.rank;
  begin(index);
}

void World::begin(Index index) {
  Strand& s = strands_[index];
  const Op& op = *s.bound.op;
  s.in = s.out = kNobody;
  if (schedule::receives(op.kind)) s.in = channel(s.bound.peer, s.rank, op.channel);
  if (schedule::sends(op.kind)) s.out = channel(s.rank, op.kind == OpKind::send ? s.bound.peer : s.bound.peer2, op.channel);
  if (s.slice == 0) {
    s.began = engine_.now();
    s.whole = plan_.bytes_of(s.bound);
    s.slices = is_message(op.kind) ? plan_.slices(s.whole) : 1;
  }
  const auto most = static_cast<double>(plan_.message_bytes);
  s.bytes = s.slices == 1 ? s.whole : std::min(most, s.whole - static_cast<double>(s.slice) * most);
  if (s.out != kNobody) ++channels_[s.out].sent;
  double per_op = is_message(op.kind) ? 0 : local_.per_op;
  if (s.in != kNobody) per_op = channels_[s.in].cost.per_op;
  if (s.out != kNobody) per_op = std::max(per_op, channels_[s.out].cost.per_op);
  per_op += std::exchange(s.turn, 0);
  if (per_op > 0) return engine_.after(per_op, tag(Kind::issued, index));
  issued(index);
}

void World::issued(Index index) {
  Strand& s = strands_[index];
  const Op& op = *s.bound.op;
  if (!is_message(op.kind)) return work_locally(index);
  double work = 0;
  const std::vector<std::uint32_t>* side = nullptr;
  if (s.in != kNobody) {
    const Channel& in = channels_[s.in];
    work = tuning::receive_work(in.cost, op.kind, plan_.flags_of(op), s.bytes);
    if (in.cost.is_memory) side = in.cost.is_read_in_place ? &in.wire : &in.read_side;
  }
  if (s.out != kNobody && channels_[s.out].cost.is_memory) {
    const Channel& out = channels_[s.out];
    const schedule::SameSends same = plan_.is_one_message_an_op() ? s.cursor.same_sends(ranks_[at(s.rank)].program) : schedule::SameSends{};
    work += tuning::send_work(out.cost, same, plan_.sent_of(op, s.bytes), s.has_copied);
    if (side == nullptr) side = out.cost.is_written_in_place ? &out.wire : &out.write_side;
  }
  if (work <= 0) return worked(index);
  if (side == nullptr || side->empty()) return engine_.after(work, tag(Kind::worked, index));
  engine_.start({.bytes = s.bytes, .resources = *side, .rate_cap = s.bytes / work, .wants_arrival = false, .tag = tag(Kind::pass, index)});
}

void World::work_locally(Index index) {
  Strand& s = strands_[index];
  const Op& op = *s.bound.op;
  if (op.kind == OpKind::switch_reduce || op.kind == OpKind::switch_multicast) {
    failure_ = fail(ErrorCode::unsupported, "{} of rank {} is not simulated: choose an algorithm that does not compute in switches",
                    schedule::name_of(op.kind), s.rank);
    return;
  }
  if (op.kind == OpKind::signal) {
    emit_signal(index);
    return slice_done(index);
  }
  // Bytes from (or to) a peer's memory cross the way between the two; the rest is the rank's own work.
  int remote = (op.flags & (schedule::kRemoteSrc | schedule::kRemoteDst)) != 0 ? s.bound.peer : -1;
  double remote_bytes = remote >= 0 ? s.bytes : 0;
  for (std::uint32_t i = 0; op.kind == OpKind::reduce && i < op.more_count; ++i) {
    const std::int32_t peer = ranks_[at(s.rank)].program.sources[op.more + i].peer;
    if (peer < 0 || peer == s.rank) continue;
    remote = peer;
    remote_bytes += s.bytes;
  }
  const double work = tuning::local_work(local_, op.kind, op.more_count, s.bytes);
  if (remote < 0 || remote == s.rank || remote_bytes <= 0)
    return work > 0 ? engine_.after(work, tag(Kind::sent, index)) : slice_done(index);
  const Index way = (op.flags & schedule::kRemoteDst) != 0 ? channel(s.rank, remote, op.channel) : channel(remote, s.rank, op.channel);
  const Channel& c = channels_[way];
  const double cap = work > 0 ? remote_bytes / work : FairShare::kUnbounded;
  engine_.start({.bytes = remote_bytes, .resources = c.wire, .latency = c.cost.hop, .rate_cap = cap, .tag = tag(Kind::remote, index)});
}

void World::worked(Index index) {
  Strand& s = strands_[index];
  if (s.out == kNobody) return slice_done(index);
  Channel& out = channels_[s.out];
  if (out.cost.is_memory) {
    engine_.after(out.cost.hop, tag(Kind::arrived, s.out));
    return slice_done(index);
  }
  const double bytes = plan_.sent_of(*s.bound.op, s.bytes);
  const double copying = tuning::send_work(out.cost, bytes);
  const double cap = copying > 0 ? bytes / copying / out.cost.efficiency : FairShare::kUnbounded;
  engine_.start({.bytes = bytes / out.cost.efficiency,
                 .resources = out.wire,
                 .latency = out.cost.hop,
                 .rate_cap = cap,
                 .tag = tag(Kind::wire, (static_cast<std::uint64_t>(s.out) << 32) | index)});
  if (!environment_.is_host) return;  // until the last byte has left
  if (copying > 0) return engine_.after(copying, tag(Kind::sent, index));
  slice_done(index);
}

void World::slice_done(Index index) {
  Strand& s = strands_[index];
  s.is_at_work = false;
  if (s.in != kNobody) {
    ++channels_[s.in].received;
    engine_.after(channels_[s.in].cost.hop, tag(Kind::credit, s.in));
  }
  if (++s.slice >= s.slices) op_done(index);
  // First the strand itself: its rank keeps the core while it can go on.
  consider(index);
  release_core(index);
}

void World::op_done(Index index) {
  Strand& s = strands_[index];
  note(s);
  s.slice = 0;
  s.cursor.advance(ranks_[at(s.rank)].program);
  if (s.cursor.done()) ranks_[at(s.rank)].done = std::max(ranks_[at(s.rank)].done, engine_.now());
}

void World::release_core(Index index) {
  if (!environment_.is_host) return;
  Core& core = cores_[at(environment_.core_of[at(strands_[index].rank)])];
  core.is_busy = false;
  if (core.queue.empty()) return;
  const auto first = turns_.next(core.queue, core.last, [this](Index strand) { return strands_[strand].rank; });
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
  if (s.bound.peer >= 0) name += fmt::format(" {}", s.bound.peer);
  if (s.bound.peer2 >= 0) name += fmt::format(" > {}", s.bound.peer2);
  outcome_.trace.add({std::move(name), "op", s.rank, s.number, s.began * 1e-3, (now - s.began) * 1e-3});
}

Status World::check_finished() const {
  for (const Strand& s : strands_) {
    if (s.cursor.done()) continue;
    const schedule::Program& program = ranks_[at(s.rank)].program;
    return fail(ErrorCode::internal,
                "{} under {} blocks in the simulator: rank {} stands for ever at op {}, \"{}\"; `peal verify` says why",
                plan_.schedule.name, schedule::name_of(plan_.protocol), s.rank, s.cursor.position(),
                schedule::to_text(program.ops[s.cursor.position()], program.sources));
  }
  return {};
}

Result<Outcome> World::run() {
  if (!engine_.run(*this, options_.most_events))
    return fail(ErrorCode::unsupported, "the simulation of {} bytes needs more than {} events: ask for a smaller size or fewer ranks",
                plan_.call.bytes.value, options_.most_events);
  PEAL_TRY(std::move(failure_));
  PEAL_TRY(check_finished());
  for (const RankState& rank : ranks_) {
    outcome_.rank_done.push_back(rank.done);
    outcome_.time = std::max(outcome_.time, Nanoseconds{rank.done});
  }
  outcome_.events = engine_.events();
  outcome_.resources = uses(outcome_.time.value);
  if (options_.keeps_trace)
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      outcome_.trace.name_process(static_cast<int>(r), fmt::format("rank {} ({})", r, resources_.cluster().id_of(device_of_rank_[r])));
  return std::move(outcome_);
}

Result<Outcome> interpret(const tuning::Plan& plan, const topology::Resources& resources, std::span<const int> device_of_rank,
                          const tuning::Environment& environment, tuning::Wires wires, const InterpretOptions& options) {
  if (environment.offer(plan.protocol) == nullptr)
    return fail(ErrorCode::invalid_argument, "the protocol {} has no constants in this environment", schedule::name_of(plan.protocol));
  if (device_of_rank.size() != static_cast<std::size_t>(environment.ranks) || plan.schedule.request.ranks != environment.ranks)
    return fail(ErrorCode::invalid_argument, "a plan for {} ranks, an environment of {} and {} devices: they must be the same ranks",
                plan.schedule.request.ranks, environment.ranks, device_of_rank.size());
  return World(plan, resources, device_of_rank, environment, wires, options).run();
}

}  // namespace peal::sim
