#include <gmock/gmock.h>

#include "fabric_checks.hpp"

namespace peal::topology {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Counts drawn(const Cluster& cluster) {
  const auto graph = cluster.graph();
  EXPECT_TRUE(graph) << graph.error().message;
  return count(*graph);
}

TEST(FatTree, KaryTreeHasTheClosedForm) {
  for (const int k : {4, 6, 8}) {
    const Cluster c = boxes(k * k * k / 4, 1, fmt::format("fat-tree,levels=3,radix={}", k));
    Counts n = drawn(c);
    EXPECT_EQ(n.switches["core"], k / 2 * (k / 2)) << k;
    EXPECT_EQ(n.switches["spine"], k * k / 2) << k;
    EXPECT_EQ(n.switches["leaf"], k * k / 2) << k;
    EXPECT_EQ(n.cables["leaf-spine"], k * k * k / 4) << k;
    EXPECT_EQ(n.cables["spine-core"], k * k * k / 4) << k;
    for (const char* word : {"leaf", "spine", "core"}) EXPECT_EQ(most_ports(*c.graph(), word), k) << word;
  }
}

TEST(FatTree, TwoLevelsHaveTheClosedForm) {
  // radix k: k leaves of k/2 nodes, k/2 spines.
  Counts n = drawn(boxes(32, 1, "fat-tree,levels=2,radix=8"));
  EXPECT_EQ(n.switches["leaf"], 8);
  EXPECT_EQ(n.switches["spine"], 4);
  EXPECT_EQ(n.cables["leaf-spine"], 32);
  EXPECT_EQ(n.switches["core"], 0);
}

TEST(FatTree, OversubscriptionIsPortsDownOverPortsUp) {
  for (const auto& [ratio, down, up] : {std::tuple{1, 32, 32}, {2, 40, 20}, {3, 48, 16}, {7, 56, 8}}) {
    const Cluster c = boxes(5 * down / 8, 8, fmt::format("fat-tree,levels=2,radix=64,oversubscription={}", ratio));
    Counts n = drawn(c);
    EXPECT_EQ(n.switches["leaf"], 5) << ratio;
    EXPECT_EQ(n.cables["leaf-spine"], 5 * up) << ratio;
    EXPECT_LE(most_ports(*c.graph(), "leaf"), 64);
    EXPECT_LE(most_ports(*c.graph(), "spine"), 64);
  }
}

TEST(FatTree, NodesStayOnOneLeafUnlessDownIsSaid) {
  // 20 ports down take two whole nodes of eight NICs, or two and a half.
  EXPECT_EQ(drawn(boxes(10, 8, "fat-tree,levels=2,radix=40")).switches["leaf"], 5);
  EXPECT_EQ(drawn(boxes(10, 8, "fat-tree,levels=2,radix=40,down=20")).switches["leaf"], 4);
}

TEST(FatTree, LevelsAreAsFewAsAreEnough) {
  EXPECT_THAT(boxes(8, 8, "fat-tree,radix=64").fabric()->summary(), HasSubstr("1 level,"));
  EXPECT_THAT(boxes(9, 8, "fat-tree,radix=64").fabric()->summary(), HasSubstr("2 levels,"));
  EXPECT_THAT(boxes(256, 8, "fat-tree,radix=64").fabric()->summary(), HasSubstr("2 levels,"));
  EXPECT_THAT(boxes(257, 8, "fat-tree,radix=64").fabric()->summary(), HasSubstr("3 levels,"));
}

TEST(RailOptimised, SuperPodHasTheCountsThatNvidiaPublishes) {
  // docs.nvidia.com, DGX SuperPOD B200 reference architecture, larger component counts: units, leaves, spines, cores, and cables.
  struct Row {
    int units, leaves, spines, cores, leaf_spine, spine_core;
  };
  for (const Row& row : {Row{1, 8, 4, 0, 256, 0},
                         {2, 16, 8, 0, 512, 0},
                         {4, 32, 16, 0, 1024, 0},
                         {8, 64, 32, 0, 2048, 0},
                         {16, 128, 128, 64, 4096, 4096},
                         {32, 256, 256, 128, 8192, 8192},
                         {64, 512, 512, 256, 16384, 16384}}) {
    const Cluster c = boxes(32 * row.units, 8, "dgx-h100-superpod");
    Counts n = drawn(c);
    EXPECT_EQ(n.switches["leaf"], row.leaves) << row.units;
    EXPECT_EQ(n.switches["spine"], row.spines) << row.units;
    EXPECT_EQ(n.switches["core"], row.cores) << row.units;
    EXPECT_EQ(n.cables["leaf-spine"], row.leaf_spine) << row.units;
    EXPECT_EQ(n.cables["spine-core"], row.spine_core) << row.units;
  }
}

TEST(RailOptimised, ARailOfAUnitIsOneSwitchAway) {
  const Cluster c = boxes(64, 8, "rail-optimised,radix=64,unit=32,switch_latency_ns=100");
  std::vector<std::uint32_t> out;
  EXPECT_DOUBLE_EQ(c.fabric()->route({0, 3}, {31, 3}, out).value, 100);
  EXPECT_TRUE(out.empty());
  EXPECT_DOUBLE_EQ(c.fabric()->route({0, 3}, {32, 3}, out).value, 300);  // the same rail of another unit
  EXPECT_EQ(out.size(), 2u);
  out.clear();
  EXPECT_DOUBLE_EQ(c.fabric()->route({0, 3}, {1, 4}, out).value, 300);  // another rail
  EXPECT_EQ(out.size(), 2u);
}

TEST(Dragonfly, HasTheClosedForm) {
  // p = h = 2, a = 4: a h + 1 = 9 groups, a p = 8 nodes each.
  const Cluster c = boxes(72, 1, "dragonfly,radix=7,down=2,routers=4,global_links=2");
  Counts n = drawn(c);
  EXPECT_EQ(n.switches["router"], 36);
  EXPECT_EQ(n.cables["router-router"], 9 * (4 * 3 / 2) + 9 * 8 / 2);
  EXPECT_EQ(most_ports(*c.graph(), "router"), 2 + 3 + 2);
  // By radix alone the balanced one: 4p - 1 = 7.
  EXPECT_EQ(drawn(boxes(72, 1, "dragonfly,radix=7")).cables, n.cables);
  // Three groups: 8 / 2 = 4 cables between each two.
  EXPECT_EQ(drawn(boxes(24, 1, "dragonfly,radix=7")).cables["router-router"], 3 * 6 + 3 * 4);
}

TEST(DragonflyPlus, HasTheClosedForm) {
  // k = 4: two leaves and two spines a group, 2 * 2 + 1 = 5 groups of four nodes.
  const Cluster c = boxes(20, 1, "dragonfly-plus,radix=4");
  Counts n = drawn(c);
  EXPECT_EQ(n.switches["leaf"], 10);
  EXPECT_EQ(n.switches["spine"], 10);
  EXPECT_EQ(n.cables["leaf-spine"], 5 * 4);
  EXPECT_EQ(n.cables["spine-spine"], 5 * 4 / 2);
  EXPECT_EQ(most_ports(*c.graph(), "leaf"), 4);
  EXPECT_EQ(most_ports(*c.graph(), "spine"), 4);
}

TEST(Torus, HasTheClosedForm) {
  EXPECT_EQ(drawn(boxes(64, 1, "torus,dims=4x4x4")).cables["node-node"], 3 * 64);
  EXPECT_EQ(drawn(boxes(15, 1, "torus,dims=3x5,wires=2")).cables["node-node"], 2 * 2 * 15);
  EXPECT_EQ(drawn(boxes(8, 1, "torus,dims=2x2x2")).cables["node-node"], 12);  // a ring of two has one cable: a cube
  EXPECT_EQ(drawn(boxes(4, 1, "torus,dims=1x4")).cables["node-node"], 4);
  Counts n = drawn(boxes(32, 2, "torus,dims=4x4,joins=switches,radix=8"));
  EXPECT_EQ(n.switches["switch"], 16);
  EXPECT_EQ(n.cables["switch-switch"], 32);
}

TEST(Torus, RoutesTakeTheShorterWayDimensionByDimension) {
  const Cluster c = boxes(8 * 5, 1, "torus,dims=8x5,switch_latency_ns=1");
  const auto away = [](int a, int b, int n) { return std::min((a - b + n) % n, (b - a + n) % n); };
  for (int a = 0; a < 40; ++a) {
    for (int b = 0; b < 40; ++b) {
      std::vector<std::uint32_t> out;
      const double latency = c.fabric()->route({a, 0}, {b, 0}, out).value;
      const int hops = away(a % 8, b % 8, 8) + away(a / 8, b / 8, 5);
      ASSERT_EQ(static_cast<int>(out.size()), hops) << a << " " << b;
      ASSERT_DOUBLE_EQ(latency, hops + 1);
    }
  }
}

TEST(FullMesh, UsesAllPortsOfANode) {
  const auto c = boxes(5, 8, "full-mesh");
  Counts n = drawn(c);
  EXPECT_EQ(n.switches["node"], 5);
  EXPECT_EQ(n.cables["node-node"], 10 * 2);
  Counts of_switches = drawn(boxes(12, 1, "full-mesh,joins=switches,radix=6,down=3"));
  EXPECT_EQ(of_switches.switches["switch"], 4);
  EXPECT_EQ(of_switches.cables["switch-switch"], 6);
}

const char* const kEvery[] = {
    "fat-tree,levels=1,radix=64",
    "fat-tree,levels=2,radix=16",
    "fat-tree,levels=2,radix=18,oversubscription=2",
    "fat-tree,levels=2,radix=12,seed=7",
    "fat-tree,levels=3,radix=8,seed=3",
    "fat-tree,levels=3,radix=8,oversubscription=2,core_oversubscription=2",
    "fat-tree,levels=3,radix=8,pod=3",
    "fat-tree,radix=12,storage_nodes=5,storage_ports=2",
    "rail-optimised,radix=8",
    "rail-optimised,radix=16,unit=4,storage_nodes=3",
    "rail-optimised,levels=3,radix=8,unit=4",
    "dragonfly,radix=9",
    "dragonfly,radix=13,down=2,routers=5,global_links=3,wires=2,storage_nodes=2",
    "dragonfly,radix=30,down=2,routers=1,global_links=24",
    "dragonfly-plus,radix=8,storage_nodes=3,storage_GBps=100",
    "dragonfly-plus,radix=9,down=2,leaves=3,spines=2,global_links=5",
    "torus,dims=3x4x2",
    "torus,dims=5x2x4,wires=2,storage_nodes=7",
    "torus,dims=4x4,joins=switches,radix=9",
    "full-mesh,joins=switches,radix=20,wires=2",
    "full-mesh,joins=switches,radix=20,storage_nodes=3",
};

TEST(Fabrics, EveryRouteIsAConnectedPathOfDrawnCablesWithoutLoop) {
  for (const char* fabric : kEvery) {
    SCOPED_TRACE(fabric);
    expect_routes_follow_the_drawing(boxes(21, 2, fabric));
  }
  SCOPED_TRACE("full-mesh");
  expect_routes_follow_the_drawing(boxes(4, 8, "full-mesh"));
}

TEST(Fabrics, AdaptiveResourcesSumUpToTheDrawnCables) {
  for (const char* fabric : kEvery) {
    SCOPED_TRACE(fabric);
    const Cluster cable_by_cable = boxes(21, 2, fabric);
    const Cluster pooled = boxes(21, 2, std::string(fabric) + ",adaptive=true");
    const auto sum = [](const Fabric& f) {
      double all = 0;
      for (std::size_t r = 0; r < f.resource_count(); ++r) all += f.resource_capacity(r).gigabytes();
      return all;
    };
    EXPECT_NEAR(sum(*cable_by_cable.fabric()), sum(*pooled.fabric()), 1e-6);
    EXPECT_LE(pooled.fabric()->resource_count(), cable_by_cable.fabric()->resource_count());
    std::vector<std::uint32_t> a;
    std::vector<std::uint32_t> b;
    for (int to = 1; to < 21; ++to) {
      a.clear();
      b.clear();
      EXPECT_EQ(cable_by_cable.fabric()->route({0, 0}, {to, 1}, a), pooled.fabric()->route({0, 0}, {to, 1}, b));
      EXPECT_EQ(a.size(), b.size());
    }
  }
}

TEST(Fabrics, BisectionIsTheClosedForm) {
  const double rate = 48;
  EXPECT_NEAR(bisection(boxes(32, 1, "fat-tree,levels=2,radix=8")), 16 * rate, 1e-6);
  EXPECT_NEAR(bisection(boxes(32, 1, "fat-tree,levels=3,radix=8")), 16 * rate, 1e-6);
  EXPECT_NEAR(bisection(boxes(32, 1, "fat-tree,levels=2,radix=12,oversubscription=2")), 16 * rate / 2, 1e-6);
  // Pods of four leaves of four nodes, 4 to 1 between them; the halves are pods.
  EXPECT_NEAR(bisection(boxes(32, 1, "fat-tree,levels=3,radix=8,core_oversubscription=4,spine_radix=10,pod=4")), 16 * rate / 4, 1e-6);
  // Eight of nine groups: one cable between each two, 4 x 4 across.
  EXPECT_NEAR(bisection(boxes(64, 1, "dragonfly,radix=7")), 16 * rate, 1e-6);
  // Rings along the longer dimension are cut twice: 2 N / k.
  EXPECT_NEAR(bisection(boxes(32, 1, "torus,dims=4x8")), 2 * 4 * rate, 1e-6);
  EXPECT_NEAR(bisection(boxes(64, 2, "torus,dims=4x4x4")), 2 * 16 * rate, 1e-6);
  EXPECT_NEAR(bisection(boxes(6, 5, "full-mesh")), 9 * rate, 1e-6);
}

TEST(Fabrics, HashIsTheSameEveryTimeAndASeedMixesAnew) {
  const std::string tree = "fat-tree,levels=2,radix=64";
  const Cluster one = boxes(64, 1, tree);
  const Cluster again = boxes(64, 1, tree);
  const Cluster other = boxes(64, 1, tree + ",seed=1");
  std::map<std::uint32_t, int> users;
  int differ = 0;
  for (int a = 0; a < 32; ++a) {
    for (int b = 32; b < 64; ++b) {
      std::vector<std::uint32_t> x, y, z;
      one.fabric()->route({a, 0}, {b, 0}, x);
      again.fabric()->route({a, 0}, {b, 0}, y);
      other.fabric()->route({a, 0}, {b, 0}, z);
      ASSERT_EQ(x, y);
      differ += x != z ? 1 : 0;
      ++users[x[0]];
    }
  }
  EXPECT_GT(differ, 900);
  // 1,024 pairs over 32 cables: 32 each, give or take 6 standard deviations.
  EXPECT_EQ(users.size(), 32u);
  for (const auto& [cable, count] : users) EXPECT_NEAR(count, 32, 6 * 5.6);
}

TEST(Fabrics, AHashCollisionIsASharedCable) {
  // 32 nodes of one leaf to 32 of another: by hash some cable carries two; adaptively all share 32 cables.
  const Cluster hashed = boxes(64, 1, "fat-tree,levels=2,radix=64");
  const Cluster adaptive = boxes(64, 1, "fat-tree,levels=2,radix=64,adaptive=true");
  std::map<std::uint32_t, int> by_hash;
  std::map<std::uint32_t, int> together;
  std::vector<std::uint32_t> out;
  for (int a = 0; a < 32; ++a) {
    out.clear();
    hashed.fabric()->route({a, 0}, {a + 32, 0}, out);
    ++by_hash[out[0]];
    out.clear();
    adaptive.fabric()->route({a, 0}, {a + 32, 0}, out);
    ++together[out[0]];
  }
  const auto most = std::max_element(by_hash.begin(), by_hash.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_GE(most->second, 2);
  ASSERT_EQ(together.size(), 1u);
  EXPECT_NEAR(adaptive.fabric()->resource_capacity(together.begin()->first).gigabytes(), 32 * 48, 1e-6);
}

TEST(Fabrics, HundredThousandGpusAreWorkedOutNotStored) {
  for (const char* fabric : {"dgx-h100-superpod,switch=quantum-x800", "fat-tree,core_oversubscription=4", "dragonfly,radix=128",
                             "dragonfly-plus", "torus,dims=24x24x22", "meta-24k-roce"}) {
    auto cluster = build_cluster("dgx-h100", 12'500, fabric);
    if (std::string_view(fabric) == "meta-24k-roce") cluster = build_cluster("dgx-h100", 3'072, fabric);
    ASSERT_TRUE(cluster) << fabric << ": " << cluster.error().message;
    const int last = cluster->copies() - 1;
    const Resources r(std::move(*cluster));
    const Fabric& f = *r.cluster().fabric();
    std::vector<std::uint32_t> out;
    for (int i = 0; i < 100'000; ++i) {
      out.clear();
      const int from = static_cast<int>(i * 7919LL % (last + 1));
      const int to = static_cast<int>(i * 104'729LL % (last + 1));
      if (from == to) continue;
      f.route({from, i % 8}, {to, i * 3 % 8}, out);
      for (const std::uint32_t id : out) ASSERT_LT(id, f.resource_count()) << fabric;
    }
    const Route far = r.route(r.cluster().device_of_rank(0), r.cluster().device_of_rank(last * 8 + 7));
    EXPECT_EQ(far.path_class, PathClass::net);
    for (const ResourceId id : far.resources) ASSERT_LT(id, r.count());
  }
}

TEST(Fabrics, StorageSharesTheCablesOfItsLeaf) {
  const Cluster c = boxes(16, 2, "fat-tree,levels=2,radix=12,storage_nodes=4,storage_ports=2,storage_GBps=100,adaptive=true");
  const Fabric& f = *c.fabric();
  EXPECT_EQ(f.storage_nodes(), 4);
  std::vector<std::uint32_t> compute;
  std::vector<std::uint32_t> storage;
  f.route({1, 0}, {15, 0}, compute);
  f.route({16, 0}, {15, 0}, storage);
  // It leaves by a port of its own ...
  EXPECT_EQ(f.resource_name(storage.front()), "storage0/nic0 port out");
  EXPECT_NEAR(f.resource_capacity(storage.front()).gigabytes(), 96, 1e-9);
  // ... and arrives over the cables that other nodes' traffic takes.
  EXPECT_EQ(storage.back(), compute.back());
  const auto graph = c.graph();
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->devices_of(DeviceKind::nic).size(), 16u * 2 + 4 * 2);
  EXPECT_LE(most_ports(*graph, "leaf"), 12);
}

TEST(Fabrics, ADeviceReadsAndWritesStorage) {
  const Cluster c = boxes(16, 2, "fat-tree,levels=2,radix=12,storage_nodes=4,switch_latency_ns=100");
  const Resources r{Cluster(c)};
  const auto names = [&](const Route& route) {
    std::vector<std::string> all;
    for (const ResourceId id : route.resources) all.push_back(r.name(id));
    return all;
  };
  const Route write = r.storage_route(c.device_of_rank(7), 2, true);
  EXPECT_EQ(write.path_class, PathClass::net);
  EXPECT_NEAR(write.bottleneck.gigabytes(), 48, 1e-9);
  ASSERT_GE(write.resources.size(), 3u);
  EXPECT_EQ(names(write)[1], "n7: nic0 port out");
  EXPECT_EQ(names(write).back(), "storage2/nic0 port in");
  const Route read = r.storage_route(c.device_of_rank(7), 2, false);
  EXPECT_EQ(names(read).front(), "storage2/nic0 port out");
  EXPECT_EQ(read.latency, write.latency);
  EXPECT_FALSE(r.storage_route(c.device_of_rank(7), 4, true).exists());
  EXPECT_FALSE(Resources{boxes(16, 2, "ideal")}.storage_route(0, 0, true).exists());
}

TEST(NvlinkNetwork, JoinsTheGpusOfThirtyTwoNodes) {
  auto cluster = build_cluster("dgx-h100", 32, "dgx-h100-nvlink-superpod");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->nodes(), 32);
  EXPECT_EQ(cluster->ranks(), 256);
  const auto graph = cluster->graph();
  ASSERT_TRUE(graph);
  double network = 0;
  for (int d = 0; d < graph->device_count(); ++d) {
    if (!graph->device(d).id.starts_with("nvlink-switch")) continue;
    EXPECT_NEAR(graph->total_of(d, LinkKind::nvlink).gigabytes(), 128 * 25, 1e-9);
    network += graph->total_of(d, LinkKind::nvlink).gigabytes();
  }
  EXPECT_NEAR(network, 57'600, 1e-6);  // NVIDIA: 57.6 TB/s
  const Resources r(std::move(*cluster));
  const Route across = r.route(r.cluster().device_of_rank(3), r.cluster().device_of_rank(255));
  EXPECT_EQ(across.path_class, PathClass::nvl);
  EXPECT_EQ(across.scope, "nvlink-h100");
  EXPECT_NEAR(across.bottleneck.gigabytes(), 18 * 20.6, 1e-6);  // the GPU's own; the node's 72 are shared by eight
  double narrowest = 1e18;
  for (const ResourceId id : across.resources)
    if (r.name(id).find("nvlink-switch") != std::string::npos) narrowest = std::min(narrowest, r.capacity(id).gigabytes());
  EXPECT_NEAR(narrowest, 72 * 20.6, 1e-6);
}

TEST(NvlinkNetwork, SeveralAreJoinedByTheirNics) {
  auto cluster = build_cluster("dgx-h100", 64, "dgx-h100-nvlink-superpod");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->copies(), 2);
  EXPECT_EQ(cluster->nodes(), 64);
  EXPECT_EQ(cluster->ranks(), 512);
  const Resources r{Cluster(*cluster)};
  EXPECT_EQ(r.route(r.cluster().device_of_rank(0), r.cluster().device_of_rank(255)).path_class, PathClass::nvl);
  EXPECT_EQ(r.route(r.cluster().device_of_rank(0), r.cluster().device_of_rank(256)).path_class, PathClass::net);
  // Spelled out, the second level of one network is no way into the other.
  const auto graph = cluster->graph();
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->node_count(), 64);
  Counts n = count(*graph);
  EXPECT_EQ(n.switches["leaf"], 16);  // two units of 32 nodes
  const PathFinder paths(*graph);
  const std::vector<int> gpus = graph->compute_devices();
  EXPECT_EQ(paths.path(gpus[0], gpus[255]).path_class, PathClass::nvl);
  EXPECT_EQ(paths.path(gpus[0], gpus[256]).path_class, PathClass::net);
}

TEST(NvlinkNetwork, RacksOfSeveralTraysAreMachinesOfTheirOwn) {
  // Two trays of two GPUs under one NVSwitch: a small rack; four of them.
  const auto cluster = read_cluster_text(R"(
devices:
  - {id: "a[0-1]", kind: gpu, node: 0}
  - {id: "b[0-1]", kind: gpu, node: 1}
  - {id: "nica[0-1]", kind: nic, node: 0, rail: 0, port: {kind: infiniband, GBps: 50}}
  - {id: "nicb[0-1]", kind: nic, node: 1, rail: 0, port: {kind: infiniband, GBps: 50}}
  - {id: "nvswitch[0-1]", kind: nvswitch, node: -1}
links:
  - {a: "a[0-1]", b: "nvswitch[0-1]", kind: nvlink, GBps: 50}
  - {a: "b[0-1]", b: "nvswitch[0-1]", kind: nvlink, GBps: 50}
  - {a: "a[0-1]", b: "nica[0-1]", join: pair, kind: pcie, GBps: 64}
  - {a: "b[0-1]", b: "nicb[0-1]", join: pair, kind: pcie, GBps: 64}
nodes: 4
fabric: {kind: rail-optimised, radix: 8, unit: 4}
)",
                                         "racks.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->nodes(), 8);
  EXPECT_EQ(drawn(*cluster).switches["leaf"], 4);  // two units of four trays, two rails
  const Resources r{Cluster(*cluster)};
  const auto path = [&](int a, int b) { return r.route(r.cluster().device_of_rank(a), r.cluster().device_of_rank(b)); };
  EXPECT_EQ(path(0, 3).path_class, PathClass::nvl);
  EXPECT_EQ(path(0, 4).path_class, PathClass::net);
  EXPECT_LT(path(0, 4).latency, path(0, 5).latency);  // the same rail; another
  EXPECT_LT(path(0, 4).latency, path(0, 8).latency);  // the same unit; another
}

TEST(HashSeed, IsThatOfFabricsWhereAHashChooses) {
  EXPECT_EQ(hash_seed_of(boxes(16, 1, "fat-tree,levels=2,radix=8,seed=7")), 7U);
  EXPECT_EQ(hash_seed_of(boxes(16, 2, "dragonfly-plus,radix=8")), 0U);
  for (const char* none : {"ideal", "fat-tree,levels=2,radix=8,adaptive=true", "fat-tree,levels=1,radix=32"})
    EXPECT_FALSE(hash_seed_of(boxes(16, 1, none))) << none;
  const Cluster named = boxes(16, 1, "fat-tree,levels=2,radix=8,seed=9");
  const Cluster moved = with_hash_seed(boxes(16, 1, "fat-tree,levels=2,radix=8,seed=7"), 9);
  for (int to = 1; to < 16; ++to) {
    std::vector<std::uint32_t> expected, way;
    named.fabric()->route({0, 0}, {to, 0}, expected);
    moved.fabric()->route({0, 0}, {to, 0}, way);
    EXPECT_EQ(way, expected) << to;
  }
}

}  // namespace
}  // namespace peal::topology
