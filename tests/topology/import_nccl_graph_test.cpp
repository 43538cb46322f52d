#include <topology/import_nccl_graph.hpp>

#include "import_fixtures.hpp"

namespace peal::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

NcclGraphs read_graphs(const std::string& name) {
  auto graphs = read_nccl_graphs(fixture("nccl_graph/" + name), name);
  EXPECT_TRUE(graphs) << graphs.error().message;
  return std::move(*graphs);
}

Graph import(const std::string& name) { return import_fixture("nccl_graph/" + name, FileForm::nccl_graph); }

TEST(ImportNcclGraph, DevIsHexadecimalWithAndWithoutPrefix) {
  const NcclGraphs graphs = read_graphs("ring_with_nets.xml");
  const NcclGraphEntry& ring = graphs.graphs.front();
  ASSERT_EQ(ring.channels.size(), 2u);
  EXPECT_EQ(ring.channels[0].gpus[1], (NcclGraphGpu{.host = 0, .dev = 16, .rank = 1}));
  EXPECT_EQ(ring.channels[1].gpus[0], ring.channels[0].gpus[1]);  // dev="10"
  EXPECT_EQ(ring.channels[1].entry, (NcclGraphNet{0, 16}));
}

TEST(ImportNcclGraph, HeadOfAGraphIsReadWhole) {
  const NcclGraphs graphs = read_graphs("ring_with_nets.xml");
  ASSERT_EQ(graphs.graphs.size(), 4u);
  const NcclGraphEntry& ring = graphs.graphs[0];
  EXPECT_EQ(ring.pattern, NcclPattern::ring);
  EXPECT_EQ(ring.crossnic, 1);
  EXPECT_DOUBLE_EQ(ring.intra_gbps, 20);
  EXPECT_DOUBLE_EQ(ring.inter_gbps, 24);
  EXPECT_EQ(ring.intra_type, "NVL");
  EXPECT_EQ(graphs.graphs[2].id, 4);
  EXPECT_EQ(graphs.graphs[2].channels_said, 0);
  EXPECT_TRUE(graphs.graphs[2].channels.empty());
  EXPECT_EQ(graphs.graphs[3].pattern, NcclPattern::nvls);
  EXPECT_EQ(graphs.graphs[3].channels.front().gpus.size(), 1u);
  EXPECT_TRUE(graphs.warnings.empty());
}

TEST(ImportNcclGraph, ARingOverNetsIsNotClosedInside) {
  const Graph g = import("ring_with_nets.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::gpu), ElementsAre("gpu0", "gpu16"));
  EXPECT_THAT(ids_of(g, DeviceKind::nic), ElementsAre("net0", "net16"));
  // One channel each way: one wire of a channel's speed in each direction.
  EXPECT_EQ(wires_between(g, "gpu0", "gpu16", LinkKind::nvlink), 1);
  EXPECT_DOUBLE_EQ(link_between(g, "gpu0", "gpu16").usable.gigabytes(), 20);
  EXPECT_DOUBLE_EQ(link_between(g, "gpu0", "net0").usable.gigabytes(), 24);
  EXPECT_EQ(wires_between(g, "gpu16", "net0", LinkKind::pcie), 1);
  EXPECT_EQ(device_of(g, "gpu16").attribute("rank"), "1");
  EXPECT_THAT(std::string(device_of(g, "gpu0").attribute("graph0")), HasSubstr("ring, 2 channels of 20 GB/s (NVL)"));
}

TEST(ImportNcclGraph, OtherGraphsOfTheFileAreNamed) {
  EXPECT_THAT(warnings_of(import("ring_with_nets.xml")),
              HasSubstr(":16: graph 1 (balanced tree) uses the same wires; links are those of graph 0"));
}

TEST(ImportNcclGraph, ARingWithoutNetsClosesAndAPieceWithoutRootIsRead) {
  const Graph g = import("rootless_closed_ring.xml");
  EXPECT_EQ(wires_between(g, "gpu0", "gpu1", LinkKind::pcie), 2);
  EXPECT_EQ(wires_between(g, "gpu2", "gpu0", LinkKind::pcie), 2);
  EXPECT_DOUBLE_EQ(link_between(g, "gpu0", "gpu2").usable_total().gigabytes(), 12);
}

TEST(ImportNcclGraph, TheHighestByteIsTheHost) {
  const Graph g = import("two_hosts.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::gpu), ElementsAre("n0/gpu0", "n0/gpu1", "n1/gpu0", "n1/gpu1"));
  EXPECT_EQ(g.node_count(), 2);
  EXPECT_EQ(wires_between(g, "n0/gpu1", "n1/gpu0", LinkKind::nvlink), 1);
}

TEST(ImportNcclGraph, AFileThatBreaksOffKeepsItsWholeChannels) {
  const NcclGraphs graphs = read_graphs("cut.xml");
  ASSERT_EQ(graphs.graphs.size(), 1u);
  EXPECT_EQ(graphs.graphs[0].channels_said, 2);
  EXPECT_GE(graphs.graphs[0].channels.size(), 1u);
  EXPECT_EQ(graphs.graphs[0].channels[0].gpus.size(), 2u);
  ASSERT_FALSE(graphs.warnings.empty());
  EXPECT_THAT(graphs.warnings.back(), HasSubstr("breaks off"));
}

TEST(ImportNcclGraph, NoGraphFails) {
  for (const char* text : {"<graphs version=\"1\"/>", "<graphs", "<channels/>"}) {
    const auto graph = import_nccl_graph(text, "none.xml");
    ASSERT_FALSE(graph) << text;
    EXPECT_THAT(graph.error().message, HasSubstr("none.xml:1: "));
  }
}

}  // namespace
}  // namespace peal::topology
