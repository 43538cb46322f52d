#include <algorithm>

#include "world.hpp"

namespace peal::sim {

namespace {
std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
}  // namespace

bool World::can_send(Index strand, int peer, int number) {
  const Index id = channel(strands_[strand].rank, peer, number);
  Channel& c = channels_[id];
  const bool is_possible = plan_.slots == 0 ? c.announced > c.sent : c.sent < c.credited + plan_.slots;
  if (!is_possible) c.waiting_sender = strand;
  return is_possible;
}

bool World::can_receive(Index strand, int peer, int number) {
  const Index id = channel(peer, strands_[strand].rank, number);
  Channel& c = channels_[id];
  if (c.arrived > c.received) return true;
  c.waiting_receiver = strand;
  if (plan_.slots == 0 && c.posted == c.received) {
    ++c.posted;
    engine_.after(c.cost.hop, tag(Kind::announce, id));
  }
  return false;
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
  ++outcome_.messages;
  wake(channels_[id].waiting_receiver);
}

void World::credit(Index id) {
  Channel& c = channels_[id];
  ++c.credited;
  // A sender whose buffer is read in place may not return before that.
  if (!schedule::traits_of(plan_.protocol).snapshots) ranks_[at(c.from)].done = std::max(ranks_[at(c.from)].done, engine_.now());
  wake(c.waiting_sender);
}

void World::emit_signal(Index index) {
  const Strand& s = strands_[index];
  const Index way = channel(s.rank, s.bound.peer, s.bound.op->channel);
  remote_signals_.push_back({s.rank, s.bound.peer, s.bound.op->event});
  engine_.after(channels_[way].cost.hop, tag(Kind::signal, remote_signals_.size() - 1));
}

void World::remote_signal(std::uint64_t index) {
  const RemoteSignal signal = remote_signals_[index];
  ++ranks_[at(signal.to)].signals_from[(static_cast<std::uint64_t>(signal.from) << 32) | static_cast<std::uint64_t>(signal.event)];
  wake_waiting(signal.to);
}

Index World::channel(int from, int to, int number) {
  const std::uint64_t key =
      ((static_cast<std::uint64_t>(from) * static_cast<std::uint64_t>(environment_.ranks) + static_cast<std::uint64_t>(to)) << 8) |
      static_cast<std::uint64_t>(number);
  const auto [it, is_new] = channel_of_.try_emplace(key, static_cast<Index>(channels_.size()));
  if (is_new) {
    channels_.emplace_back();
    channels_.back().from = from;
    channels_.back().to = to;
    lay_way(channels_.back());
  }
  return it->second;
}

std::uint32_t World::engine_resource(topology::ResourceId id) {
  const auto [it, is_new] = resource_of_.try_emplace(id, 0);
  if (is_new) {
    const double capacity = resources_.capacity(id).gigabytes();
    it->second = engine_.add_resource(capacity > 0 ? capacity : FairShare::kUnbounded);
    used_.emplace_back(id, it->second);
  }
  return it->second;
}

/// Finds the way of a channel, what it costs and which resources its messages cross.
void World::lay_way(Channel& c) {
  const int level = environment_.level_of(c.from, c.to);
  const topology::Route route =
      resources_.route(device_of_rank_[at(c.from)], device_of_rank_[at(c.to)], tuning::via_of(wires_, environment_.is_host, level == 0));
  const tuning::Level& known = environment_.level[level];
  const bool is_wire_known = route.exists() && !route.scope.empty();
  c.cost = tuning::message_cost(environment_, offer_.constants[level], plan_.protocol, level, is_wire_known ? route.latency : known.latency,
                                is_wire_known ? route.bottleneck : known.bottleneck, environment_.are_on_one_core(c.from, c.to));
  for (topology::ResourceId id : route.resources) c.wire.push_back(engine_resource(id));
  if (c.cost.is_memory) {
    // One pass of the sender's core into memory, one of the receiver's out of it; the middle of the way is crossed by both.
    const std::size_t half = (c.wire.size() + 1) / 2;
    c.write_side.assign(c.wire.begin(), c.wire.begin() + static_cast<std::ptrdiff_t>(half));
    c.read_side.assign(c.wire.end() - static_cast<std::ptrdiff_t>(half), c.wire.end());
  } else if (c.cost.pattern_cap > 0) {
    std::uint32_t& pattern = pattern_[at(c.from)];
    if (pattern == kNobody) pattern = engine_.add_resource(c.cost.pattern_cap / c.cost.efficiency);
    c.wire.push_back(pattern);
  }
}

std::vector<ResourceUse> World::uses(double time) const {
  std::vector<ResourceUse> uses;
  for (const auto& [id, number] : used_) {
    const double bytes = engine_.bytes_over(number);
    if (bytes <= 0) continue;
    const Bandwidth capacity = resources_.capacity(id);
    uses.push_back({resources_.name(id), bytes, capacity, capacity.value > 0 && time > 0 ? bytes / (capacity.gigabytes() * time) : 0});
  }
  std::stable_sort(uses.begin(), uses.end(), [](const ResourceUse& a, const ResourceUse& b) { return a.utilisation > b.utilisation; });
  return uses;
}

}  // namespace peal::sim
