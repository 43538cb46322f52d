// Clusters that differ in nothing but what their fabric's hash chooses.
#include "switched_fabric.hpp"

namespace peal::topology {

namespace {

constexpr int kLookedAt = 2'000;  // pairs of ports
constexpr std::uint64_t kOther = 0x9e3779b97f4a7c15;

std::unique_ptr<Fabric> with_seed(const SwitchedFabric& fabric, std::uint64_t seed) {
  std::unique_ptr<Fabric> copy = fabric.clone();
  static_cast<SwitchedFabric&>(*copy).set_seed(seed);
  return copy;
}

/// Do two fabrics lead all pairs by the same ways, as far as some tell?
bool are_ways_equal(const Fabric& a, const Fabric& b, int nodes, int ports) {
  std::vector<std::uint32_t> ways[2];
  for (int i = 0; i < kLookedAt; ++i) {
    // By steps of all lengths, from ports in turn.
    const FabricPort from{i % nodes, i % ports};
    const FabricPort to{(i + 1 + i / nodes) % nodes, i / ports % ports};
    for (auto& way : ways) way.clear();
    a.route(from, to, ways[0]);
    b.route(from, to, ways[1]);
    if (ways[0] != ways[1]) return false;
  }
  return true;
}

}  // namespace

std::optional<std::uint64_t> hash_seed_of(const Cluster& cluster) {
  const auto* fabric = dynamic_cast<const SwitchedFabric*>(cluster.fabric());
  if (fabric == nullptr) return std::nullopt;
  const auto ports = static_cast<int>(plugs_of(cluster.machine()).size());
  if (are_ways_equal(*fabric, *with_seed(*fabric, fabric->seed() ^ kOther), cluster.copies(), ports)) return std::nullopt;
  return fabric->seed();
}

Cluster with_hash_seed(const Cluster& cluster, std::uint64_t seed) {
  const auto* fabric = dynamic_cast<const SwitchedFabric*>(cluster.fabric());
  if (fabric == nullptr) return cluster;
  return Cluster(cluster.machine(), cluster.copies(), with_seed(*fabric, seed));
}

}  // namespace peal::topology
