// Messages of GPUs that pass through host memory because the NIC does not reach theirs.
#include <algorithm>

#include "world.hpp"

namespace peal::sim {

namespace {

/// The NUMA domain next to a device's NIC, in the cluster's numbering, or -1: where its buffers lie.
int host_of(const topology::Resources& resources, int device) {
  const topology::Cluster& cluster = resources.cluster();
  const int nic = resources.nic_of(cluster.local_of(device));
  int best = -1;
  for (const int cpu : cluster.machine().devices_of(topology::DeviceKind::cpu)) {
    const auto rank = [&](int host) { return std::pair(resources.paths().path(nic, host).path_class, host); };
    if (nic >= 0 && resources.paths().path(nic, cpu).exists() && (best < 0 || rank(cpu) < rank(best))) best = cpu;
  }
  return best < 0 ? -1 : cluster.copy_of(device) * cluster.devices_per_node() + best;
}

}  // namespace

/// Into the memory next to the NIC, out of it over the network, and likewise at the other end. Left as it is inside a machine, and where
/// there is no such memory.
void World::stage(topology::Route& route, int from, int to) const {
  const topology::Cluster& cluster = resources_.cluster();
  if (cluster.copy_of(from) == cluster.copy_of(to) || !route.exists()) return;
  const int host = host_of(resources_, from);
  const int other = host_of(resources_, to);
  if (host < 0 || other < 0) return;
  topology::Route whole = route;
  whole.resources.clear();
  whole.latency = {};
  for (const auto& [a, b] : {std::pair{from, host}, {host, other}, {other, to}}) {
    const topology::Route part = resources_.route(a, b);
    if (!part.exists()) return;
    whole.resources.insert(whole.resources.end(), part.resources.begin(), part.resources.end());
    whole.latency.value += part.latency.value;
    whole.bottleneck = std::min(whole.bottleneck, part.bottleneck);
  }
  route = std::move(whole);
}

}  // namespace peal::sim
