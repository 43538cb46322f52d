// Slurm's topology.conf, topology.yaml and gres.conf: invented ones, an oddity each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <topology/import.hpp>
#include <topology/path.hpp>

#include "import_fixtures.hpp"

namespace peal::topology {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Graph read_slurm(Reader reader, std::string_view text) {
  auto graph = reader(text, "in.conf");
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}
Graph conf(std::string_view text) { return read_slurm(import_slurm_topology, text); }
Graph slurm_yaml(std::string_view text) { return read_slurm(import_slurm_topology_yaml, text); }
Graph gres(std::string_view text) { return read_slurm(import_slurm_gres, text); }

bool are_joined(const Graph& graph, std::string_view a, std::string_view b) {
  const int from = graph.find(a);
  const int to = graph.find(b);
  if (from < 0 || to < 0) return false;
  for (int l : graph.links_of(from))
    if (graph.other_end(l, from) == to) return true;
  return false;
}

TEST(ImportSlurmTopology, ATreeHasHostsThatReachEachOther) {
  const Graph graph = conf(
      "# a comment\nswitchname=s0 NODES=node[01-02] LinkSpeed=100\nSwitchName=s1 Nodes=node[03-04] # behind\nSWITCHNAME=top "
      "switches=s[0-1]\n");
  EXPECT_EQ(count(graph, DeviceKind::cpu), 4u);
  EXPECT_EQ(count(graph, DeviceKind::net_switch), 3u);
  EXPECT_TRUE(are_joined(graph, "top", "s1"));
  EXPECT_TRUE(are_joined(graph, "s0", "node02"));
  EXPECT_EQ(graph.compute_devices().size(), 4u) << "a rank a host";
  EXPECT_EQ(graph.node_count(), 4);
  const PathFinder paths(graph);
  const Path& path = paths.path(graph.find("node01"), graph.find("node04"));
  EXPECT_EQ(path.path_class, PathClass::net);
  EXPECT_EQ(path.hops.size(), 4u);
  EXPECT_THAT(graph.warnings(), ElementsAre(HasSubstr("12.5 GB/s of Ethernet are assumed")));
  EXPECT_THAT(graph.link(0).source, HasSubstr("assumed"));
}

TEST(ImportSlurmTopology, ForestsUnevenTreesAndListsOverLevelsAreReadAndNamed) {
  const Graph graph = conf(
      "SwitchName=a Nodes=n[1-2]\n"
      "SwitchName=b Nodes=n[2-3] Switches=c\n"
      "SwitchName=top Switches=a,b,c\n"
      "SwitchName=lone Nodes=n9\n");
  EXPECT_TRUE(are_joined(graph, "top", "c"));
  EXPECT_TRUE(are_joined(graph, "b", "c"));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:2: switch c has no line of its own")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:3: switch c hangs below several switches")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:2: host n2 hangs below several switches")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("2 switches have none above them (top, lone ...)")));
}

TEST(ImportSlurmTopology, CirclesAndSelfReferencesAreNamed) {
  const Graph graph = conf("SwitchName=a Switches=b\nSwitchName=b Switches=a,b\n");
  EXPECT_EQ(graph.link_count(), 1);
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:2: b and a are joined already")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:2: b is joined to itself")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("hangs below itself")));
}

TEST(ImportSlurmTopology, BlocksHangBelowOneThatIsNotNamed) {
  const Graph graph = conf("BlockName=b1 Nodes=n[01-04]\nBlockName=b2 Nodes=n[05-06]\nBlockSizes=4,8,12\n");
  EXPECT_EQ(count(graph, DeviceKind::cpu), 6u);
  EXPECT_TRUE(are_joined(graph, "b1", "n04"));
  EXPECT_TRUE(are_joined(graph, "between-blocks", "b2"));
  EXPECT_EQ(graph.device(graph.find("between-blocks")).attribute("block_sizes"), "4,8,12");
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:3: block size 12 is no power of two times the planning size 4")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:2: block b2 has 2 hosts, fewer than the planning size 4")));
}

TEST(ImportSlurmTopology, RingsCloseAndKeepTheirOrder) {
  const Graph graph = conf("RingName=r Nodes=n[3,1,2]\nRingName=two Nodes=m[1-2]\nRingName=long Nodes=x[1-17]\n");
  EXPECT_TRUE(are_joined(graph, "n3", "n1"));
  EXPECT_TRUE(are_joined(graph, "n2", "n3"));
  EXPECT_EQ(graph.links_of(graph.find("m1")).size(), 1u);
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:3: ring long has 17 hosts, Slurm takes at most 16")));
}

