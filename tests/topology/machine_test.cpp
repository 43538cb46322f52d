#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <topology/machine.hpp>

namespace peal::topology {
namespace {

using ::testing::HasSubstr;

std::string error_of(std::string_view text) {
  const auto result = read_cluster_text(text, "mine.yaml");
  EXPECT_FALSE(result) << "accepted: " << text;
  return result ? std::string() : result.error().message;
}

TEST(Machine, CatalogueIsSortedAndEveryEntryLoads) {
  const auto entries = list_machines();
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_GE(entries->size(), 2u);
  EXPECT_TRUE(std::is_sorted(entries->begin(), entries->end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const MachineEntry& e : *entries) {
    const auto graph = load_machine(e.name);
    ASSERT_TRUE(graph) << graph.error().message;
    EXPECT_FALSE(graph->title.empty());
    EXPECT_FALSE(graph->compute_devices().empty());
    for (const Device& d : graph->devices())
      EXPECT_THAT(d.source, ::testing::Not(HasSubstr("declared in"))) << e.name << " " << d.id << " has no source";
    for (const Link& l : graph->links())
      EXPECT_THAT(l.source + l.usable_source, ::testing::Not(HasSubstr("declared in"))) << e.name << " link has no source";
  }
}

TEST(Machine, SumsAreThoseOfTheMaker) {
  const auto a = load_machine("dgx-a100");
  const auto h = load_machine("dgx-h100");
  ASSERT_TRUE(a && h);
  for (int gpu : a->compute_devices()) EXPECT_NEAR(a->total_of(gpu, LinkKind::nvlink).gigabytes(), 300, 1e-9);
  for (int gpu : h->compute_devices()) EXPECT_NEAR(h->total_of(gpu, LinkKind::nvlink).gigabytes(), 450, 1e-9);
  EXPECT_EQ(a->compute_devices().size(), 8u);
  EXPECT_EQ(a->devices_of(DeviceKind::nvswitch).size(), 6u);
  EXPECT_EQ(h->devices_of(DeviceKind::nvswitch).size(), 4u);
  std::vector<long> per_switch;
  for (int s : h->devices_of(DeviceKind::nvswitch))
    per_switch.push_back(std::lround(h->total_of(s, LinkKind::nvlink).gigabytes() / 25 / 8));
  EXPECT_EQ(per_switch, (std::vector<long>{5, 4, 4, 5}));
  for (const Graph* g : {&*a, &*h}) {
    int rails = 0;
    for (int n : g->devices_of(DeviceKind::nic)) rails += g->device(n).rail >= 0 ? 1 : 0;
    EXPECT_EQ(rails, 8);
  }
}

TEST(Machine, UnknownNameSaysTheNearest) {
  const auto result = load_machine("dgx-a10");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("dgx-a100"));
  EXPECT_THAT(result.error().message, HasSubstr("peal machines"));
  EXPECT_FALSE(load_machine("../constants/host"));
  EXPECT_FALSE(load_machine(""));
}

TEST(Machine, DataDirectoryFollowsTheSetting) {
  ASSERT_EQ(::setenv("PEAL_DATA_DIR", "/nonexistent-peal-data", 1), 0);
  const auto result = list_machines();
  ASSERT_EQ(::unsetenv("PEAL_DATA_DIR"), 0);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("PEAL_DATA_DIR"));
  EXPECT_TRUE(list_machines());
}

TEST(ReadYaml, ReadsAMachineInTenLines) {
  const auto cluster = read_cluster_text(R"(
title: two desks
nodes: 2
devices:
  - {id: "gpu[0-1]", kind: gpu, name: RTX 4090, numa: 0}
  - {id: cpu0, kind: cpu}
  - {id: eth0, kind: nic, rail: 0, port: {kind: ethernet, GBps: 12.5, latency_ns: 1000}}
links:
  - {a: "gpu[0-1]", b: cpu0, kind: pcie, GBps: 31.5, usable_GBps: 24, latency_ns: 500}
  - {a: eth0, b: cpu0, kind: pcie, GBps: 15.75}
)",
                                         "desk.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->ranks(), 4);
  EXPECT_EQ(cluster->nodes(), 2);
  const auto graph = cluster->graph();
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_GE(graph->find("n1/gpu1"), 0);
  EXPECT_EQ(graph->node_count(), 2);
  EXPECT_THAT(graph->link(0).source, HasSubstr("declared in desk.yaml:9"));
}

TEST(ReadYaml, JoinsInFourWays) {
  const auto wired = [](const std::string& join) {
    const auto cluster = read_cluster_text(
        "devices:\n  - {id: \"g[0-3]\", kind: gpu}\n  - {id: \"s[0-3]\", kind: pcie_switch}\nlinks:\n  - " + join + "\n", "j.yaml");
    EXPECT_TRUE(cluster) << cluster.error().message;
    std::string out;
    for (const Link& l : cluster->machine().links()) out += cluster->machine().device(l.a).id + cluster->machine().device(l.b).id + " ";
    return out;
  };
  EXPECT_EQ(wired(R"({a: "g[0-1]", b: "s[0-1]", kind: pcie, GBps: 1})"), "g0s0 g0s1 g1s0 g1s1 ");
  EXPECT_EQ(wired(R"({a: "g[0-3]", b: "s[0-3]", join: pair, kind: pcie, GBps: 1})"), "g0s0 g1s1 g2s2 g3s3 ");
  EXPECT_EQ(wired(R"({a: "g[0-3]", b: "s[0-1]", join: group, kind: pcie, GBps: 1})"), "g0s0 g1s0 g2s1 g3s1 ");
  EXPECT_EQ(wired(R"({a: "g[0-3]", b: "g[0-3]", join: mesh, kind: xgmi, GBps: 1})"), "g0g1 g0g2 g0g3 g1g2 g1g3 g2g3 ");
}

TEST(ReadYaml, TakesACatalogueMachine) {
  const auto cluster = read_cluster_text("machine: dgx-h100\nnodes: 4\n", "c.yaml");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->ranks(), 32);
}

