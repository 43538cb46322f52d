// What the rings and trees of every machine carry, against its wires.
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <topology/import.hpp>
#include <topology/import_nccl_graph.hpp>
#include <topology/machine.hpp>
#include <tuning/placement.hpp>
#include <tuning/rails.hpp>
#include <tuning/ring_report.hpp>
#include <tuning/tree_report.hpp>
#include <tuning/wiring.hpp>

#include "source_tree.hpp"

namespace peal::tuning {
namespace {

/// What shapes put on the links of the graph itself, not on the resources that the report counts.
class LinkLoad {
 public:
  LinkLoad(const topology::Graph& graph, const std::vector<int>& devices) : graph_(graph), devices_(devices), paths_(graph) {}

  void add(std::int32_t from, std::int32_t to, double rate) {
    for (const topology::Hop& hop : paths_.path(devices_[static_cast<std::size_t>(from)], devices_[static_cast<std::size_t>(to)]).hops) {
      double width = 0;
      for (const topology::DirectedLink& l : hop.links) width += graph_.link(l.link).usable_total().gigabytes();
      load_[{hop.from, hop.to}].first += rate;
      load_[{hop.from, hop.to}].second = width;
    }
  }
  void expect_none_beyond_its_capacity() const {
    for (const auto& [hop, sum] : load_)
      EXPECT_LE(sum.first, sum.second * (1 + 1e-6)) << graph_.device(hop.first).id + " > " + graph_.device(hop.second).id;
  }

