#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <topology/machine.hpp>
#include <topology/resources.hpp>

namespace peal::topology {
namespace {

Resources load_resources(std::string_view name, int nodes) {
  auto cluster = build_cluster(name, nodes);
  EXPECT_TRUE(cluster) << cluster.error().message;
  return Resources(std::move(*cluster));
}

TEST(Resources, InsideANodeARouteIsTheBundlesOfThePath) {
  const Resources r = load_resources("dgx-h100", 1);
  const int a = r.cluster().device_of_rank(0);
  const int b = r.cluster().device_of_rank(7);
  const Route route = r.route(a, b);
  EXPECT_EQ(route.path_class, PathClass::nvl);
  ASSERT_EQ(route.resources.size(), 2u);
  EXPECT_EQ(route.wires, 18);
  EXPECT_EQ(route.scope, "nvlink-h100");
  EXPECT_NEAR(route.bottleneck.gigabytes(), 18 * 20.6, 1e-6);
  EXPECT_EQ(r.name(route.resources[0]), "gpu0 > nvswitch0 (nvlink x18)");
  // The two directions are resources of their own.
  const Route back = r.route(b, a);
  for (ResourceId id : route.resources) EXPECT_EQ(std::count(back.resources.begin(), back.resources.end(), id), 0);
  // Somebody else's traffic to the same GPU shares its way in.
  EXPECT_EQ(r.route(r.cluster().device_of_rank(3), b).resources.back(), route.resources.back());
}

// Measured: GPUs that speak through a CPU get 0.61 of twice one direction when both speak; below a switch they get all.
TEST(Resources, ASlotOfACpuCarriesLessBothWaysBetweenGpus) {
  const Resources r = load_resources("pcie4-rtx4090x4", 1);
  const Route there = r.route(r.cluster().device_of_rank(0), r.cluster().device_of_rank(1));
  const Route back = r.route(r.cluster().device_of_rank(1), r.cluster().device_of_rank(0));
  EXPECT_NEAR(there.bottleneck.gigabytes(), 24, 1e-9);
  int shared = 0;
  for (ResourceId id : there.resources) {
    if (!r.is_both_ways(id)) continue;
    ++shared;
    EXPECT_NEAR(r.capacity(id).gigabytes(), 0.61 * 48, 1e-6) << r.name(id);
    EXPECT_EQ(std::count(back.resources.begin(), back.resources.end(), id), 1);
  }
  EXPECT_EQ(shared, 2);
  EXPECT_FALSE(r.is_both_ways(there.resources.front()));
  EXPECT_FALSE(r.is_both_ways(there.resources.back()));
  for (const char* machine : {"dgx-h100", "dgx-a100"}) {
    const Resources nvlink = load_resources(machine, 1);
    for (ResourceId id : nvlink.route(nvlink.cluster().device_of_rank(0), nvlink.cluster().device_of_rank(7)).resources)
      EXPECT_FALSE(nvlink.is_both_ways(id)) << machine;
  }
}

TEST(Resources, BetweenNodesEveryGpuHasANicOfItsOwn) {
  for (const char* name : {"dgx-a100", "dgx-h100"}) {
    const Resources r = load_resources(name, 3);
    std::set<int> nics;
    for (int rank = 0; rank < 8; ++rank) nics.insert(r.nic_of(r.cluster().local_of(r.cluster().device_of_rank(rank))));
    EXPECT_EQ(nics.size(), 8u) << name;
    for (int nic : nics) EXPECT_GE(r.cluster().machine().device(nic).rail, 0);
  }
}

TEST(Resources, AcrossTheNetworkRoutesCrossBothPorts) {
  const Resources r = load_resources("dgx-h100", 4);
  const Cluster& c = r.cluster();
  const Route same_rail = r.route(c.device_of_rank(2), c.device_of_rank(8 + 2));
  const Route other_rail = r.route(c.device_of_rank(2), c.device_of_rank(24 + 5));
  EXPECT_EQ(same_rail.path_class, PathClass::net);
  EXPECT_EQ(same_rail.scope, "infiniband");
  EXPECT_NEAR(same_rail.bottleneck.gigabytes(), 48, 1e-9);
  EXPECT_GT(other_rail.latency, same_rail.latency);
  std::vector<std::string> names;
  for (ResourceId id : other_rail.resources) names.push_back(r.name(id));
  EXPECT_NE(std::find(names.begin(), names.end(), "n0: nic4 port out"), names.end());
  EXPECT_NE(std::find(names.begin(), names.end(), "n3: nic9 port in"), names.end());
  const std::set<ResourceId> once(other_rail.resources.begin(), other_rail.resources.end());
  EXPECT_EQ(once.size(), other_rail.resources.size());
  EXPECT_FALSE(r.route(c.device_of_rank(0), c.device_of_rank(8), Via::shared_memory).exists());
}

TEST(Resources, NodesAreCopiesAndAHugeClusterCostsNothing) {
  const Resources r = load_resources("dgx-h100", 100'000);
  const Cluster& c = r.cluster();
  EXPECT_EQ(c.ranks(), 800'000);
  EXPECT_FALSE(c.graph());
  const Route near = r.route(c.device_of_rank(0), c.device_of_rank(8));
  const Route far = r.route(c.device_of_rank(799'992), c.device_of_rank(0));
  ASSERT_EQ(near.resources.size(), far.resources.size());
  for (std::size_t i = 0; i < near.resources.size(); ++i) {
    EXPECT_EQ(r.class_of(near.resources[i]), r.class_of(far.resources[i]));
    EXPECT_EQ(r.capacity(near.resources[i]), r.capacity(far.resources[i]));
    EXPECT_LT(far.resources[i], r.count());
  }
  EXPECT_EQ(near.latency, far.latency);
}

TEST(Resources, TheDrawnClusterHasTheSameClassAndBottleneck) {
  const Resources r = load_resources("dgx-a100", 2);
  const auto graph = r.cluster().graph();
  ASSERT_TRUE(graph) << graph.error().message;
  const Resources drawn{Graph(*graph)};
  ASSERT_EQ(drawn.cluster().ranks(), 16);
  for (int a = 0; a < 16; ++a) {
    for (int b = 0; b < 16; ++b) {
      if (a == b) continue;
      const Route x = r.route(r.cluster().device_of_rank(a), r.cluster().device_of_rank(b));
      const Route y = drawn.route(drawn.cluster().device_of_rank(a), drawn.cluster().device_of_rank(b));
      ASSERT_EQ(x.path_class, y.path_class) << a << " " << b;
      ASSERT_NEAR(x.bottleneck.value, y.bottleneck.value, 1) << a << " " << b;
      ASSERT_EQ(x.scope, y.scope);
    }
  }
}

Graph small_host() {
  auto cluster = read_cluster_text(R"(
devices:
  - {id: numa0, kind: cpu}
  - {id: cache0, kind: memory, capacity_GBps: 15}
  - {id: "core[0-1]", kind: core}
  - {id: lo, kind: loopback}
links:
  - {a: cache0, b: numa0, kind: memory, GBps: 40}
  - {a: "core[0-1]", b: cache0, kind: shm, GBps: 10, latency_ns: 30}
  - {a: "core[0-1]", b: lo, kind: loopback, GBps: 4, latency_ns: 2000}
)",
                                   "host.yaml");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return cluster->machine();
}

TEST(Resources, AHostHasSharedMemoryAndLoopback) {
  const Resources r{small_host()};
  const int a = r.cluster().device_of_rank(0);
  const int b = r.cluster().device_of_rank(1);
  const Route shm = r.route(a, b);
  EXPECT_EQ(shm.path_class, PathClass::shm);
  EXPECT_EQ(shm.scope, "shm");
  EXPECT_DOUBLE_EQ(shm.latency.value, 60);
  EXPECT_EQ(shm.resources.size(), 3u);  // core to cache, the cache itself, cache to core
  EXPECT_NEAR(shm.bottleneck.gigabytes(), 10, 1e-9);
  EXPECT_EQ(r.route(a, b, Via::shared_memory).resources, shm.resources);
  const Route socket = r.route(a, b, Via::socket);
  EXPECT_EQ(socket.path_class, PathClass::loopback);
  EXPECT_EQ(socket.scope, "tcp-loopback");
  EXPECT_DOUBLE_EQ(socket.latency.value, 4000);
  const Route self = r.route(a, a);  // two ranks on one core
  EXPECT_EQ(self.path_class, PathClass::self);
  EXPECT_FALSE(self.resources.empty());
  EXPECT_EQ(r.route(a, a, Via::socket).path_class, PathClass::loopback);
}

TEST(Resources, AHalfDuplexWireIsOneResource) {
  auto cluster = read_cluster_text(R"(
devices: [{id: "gpu[0-1]", kind: gpu}]
links: [{a: gpu0, b: gpu1, kind: pcie, GBps: 4, shared: true}]
)",
                                   "bus.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const Resources r(std::move(*cluster));
  EXPECT_EQ(r.count(), 1u);
  EXPECT_EQ(r.route(0, 1).resources, r.route(1, 0).resources);
  EXPECT_DOUBLE_EQ(r.capacity(0).gigabytes(), 4);
}

}  // namespace
}  // namespace peal::topology
