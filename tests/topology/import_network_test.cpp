// ibnetdiscover, Topograph and NetQ: invented networks, an oddity each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <topology/describe.hpp>
#include <topology/import.hpp>
#include <topology/path.hpp>

#include "golden.hpp"
#include "import_fixtures.hpp"

namespace peal::topology {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Graph read(Reader reader, std::string_view text) {
  auto graph = reader(text, "in.txt");
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}

constexpr std::string_view kTwoLeaves =
    "#\n# Topology file: generated on a day\n#\n"
    "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xaa01\nswitchguid=0xaa01(aa01)\n"
    "Switch\t41 \"S-00000000000000a1\"\t\t# \"MF0;leaf1:MQM9700/U1\" enhanced port 0 lid 1 lmc 0\n"
    "[1]\t\"H-00000000000000c1\"[1](c1) \t\t# \"node1 mlx5_0\" lid 11 4xNDR\n"
    "[2]\t\"H-00000000000000c2\"[1](c2) \t\t# \"node2 mlx5_0\" lid 12 2xNDR\n"
    "[33]\t\"S-00000000000000a2\"[33]\t\t# \"MF0;spine1:MQM9700/U1\" lid 2 4xNDR\n"
    "[34]\t\"S-00000000000000a2\"[34]\t\t# \"MF0;spine1:MQM9700/U1\" lid 2 4xNDR\n"
    "[41]\t\"H-00000000000000ff\"[1](ff) \t\t# \"Mellanox Technologies Aggregation Node\" lid 9 4xNDR\n"
    "\n"
    "Switch\t41 \"S-00000000000000a2\"\t\t# \"MF0;spine1:MQM9700/U1\" enhanced port 0 lid 2 lmc 0\n"
    "[33]\t\"S-00000000000000a1\"[33]\t\t# \"MF0;leaf1:MQM9700/U1\" lid 1 4xNDR\n"
    "[34]\t\"S-00000000000000a1\"[34]\t\t# \"MF0;leaf1:MQM9700/U1\" lid 1 4xNDR\n"
    "\n"
    "caguid=0xff\nCa\t1 \"H-00000000000000ff\"\t\t# \"Mellanox Technologies Aggregation Node\"\n"
    "[1](ff) \t\"S-00000000000000a1\"[41]\t\t# lid 9 lmc 0 \"MF0;leaf1:MQM9700/U1\" lid 1 4xNDR\n"
    "\n"
    "Ca\t1 \"H-00000000000000c1\"\t\t# \"node1 mlx5_0\"\n"
    "[1](c1) \t\"S-00000000000000a1\"[1]\t\t# lid 11 lmc 0 \"MF0;leaf1:MQM9700/U1\" lid 1 4xNDR\n"
    "\n"
    "Ca\t2 \"H-00000000000000c2\"\t\t# \"node2 mlx5_0\"\n"
    "[1](c2) \t\"S-00000000000000a1\"[2]\t\t# lid 12 lmc 0 \"MF0;leaf1:MQM9700/U1\" lid 1 2xNDR\n";

TEST(ImportIbnetdiscover, EachWireCountsOnceAtItsRate) {
  const Graph graph = read(import_ibnetdiscover, kTwoLeaves);
  EXPECT_EQ(count(graph, DeviceKind::net_switch), 2u);
  EXPECT_EQ(count(graph, DeviceKind::nic), 2u);
  EXPECT_EQ(count(graph, DeviceKind::cpu), 2u);
  const int leaf = graph.find("leaf1");
  const int spine = graph.find("spine1");
  ASSERT_GE(leaf, 0);
  ASSERT_GE(spine, 0);
  EXPECT_NEAR(graph.total_of(spine, LinkKind::infiniband).gigabytes(), 2 * 50, 1e-9) << "two wires of 400 Gb/s";
  EXPECT_NEAR(graph.total_of(graph.find("node2/mlx5_0"), LinkKind::infiniband).gigabytes(), 25, 1e-9) << "two lanes only";
  EXPECT_NEAR(graph.total_of(leaf, LinkKind::infiniband).gigabytes(), 50 + 25 + 100, 1e-9);
  const PathFinder paths(graph);
  EXPECT_EQ(paths.path(graph.find("node1"), graph.find("node2")).path_class, PathClass::net);
  EXPECT_THAT(graph.warnings(), ElementsAre(HasSubstr("1 aggregation nodes of switches (SHARP) are left out")));
}

TEST(ImportIbnetdiscover, APersonReadsTheNetwork) {
  EXPECT_EQ(describe_text(read(import_ibnetdiscover, kTwoLeaves)), golden("import_ibnetdiscover.txt"));
}

TEST(ImportIbnetdiscover, CutFilesGiveWhatTheyName) {
  const std::string text(kTwoLeaves);
  const Graph graph = read(import_ibnetdiscover, text.substr(0, text.find("[34]") + 12));
  EXPECT_EQ(count(graph, DeviceKind::net_switch), 2u);
  EXPECT_EQ(count(graph, DeviceKind::nic), 2u);
  EXPECT_GE(graph.find("spine1"), 0) << "its neighbour knows its name";
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:11: S-00000000000000a2 is named here and has no block of its own")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:12: this port line is cut")));
  const Graph lone = read(import_ibnetdiscover, "Ca\t1 \"H-00000000000000c1\"\t\t# \"node1 HCA-1\"\n");
  EXPECT_EQ(lone.device_count(), 2);
  EXPECT_THAT(lone.warnings(), ElementsAre("in.txt:1: no port of node1/HCA-1 is listed: nothing is joined to it"));
}

