#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <topology/machine.hpp>
#include <topology/path.hpp>

namespace peal::topology {
namespace {

Graph load_graph(std::string_view name) {
  auto graph = load_machine(name);
  EXPECT_TRUE(graph) << graph.error().message;
  return std::move(*graph);
}

PathClass class_between(const Graph& g, std::string_view a, std::string_view b) {
  const PathFinder finder(g);
  return finder.path(g.find(a), g.find(b)).path_class;
}

TEST(Path, TwelveWiresOverSixSwitchesAreOneHop) {
  const Graph g = load_graph("dgx-a100");
  const PathFinder finder(g);
  const Path& path = finder.path(g.find("gpu0"), g.find("gpu5"));
  EXPECT_EQ(path.path_class, PathClass::nvl);
  EXPECT_EQ(path.hops.size(), 2u);
  EXPECT_EQ(path.wires, 12);
  EXPECT_EQ(path.links().size(), 12u);  // six links of two wires on each side
  EXPECT_NEAR(path.line.gigabytes(), 300, 1e-6);
  EXPECT_NEAR(path.bottleneck.gigabytes(), 240, 1e-6);
  EXPECT_EQ(path.scope, "nvlink-a100");
}

TEST(Path, ClassesOfDgxMachinesAreThoseOfNvidiaSmi) {
  const Graph a = load_graph("dgx-a100");
  EXPECT_EQ(class_between(a, "gpu0", "mlx5_1"), PathClass::pxb);
  EXPECT_EQ(class_between(a, "gpu0", "mlx5_2"), PathClass::sys);
  EXPECT_EQ(class_between(a, "mlx5_4", "mlx5_5"), PathClass::pix);
  const Graph h = load_graph("dgx-h100");
  EXPECT_EQ(class_between(h, "gpu0", "nic0"), PathClass::pxb);
  EXPECT_EQ(class_between(h, "gpu0", "nic3"), PathClass::node);
  EXPECT_EQ(class_between(h, "gpu0", "nic6"), PathClass::sys);
  EXPECT_EQ(class_between(h, "gpu0", "cpu0"), PathClass::phb);
}

TEST(Path, OneHostBridgeIsPhbAndTwoAreNode) {
  Graph g;
  ASSERT_TRUE(g.add_device({.id = "cpu0", .kind = DeviceKind::cpu}));
  for (const char* id : {"gpu0", "gpu1", "gpu2"}) ASSERT_TRUE(g.add_device({.id = id, .kind = DeviceKind::gpu}));
  for (int gpu : {1, 2, 3})
    ASSERT_TRUE(g.add_link({.a = gpu, .b = 0, .kind = LinkKind::pcie, .bandwidth = {1}, .host_bridge = gpu < 3 ? 0 : 1}));
  EXPECT_EQ(class_between(g, "gpu0", "gpu1"), PathClass::phb);
  EXPECT_EQ(class_between(g, "gpu0", "gpu2"), PathClass::node);
}

TEST(Path, NothingRunsThroughAGpuOrANic) {
  Graph g;
  for (const char* id : {"gpu0", "gpu1", "gpu2"}) ASSERT_TRUE(g.add_device({.id = id, .kind = DeviceKind::gpu}));
  ASSERT_TRUE(g.add_link({.a = 0, .b = 1, .kind = LinkKind::nvlink, .bandwidth = {1}}));
  ASSERT_TRUE(g.add_link({.a = 1, .b = 2, .kind = LinkKind::nvlink, .bandwidth = {1}}));
  EXPECT_EQ(class_between(g, "gpu0", "gpu2"), PathClass::none);
  EXPECT_EQ(class_between(g, "gpu0", "gpu0"), PathClass::self);
}

/// Random machine of one class of wire: GPUs on a net of PCIe switches, with rates from a small set so that ties happen.
Graph random_graph(std::mt19937& random, int gpus, int switches) {
  Graph g;
  for (int i = 0; i < gpus; ++i) EXPECT_TRUE(g.add_device({.id = "gpu" + std::to_string(i), .kind = DeviceKind::gpu}));
  for (int i = 0; i < switches; ++i) EXPECT_TRUE(g.add_device({.id = "sw" + std::to_string(i), .kind = DeviceKind::pcie_switch}));
  const int n = gpus + switches;
  for (int a = 0; a < n; ++a)
    for (int b = a + 1; b < n; ++b) {
      if (random() % 100 >= 45) continue;
      const Bandwidth rate{1.0 + static_cast<double>(random() % 4)};
      EXPECT_TRUE(g.add_link({.a = a, .b = b, .kind = LinkKind::pcie, .bandwidth = rate, .count = 1 + static_cast<int>(random() % 2)}));
    }
  return g;
}

struct Best {
  double width = 0;
  std::size_t hops = 0;
};

/// Every simple path through switches, tried one by one.
void try_all(const Graph& g, int at, int to, double width, std::size_t hops, std::vector<bool>& on_way, Best& best) {
  if (at == to) {
    if (width > best.width || (width == best.width && hops < best.hops)) best = {width, hops};
    return;
  }
  if (hops > 0 && g.device(at).kind != DeviceKind::pcie_switch) return;
  on_way[static_cast<std::size_t>(at)] = true;
  for (int l : g.links_of(at)) {
    const int next = g.other_end(l, at);
    if (!on_way[static_cast<std::size_t>(next)])
      try_all(g, next, to, std::min(width, g.link(l).usable_total().value), hops + 1, on_way, best);
  }
  on_way[static_cast<std::size_t>(at)] = false;
}

TEST(Path, IsTheWidestAndAmongThoseTheShortestOfAllPaths) {
  std::mt19937 random(7);
  int reachable = 0;
  for (int round = 0; round < 200; ++round) {
    const Graph g = random_graph(random, 3, 4);
    const PathFinder finder(g);
    for (int a = 0; a < g.device_count(); ++a) {
      for (int b = 0; b < g.device_count(); ++b) {
        if (a == b) continue;
        Best best;
        std::vector<bool> on_way(static_cast<std::size_t>(g.device_count()), false);
        try_all(g, a, b, std::numeric_limits<double>::infinity(), 0, on_way, best);
        const Path& path = finder.path(a, b);
        ASSERT_EQ(path.exists(), best.width > 0);
        if (!path.exists()) continue;
        ++reachable;
        ASSERT_DOUBLE_EQ(path.bottleneck.value, best.width);
        ASSERT_EQ(path.hops.size(), best.hops);
      }
    }
  }
  EXPECT_GT(reachable, 1000);
}

TEST(Path, TheWayBackIsTheWayThereReversed) {
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    const Graph g = random_graph(random, 4, 4);
    const PathFinder finder(g);
    for (int a = 0; a < g.device_count(); ++a) {
      for (int b = 0; b < g.device_count(); ++b) {
        const Path& there = finder.path(a, b);
        const Path& back = finder.path(b, a);
        ASSERT_EQ(there.path_class, back.path_class);
        ASSERT_EQ(there.hops.size(), back.hops.size());
        int at = a;
        for (std::size_t h = 0; h < there.hops.size(); ++h) {
          const Hop& hop = there.hops[h];
          ASSERT_EQ(hop.from, at);  // hops are joined end to end
          at = hop.to;
          const Hop& mirror = back.hops[back.hops.size() - 1 - h];
          ASSERT_EQ(hop.from, mirror.to);
          ASSERT_EQ(hop.to, mirror.from);
          ASSERT_EQ(hop.links.size(), mirror.links.size());
          for (std::size_t l = 0; l < hop.links.size(); ++l) {
            ASSERT_EQ(hop.links[l].link, mirror.links[l].link);
            ASSERT_NE(hop.links[l].forward, mirror.links[l].forward);
          }
        }
        ASSERT_TRUE(there.hops.empty() || at == b);
      }
    }
  }
}

}  // namespace
}  // namespace peal::topology
