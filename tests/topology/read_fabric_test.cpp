#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "fabric_checks.hpp"
#include "source_tree.hpp"

namespace peal::topology {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string error_of_fabric(const std::string& fabric, int nodes = 100) {
  const auto result = read_cluster_text(fmt::format("machine: dgx-h100\nnodes: {}\nfabric: {}\n", nodes, fabric), "mine.yaml");
  EXPECT_FALSE(result) << "accepted: " << fabric;
  return result ? std::string() : result.error().message;
}

TEST(ReadFabric, BothSpellingsAreOneFabric) {
  const auto file =
      read_cluster_text("machine: dgx-h100\nnodes: 100\nfabric: {kind: fat-tree, levels: 2, radix: 64, oversubscription: 3}\n", "a");
  const auto words = build_cluster("dgx-h100", 100, "fat-tree,levels=2,radix=64,oversubscription=3");
  ASSERT_TRUE(file && words);
  EXPECT_EQ(file->fabric()->summary(), words->fabric()->summary());
  std::vector<std::uint32_t> a;
  std::vector<std::uint32_t> b;
  for (int to = 1; to < 100; ++to) {
    file->fabric()->route({0, 1}, {to, 2}, a);
    words->fabric()->route({0, 1}, {to, 2}, b);
  }
  EXPECT_EQ(a, b);
}

TEST(ReadFabric, WithoutOneNothingLimits) {
  const auto cluster = build_cluster("dgx-h100", 100);
  ASSERT_TRUE(cluster);
  EXPECT_EQ(cluster->fabric()->name(), "ideal");
  EXPECT_EQ(build_cluster("dgx-h100", 100, "ideal")->fabric()->resource_count(), 0u);
}

TEST(ReadFabric, SwitchesAreThoseOfTheNics) {
  EXPECT_THAT(build_cluster("dgx-a100", 60, "fat-tree")->fabric()->summary(), HasSubstr("30 leaves"));   // HDR: 40 ports, 16 of 20 down
  EXPECT_THAT(build_cluster("dgx-h100", 100, "fat-tree")->fabric()->summary(), HasSubstr("25 leaves"));  // NDR: 64 ports, 32 down
  EXPECT_THAT(build_cluster("dgx-h100", 100, "fat-tree,switch=quantum-x800")->fabric()->summary(), HasSubstr("12 leaves"));
  EXPECT_THAT(build_cluster("dgx-h100", 100, "fat-tree,switch=rosetta")->fabric()->summary(), HasSubstr("350 ns"));
  EXPECT_THAT(build_cluster("dgx-h100", 100, "fat-tree,link_GBps=100")->fabric()->summary(), HasSubstr("100 GB/s"));
}

TEST(ReadFabric, ErrorsNameFileLineAndMend) {
  EXPECT_THAT(error_of_fabric("{kind: fat-three}"), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("fat-tree")));
  EXPECT_THAT(error_of_fabric("dgx-h100-superpot"), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("dgx-h100-superpod")));
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, levles: 2}"), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("levels")));
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, dims: 4x4}"), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("dims")));
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, levels: 4}"), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("from 1 to 3")));
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, switch: foo}"), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("quantum-2")));
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, switch: spectrum-4, sharp: true}"),
              AllOf(HasSubstr("mine.yaml:3"), HasSubstr("quantum-2")));
  EXPECT_THAT(build_cluster("gcp-a4", 4, "fat-tree,switch=quantum-2,sharp=true").error().message, HasSubstr("ethernet NICs"));
  EXPECT_THAT(error_of_fabric("{kind: dragonfly, sharp: true}"), AllOf(HasSubstr("mine.yaml:3"), HasSubstr("kind: rail-optimised")));
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, sharp: perhaps}"), HasSubstr("mine.yaml:3"));
  EXPECT_THAT(error_of_fabric("[fat-tree]"), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("mapping")));
  EXPECT_THAT(error_of_fabric("{kind: nvlink-network}"), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("dgx-h100-nvlink-superpod")));
  EXPECT_THAT(error_of_fabric("{of: dgx-h100-nvlink-superpod, between: {of: dgx-h100-nvlink-superpod}}"), HasSubstr("another kind"));
}

