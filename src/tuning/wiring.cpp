#include <algorithm>
#include <limits>
#include <map>
#include <tuning/wiring.hpp>

namespace peal::tuning {

namespace {

constexpr std::size_t kMostRanks = 64;

/// True where what leaves a rank and what enters it meet in one resource: a slot that carries less both ways than twice one way.
bool meets_itself(const Wiring& wiring, std::int32_t rank) {
  std::vector<bool> leaves(wiring.capacity.size());
  for (const bool is_out : {true, false})
    for (std::int32_t other = 0; other < wiring.ranks; ++other) {
      const Wiring::Way* way = is_out ? wiring.way(rank, other) : wiring.way(other, rank);
      for (std::size_t i = 0; way != nullptr && i < way->wires.size(); ++i) {
        if (is_out) leaves[way->wires[i]] = true;
        if (!is_out && leaves[way->wires[i]]) return true;
      }
    }
  return false;
}

/// True where ranks have one way out each and all pairs are as wide as it: one ring then takes all there is.
bool is_plain(const Wiring& wiring) {
  double width = 0;
  for (std::int32_t rank = 0; rank < wiring.ranks; ++rank)
    if (meets_itself(wiring, rank)) return false;
  for (std::int32_t a = 0; a < wiring.ranks; ++a) {
    const Wiring::Way* first = nullptr;
    for (std::int32_t b = 0; b < wiring.ranks; ++b) {
      const Wiring::Way* way = wiring.way(a, b);
      if (way == nullptr) continue;
      if (first == nullptr) first = way;
      if (width == 0) width = wiring.width(*way);
      if (way->wires.front() != first->wires.front() || wiring.width(*way) != width) return false;
      if (wiring.capacity[way->wires.front()] != width) return false;
    }
  }
  return true;
}

}  // namespace

double Wiring::width(const Way& way) const {
  double width = capacity[way.wires.front()];
  for (const std::uint16_t w : way.wires) width = std::min(width, capacity[w]);
  return width;
}

Wiring wires_of(const topology::Resources& resources, std::span<const int> device_of_rank, Slots slots) {
  const std::size_t n = device_of_rank.size();
  if (n < 2 || n > kMostWiredRanks) return {};
  Wiring wiring;
  wiring.ranks = static_cast<std::int32_t>(n);
  wiring.ways.resize(n * n);
  std::map<topology::ResourceId, std::uint16_t> number;
  topology::Route route;
  const topology::Cluster& cluster = resources.cluster();
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b || cluster.node_of(device_of_rank[a]) != cluster.node_of(device_of_rank[b])) continue;
      resources.route(device_of_rank[a], device_of_rank[b], topology::Via::any, route);
      if (!route.exists() || route.resources.empty()) return {};
      Wiring::Way& way = wiring.ways[a * n + b];
      way.latency_ns = route.latency.value;
      for (const topology::ResourceId id : route.resources) {
        if (slots == Slots::ignored && resources.is_both_ways(id)) continue;
        const auto [it, is_new] = number.emplace(id, static_cast<std::uint16_t>(wiring.capacity.size()));
        if (is_new) wiring.capacity.push_back(resources.capacity(id).gigabytes());
        if (wiring.capacity[it->second] > 0) way.wires.push_back(it->second);
      }
      if (way.wires.empty()) return {};
    }
  }
  return wiring;
}

Wiring wiring_of(const topology::Resources& resources, std::span<const int> device_of_rank, Slots slots) {
  // Two ranks have one way, and only their slots can make it narrower.
  const std::size_t least = slots == Slots::counted ? 2 : 3;
  if (device_of_rank.size() < least || device_of_rank.size() > kMostRanks) return {};
  Wiring wiring = wires_of(resources, device_of_rank, slots);
  return is_plain(wiring) ? Wiring{} : wiring;
}

std::vector<std::uint16_t> ends_of(const Wiring& wiring, std::int32_t rank, bool is_out) {
  std::vector<std::uint16_t> ends;
  for (std::int32_t other = 0; other < wiring.ranks; ++other) {
    const Wiring::Way* way = is_out ? wiring.way(rank, other) : wiring.way(other, rank);
    if (way != nullptr) ends.push_back(is_out ? way->wires.front() : way->wires.back());
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

double rate_at_the_ends(const Wiring& wiring) {
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t rank = 0; rank < wiring.ranks; ++rank) {
    for (const bool is_out : {true, false}) {
      double sum = 0;
      for (const std::uint16_t wire : ends_of(wiring, rank, is_out)) sum += wiring.capacity[wire];
      least = std::min(least, sum);
    }
  }
  return least;
}

}  // namespace peal::tuning