TEST(ImportSlurmTopology, LinesContinueAndBadOnesAreNamed) {
  const Graph graph = conf("SwitchName=s Nodes=a,\\\n b[1-2]\nSwitchNam=t Nodes=x\nword\nSwitchName=u Nodes=y[1-\nSwitchName=v Nodes=z\n");
  EXPECT_GE(graph.find("z"), 0);
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:3: key 'switchnam' is not known, did you mean 'switchname'?")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:4: 'word' is no KEY=VALUE pair")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:5: host list: a bracket that is not closed")));
}

TEST(ImportSlurmTopology, ASwitchAndAHostMayShareAName) {
  const Graph graph = conf("SwitchName=x Nodes=x,y\n");
  EXPECT_EQ(graph.device_count(), 3);
  EXPECT_TRUE(are_joined(graph, "x", "host:x"));
}

TEST(ImportSlurmTopology, NothingToReadFails) {
  for (std::string_view text : {"", "# only\n", "BlockSizes=4\n", "Name=gpu\n"}) {
    const auto graph = import_slurm_topology(text, "in.conf");
    ASSERT_FALSE(graph) << text;
    EXPECT_THAT(graph.error().message, HasSubstr("SwitchName="));
  }
}

TEST(ImportSlurmTopology, ListsCannotAskForMoreThanAMillionNames) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "SwitchName=s Nodes=n[1-90000]\n";
  const Graph graph = conf(text);
  EXPECT_EQ(count(graph, DeviceKind::cpu), 90'000u);
  EXPECT_THAT(graph.warnings().back(), HasSubstr("further warnings are left out"));
}

TEST(ImportSlurmTopology, MoreDevicesThanAGraphTakesAreRefused) {
  const auto graph = import_slurm_topology("SwitchName=s Nodes=n[1-90000]\nSwitchName=t Nodes=m[1-90000]\n", "in.conf");
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message, HasSubstr("more than 100000 devices: give a part of the network"));
}

constexpr std::string_view kFiveTopologies =
    "- topology: rings\n  ring:\n    rings:\n      - {ring: r0, nodes: \"h[1-4]\"}\n"
    "- topology: main\n  cluster_default: true\n  tree:\n    switches:\n"
    "      - {switch: top, children: \"s[1-2]\"}\n      - {switch: s1, nodes: \"h[1-2]\"}\n      - {switch: s2, nodes: \"h[3-4]\"}\n"
    "- topology: flat\n  flat: true\n";

TEST(ImportSlurmTopologyYaml, TheDefaultIsDrawnAndTheOthersSummedUp) {
  const Graph graph = slurm_yaml(kFiveTopologies);
  EXPECT_EQ(count(graph, DeviceKind::cpu), 4u);
  EXPECT_TRUE(are_joined(graph, "top", "s2"));
  EXPECT_FALSE(are_joined(graph, "h1", "h2"));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:1: topology rings (ring of 1 rings) is not drawn: main is")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("flat (flat: it names no hosts)")));
}

TEST(ImportSlurmTopologyYaml, BlocksAndATorus) {
  const Graph blocks = slurm_yaml(
      "- topology: t\n  block:\n    block_sizes: [2, 4]\n    blocks:\n    - {block: b1, nodes: [n1, \"n[2]\"]}\n    - {block: b2, nodes: "
      "\"n[3-4]\"}\n");
  EXPECT_EQ(blocks.device(blocks.find("between-blocks")).attribute("block_sizes"), "2,4");
  const Graph torus =
      slurm_yaml("- topology: t\n  torus3d:\n    toruses:\n    - {name: pod, dims: {x: 3, y: 2, z: 1}, nodes: \"n[0-5]\"}\n");
  EXPECT_EQ(torus.link_count(), 6 + 3) << "two rings of three, three rungs between them";
  EXPECT_TRUE(are_joined(torus, "n0", "n2")) << "around x";
  EXPECT_TRUE(are_joined(torus, "n1", "n4")) << "along y";
  const Graph wrong =
      slurm_yaml("- topology: t\n  torus3d:\n    toruses:\n    - {name: pod, dims: {x: 3, y: 2, z: 2}, nodes: \"n[0-5]\"}\n");
  EXPECT_EQ(wrong.link_count(), 0);
  EXPECT_THAT(wrong.warnings(), Contains(HasSubstr("in.conf:4: torus pod has 3 x 2 x 2 places and 6 hosts")));
}