 private:
  const topology::Graph& graph_;
  const std::vector<int>& devices_;
  topology::PathFinder paths_;
  std::map<std::pair<int, int>, std::pair<double, double>> load_;  // of neighbours, in one direction: carried, capacity
};

double seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// The limits are those of the program that people run; sanitizers make it two to five times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlower = 10;
#else
constexpr double kSlower = 1;
#endif

/// Rings and trees of all ranks of one machine: within the links, near the most, in time. False where ranks have no way to each other.
bool expect_shapes(const topology::Cluster& cluster, double least_of_bound) {
  const std::vector<int> devices = spread(cluster, cluster.ranks());
  const topology::Resources resources(cluster);
  const double start = seconds();
  const auto report = report_rings(resources, devices);
  const double middle = seconds();
  const auto trees = report_trees(resources, devices, 0);
  const double most_seconds = kSlower * (cluster.ranks() <= 16 ? 1 : 10);
  EXPECT_LE(middle - start, most_seconds) << "of the processor, for rings";
  EXPECT_LE(seconds() - middle, most_seconds) << "of the processor, for trees";
  EXPECT_EQ(report.has_value(), trees.has_value());
  if (!report || !trees) return false;
  EXPECT_TRUE(report->is_bound_met);
  EXPECT_LE(report->rate, report->bound * (1 + 1e-6));
  EXPECT_GE(report->rate, least_of_bound * report->bound);
  LinkLoad of_rings(cluster.machine(), devices), of_trees(cluster.machine(), devices);
  for (std::size_t k = 0; k < report->set.rings.size(); ++k) {
    const std::vector<std::int32_t>& ring = report->set.rings[k];
    for (std::size_t p = 0; p < ring.size(); ++p)
      of_rings.add(ring[p], ring[(p + 1) % ring.size()], report->rate * report->set.share(k) / report->set.all_shares());
  }
  of_rings.expect_none_beyond_its_capacity();
  EXPECT_TRUE(trees->trees.is_proved()) << trees->trees.total << " of " << trees->trees.bound;
  EXPECT_GE(trees->trees.total, report->rate * (1 - 1e-6)) << "a chain along a ring is a tree too";
  for (std::size_t t = 0; t < trees->trees.shapes.size(); ++t)
    for (std::int32_t rank = 1; rank < cluster.ranks(); ++rank)
      of_trees.add(trees->trees.shapes[t][static_cast<std::size_t>(rank)], rank, trees->trees.rates[t]);
  of_trees.expect_none_beyond_its_capacity();
  return true;
}

/// Where a little more would go over PCIe beside NVLink, in shares smaller than a ring has.
double least_of_bound(std::string_view name) {
  if (name == "dgx-1-v100") return 0.989;
  if (name.starts_with("topo_8p6l_")) return 0.972;
  return 0.999;
}

TEST(RingReport, RingsAndTreesOfEveryMachineReachWhatItsLinksCanCarry) {
  auto machines = topology::list_machines();
  ASSERT_TRUE(machines);
  int seen = 0;
  for (const topology::MachineEntry& machine : *machines) {
    SCOPED_TRACE(machine.name);
    auto cluster = topology::build_cluster(machine.name, 1);
    ASSERT_TRUE(cluster) << cluster.error().message;
    if (cluster->ranks() < 2) continue;
    EXPECT_TRUE(expect_shapes(*cluster, least_of_bound(machine.name)));
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

/// A GPU on each of `sockets`, all of which are joined: every pair is alike, but the wires between sockets are narrower than a GPU's own.
RingReport report_of_sockets(int sockets) {
  auto cluster = topology::read_cluster_text(
      fmt::format("devices:\n  - {{id: \"gpu[0-{0}]\", kind: gpu}}\n  - {{id: \"cpu[0-{0}]\", kind: cpu}}\nlinks:\n"
                  "  - {{a: \"gpu[0-{0}]\", b: \"cpu[0-{0}]\", join: pair, kind: pcie, GBps: 24}}\n"
                  "  - {{a: \"cpu[0-{0}]\", b: \"cpu[0-{0}]\", join: mesh, kind: sys, GBps: 16}}\n",
                  sockets - 1),
      "sockets");
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  const std::vector<int> devices = spread(*cluster, sockets);
  const topology::Resources resources(std::move(*cluster));
  auto report = report_rings(resources, devices);
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return *report;
}

TEST(RingReport, SeveralRingsFillTheEndsWhereWhatIsBetweenIsNarrower) {
  EXPECT_DOUBLE_EQ(report_of_sockets(4).rate, 24);
  // Two ranks have one ring, and that is the most.
  EXPECT_DOUBLE_EQ(report_of_sockets(2).rate, 16);
  EXPECT_DOUBLE_EQ(report_of_sockets(2).bound, 16);
}

/// Their rings and trees and ours on the same machine. Of a graph that was written by hand, which NCCL takes as it is, only what the wires
/// give its rings counts.
void expect_at_least_nccl(const std::string& folder, const std::string& topology_file, const std::string& graph_file, bool is_by_hand) {
  SCOPED_TRACE(graph_file);
  auto machine = topology::import_file(folder + "nccl-topo/" + topology_file);
  ASSERT_TRUE(machine) << machine.error().message;
  std::ifstream file(folder + "nccl-graph/" + graph_file);
  std::stringstream text;
  text << file.rdbuf();
  auto graphs = topology::read_nccl_graphs(text.str(), graph_file);
  ASSERT_TRUE(graphs) << graphs.error().message;
  const topology::Cluster cluster(machine->graph);
  const std::vector<int> devices = spread(cluster, cluster.ranks());
  const topology::Resources resources(cluster);
  const Wiring wiring = wires_of(resources, devices);
  const auto rings = report_rings(resources, devices);
  const auto trees = report_trees(resources, devices, 0);
  ASSERT_TRUE(rings && trees);
  int seen = 0;
  for (const auto& graph : graphs->graphs) {
    double theirs = graph.intra_gbps * static_cast<double>(graph.channels.size());
    const bool is_ring = graph.pattern == topology::NcclPattern::ring;
    if (theirs == 0 || (is_by_hand && !is_ring)) continue;
    RingSet orders;
    for (const auto& channel : graph.channels) {
      std::vector<std::int32_t>& order = orders.rings.emplace_back();
      for (const topology::NcclGraphGpu& gpu : channel.gpus) order.push_back(gpu.rank >= 0 ? gpu.rank : gpu.dev);
    }
    if (is_by_hand) {
      EXPECT_LT(rate_of(wiring, orders), theirs) << "it claims more than its links have";
      theirs = rate_of(wiring, orders);
    } else {
      EXPECT_DOUBLE_EQ(theirs, 240) << "twelve channels of 20 GB/s";
    }
    EXPECT_GE(is_ring ? rings->rate : trees->trees.total, theirs * (1 - 1e-6)) << name_of(graph.pattern);
    ++seen;
  }
  EXPECT_EQ(seen, is_by_hand ? 1 : 2);
}

TEST(RingReport, CarriesAtLeastWhatNcclFoundOnTheSameMachine) {
  const std::string folder = peal::test::in_source("../shared/data/");
  if (!std::filesystem::exists(folder + "nccl-graph")) GTEST_SKIP() << "no recorded files beside the source tree";
  expect_at_least_nccl(folder, "perlmutter-a100-4gpu-cxi.xml", "perlmutter-a100-4gpu-cxi.xml", false);
  expect_at_least_nccl(folder, "azure-ncv4.xml", "azure-ncv4-graph.xml", true);
}

TEST(RingReport, RingsAndTreesOfImportedTopologiesReachWhatTheirLinksCanCarry) {
  const std::string folder = peal::test::in_source("../shared/data/nccl-topo");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no recorded files beside the source tree";
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    auto file = topology::import_file(entry.path().string());
    ASSERT_TRUE(file) << file.error().message;
    const topology::Cluster cluster(file->graph);
    if (cluster.ranks() < 2) continue;
    if (expect_shapes(cluster, least_of_bound(name))) ++seen;  // else pieces of a file whose GPUs have no way to each other
  }
  EXPECT_GE(seen, 45);
}

TEST(TreeReport, SaysWhatTheTreesCarryAndWhere) {
  auto cluster = topology::build_cluster("mi250x-8gcd", 1);
  ASSERT_TRUE(cluster);
  const std::vector<int> devices = spread(*cluster, 8);
  const topology::Resources resources(*cluster);
  auto report = report_trees(resources, devices, 0);
  ASSERT_TRUE(report) << report.error().message;
  const std::string text = describe_trees(resources, devices, *report);
  EXPECT_NE(text.find("trees from gpu0 to 7 ranks carry 204 GB/s together"), std::string::npos) << text;
  EXPECT_NE(text.find("no trees carry more on these wires"), std::string::npos) << text;
  const auto tree = nlohmann::json::parse(trees_json(resources, devices, *report));
  EXPECT_EQ(tree.at("root"), "gpu0");
  EXPECT_EQ(tree.at("trees")[0].at("parents").size(), 7u);
  EXPECT_NEAR(tree.at("GBps").get<double>(), 204, 1e-3);
  EXPECT_TRUE(tree.at("is_bound_met").get<bool>());
  EXPECT_LE(tree.at("wires")[0].at("share").get<double>(), 1 + 1e-6);
}

TEST(Rails, EveryGpuOfADgxHasItsNic) {
  auto cluster = topology::build_cluster("dgx-h100", 2);
  ASSERT_TRUE(cluster);
  const std::vector<int> devices = spread(*cluster, 16);
  const topology::Resources resources(*cluster);
  const std::vector<Rail> rails = rails_of(resources, devices);
  ASSERT_EQ(rails.size(), 8u) << "of the first machine";
  std::set<int> nics;
  for (const Rail& rail : rails) {
    nics.insert(rail.nic);
    EXPECT_LE(rail.path_class, topology::PathClass::pxb);
    EXPECT_GE(rail.rate.gigabytes(), 48) << "a NIC of 400 Gbit/s";
  }
  EXPECT_EQ(nics.size(), 8u);
  EXPECT_NE(describe_rails(resources, devices).find("Rails\n"), std::string::npos);
  auto without = topology::build_cluster("pcie4-rtx4090x4", 1);
  ASSERT_TRUE(without);
  EXPECT_EQ(describe_rails(topology::Resources(*without), spread(*without, 4)), "");
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
