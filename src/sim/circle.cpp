// Lines that can wait for one another for ever: pauses go from a port to those before it, and where ways lead round, to itself (W. Dally
// and C. Seitz, IEEE Trans. Computers, 1987: no circle in the dependencies of channels is what keeps a network free of deadlock).
#include <algorithm>

#include "world.hpp"

namespace peal::sim {

namespace {

using Edges = std::vector<std::vector<std::uint32_t>>;

enum class Seen : std::uint8_t { no, open, closed };

/// One circle that can be reached from `start`, in its order; empty: none.
std::vector<std::uint32_t> circle_from(std::uint32_t start, const Edges& edges, std::vector<Seen>& seen) {
  std::vector<std::pair<std::uint32_t, std::size_t>> walk{{start, 0}};
  seen[start] = Seen::open;
  while (!walk.empty()) {
    auto& [at, next] = walk.back();
    if (next == edges[at].size()) {
      seen[at] = Seen::closed;
      walk.pop_back();
      continue;
    }
    const std::uint32_t to = edges[at][next++];
    if (seen[to] == Seen::no) {
      seen[to] = Seen::open;
      walk.emplace_back(to, 0);
    } else if (seen[to] == Seen::open) {
      std::vector<std::uint32_t> circle;
      const auto first = std::find_if(walk.begin(), walk.end(), [&](const auto& step) { return step.first == to; });
      for (auto step = first; step != walk.end(); ++step) circle.push_back(step->first);
      return circle;
    }
  }
  return {};
}

}  // namespace

void World::find_circle() {
  if (options_.congestion.control == FlowControl::fair) return;
  std::unordered_map<std::uint32_t, topology::ResourceId> line;
  std::uint32_t count = 0;
  for (const auto& [id, number] : used_) {
    if (lines_.contains(id)) line.emplace(number, id);
    count = std::max(count, number + 1);
  }
  Edges edges(count);
  for (const Channel& c : channels_) {
    std::uint32_t before = kNobody;
    for (const std::uint32_t number : wire_of(c)) {
      if (!line.contains(number)) continue;
      if (before != kNobody && std::find(edges[before].begin(), edges[before].end(), number) == edges[before].end())
        edges[before].push_back(number);
      before = number;
    }
  }
  std::vector<Seen> seen(count, Seen::no);
  for (std::uint32_t number = 0; number < count; ++number) {
    if (seen[number] != Seen::no) continue;
    for (const std::uint32_t part : circle_from(number, edges, seen)) outcome_.circle.push_back(resources_.name(line.at(part)));
    if (!outcome_.circle.empty()) return;
  }
}

}  // namespace peal::sim
