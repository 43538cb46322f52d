#include <algorithm>

#include "world.hpp"

namespace peal::sim {

namespace {
std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
}  // namespace

bool World::can_send(Index strand) {
  const Strand& s = strands_[strand];
  const int slots = plan_of(s).slots;
  Channel& c = channels_[s.out];
  const bool is_possible = slots == 0 ? c.announced > c.sent : c.sent < c.credited + slots;
  if (!is_possible) c.waiting_sender = strand;
  return is_possible;
}

bool World::can_receive(Index strand) {
  const Strand& s = strands_[strand];
  const Index id = s.in;
  Channel& c = channels_[id];
  if (c.arrived > c.received) return true;
  c.waiting_receiver = strand;
  if (plan_of(s).slots == 0 && c.posted == c.received) {
    ++c.posted;
    path_.push(PathRecorder::Line::announces, id, path_.begin(s.bound.op->kind, s.rank, c.from, engine_.now()));
    engine_.after(c.cost.hop, tag(Kind::announce, id));
  }
  return false;
}

bool World::is_message_there(const Strand& s, const schedule::BoundOp& bound) {
  const Channel& c = channels_[channel(number_of(s, bound.peer), s.rank, bound.op->channel)];
  return c.arrived > c.received;
}

void World::wake(Index& waiting) {
  if (waiting == kNobody) return;
  const Index strand = waiting;
  waiting = kNobody;
  consider(strand);
}

void World::wake_waiting(std::int32_t rank) {
  std::vector<Index> woken;
  woken.swap(ranks_[at(rank)].waiting);
  for (Index strand : woken) consider(strand);
}

void World::arrived(Index id) {
  ++channels_[id].arrived;
  messages_ += channels_[id].members;
  path_.happened(path_.pop(PathRecorder::Line::messages, id), PathRecorder::Why::message);
  wake(channels_[id].waiting_receiver);
}

void World::credit(Index id) {
  Channel& c = channels_[id];
  ++c.credited;
  path_.happened(path_.pop(PathRecorder::Line::credits, id), PathRecorder::Why::credit);
  // A sender whose buffer is read in place may not return before that.
  if (!schedule::traits_of(ranks_[at(c.from)].job->job->plan->protocol).snapshots) finish(c.from);
  wake(c.waiting_sender);
}

void World::announced(Index id) {
  ++channels_[id].announced;
  path_.happened(path_.pop(PathRecorder::Line::announces, id), PathRecorder::Why::announce);
  wake(channels_[id].waiting_sender);
}

void World::emit_signal(Index index) {
  const Strand& s = strands_[index];
  const std::int32_t to = number_of(s, s.bound.peer);
  const Index way = channel(s.rank, to, s.bound.op->channel);
  remote_signals_.push_back({s.rank - ranks_[at(s.rank)].job->first, to, s.bound.op->event, s.step});
  engine_.after(channels_[way].cost.hop, tag(Kind::signal, remote_signals_.size() - 1));
}

void World::remote_signal(std::uint64_t index) {
  const RemoteSignal signal = remote_signals_[index];
  path_.happened(signal.step, PathRecorder::Why::signal);
  ++ranks_[at(signal.to)].signals_from[(static_cast<std::uint64_t>(signal.from) << 32) | static_cast<std::uint64_t>(signal.event)];
  wake_waiting(signal.to);
}

Index World::channel(int from, int to, int number) {
  const std::uint64_t key =
      ((static_cast<std::uint64_t>(from) * ranks_.size() + static_cast<std::uint64_t>(to)) << 8) | static_cast<std::uint64_t>(number);
  const Folding* folding = fold_.folding.get();
  const Folding::Kin kin = folding != nullptr ? folding->channel(from, to, number) : Folding::Kin{key, 1};
  const auto [it, is_new] = channel_of_.try_emplace(kin.name, static_cast<Index>(channels_.size()));
  if (is_new) {
    Channel& c = channels_.emplace_back();
    c.from = from;
    c.to = to;
    c.members = kin.members;
    lay_way(c);
  }
  return it->second;
}

std::uint32_t World::engine_resource(topology::ResourceId id) {
  if (resource_of_.empty()) resource_of_.assign(resources_.count(), kNobody);
  std::uint32_t& number = resource_of_[id];
  if (number == kNobody) {
    const double capacity = capacity_of(id);
    number = engine_.add_resource(capacity > 0 ? capacity : FairShare::kUnbounded, lines_.contains(id));
    used_.emplace_back(id, number);
  }
  return number;
}

/// Folded: one resource of each class, crossed by as many channels of the class as cross any of them.
void World::cross(Channel& c, topology::ResourceId id) {
  if (!fold_.folding) {
    if (!fold_.implied.contains(id)) add_to_way(c, engine_resource(id), false);
    return;
  }
  const Folding::Kin kin = fold_.folding->resource(id);
  const auto [known, is_new] = class_resource_.try_emplace(kin.name, id);
  const std::uint32_t number = engine_resource(known->second);
  const auto place = std::find(c.wire.begin(), c.wire.end(), number);
  if (place == c.wire.end()) {
    c.wire.push_back(number);
    c.counts.push_back(c.members / kin.members);
  } else {
    c.counts[static_cast<std::size_t>(place - c.wire.begin())] += c.members / kin.members;
  }
}

/// Finds the way of a channel, what it costs and which resources its messages cross. Folded: the channel is then one between the first
/// ranks of their classes.
void World::lay_way(Channel& c) {
  const JobState& job = *ranks_[at(c.from)].job;
  const tuning::Environment& environment = *job.job->environment;
  const int from = c.from - job.first;
  const int to = c.to - job.first;
  const int level = environment.level_of(from, to);
  topology::Route route =
      resources_.route(device_of(c.from), device_of(c.to), tuning::via_of(job.job->wires, environment.is_host, level == 0));
  if (options_.is_staged && !is_host_) stage(route, device_of(c.from), device_of(c.to));
  if (!is_host_ && !route.resources.empty()) slow_outlet(c.from, route.resources.front());
  const tuning::Level& known = environment.level[level];
  const bool is_wire_known = route.exists() && !route.scope.empty();
  Bandwidth bottleneck = is_wire_known ? route.bottleneck : known.bottleneck;
  for (topology::ResourceId id : route.resources)
    if (scale_.contains(id)) bottleneck = std::min(bottleneck, Bandwidth::gigabytes(capacity_of(id)));
  c.cost = tuning::message_cost(environment, job.offer->constants[level], job.job->plan->protocol, level,
                                is_wire_known ? route.latency : known.latency, bottleneck, environment.are_on_one_core(from, to));
  c.framing = framing(c, route);
  if (route.path_class == topology::PathClass::net) lay_lines(c);
  for (topology::ResourceId id : route.resources) cross(c, id);
  if (fold_.folding) {
    c.from = job.first + fold_.folding->representative(from);
    c.to = job.first + fold_.folding->representative(to);
  }
  if (!is_host_ && route.scope == "tcp") lay_sockets(c);
  if (c.cost.is_memory) {
    // One pass of the sender's core into memory, one of the receiver's out of it; the middle of the way is crossed by both.
    const std::size_t half = (c.wire.size() + 1) / 2;
    c.write_side.assign(c.wire.begin(), c.wire.begin() + static_cast<std::ptrdiff_t>(half));
    c.read_side.assign(c.wire.end() - static_cast<std::ptrdiff_t>(half), c.wire.end());
  } else if (c.cost.pattern_cap > 0) {
    std::uint32_t& pattern = pattern_[at(c.from)];
    if (pattern == kNobody) pattern = engine_.add_resource(c.cost.pattern_cap / c.cost.efficiency);
    add_to_way(c, pattern, true);
  }
}

}  // namespace peal::sim