TEST(ReadYaml, ErrorsNameFileLineAndMend) {
  const std::string head = "devices:\n  - {id: \"gpu[0-1]\", kind: gpu}\nlinks:\n";
  EXPECT_THAT(error_of(head + "  - {a: gpu0, b: gpu7, kind: nvlink, GBps: 25}"),
              ::testing::AllOf(HasSubstr("mine.yaml:4:"), HasSubstr("gpu7")));
  EXPECT_THAT(error_of(head + "  - {a: gpu0, b: gpu1, kind: nvlnk, GBps: 25}"),
              ::testing::AllOf(HasSubstr("mine.yaml:4:"), HasSubstr("nvlink")));
  EXPECT_THAT(error_of(head + "  - {a: gpu0, b: gpu1, kind: nvlink}"), ::testing::AllOf(HasSubstr("mine.yaml:4:"), HasSubstr("GBps")));
  EXPECT_THAT(error_of(head + "  - {a: gpu0, b: gpu1, kind: nvlink, GBps: fast}"),
              ::testing::AllOf(HasSubstr("mine.yaml:4:"), HasSubstr("fast")));
  EXPECT_THAT(error_of(head + "  - {a: gpu0, b: gpu1, kind: nvlink, GBps: -3}"), HasSubstr("mine.yaml:4:"));
  EXPECT_THAT(error_of(head + "  - {a: gpu0, b: gpu1, kind: nvlink, GBps: 25, cout: 4}"),
              ::testing::AllOf(HasSubstr("mine.yaml:4:"), HasSubstr("'count'")));
  EXPECT_THAT(error_of(head + "  - {a: gpu0, b: gpu0, kind: nvlink, GBps: 25}"), HasSubstr("to itself"));
  EXPECT_THAT(error_of(head + "  - {a: \"gpu[0-1]\", b: gpu0, join: pair, kind: nvlink, GBps: 25}"), HasSubstr("pair"));
  EXPECT_THAT(error_of(head + "  - {a: \"gpu[0-1]\", b: \"gpu[0-1]\", join: ring, kind: nvlink, GBps: 25}"), HasSubstr("mesh"));
  EXPECT_THAT(error_of(head + "  - {a: gpu0, b: \"gpu[0-1]\", join: group, kind: nvlink, GBps: 25}"), HasSubstr("equal shares"));
  EXPECT_THAT(error_of(head + "  - {a: gpu0, b: \"gpu[0-1]\", join: mesh, kind: nvlink, GBps: 25}"), HasSubstr("same in b"));
  EXPECT_THAT(error_of("devices:\n  - {id: gpu0, kind: gpu}\n  - {id: gpu0, kind: gpu}\n"),
              ::testing::AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("twice")));
  EXPECT_THAT(error_of("devices:\n  - {id: \"gpu[3-1]\", kind: gpu}\n"),
              ::testing::AllOf(HasSubstr("mine.yaml:2:"), HasSubstr("gpu[0-7]")));
  EXPECT_THAT(error_of("devices:\n  - {kind: gpu}\n"), ::testing::AllOf(HasSubstr("mine.yaml:2:"), HasSubstr("'id'")));
  EXPECT_THAT(error_of("devices:\n  - gpu0\n"), HasSubstr("mine.yaml:2:"));
  EXPECT_THAT(error_of("machine: dgx-h10\n"), ::testing::AllOf(HasSubstr("mine.yaml:1:"), HasSubstr("dgx-h100")));
  EXPECT_THAT(error_of("machine: dgx-h100\nnodes: 0\n"), HasSubstr("mine.yaml:2:"));
  EXPECT_THAT(error_of("machine: dgx-h100\ndevices: []\n"), HasSubstr("catalogue"));
  EXPECT_THAT(error_of("nodes: 2\ndevices:\n  - {id: gpu0, kind: gpu}\n"), HasSubstr("NIC"));
  EXPECT_THAT(error_of("title: x\n"), HasSubstr("machine: NAME"));
  EXPECT_THAT(error_of(""), HasSubstr("empty"));
  EXPECT_THAT(error_of("devices: [\n  {id: gpu0"), HasSubstr("not YAML"));
  EXPECT_THAT(error_of("a: 1\nb: 2\na: 3\n"), ::testing::AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("twice")));
}

