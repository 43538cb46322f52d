#include <algorithm>

#include "walk_state.hpp"

namespace peal::tuning::walking {

Channel& Walk::channel(int from, int to, int number) {
  const std::uint64_t key =
      ((static_cast<std::uint64_t>(from) * static_cast<std::uint64_t>(environment_.ranks) + static_cast<std::uint64_t>(to)) << 8) |
      static_cast<std::uint64_t>(number);
  const auto [it, is_new] = channels_.try_emplace(key);
  Channel& c = it->second;
  if (is_new) {
    c.level = environment_.level_of(from, to);
    c.sender = from;
    const Level& level = environment_.level[c.level];
    c.way = environment_.wiring.way(from, to);
    const Nanoseconds latency = c.way == nullptr ? level.latency : Nanoseconds{c.way->latency_ns};
    const Bandwidth width = c.way == nullptr ? level.bottleneck : Bandwidth{environment_.wiring.width(*c.way) * 1e9};
    c.cost = message_cost(environment_, plan_, c.level, latency, width, environment_.are_on_one_core(from, to));
  }
  return c;
}

void Walk::queue(int strand, double when, bool is_offer) {
  Strand& s = strands_[at(strand)];
  if (s.is_queued) return;
  s.is_queued = true;
  queue_.push({when, is_offer, order_++, strand});
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

}  // namespace peal::tuning::walking
