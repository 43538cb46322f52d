// What the rings of every machine carry, against its wires.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <topology/import.hpp>
#include <topology/import_nccl_graph.hpp>
#include <topology/machine.hpp>
#include <tuning/placement.hpp>
#include <tuning/ring_report.hpp>

#include "source_tree.hpp"

namespace peal::tuning {
namespace {

/// Sums the rings over the links of the graph itself, not over the resources that the report counts.
void expect_no_link_beyond_its_capacity(const topology::Graph& graph, const std::vector<int>& devices, const RingReport& report) {
  const topology::PathFinder paths(graph);
  std::map<std::pair<int, int>, double> load, capacity;  // of neighbours, in one direction
  const double each = report.rate / static_cast<double>(report.rings.size());
  for (const auto& ring : report.rings) {
    for (std::size_t p = 0; p < ring.size(); ++p) {
      const int from = devices[static_cast<std::size_t>(ring[p])];
      const int to = devices[static_cast<std::size_t>(ring[(p + 1) % ring.size()])];
      for (const topology::Hop& hop : paths.path(from, to).hops) {
        load[{hop.from, hop.to}] += each;
        double width = 0;
        for (const topology::DirectedLink& l : hop.links) width += graph.link(l.link).usable_total().gigabytes();
        capacity[{hop.from, hop.to}] = width;
      }
    }
  }
  for (const auto& [hop, sum] : load) {
    const std::string where = graph.device(hop.first).id + " > " + graph.device(hop.second).id;
    EXPECT_LE(sum, capacity.at(hop) * (1 + 1e-9)) << where;
  }
}

TEST(RingReport, OnNoMachineDoRingsTakeMoreThanItsLinksHave) {
  auto machines = topology::list_machines();
  ASSERT_TRUE(machines);
  int seen = 0;
  for (const topology::MachineEntry& machine : *machines) {
    SCOPED_TRACE(machine.name);
    auto cluster = topology::build_cluster(machine.name, 1);
    ASSERT_TRUE(cluster) << cluster.error().message;
    if (cluster->ranks() < 2) continue;
    const std::vector<int> devices = spread(*cluster, cluster->ranks());
    const topology::Resources resources(*cluster);
    auto report = report_rings(resources, devices);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_GT(report->rate, 0);
    EXPECT_GT(report->bound, 0);
    EXPECT_LE(report->rate, report->bound * (1 + 1e-6));
    EXPECT_GE(report->rate, 0.9 * report->bound);
    expect_no_link_beyond_its_capacity(cluster->machine(), devices, *report);
    ++seen;
  }
  EXPECT_GE(seen, 4);
}

TEST(RingReport, SaysWhatTheRingsCarryAndWhere) {
  auto cluster = topology::build_cluster("mi300x-8", 1);
  ASSERT_TRUE(cluster);
  const std::vector<int> devices = spread(*cluster, 8);
  const topology::Resources resources(*cluster);
  auto report = report_rings(resources, devices);
  ASSERT_TRUE(report);
  const std::string text = describe_rings(resources, devices, *report);
  EXPECT_NE(text.find("7 rings of 8 ranks carry 336 GB/s together"), std::string::npos) << text;
  EXPECT_NE(text.find("no rings carry more on these wires"), std::string::npos) << text;
  const auto tree = nlohmann::json::parse(rings_json(resources, devices, *report));
  EXPECT_EQ(tree.at("rings").size(), 7u);
  EXPECT_EQ(tree.at("rings")[0].size(), 8u);
  EXPECT_DOUBLE_EQ(tree.at("GBps").get<double>(), 336);
  EXPECT_DOUBLE_EQ(tree.at("bound_GBps").get<double>(), 336);
  EXPECT_EQ(tree.at("wires").size(), 56u);
}

TEST(RingReport, CarriesAtLeastWhatNcclFoundOnTheSameMachine) {
  // A topology and a graph that one run of NCCL wrote. Other graphs of that folder were written by hand or have no topology beside them.
  const std::string folder = peal::test::in_source("../shared/data/");
  const std::string name = "/perlmutter-a100-4gpu-cxi.xml";
  if (!std::filesystem::exists(folder + "nccl-graph" + name)) GTEST_SKIP() << "no recorded files beside the source tree";
  auto machine = topology::import_file(folder + "nccl-topo" + name);
  ASSERT_TRUE(machine) << machine.error().message;
  std::ifstream file(folder + "nccl-graph" + name);
  std::stringstream text;
  text << file.rdbuf();
  auto graphs = topology::read_nccl_graphs(text.str(), name);
  ASSERT_TRUE(graphs) << graphs.error().message;
  double theirs = 0;
  for (const auto& graph : graphs->graphs)
    if (graph.pattern == topology::NcclPattern::ring) theirs = graph.intra_gbps * static_cast<double>(graph.channels.size());
  EXPECT_DOUBLE_EQ(theirs, 240) << "twelve channels of 20 GB/s";
  const topology::Cluster cluster(machine->graph);
  const std::vector<int> devices = spread(cluster, cluster.ranks());
  const topology::Resources resources(cluster);
  auto report = report_rings(resources, devices);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GE(report->rate, theirs * (1 - 1e-9));
}

TEST(RingReport, OnNoImportedTopologyDoRingsTakeMoreThanItsLinksHave) {
  const std::string folder = peal::test::in_source("../shared/data/nccl-topo");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no recorded files beside the source tree";
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    SCOPED_TRACE(entry.path().filename().string());
    auto file = topology::import_file(entry.path().string());
    ASSERT_TRUE(file) << file.error().message;
    const topology::Cluster cluster(file->graph);
    if (cluster.ranks() < 2) continue;
    const std::vector<int> devices = spread(cluster, cluster.ranks());
    const topology::Resources resources(cluster);
    auto report = report_rings(resources, devices);
    if (!report) continue;  // pieces of a file whose GPUs have no way to each other
    EXPECT_LE(report->rate, report->bound * (1 + 1e-6));
    expect_no_link_beyond_its_capacity(cluster.machine(), devices, *report);
    ++seen;
  }
  EXPECT_GE(seen, 45);
}

TEST(RingReport, NeedsTwoRanksThatHaveAWay) {
  topology::Graph graph;
  ASSERT_TRUE(graph.add_device({.id = "gpu0", .kind = topology::DeviceKind::gpu}));
  ASSERT_TRUE(graph.add_device({.id = "gpu1", .kind = topology::DeviceKind::gpu}));
  const topology::Resources resources(std::move(graph));
  EXPECT_FALSE(report_rings(resources, std::vector<int>{0}));
  auto apart = report_rings(resources, std::vector<int>{0, 1});
  ASSERT_FALSE(apart);
  EXPECT_NE(apart.error().message.find("no way to each other"), std::string::npos) << apart.error().message;
}

}  // namespace
}  // namespace peal::tuning