TEST(ReadFabric, TooFewPortsSayHowManyAreNeeded) {
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, levels: 1, radix: 64}"),
              AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("800"), HasSubstr("levels: 2")));
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, levels: 2, radix: 16}"),
              AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("100 leaves"), HasSubstr("levels: 3"), HasSubstr("spine_radix: 100")));
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, levels: 3, radix: 4}", 1000), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("core_radix: ")));
  EXPECT_THAT(error_of_fabric("{kind: fat-tree, radix: 32, down: 24, up: 16}"), AllOf(HasSubstr("40 ports"), HasSubstr("radix: 40")));
  EXPECT_THAT(error_of_fabric("{kind: rail-optimised, radix: 64, unit: 48}"), AllOf(HasSubstr("48 nodes"), HasSubstr("unit: 32")));
  EXPECT_THAT(error_of_fabric("{kind: dragonfly, radix: 7, down: 4}"), AllOf(HasSubstr("9 ports"), HasSubstr("radix: 9")));
  EXPECT_THAT(error_of_fabric("{kind: dragonfly, radix: 7}"), AllOf(HasSubstr("at most 9 groups"), HasSubstr("routers:")));
  EXPECT_THAT(error_of_fabric("{kind: torus}"), HasSubstr("dims: 4x4x4"));
  EXPECT_THAT(error_of_fabric("{kind: torus, dims: 4x4}"), AllOf(HasSubstr("100 nodes"), HasSubstr("4x4")));
  EXPECT_THAT(error_of_fabric("{kind: torus, dims: 4x}"), HasSubstr("mine.yaml:3:"));
  EXPECT_THAT(error_of_fabric("{kind: torus, dims: 2x2x2x2x2x2x2}"), HasSubstr("at most 6"));
  EXPECT_THAT(error_of_fabric("full-mesh"), AllOf(HasSubstr("99 ports"), HasSubstr("at most 9 nodes")));
  EXPECT_THAT(error_of_fabric("{kind: full-mesh, joins: switches, radix: 16}"), HasSubstr("radix:"));
  EXPECT_THAT(error_of_fabric("dgx-h100-nvlink-superpod"), AllOf(HasSubstr("mine.yaml:3:"), HasSubstr("nodes: 128")));
  EXPECT_THAT(error_of_fabric("{of: dgx-h100-nvlink-superpod, pod: 50}"), AllOf(HasSubstr("200 ports"), HasSubstr("pod: 32")));
}

TEST(ReadFabric, WordsSayWhatIsWrong) {
  const auto error = [](const char* words) {
    const auto result = build_cluster("dgx-h100", 100, words);
    EXPECT_FALSE(result) << words;
    return result ? std::string() : result.error().message;
  };
  EXPECT_THAT(error("fat-tree,levels"), AllOf(HasSubstr("--fabric: "), HasSubstr("key=value")));
  EXPECT_THAT(error("fat-tree,levels=2,levels=3"), HasSubstr("twice"));
  EXPECT_THAT(error("fat-tree,levels=two"), AllOf(HasSubstr("--fabric: "), HasSubstr("two")));
  EXPECT_THAT(error("fat-tre"), AllOf(HasSubstr("--fabric: "), HasSubstr("fat-tree")));
  EXPECT_THAT(error(","), HasSubstr("--fabric"));
}

TEST(ReadFabric, PublishedFabricsLoadAndSayWhoSaidSo) {
  const auto fabrics = list_fabrics();
  ASSERT_TRUE(fabrics) << fabrics.error().message;
  ASSERT_GE(fabrics->size(), 5u);
  for (const FabricEntry& entry : *fabrics) {
    EXPECT_FALSE(entry.title.empty());
    const auto cluster = build_cluster("dgx-h100", 64, entry.name);
    ASSERT_TRUE(cluster) << entry.name << ": " << cluster.error().message;
    const auto graph = cluster->graph();
    ASSERT_TRUE(graph) << entry.name;
    for (const Device& d : graph->devices()) {
      if (is_switch(d.id)) {
        EXPECT_THAT(d.source, AllOf(Not(HasSubstr("declared in")), Not(::testing::IsEmpty()))) << d.id;
      }
    }
  }
}

TEST(ReadFabric, MetaClusterIsSevenToOneBetweenPods) {
  const auto cluster = build_cluster("dgx-h100", 3'072, "meta-24k-roce,adaptive=true");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const Fabric& f = *cluster->fabric();
  EXPECT_THAT(f.summary(), AllOf(HasSubstr("1536 leaves"), HasSubstr("8 pods")));
  std::vector<std::uint32_t> out;
  f.route({0, 0}, {3'071, 0}, out);
  ASSERT_EQ(out.size(), 4u);  // leaf, pod, pod, leaf
  const double port = 48;
  EXPECT_NEAR(f.resource_capacity(out[0]).gigabytes(), 16 * port, 1e-6);
  const double ratio = 3'072 * port / f.resource_capacity(out[1]).gigabytes();
  EXPECT_NEAR(ratio, 7, 0.1);
  out.clear();
  f.route({0, 0}, {383, 7}, out);  // inside the pod
  EXPECT_EQ(out.size(), 2u);
}

TEST(ReadFabric, TheGuidesExamplesAreClusters) {
  std::ifstream file(peal::test::in_source("docs/guide/clusters.md"));
  ASSERT_TRUE(file);
  std::string line;
  std::string example;
  bool is_inside = false;
  int number = 0;
  int examples = 0;
  while (std::getline(file, line)) {
    ++number;
    if (!is_inside && line == "```yaml") {
      is_inside = true;
      example.clear();
      continue;
    }
    if (is_inside && line == "```") {
      is_inside = false;
      ++examples;
      EXPECT_LE(std::count(example.begin(), example.end(), '\n'), 10) << "ten lines, above line " << number;
      const auto cluster = read_cluster_text(example, fmt::format("clusters.md above line {}", number));
      ASSERT_TRUE(cluster) << cluster.error().message;
      const Resources r{Cluster(*cluster)};
      const int last = cluster->ranks() - 1;
      EXPECT_TRUE(r.route(r.cluster().device_of_rank(0), r.cluster().device_of_rank(last)).exists()) << example;
      continue;
    }
    if (is_inside) example += line + "\n";
  }
  EXPECT_GE(examples, 6);
}

}  // namespace
}  // namespace peal::topology