TEST(ReadYaml, RefusesBombsAndHugeThings) {
  EXPECT_THAT(error_of("a: &x [1, 2]\nb: [*x, *x]\n"), ::testing::AllOf(HasSubstr("mine.yaml:2:"), HasSubstr("alias")));
  EXPECT_THAT(error_of(std::string(100, '[')), HasSubstr("mine.yaml:1:"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("mine.yaml:1:"));
  EXPECT_THAT(error_of(std::string((4u << 20) + 1, 'x')), HasSubstr("4 MiB"));
  EXPECT_THAT(error_of(std::string("a: \0b", 5)), HasSubstr("zero bytes"));
  EXPECT_THAT(error_of("devices:\n  - {id: \"g[0-99999]\", kind: gpu}\n  - {id: \"h[0-9]\", kind: gpu}\n"), HasSubstr("100000 devices"));
  EXPECT_THAT(
      error_of("devices:\n  - {id: \"g[0-9999]\", kind: gpu}\nlinks:\n  - {a: \"g[0-9999]\", b: \"g[0-9999]\", kind: pcie, GBps: 1}\n"),
      HasSubstr("1000000 links"));
  EXPECT_THAT(error_of("devices:\n  - {id: \"g[0-99999999999]\", kind: gpu}\n"), HasSubstr("mine.yaml:2:"));
}

TEST(ReadYaml, FilesThatCannotBeRead) {
  const auto absent = read_graph_file("/nonexistent/peal.yaml");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, HasSubstr("/nonexistent/peal.yaml"));
  EXPECT_FALSE(read_graph_file("/"));
}

}  // namespace
}  // namespace peal::topology