TEST(ImportIbnetdiscover, ThePortsReportGivesTheSameNetwork) {
  const Graph graph = read(import_ibnetdiscover,
                           "CA     5  1 0x00000000000000c1 4x HDR - SW     1  1 0x00000000000000a1 ( 'node1 mlx5_0' - 'leaf 1' )\n"
                           "SW     1  1 0x00000000000000a1 4x HDR - CA     5  1 0x00000000000000c1 ( 'leaf 1' - 'node1 mlx5_0' )\n"
                           "SW     1  2 0x00000000000000a1 4x NDR - SW     2  7 0x00000000000000a2 ( 'leaf 1' - 'spine1' )\n"
                           "SW     1  3 0x00000000000000a1 4x SDR                                    'leaf 1'\n"
                           "SW     9  1 0x00000000000000a9 4x SDR                                    Old Switch of a Maker\n"
                           "CA     6  1 0x00000000000000c2 4x\n");
  EXPECT_EQ(count(graph, DeviceKind::net_switch), 3u);
  EXPECT_GE(graph.find("Old Switch of a Maker"), 0);
  ASSERT_GE(graph.find("node1/mlx5_0"), 0);
  EXPECT_NEAR(graph.total_of(graph.find("leaf 1"), LinkKind::infiniband).gigabytes(), 25 + 50, 1e-9);
  EXPECT_THAT(graph.warnings(), ElementsAre(HasSubstr("in.txt:6: this line is cut"),
                                            HasSubstr("in.txt:3: S-00000000000000a2 is named here and has no block")));
}

TEST(ImportIbnetdiscover, EndsThatDisagreeAreNamed) {
  const Graph graph = read(import_ibnetdiscover,
                           "Switch 2 \"S-1\" # \"a\"\n[1] \"S-2\"[1] # \"b\" lid 1 4xHDR\n[2] \"S-1\"[3] # \"a\" lid 1 4xHDR\n"
                           "Switch 2 \"S-2\" # \"b\"\n[1] \"S-1\"[2] # \"a\" lid 1 4xHDR\n[5] \"S-1\"[9] # \"a\" lid 1 4xABC\n"
                           "[6] \"S-1\"[8] # \"a\" lid 1\n");
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:7: no rate is named: 12.5 GB/s are assumed")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:5: port 1 of S-2 leads elsewhere in line 2")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:3: a is joined to itself")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:6: '4xABC' is no rate that is known: 12.5 GB/s are assumed")));
}

TEST(ImportIbnetdiscover, LanesTimesSpeed) {
  for (const auto& [word, gigabytes] : std::vector<std::pair<std::string, double>>{
           {"1xSDR", 0.25}, {"4xQDR", 4}, {"4xFDR10", 5}, {"4xEDR", 12.5}, {"2xHDR", 12.5}, {"4xHDR", 25}, {"4xXDR", 100}}) {
    const Graph graph =
        read(import_ibnetdiscover, "Switch 1 \"S-1\" # \"a\"\n[1] \"S-2\"[1] # \"b\" lid 7 " + word + "\nSwitch 1 \"S-2\" # \"b\"\n");
    ASSERT_EQ(graph.link_count(), 1) << word;
    EXPECT_NEAR(graph.link(0).bandwidth.gigabytes(), gigabytes, 1e-9) << word;
  }
}

TEST(ImportIbnetdiscover, SwitchesOfOneNameAndRoutersStayApart) {
  const Graph graph =
      read(import_ibnetdiscover,
           "Switch 1 \"S-1\" # \"Quantum Mellanox Technologies\" base port 0 lid 1 lmc 0\n[1][ext 12] \"S-2\"[1] # \"x\" lid 2 4xHDR\n"
           "Switch 1 \"S-2\" # \"Quantum Mellanox Technologies\"\nSwitch 1 \"S-3\" # \"MF0;big:SX6536/L3/U1\"\n"
           "Rt 1 \"R-4\" # \"MF0;r:Q3400_RA/U2/RT\"\n[1](5) \"S-1\"[2] # lid 9 lmc 0 \"x\" lid 1 1xXDR\n");
  EXPECT_EQ(count(graph, DeviceKind::net_switch), 4u);
  EXPECT_GE(graph.find("Quantum Mellanox Technologies/S-2"), 0);
  EXPECT_GE(graph.find("big/L3/U1"), 0);
  EXPECT_EQ(graph.link_count(), 2);
  EXPECT_FALSE(import_ibnetdiscover("vendid=0x2c9\n", "in.txt"));
  EXPECT_FALSE(import_ibnetdiscover("Ca 1 \"H-1\" # \"Mellanox Technologies Aggregation Node\"\n", "in.txt")) << "nothing is left to know";
}

