#include <algorithm>
#include <base/index.hpp>
#include <bit>
#include <sim/refine.hpp>
#include <sim/take_place.hpp>
#include <utility>

#include "world.hpp"

namespace peal::sim {

bool World::can_send(Index strand) {
  const Strand& s = strands_[strand];
  const int slots = plan_of(s).slots;
  Channel& c = channels_[s.out];
  c.catch_up(engine_.now());
  if (slots == 0 ? c.is_announced() : c.in_slots() < slots) return true;
  c.waiting_sender = strand;
  if (c.credits != Channel::kNever) engine_.at(std::exchange(c.credits, Channel::kNever), tag(Kind::credit, s.out));
  return false;
}

bool World::can_receive(Index strand) {
  const Strand& s = strands_[strand];
  const Index id = s.in;
  Channel& c = channels_[id];
  c.catch_up(engine_.now());
  if (c.unread() > 0) return true;
  c.waiting_receiver = strand;
  if (c.arrives != Channel::kNever) engine_.at(std::exchange(c.arrives, Channel::kNever), tag(Kind::arrived, id));
  if (plan_of(s).slots == 0 && c.posted == c.received) {
    ++c.posted;
    path_.push(PathRecorder::Line::announces, id, path_.begin(s.bound.op->kind, s.rank, c.from, engine_.now()));
    engine_.after(cost_of(c).hop, tag(Kind::announce, id));
  }
  return false;
}

bool World::is_message_there(const Strand& s, const schedule::BoundOp& bound) {
  const Channel& c = channels_[channel(number_of(s, bound.peer), s.rank, bound.op->channel)];
  return c.unread() > 0;
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

/// Keeps the time of an arrival that nobody waits for yet; false: there must be an event.
bool World::keep_arrival(Index id, double time) {
  Channel& c = channels_[id];
  c.catch_up(engine_.now());
  if (!keeps_times_ || c.waiting_receiver != kNobody || c.arrives != Channel::kNever || log_of(id) != MessageLog::kNone) return false;
  c.arrives = time;
  return true;
}

void World::arrived(Index id) {
  ++channels_[id].arrived;
  if (const std::uint32_t log = log_of(id); log != MessageLog::kNone) message_log_.log(log).arrived.push(engine_.now());
  path_.happened(path_.pop(PathRecorder::Line::messages, id), PathRecorder::Why::message);
  wake(channels_[id].waiting_receiver);
}

/// A message has been received, which its sender will know a hop later. As with arrivals: an event only where somebody waits.
void World::credit_later(Index id) {
  Channel& c = channels_[id];
  const ChannelKind& kind = kinds_[c.kind];
  c.catch_up(engine_.now());
  if (keeps_times_ && c.waiting_sender == kNobody && c.credits == Channel::kNever && kind.terms.job->snapshots)
    c.credits = engine_.now() + kind.cost.hop;
  else
    engine_.after(kind.cost.hop, tag(Kind::credit, id));
}

void World::credit(Index id) {
  Channel& c = channels_[id];
  ++c.credited;
  path_.happened(path_.pop(PathRecorder::Line::credits, id), PathRecorder::Why::credit);
  // A sender whose buffer is read in place may not return before that.
  if (!kinds_[c.kind].terms.job->snapshots) finish(c.from);
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
  engine_.after(cost_of(channels_[way]).hop, tag(Kind::signal, remote_signals_.size() - 1));
}

void World::remote_signal(std::uint64_t index) {
  const RemoteSignal signal = remote_signals_[index];
  path_.happened(signal.step, PathRecorder::Why::signal);
  ++ranks_[at(signal.to)].signals_from[(static_cast<std::uint64_t>(signal.from) << 32) | static_cast<std::uint64_t>(signal.event)];
  wake_waiting(signal.to);
}

Folding::Kin World::kin_of(int from, int to, int number) const {
  if (fold_.folding) return fold_.folding->channel(from, to, number);
  return {((static_cast<std::uint64_t>(from) * ranks_.size() + static_cast<std::uint64_t>(to)) << 8) | static_cast<std::uint64_t>(number),
          1};
}

Index World::channel(int from, int to, int number) {
  if (number == 0 && !pairs_.is_empty()) {
    Index& after = pairs_.of(from, to);
    if (after == 0) after = add_channel(from, to, kin_of(from, to, number)) + 1;
    return after - 1;
  }
  const Folding::Kin kin = kin_of(from, to, number);
  const FlatMap::Place place = channel_of_.try_emplace(kin.name, static_cast<Index>(channels_.size()));
  return place.is_new ? add_channel(from, to, kin) : *place.number;
}

Index World::add_channel(int from, int to, const Folding::Kin& kin) {
  const Index id = new_channel();
  Channel& c = channels_[id];
  c.from = from;
  c.to = to;
  if (!message_log_.is_empty()) logs_.push_back(message_log_.log_of(kin.name));
  lay_way(c, kin.members);
  return id;
}

/// Where ranks talk to each of many others once, millions of channels would be filled and never looked at again. All that is known of a
/// channel by its number must have come to an end with it.
bool World::may_reuse_channels(const Step& step) const {
  return !pairs_.is_empty() && !is_host_ && keeps_times_ && !may_repeat_ && !has_counts() && message_log_.is_empty() &&
         options_.congestion.control == FlowControl::fair &&
         std::all_of(step.jobs.begin(), step.jobs.end(), [](const Job& job) { return job.plan->pieces.count == 1 && job.plan->slots > 0; });
}

/// The channel of an op. It stays that of the two ranks for as long as a strand is at the op; for good where an op whose peers do not move
/// remembers it.
Index World::hold(int from, int to, const schedule::Op& op) {
  const Index id = channel(from, to, op.channel);
  if (!reuses_channels_) return id;
  Channel& c = channels_[id];
  if (op.peer_step != 0) ++c.holders;
  c.is_for_good |= op.peer_step == 0 || op.channel != 0;
  return id;
}

void World::let_go(Index id) {
  Channel& c = channels_[id];
  if (--c.holders > 0 || c.is_spare || c.is_for_good || Channel::between(c.sent, c.received) != 0) return;
  c.is_spare = true;
  spare_.push_back(id);
}

/// Those of which nothing more will be heard are free.
void World::free_spare_channels() {
  while (!spare_.empty()) {
    const Index id = spare_.front();
    Channel& c = channels_[id];
    c.catch_up(engine_.now());
    const bool is_in_use = c.holders > 0 || c.is_for_good;
    if (!is_in_use && !c.is_quiet()) return;
    spare_.pop_front();
    c.is_spare = false;
    if (is_in_use) continue;
    pairs_.of(c.from, c.to) = 0;
    messages_before_ += c.sent;
    if (c.wires > Channel::kFewWires) {
      if (spare_ways_.size() <= c.wires) spare_ways_.resize(c.wires + std::size_t{1});
      spare_ways_[c.wires].push_back(c.first_wire);
    }
    c = {};
    free_.push_back(id);
  }
}

/// As new: of those that are free the one that was used last, which is still in a cache.
Index World::new_channel() {
  free_spare_channels();
  return take_place(channels_, free_);
}

/// A way that was laid last.
void World::move_into_spare_way(Channel& c) {
  if (spare_ways_.size() <= c.wires || spare_ways_[c.wires].empty()) return;
  const std::size_t place = spare_ways_[c.wires].back();
  spare_ways_[c.wires].pop_back();
  std::copy(ways_.end() - static_cast<std::ptrdiff_t>(c.wires), ways_.end(), ways_.begin() + static_cast<std::ptrdiff_t>(place));
  ways_.resize(c.first_wire);
  c.first_wire = place;
}

std::uint32_t World::kind_of(const ChannelKind::Terms& terms) {
  std::uint64_t hash = hash_with(static_cast<std::uint64_t>(terms.level), std::bit_cast<std::uint64_t>(terms.latency));
  hash = hash_with(hash, std::bit_cast<std::uint64_t>(terms.bottleneck));
  hash = hash_with(hash, std::bit_cast<std::uint64_t>(terms.members));
  hash = hash_with(hash, reinterpret_cast<std::uintptr_t>(terms.framing));
  const FlatMap::Place known = kind_of_.try_emplace(hash, 0);
  if (known.is_new || !(kinds_[*known.number].terms == terms)) {
    *known.number = static_cast<std::uint32_t>(kinds_.size());
    const Job& job = *terms.job->job;
    kinds_.push_back({terms, tuning::message_cost(*job.environment, *job.plan, terms.level, {terms.latency}, Bandwidth{terms.bottleneck},
                                                  terms.is_on_one_core)});
    if (terms.is_socket) kinds_.back().cost.copy = 0;  // which is what the receiving core does
  }
  return *known.number;
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
void World::cross(Channel& c, topology::ResourceId id, double members) {
  if (fold_.implied.contains(id)) return;
  if (!fold_.folding) return add_to_way(c, engine_resource(id), false);
  const Folding::Kin kin = fold_.folding->resource(id);
  const auto [known, is_new] = class_resource_.try_emplace(kin.name, id);
  const std::uint32_t number = engine_resource(known->second);
  const auto begin = ways_.begin() + static_cast<std::ptrdiff_t>(c.first_wire);
  const auto place = std::find(begin, ways_.end(), number);
  if (place == ways_.end()) {
    ways_.push_back(number);
    way_counts_.push_back(members / kin.members);
  } else {
    way_counts_[c.first_wire + static_cast<std::size_t>(place - begin)] += members / kin.members;
  }
}

/// Finds the way of a channel, what it costs and which resources its messages cross. Folded: the channel is then one between the first
/// ranks of their classes.
void World::lay_way(Channel& c, double members) {
  const JobState& job = *ranks_[at(c.from)].job;
  const tuning::Environment& environment = *job.job->environment;
  const int from = c.from - job.first;
  const int to = c.to - job.first;
  const int level = environment.level_of(from, to);
  resources_.route(device_of(c.from), device_of(c.to), tuning::via_of(job.job->wires, environment.is_host, level == 0), route_);
  if (options_.is_staged && !is_host_) stage(route_, device_of(c.from), device_of(c.to));
  if (!is_host_ && !route_.resources.empty()) slow_outlet(c.from, route_.resources.front());
  const tuning::Level& known = environment.level[level];
  const bool is_wire_known = route_.exists() && !route_.scope.empty();
  Bandwidth bottleneck = is_wire_known ? route_.bottleneck : known.bottleneck;
  if (!scale_.empty())
    for (topology::ResourceId id : route_.resources)
      if (scale_.contains(id)) bottleneck = std::min(bottleneck, Bandwidth::gigabytes(capacity_of(id)));
  const Nanoseconds latency = is_wire_known ? route_.latency : known.latency;
  const bool is_socket = !is_host_ && route_.scope == "tcp";
  c.kind = kind_of({&job, level, environment.are_on_one_core(from, to), latency.value, bottleneck.value, members,
                    framing(c, route_, tuning::is_by_memory(environment, level)), is_socket});
  const tuning::MessageCost& cost = cost_of(c);
  c.first_wire = ways_.size();
  if (route_.path_class == topology::PathClass::net) lay_lines(c);
  for (topology::ResourceId id : route_.resources) cross(c, id, members);
  if (fold_.folding) {
    c.from = job.first + fold_.folding->representative(from);
    c.to = job.first + fold_.folding->representative(to);
  }
  if (is_socket) lay_sockets(c, members);
  if (!cost.is_memory && cost.pattern_cap > 0) {
    std::uint32_t& pattern = pattern_[at(c.from)];
    if (pattern == kNobody) pattern = engine_.add_resource(cost.pattern_cap / cost.efficiency);
    add_to_way(c, pattern, true, fold_.folding ? members / fold_.folding->members(from) : 1);
  }
  c.wires = static_cast<std::uint16_t>(ways_.size() - c.first_wire);
  if (has_counts()) return;
  if (c.wires > Channel::kFewWires) return move_into_spare_way(c);
  std::uint32_t few[Channel::kFewWires] = {};
  std::copy(ways_.end() - static_cast<std::ptrdiff_t>(c.wires), ways_.end(), few);
  ways_.resize(ways_.size() - c.wires);
  std::copy(std::begin(few), std::end(few), c.few_wires);
}

}  // namespace peal::sim