TEST(ImportSlurmTopologyYaml, AFileThatIsCutOffGivesWhatComesBefore) {
  const std::string text(kFiveTopologies);
  const Graph graph = slurm_yaml(text.substr(0, text.find("s2, nodes: \"h[3-4]")) + "s2, nod");
  EXPECT_TRUE(are_joined(graph, "top", "s1"));
  EXPECT_TRUE(are_joined(graph, "s1", "h2"));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("the file is cut off here")));
  EXPECT_FALSE(import_slurm_topology_yaml("- topology: t\n  flat: true\n", "in.conf"));
  EXPECT_FALSE(import_slurm_topology_yaml("[", "in.conf"));
}

TEST(ImportSlurmGres, FilesCoresAndCounts) {
  const Graph graph = gres(
      "AutoDetect=off\nName=gpu Type=T File=/dev/nvidia[0-1] COREs=0-3\nName=gpu Type=T File=/dev/nvidia[2-3] Cores=[4-7]\nName=shard "
      "Count=4\n");
  EXPECT_EQ(count(graph, DeviceKind::gpu), 4u);
  EXPECT_EQ(count(graph, DeviceKind::cpu), 2u);
  EXPECT_EQ(graph.device(graph.find("gpu3")).attribute("file"), "/dev/nvidia3");
  EXPECT_EQ(graph.device(graph.find("gpu2")).attribute("cpu_affinity"), "4-7");
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.conf:4: shard is no GPU")));
  EXPECT_EQ(count(gres("Name=gpu Count=3\n"), DeviceKind::gpu), 3u);
  EXPECT_EQ(count(gres("Name=gpu MultipleFiles=/dev/a[0-3]\n"), DeviceKind::gpu), 1u);
}

TEST(ImportSlurmGres, LinksFollowThePciOrderNotTheFiles) {
  // The second file is the first device on the bus.
  const Graph graph = gres(
      "Name=gpu File=/dev/nvidia0 Links=2,-1,0\n"
      "Name=gpu File=/dev/nvidia1 Links=-1,2,1\n"
      "Name=gpu File=/dev/nvidia2 Links=1,0,-1\n");
  EXPECT_TRUE(are_joined(graph, "gpu0", "gpu1"));
  EXPECT_TRUE(are_joined(graph, "gpu1", "gpu2"));
  EXPECT_FALSE(are_joined(graph, "gpu0", "gpu2"));
  EXPECT_EQ(graph.device(graph.find("gpu1")).attribute("pci_order"), "0");
  EXPECT_NEAR(graph.total_of(graph.find("gpu1"), LinkKind::nvlink).gigabytes(), 3 * 25, 1e-9);
}

TEST(ImportSlurmGres, LinksThatDoNotFitAreNamed) {
  const Graph uneven = gres("Name=gpu File=/dev/a0 Links=-1,2\nName=gpu File=/dev/a1 Links=1,-1\n");
  EXPECT_THAT(uneven.warnings(), Contains(HasSubstr("in.conf:2: gpu0 to gpu1 has 2 links there and 1 back")));
  const Graph twice = gres("Name=gpu File=/dev/a0 Links=-1,2\nName=gpu File=/dev/a1 Links=-1,2\n");
  EXPECT_THAT(twice.warnings(), Contains(HasSubstr("in.conf:2: Links gives gpu1 the place of gpu0")));
  const Graph many = gres("Name=gpu File=/dev/a[0-1] Links=-1,2\n");
  EXPECT_THAT(many.warnings(), Contains(HasSubstr("in.conf:1: Links belongs to lines with one device")));
  const Graph none = gres("Name=gpu File=/dev/a0 Links=1,x\n");
  EXPECT_THAT(none.warnings(), Contains(HasSubstr("'x' is no number of links")));
  EXPECT_THAT(none.warnings(), Contains(HasSubstr("no -1")));
  const Graph shorter = gres("Name=gpu File=/dev/a0 Links=-1\nName=gpu File=/dev/a1 Links=4,-1\n");
  EXPECT_TRUE(are_joined(shorter, "gpu0", "gpu1")) << "a list may be shorter than the number of GPUs";
}

TEST(ImportSlurmGres, NodesByHostList) {
  const Graph graph = gres("NodeName=big[1-2] Name=gpu Type=MI300X File=/dev/dri/renderD[136,128]\nNodeName=small Name=gpu Count=1\n");
  EXPECT_EQ(graph.node_count(), 3);
  EXPECT_EQ(graph.device(graph.find("big2/gpu0")).attribute("file"), "/dev/dri/renderD136") << "the order of the list counts";
  EXPECT_EQ(graph.device(graph.find("big2/gpu1")).node, 1);
  EXPECT_GE(graph.find("small/gpu0"), 0);
  EXPECT_FALSE(import_slurm_gres("NodeName=a Name=nic Count=1\n", "in.conf"));
  EXPECT_FALSE(import_slurm_gres("", "in.conf"));
}

}  // namespace
}  // namespace peal::topology
