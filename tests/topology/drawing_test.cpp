// Properties of the drawings, read back from the SVG: boxes are on the page and apart, text fits its box, every link is drawn once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <topology/describe.hpp>
#include <topology/machine.hpp>

namespace peal::topology {
namespace {

using ::testing::HasSubstr;

struct Box {
  double x, y, width, height;
};

struct Drawing {
  double width = 0, height = 0;
  std::vector<Box> boxes;
  long links = 0;   // that wires stand for
  long hidden = 0;  // inside boxes
  std::vector<std::string> paths;
};

std::vector<std::smatch> all_of(const std::string& text, const std::regex& form) {
  return {std::sregex_iterator(text.begin(), text.end(), form), std::sregex_iterator()};
}

Drawing read_drawing(const std::string& svg) {
  Drawing d;
  static const std::regex kPage("<svg [^>]*viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"");
  static const std::regex kBox(
      "<g data-hidden-links=\"([0-9]+)\"><title>[^<]*</title><rect x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" width=\"([0-9.]+)\" "
      "height=\"([0-9.]+)\"");
  static const std::regex kWire("<path d=\"([^\"]*)\"[^>]* data-links=\"([0-9]+)\"");
  for (const auto& m : all_of(svg, kPage)) d.width = std::stod(m[1]), d.height = std::stod(m[2]);
  for (const auto& m : all_of(svg, kBox)) {
    d.hidden += std::stol(m[1]);
    d.boxes.push_back({std::stod(m[2]), std::stod(m[3]), std::stod(m[4]), std::stod(m[5])});
  }
  for (const auto& m : all_of(svg, kWire)) {
    d.links += std::stol(m[2]);
    d.paths.push_back(m[1]);
  }
  return d;
}

void check(const Graph& graph, const std::string& svg) {
  SCOPED_TRACE(graph.title);
  const Drawing d = read_drawing(svg);
  ASSERT_FALSE(d.boxes.empty());
  EXPECT_EQ(d.links + d.hidden, graph.link_count());
  for (const Box& b : d.boxes) {
    EXPECT_GE(b.x, 0);
    EXPECT_GE(b.y, 40) << "in the title";
    EXPECT_LE(b.x + b.width, d.width);
    EXPECT_LE(b.y + b.height, d.height - 24) << "in the legend";
  }
  for (std::size_t i = 0; i < d.boxes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Box& a = d.boxes[i];
      const Box& b = d.boxes[j];
      const bool is_apart = a.x + a.width < b.x || b.x + b.width < a.x || a.y + a.height < b.y || b.y + b.height < a.y;
      EXPECT_TRUE(is_apart) << "boxes at " << a.x << "," << a.y << " and " << b.x << "," << b.y;
    }
  static const std::regex kPoint("([-0-9.]+),([-0-9.]+)");
  for (const std::string& path : d.paths)
    for (const auto& m : all_of(path, kPoint)) {
      EXPECT_GE(std::stod(m[1]), 0) << path;
      EXPECT_LE(std::stod(m[1]), d.width) << path;
      EXPECT_GE(std::stod(m[2]), 0) << path;
      EXPECT_LE(std::stod(m[2]), d.height + 60) << path;  // inner points of an arc lie beyond it
    }
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf,"), std::string::npos);
}

Graph cluster_of_yaml(const std::string& text) {
  auto cluster = read_cluster_text(text, "test.yaml");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return cluster->machine();
}

TEST(Drawing, EveryMachineOfTheCatalogueKeepsItsBoxesApart) {
  const auto machines = list_machines();
  ASSERT_TRUE(machines);
  for (const MachineEntry& m : *machines) {
    const auto graph = load_machine(m.name);
    ASSERT_TRUE(graph) << graph.error().message;
    if (graph->node_count() > 1) continue;
    check(*graph, draw_svg(*graph));
  }
}

TEST(Drawing, SixteenGpusBehindTwelveSwitches) {
  const Graph g = cluster_of_yaml(R"(
title: two boards
devices:
  - {id: "gpu[0-15]", kind: gpu, name: V100-SXM3}
  - {id: "nvswitch[0-11]", kind: nvswitch}
  - {id: "plx[0-7]", kind: pcie_switch}
  - {id: "socket[0-1]", kind: cpu, name: Xeon Platinum 8168 with a long name}
links:
  - {a: "gpu[0-7]", b: "nvswitch[0-5]", kind: nvlink, GBps: 25}
  - {a: "gpu[8-15]", b: "nvswitch[6-11]", kind: nvlink, GBps: 25}
  - {a: "nvswitch[0-5]", b: "nvswitch[6-11]", join: pair, kind: nvlink, GBps: 25, count: 8}
  - {a: "gpu[0-7]", b: "plx[0-7]", join: pair, kind: pcie, GBps: 15.75}
  - {a: "gpu[8-15]", b: "plx[0-7]", join: pair, kind: pcie, GBps: 15.75}
  - {a: "plx[0-3]", b: socket0, kind: pcie, GBps: 15.75}
  - {a: "plx[4-7]", b: socket1, kind: pcie, GBps: 15.75}
  - {a: socket0, b: socket1, kind: sys, GBps: 20.8}
)");
  const std::string svg = draw_svg(g);
  check(g, svg);
  EXPECT_EQ(svg.find("more</text>"), std::string::npos) << "nothing is folded";
}

TEST(Drawing, AFullMeshIsArcsBelowTheGpusOneALink) {
  const Graph g = cluster_of_yaml(
      "devices:\n  - {id: \"gpu[0-7]\", kind: gpu}\n  - {id: cpu0, kind: cpu}\nlinks:\n  - {a: \"gpu[0-7]\", b: cpu0, kind: pcie, GBps: "
      "63}\n" +
      [] {
        std::string links;
        for (int i = 0; i < 7; ++i) links += fmt::format("  - {{a: gpu{}, b: \"gpu[{}-7]\", kind: xgmi, GBps: 64}}\n", i, i + 1);
        return links;
      }());
  const std::string svg = draw_svg(g);
  check(g, svg);
  EXPECT_EQ(read_drawing(svg).paths.size(), 28u + 8u);
}

TEST(Drawing, SeventyTwoGpusAreFoldedToAPageThatCanBeRead) {
  const Graph g = cluster_of_yaml(R"(
title: a rack
devices:
  - {id: "gpu[0-71]", kind: gpu, name: GB200}
  - {id: "grace[0-35]", kind: cpu, name: Grace}
  - {id: "nvswitch[0-17]", kind: nvswitch}
links:
  - {a: "gpu[0-71]", b: "nvswitch[0-17]", kind: nvlink, GBps: 50}
  - {a: "gpu[0-35]", b: "grace[0-35]", join: pair, kind: c2c, GBps: 450}
  - {a: "gpu[36-71]", b: "grace[0-35]", join: pair, kind: c2c, GBps: 450}
)");
  const std::string svg = draw_svg(g);
  check(g, svg);
  const Drawing d = read_drawing(svg);
  EXPECT_LE(d.width, 2400);
  EXPECT_LE(d.paths.size(), 150u);
  EXPECT_THAT(svg, HasSubstr("more</text>"));
}

TEST(Drawing, AHostOf128CoresIsFolded) {
  std::string text =
      "title: a host\nranks: core\ndevices:\n  - {id: \"core[0-127]\", kind: core}\n  - {id: \"mem[0-7]\", kind: memory}\n  - {id: "
      "\"numa[0-7]\", kind: cpu}\n  - {id: lo, kind: loopback}\nlinks:\n  - {a: \"mem[0-7]\", b: \"numa[0-7]\", join: pair, kind: memory, "
      "GBps: 50}\n  - {a: \"core[0-127]\", b: lo, kind: loopback, GBps: 5}\n  - {a: \"numa[0-3]\", b: \"numa[4-7]\", join: each, kind: "
      "sys, GBps: 20}\n";
  for (int m = 0; m < 8; ++m) text += fmt::format("  - {{a: \"core[{}-{}]\", b: mem{}, kind: shm, GBps: 10}}\n", 16 * m, 16 * m + 15, m);
  const Graph g = cluster_of_yaml(text);
  const std::string svg = draw_svg(g);
  check(g, svg);
  EXPECT_LE(read_drawing(svg).boxes.size(), 60u);
  EXPECT_THAT(svg, HasSubstr("x 13 more"));
}

TEST(Drawing, NothingToDrawIsStillAPage) {
  EXPECT_THAT(draw_svg(Graph()), HasSubstr("</svg>"));
  EXPECT_THAT(draw_fabric_svg(Graph()), HasSubstr("</svg>"));
}

TEST(FabricDrawing, AThousandMachinesFitAPage) {
  const auto cluster = build_cluster("dgx-h100", 1000);
  ASSERT_TRUE(cluster);
  const auto graph = cluster->graph();
  ASSERT_TRUE(graph) << graph.error().message;
  const std::string svg = draw_fabric_svg(*graph);
  check(*graph, svg);
  const Drawing d = read_drawing(svg);
  EXPECT_LE(d.width, 3200);
  EXPECT_LE(d.boxes.size(), 40u);
  EXPECT_THAT(svg, HasSubstr(">1000 machines, 8000 H100-SXM5, 9 switches<"));
  EXPECT_THAT(svg, HasSubstr("8000 ports of the machines, 400000 GB/s; leaf switches to spine switches 1:1"));
}

TEST(FabricDrawing, SmallClustersAreDrawnWhole) {
  const auto cluster = build_cluster("dgx-1-v100", 2);
  ASSERT_TRUE(cluster);
  const auto graph = cluster->graph();
  ASSERT_TRUE(graph);
  const std::string svg = draw_fabric_svg(*graph);
  check(*graph, svg);
  EXPECT_EQ(svg.find("more</text>"), std::string::npos);
  EXPECT_EQ(read_drawing(svg).boxes.size(), 2u + 4 + 1);
}

/// Pods of leaves and spines below cores; `each` machines a leaf.
Graph three_levels(int pods, int leaves, int each, int spines, int cores) {
  Graph g;
  g.title = fmt::format("{} pods", pods);
  const auto add = [&](const std::string& id, DeviceKind kind, int node) {
    Device d{.id = id, .kind = kind, .node = node};
    if (kind == DeviceKind::nic) {
      d.rail = 0;
      d.port = Port{.kind = LinkKind::ethernet, .bandwidth = Bandwidth::gigabytes(25)};
    }
    return g.add_device(std::move(d)).value();
  };
  const auto join = [&](int a, int b) {
    EXPECT_TRUE(g.add_link({.a = a, .b = b, .kind = LinkKind::ethernet, .bandwidth = Bandwidth::gigabytes(25)}));
  };
  std::vector<int> tops;
  for (int c = 0; c < cores; ++c) tops.push_back(add(fmt::format("fabric/core{}", c), DeviceKind::net_switch, -1));
  for (int p = 0; p < pods; ++p) {
    std::vector<int> middle;
    for (int s = 0; s < spines; ++s) {
      middle.push_back(add(fmt::format("fabric/pod{}/spine{}", p, s), DeviceKind::net_switch, -1));
      for (int top : tops) join(middle.back(), top);
    }
    for (int l = 0; l < leaves; ++l) {
      const int leaf = add(fmt::format("fabric/pod{}/leaf{}", p, l), DeviceKind::net_switch, -1);
      for (int m : middle) join(leaf, m);
      for (int k = 0; k < each; ++k) {
        const int node = (p * leaves + l) * each + k;
        add(fmt::format("n{}/gpu0", node), DeviceKind::gpu, node);
        join(add(fmt::format("n{}/nic0", node), DeviceKind::nic, node), leaf);
      }
    }
  }
  return g;
}

TEST(FabricDrawing, ThreeLevelsOfAnySizeKeepTheirBoxesApart) {
  for (int pods : {1, 2, 7})
    for (int leaves : {1, 3, 8})
      for (int each : {1, 2, 20}) {
        const Graph g = three_levels(pods, leaves, each, 4, 8);
        check(g, draw_fabric_svg(g));
      }
}

TEST(FabricDrawing, MachinesWithoutSwitchesStandBesideTheOthers) {
  Graph g = three_levels(1, 1, 2, 1, 1);
  ASSERT_TRUE(g.add_device({.id = "n2/gpu0", .kind = DeviceKind::gpu, .node = 2}));
  ASSERT_TRUE(g.add_device({.id = "n3/gpu0", .kind = DeviceKind::gpu, .node = 3}));
  ASSERT_TRUE(
      g.add_link({.a = g.find("n2/gpu0"), .b = g.find("n3/gpu0"), .kind = LinkKind::nvlink, .bandwidth = Bandwidth::gigabytes(50)}));
  check(g, draw_fabric_svg(g));
}

}  // namespace
}  // namespace peal::topology
