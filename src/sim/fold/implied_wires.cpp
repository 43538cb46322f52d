#include "implied_wires.hpp"

#include <algorithm>
#include <set>
#include <sim/refine.hpp>
#include <topology/switch_tree.hpp>
#include <unordered_map>

namespace peal::sim {

namespace {

constexpr std::size_t kMostDevices = 128;  // of a machine: ways are as many as their square

/// Places in a machine on which ranks sit.
std::vector<int> places_of(std::span<const Job> jobs, const topology::Cluster& cluster) {
  std::set<int> places;
  for (const Job& job : jobs)
    for (const int device : job.device_of_rank) places.insert(cluster.local_of(device));
  return {places.begin(), places.end()};
}

/// For each wire of a machine a hash of the ways that cross it: inside, out of it and into it.
std::vector<std::uint64_t> crossings(std::span<const int> places, const topology::Resources& resources) {
  const topology::Cluster& cluster = resources.cluster();
  const std::size_t per_copy = resources.per_copy();
  std::vector<std::uint64_t> crossed(per_copy, 0);
  topology::Route route;
  for (const int a : places)
    for (const int b : places)
      for (int copy = 0; copy < std::min(2, cluster.copies()); ++copy) {
        if (copy == 0 && a == b) continue;
        resources.route(a, copy * cluster.devices_per_node() + b, topology::Via::any, route);
        const std::uint64_t way =
            hash_with(hash_with(static_cast<std::uint64_t>(copy), static_cast<std::uint64_t>(a)), static_cast<std::uint64_t>(b));
        for (const topology::ResourceId id : route.resources)
          if (id < 2 * per_copy && id < per_copy * static_cast<std::size_t>(cluster.copies()))
            crossed[id % per_copy] += hash_with(way, id / per_copy);
      }
  return crossed;
}

/// What switches compute crosses, for each member, as many bytes up and as many down as that member has: two ways more.
void cross_by_switches(std::span<const int> places, const topology::Resources& resources, std::vector<std::uint64_t>& crossed) {
  const topology::Cluster& cluster = resources.cluster();
  std::uint64_t way = 0;
  const auto cross = [&](std::span<const topology::ResourceId> ids) {
    ++way;
    for (const topology::ResourceId id : ids)
      if (id < crossed.size()) crossed[id] += hash_with(way, 0);
  };
  const auto cross_tree = [&](std::span<const int> devices, std::size_t members) {
    const auto tree = topology::switch_tree(resources, devices);
    for (std::size_t i = 0; tree && i < members; ++i) {
      cross(tree->up[i]);
      cross(tree->down[i]);
    }
  };
  cross_tree(places, places.size());
  for (const int place : places)
    if (cluster.copies() > 1) cross_tree(std::vector{place, cluster.devices_per_node() + place}, 1);
}

}  // namespace

ImpliedWires::ImpliedWires(std::span<const Job> jobs, const topology::Resources& resources, const Perturbation& perturbation,
                           bool switches_compute) {
  const topology::Cluster& cluster = resources.cluster();
  const std::vector<int> places = places_of(jobs, cluster);
  if (places.size() > kMostDevices) return;
  per_copy_ = static_cast<std::uint32_t>(resources.per_copy());
  std::vector<std::uint64_t> crossed = crossings(places, resources);
  if (switches_compute) cross_by_switches(places, resources, crossed);
  const auto is_narrower = [&](topology::ResourceId a, topology::ResourceId b) {
    const double x = resources.capacity(a).value;
    const double y = resources.capacity(b).value;
    return x > 0 && (x < y || y <= 0);
  };
  // Of wires that the same ways cross the narrowest is left, of equal ones that of the lowest number.
  std::unordered_map<std::uint64_t, topology::ResourceId> narrowest;
  for (topology::ResourceId id = 0; id < per_copy_; ++id) {
    topology::ResourceId& first = narrowest.try_emplace(crossed[id], id).first->second;
    if (is_narrower(id, first)) first = id;
  }
  for (topology::ResourceId id = 0; id < per_copy_; ++id) leaders_.push_back(crossed[id] == 0 ? id : narrowest[crossed[id]]);
  followers_.resize(per_copy_);
  for (topology::ResourceId id = 0; id < per_copy_; ++id)
    if (leaders_[id] != id) followers_[leaders_[id]].push_back(id);
  is_plain_.assign(static_cast<std::size_t>(cluster.copies()), true);
  for (const auto& [id, factor] : perturbation.scaled_resources)
    if (id / per_copy_ < is_plain_.size()) is_plain_[id / per_copy_] = false;
  std::vector<int> device_of;  // ranks are counted through the jobs
  for (const Job& job : jobs) device_of.insert(device_of.end(), job.device_of_rank.begin(), job.device_of_rank.end());
  for (const auto& [rank, factor] : perturbation.slow_ranks)
    is_plain_[static_cast<std::size_t>(cluster.copy_of(device_of[static_cast<std::size_t>(rank)]))] = false;
}

std::span<const topology::ResourceId> ImpliedWires::followers(topology::ResourceId leader, std::vector<topology::ResourceId>& room) const {
  room.clear();
  if (!is_plain(leader)) return room;
  const topology::ResourceId local = leader % per_copy_;
  for (const topology::ResourceId id : followers_[local]) room.push_back(leader - local + id);
  return room;
}

}  // namespace peal::sim
