#include <algorithm>
#include <map>
#include <numeric>
#include <tuning/placement.hpp>

namespace peal::tuning {

namespace {

/// Better ways first: class, then width, then latency.
bool is_better(const topology::Route& a, const topology::Route& b) {
  if (a.path_class != b.path_class) return a.path_class < b.path_class;
  if (a.bottleneck != b.bottleneck) return a.bottleneck > b.bottleneck;
  return a.latency < b.latency;
}

/// Nearest neighbour from the lowest rank on; equal ways keep rank order. Machines with few equal ways (a switch) stay in rank order.
void order_along_best_links(const topology::Resources& resources, std::span<const int> device_of_rank, std::span<std::int32_t> members) {
  topology::Route best;
  topology::Route way;
  for (std::size_t at = 0; at + 2 < members.size(); ++at) {
    const auto device = [&](std::size_t i) { return device_of_rank[static_cast<std::size_t>(members[i])]; };
    std::size_t chosen = at + 1;
    resources.route(device(at), device(chosen), topology::Via::any, best);
    for (std::size_t i = at + 2; i < members.size(); ++i) {
      resources.route(device(at), device(i), topology::Via::any, way);
      if (is_better(way, best)) {
        chosen = i;
        best = way;
      }
    }
    std::rotate(members.begin() + static_cast<std::ptrdiff_t>(at) + 1, members.begin() + static_cast<std::ptrdiff_t>(chosen),
                members.begin() + static_cast<std::ptrdiff_t>(chosen) + 1);
  }
}

std::vector<std::int32_t> racks_of(const topology::Cluster& cluster, std::span<const int> device_of_rank) {
  std::vector<std::int32_t> racks;
  for (const int device : device_of_rank) racks.push_back(static_cast<std::int32_t>(cluster.fabric()->rack_of(cluster.copy_of(device))));
  return racks;
}

constexpr std::size_t kMostOrderedMembers = 128;  // beyond, a group's ring is in rank order
constexpr std::size_t kMostStridedRings = 4;
constexpr std::int32_t kMostRingedRanks = 64;
constexpr std::size_t kMostRails = 16;

std::vector<std::int32_t> in_order(const schedule::Placement& placement, std::int32_t ranks) {
  std::vector<std::int32_t> ring = placement.ring;
  if (!ring.empty()) return ring;
  ring.resize(static_cast<std::size_t>(ranks));
  std::iota(ring.begin(), ring.end(), 0);
  return ring;
}

}  // namespace

schedule::Placement place_groups(std::span<const int> group_of_rank) {
  schedule::Placement placement;
  std::map<int, std::int32_t> number;
  for (int g : group_of_rank) {
    const auto [it, is_new] = number.emplace(g, static_cast<std::int32_t>(number.size()));
    placement.group.push_back(it->second);
  }
  if (number.size() <= 1) return {};
  placement.ring.resize(placement.group.size());
  std::iota(placement.ring.begin(), placement.ring.end(), 0);
  std::stable_sort(placement.ring.begin(), placement.ring.end(), [&](std::int32_t a, std::int32_t b) {
    return placement.group[static_cast<std::size_t>(a)] < placement.group[static_cast<std::size_t>(b)];
  });
  if (std::is_sorted(placement.ring.begin(), placement.ring.end())) placement.ring.clear();
  return placement;
}

schedule::Placement place(std::span<const std::string> host_of_rank) {
  std::map<std::string_view, int> number;
  std::vector<int> groups;
  for (const std::string& host : host_of_rank) groups.push_back(number.emplace(host, static_cast<int>(number.size())).first->second);
  return place_groups(groups);
}

schedule::Placement place(const topology::Resources& resources, std::span<const int> device_of_rank) {
  std::vector<int> nodes;
  nodes.reserve(device_of_rank.size());
  for (int device : device_of_rank) nodes.push_back(resources.cluster().node_of(device));
  schedule::Placement placement = place_groups(nodes);
  if (resources.cluster().fabric() != nullptr) order_by_racks(racks_of(resources.cluster(), device_of_rank), placement);
  std::vector<std::int32_t> ring = placement.ring;
  if (ring.empty()) {
    ring.resize(device_of_rank.size());
    std::iota(ring.begin(), ring.end(), 0);
  }
  for (std::size_t begin = 0; begin < ring.size();) {
    std::size_t end = begin;
    const auto node = [&](std::size_t i) { return nodes[static_cast<std::size_t>(ring[i])]; };
    while (end < ring.size() && node(end) == node(begin)) ++end;
    if (end - begin <= kMostOrderedMembers) order_along_best_links(resources, device_of_rank, std::span(ring).subspan(begin, end - begin));
    begin = end;
  }
  if (!std::is_sorted(ring.begin(), ring.end())) placement.ring = std::move(ring);
  return placement;
}

void order_by_racks(std::span<const std::int32_t> rack_of_rank, schedule::Placement& placement) {
  if (placement.group.empty()) return;
  placement.ring = in_order(placement, static_cast<std::int32_t>(rack_of_rank.size()));
  const auto rack = [&](std::int32_t rank) { return rack_of_rank[static_cast<std::size_t>(rank)]; };
  std::stable_sort(placement.ring.begin(), placement.ring.end(), [&](std::int32_t a, std::int32_t b) { return rack(a) < rack(b); });
  if (std::is_sorted(placement.ring.begin(), placement.ring.end())) placement.ring.clear();
}

std::vector<std::int32_t> number_racks(std::span<const std::string> rack_of_rank) {
  std::map<std::string, std::int32_t> seen;      // a switch, by its own name and those above it
  std::vector<std::vector<std::int32_t>> paths;  // the number of every switch above a rank, the highest first
  for (const std::string& name : rack_of_rank) {
    std::vector<std::int32_t>& path = paths.emplace_back();
    for (std::size_t end = 0; end < name.size(); ++end) {
      end = std::min(name.find('.', end), name.size());
      path.push_back(seen.emplace(name.substr(0, end), static_cast<std::int32_t>(seen.size())).first->second);
    }
  }
  std::map<std::vector<std::int32_t>, std::int32_t> number;
  for (const auto& path : paths) number.emplace(path, 0);
  std::int32_t next = 0;
  for (auto& [path, rack] : number) rack = next++;
  std::vector<std::int32_t> racks;
  for (const auto& path : paths) racks.push_back(number[path]);
  return racks;
}

std::vector<std::vector<std::int32_t>> disjoint_rings(std::int32_t ranks) {
  std::vector<std::vector<std::int32_t>> rings;
  for (const std::int32_t stride : {1, ranks - 1, 3, ranks - 3, 2, ranks - 2}) {
    if (rings.size() == kMostStridedRings || stride < 1 || std::gcd(stride, ranks) != 1) continue;
    std::vector<std::int32_t> ring;
    for (std::int32_t p = 0; p < ranks; ++p) ring.push_back(static_cast<std::int32_t>(std::int64_t{p} * stride % ranks));
    if (ranks == 2 || std::find(rings.begin(), rings.end(), ring) == rings.end()) rings.push_back(std::move(ring));
    if (ranks == 2 && rings.size() == 2) break;
  }
  return rings;
}

std::vector<std::vector<std::int32_t>> host_rings(const schedule::Placement& placement, std::int32_t ranks) {
  if (ranks < 2 || ranks > kMostRingedRanks) return {};
  if (placement.group.empty()) return disjoint_rings(ranks);
  std::vector<std::int32_t> there = in_order(placement, ranks);
  std::vector<std::int32_t> back(there.rbegin(), there.rend());
  return {std::move(there), std::move(back)};
}

std::vector<std::vector<std::int32_t>> rail_rings(const schedule::Placement& placement, std::int32_t ranks_per_outlet) {
  if (placement.group.empty()) return {};
  const std::vector<std::int32_t> ring = in_order(placement, static_cast<std::int32_t>(placement.group.size()));
  const std::int32_t groups = *std::max_element(placement.group.begin(), placement.group.end()) + 1;
  const std::size_t size = ring.size() / static_cast<std::size_t>(groups);
  // Where the ring enters a group; every group must be one stretch of it, all as long.
  const auto group_at = [&](std::size_t p) { return placement.group[static_cast<std::size_t>(ring[p])]; };
  for (std::size_t p = 0; p < ring.size(); ++p)
    if (size * static_cast<std::size_t>(groups) != ring.size() || group_at(p) != group_at(p / size * size)) return {};
  const std::size_t rails = std::min(size / static_cast<std::size_t>(std::max(1, ranks_per_outlet)), kMostRails);
  if (rails < 2) return {};
  std::vector<std::vector<std::int32_t>> rings;
  for (std::size_t k = 0; k < rails; ++k) {
    std::vector<std::int32_t>& rail = rings.emplace_back(ring);
    for (std::size_t begin = 0; begin < ring.size(); begin += size) {
      const auto stretch = std::span(rail).subspan(begin, size);
      std::rotate(stretch.begin(), stretch.begin() + static_cast<std::ptrdiff_t>(k * size / rails), stretch.end());
      // Every other group is walked backwards: what leaves by a rail comes in by the same, and crosses no switch above the rail's own.
      if (begin / size % 2 == 1) std::reverse(stretch.begin(), stretch.end());
    }
  }
  return rings;
}

int place_on_machine(int index, int ranks, int places) {
  return ranks > places ? static_cast<int>(static_cast<std::int64_t>(index) * places / ranks) : index;
}

std::vector<int> spread(const topology::Cluster& cluster, int ranks) {
  std::vector<int> devices;
  devices.reserve(static_cast<std::size_t>(ranks));
  const int places = cluster.ranks();
  const int per_node = std::max(1, cluster.ranks_per_node());
  const int last_node = places - per_node;
  for (int r = 0; r < ranks; ++r) {
    const int place = r < last_node ? r : last_node + place_on_machine(r - last_node, ranks - last_node, per_node);
    devices.push_back(cluster.device_of_rank(place));
  }
  return devices;
}

}  // namespace peal::tuning