TEST(ImportTopograph, SwitchesBlocksAndDomains) {
  const Graph graph = read(import_topograph_model,
                           "switches:\n  core:\n    labels: {region: x}\n    switches: [leaf1, leaf2, empty]\n"
                           "blocks:\n- switch: leaf1\n  nodes: [\"n[01-02]\", other]\n  annotations:\n    "
                           "accelerator.topology.test/domain: nvl1\n    accelerator.topology.test/sub-domain: r1\n"
                           "- switch: leaf2\n  nodes: [\"n[03-04]\"]\n- nodes: [cpu1]\n");
  EXPECT_EQ(count(graph, DeviceKind::cpu), 6u);
  EXPECT_EQ(count(graph, DeviceKind::net_switch), 4u);
  EXPECT_EQ(graph.device(graph.find("other")).attribute("accelerator_domain"), "nvl1");
  EXPECT_EQ(graph.device(graph.find("n02")).attribute("accelerator_sub_domain"), "r1");
  const PathFinder paths(graph);
  EXPECT_EQ(paths.path(graph.find("n01"), graph.find("n04")).hops.size(), 4u);
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:13: this block hangs below no switch")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("1 switches have nothing below them: empty")));
}

TEST(ImportTopograph, OlderModelsNameCapacityBlocks) {
  const Graph graph = read(import_topograph_model,
                           "switches:\n- name: top\n  switches: [leaf]\n- name: leaf\n  capacity_blocks: [cb1]\n- {}\n"
                           "capacity_blocks:\n- name: cb1\n  type: H100\n  nvlink: nv1\n  nodes: [a, b]\n");
  EXPECT_EQ(count(graph, DeviceKind::cpu), 2u);
  EXPECT_EQ(graph.link_count(), 3);
  EXPECT_EQ(graph.device(graph.find("a")).attribute("accelerator_domain"), "nv1");
  EXPECT_EQ(graph.device(graph.find("b")).attribute("accelerator"), "H100");
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:6: this switch has no `name:`")));
  EXPECT_FALSE(import_topograph_model("other: 1\n", "in.txt"));
  EXPECT_FALSE(import_topograph_model("", "in.txt"));
}

constexpr std::string_view kNetq = R"([
 {"links": [
   {"src": "n1", "target": "n2", "size": 2, "id": "n1-*-n2", "compounded_links": [{"id": "a"}, {"id": "b"}]},
   {"src": "n1", "target": "n3", "size": 4, "id": "n1-*-n3", "compounded_links": [{"id": "c"}]},
   {"src": "n1", "target": "gone", "size": 1}
  ],
  "nodes": [
   {"id": "tier-1", "node_type": "tier", "compounded_nodes": [{"id": "n1", "name": "leaf", "device_type": "switch"}]},
   {"id": "tier-x", "node_type": "tier", "compounded_nodes": [
     {"id": "n2", "name": "box", "device_type": "host"}, {"id": "n3", "name": "box", "device_type": "discovered_via_lldp"}]}
  ]}
])";

TEST(ImportNetq, NodesOfTiersAndBundles) {
  const Graph graph = read(import_netq_topology, kNetq);
  EXPECT_EQ(count(graph, DeviceKind::net_switch), 1u);
  EXPECT_EQ(count(graph, DeviceKind::cpu), 2u) << "two of one name are two hosts";
  ASSERT_EQ(graph.link_count(), 2);
  EXPECT_EQ(graph.link(0).count, 2);
  EXPECT_EQ(graph.link(1).count, 1);
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:4: n1 to n3 has 4 wires by its size and 1 in its list")));
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("a link joins n1 and gone")));
}

TEST(ImportNetq, AFileThatIsCutOffGivesWhatComesBefore) {
  const std::string nodes_first = R"([{"nodes": [{"compounded_nodes": [{"id": "a", "device_type": "switch"}, {"id": "b"}]}],
"links": [{"src": "a", "target": "b"},
{"src": "a", "tar)";
  const Graph graph = read(import_netq_topology, nodes_first);
  EXPECT_EQ(graph.device_count(), 2);
  EXPECT_EQ(graph.link_count(), 1);
  EXPECT_THAT(graph.warnings(), Contains(HasSubstr("in.txt:2: the file is cut off behind this line")));
  const std::string links_first = R"([{"links": [{"src": "a", "target": "b", "size": 3}, {"src": "a", "target": "c"}], "nod)";
  const Graph ends = read(import_netq_topology, links_first);
  EXPECT_EQ(ends.device_count(), 3);
  EXPECT_EQ(ends.link(0).count, 3);
  EXPECT_THAT(ends.warnings(), Contains(HasSubstr("in.txt:1: what a is stood in the part that was cut off")));
}

TEST(ImportNetq, WhatIsNoGraphFails) {
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1,2]"), std::string("nonsense"), std::string(100'000, '[')}) {
    const auto graph = import_netq_topology(text, "in.txt");
    ASSERT_FALSE(graph);
    EXPECT_THAT(graph.error().message, HasSubstr("in.txt:1:"));
  }
}

}  // namespace
}  // namespace peal::topology
