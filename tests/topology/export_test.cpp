#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <topology/export.hpp>
#include <topology/machine.hpp>

#include "golden.hpp"

namespace peal::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Graph machine_graph(std::string_view name) {
  auto graph = load_machine(name);
  EXPECT_TRUE(graph) << graph.error().message;
  return std::move(*graph);
}

Graph read_graph(std::string_view yaml) {
  auto cluster = read_cluster_text(yaml, "test.yaml");
  EXPECT_TRUE(cluster) << cluster.error().message;
  return cluster->machine();
}

std::string nccl_text(const Graph& graph) {
  const auto text = export_nccl_topology(graph);
  EXPECT_TRUE(text) << text.error().message;
  return text ? *text : std::string();
}

int occurrences(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

const Port kPort{.kind = LinkKind::infiniband, .bandwidth = Bandwidth::gigabytes(50), .source = "made up"};

Graph machines(int count) {
  Graph g;
  g.title = "a made-up fabric";
  for (int n = 0; n < count; ++n) {
    EXPECT_TRUE(g.add_device({.id = fmt::format("n{}/gpu0", n), .kind = DeviceKind::gpu, .name = "X1", .node = n}));
    EXPECT_TRUE(g.add_device({.id = fmt::format("n{}/nic0", n), .kind = DeviceKind::nic, .node = n, .rail = 0, .port = kPort}));
  }
  return g;
}

void add_switch(Graph& g, const std::string& id) { EXPECT_TRUE(g.add_device({.id = id, .kind = DeviceKind::net_switch, .node = -1})); }

void join(Graph& g, const std::string& a, const std::string& b) {
  EXPECT_TRUE(g.add_link({.a = g.find(a), .b = g.find(b), .kind = LinkKind::infiniband, .bandwidth = Bandwidth::gigabytes(50)}));
}

/// Two levels: leaves with so many machines each, every leaf on every spine.
Graph two_levels(int leaves, int each, int spines) {
  Graph g = machines(leaves * each);
  for (int s = 0; s < spines; ++s) add_switch(g, fmt::format("fabric/spine{}", s));
  for (int l = 0; l < leaves; ++l) {
    add_switch(g, fmt::format("fabric/leaf{}", l));
    for (int n = 0; n < each; ++n) join(g, fmt::format("n{}/nic0", l * each + n), fmt::format("fabric/leaf{}", l));
    for (int s = 0; s < spines; ++s) join(g, fmt::format("fabric/leaf{}", l), fmt::format("fabric/spine{}", s));
  }
  return g;
}

TEST(NcclExport, WritesWhatAFileGaveAsItStood) {
  const Graph g = read_graph(R"(
devices:
  - {id: cpu0, kind: cpu, numa: 3, attributes: {host_hash: "0xab", affinity: "fff0000,00000000", arch: x86_64, vendor: GenuineIntel, familyid: 6, modelid: 143}}
  - {id: sw, kind: pcie_switch, attributes: {busid: "0000:0a:00.0", class: "0x060400", vendor: "0x1000", device: "0xc030", subsystem_vendor: "0x1000", subsystem_device: "0x1003", link_speed: "32 GT/s PCIe/s", link_width: 16}}
  - {id: gpu0, kind: gpu, attributes: {busid: "0000:0f:00.0", class: "0x030200", link_speed: "", link_width: 0, dev: 5, sm: 90, rank: 2, gdr: 0}}
  - {id: mlx5_7, kind: nic, port: {kind: infiniband, GBps: 50}, attributes: {busid: "0000:0c:00.0", class: "0x020700", name: mlx5_7, dev: 7, speed: 400000, port: 2, guid: "0x1f", latency: "1.5", maxconn: 131072, gdr: 1, coll: 1, rail: 4, plane: 1}}
links:
  - {a: sw, b: cpu0, kind: pcie, GBps: 63}
  - {a: "gpu0", b: sw, kind: pcie, GBps: 15.75}
  - {a: mlx5_7, b: sw, kind: pcie, GBps: 63}
)");
  const std::string text = nccl_text(g);
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(<cpu host_hash="0xab" numaid="3" affinity="fff0000,00000000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">)"));
  EXPECT_THAT(text, HasSubstr(R"(<pci busid="0000:0a:00.0" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" )"
                              R"(subsystem_device="0x1003" link_speed="32 GT/s PCIe/s" link_width="16">)"));
  EXPECT_THAT(text, HasSubstr(R"(<pci busid="0000:0f:00.0" class="0x030200" vendor="0x10de" link_speed="" link_width="0">)"));
  EXPECT_THAT(text, HasSubstr(R"(<gpu dev="5" sm="90" rank="2" gdr="0"/>)"));
  EXPECT_THAT(text,
              HasSubstr(R"(<net name="mlx5_7" dev="7" latency="1.5" speed="400000" port="2" guid="0x1f" maxconn="131072" gdr="1" coll="1" )"
                        R"(rail="4" plane="1"/>)"));
  EXPECT_THAT(text, Not(HasSubstr("made up")));
}

TEST(NcclExport, RatesOfPcieLinksBecomeSpeedsAndLanes) {
  const auto words = [](double GBps, int wires) {
    const std::string text = nccl_text(read_graph(fmt::format(R"(
devices:
  - {{id: cpu0, kind: cpu, name: Milan}}
  - {{id: gpu0, kind: gpu, attributes: {{sm: 80}}}}
links:
  - {{a: gpu0, b: cpu0, kind: pcie, GBps: {}, count: {}}}
)",
                                                              GBps, wires)));
    const std::size_t at = text.find("link_speed");
    return text.substr(at, text.find('>', at) - at);
  };
  EXPECT_EQ(words(15.75, 1), R"(link_speed="8.0 GT/s PCIe" link_width="16")");
  EXPECT_EQ(words(31.5, 1), R"(link_speed="16.0 GT/s PCIe" link_width="16")");
  EXPECT_EQ(words(63, 1), R"(link_speed="32.0 GT/s PCIe" link_width="16")");
  EXPECT_EQ(words(121, 1), R"(link_speed="64.0 GT/s PCIe" link_width="16")");
  EXPECT_EQ(words(7.875, 1), R"(link_speed="8.0 GT/s PCIe" link_width="8")");
  EXPECT_EQ(words(0.25, 1), R"(link_speed="2.5 GT/s PCIe" link_width="1")");
  EXPECT_EQ(words(7.875, 2), R"(link_speed="8.0 GT/s PCIe" link_width="16")");
}

TEST(NcclExport, EveryGpuHangsBelowACpuWhateverJoinsThem) {
  const Graph g = read_graph(R"(
devices:
  - {id: "cpu[0-1]", kind: cpu, name: POWER9}
  - {id: "gpu[0-3]", kind: gpu, attributes: {sm: 70}}
links:
  - {a: "gpu[0-1]", b: cpu0, kind: nvlink, GBps: 25, count: 3}
  - {a: "gpu[2-3]", b: cpu1, kind: c2c, GBps: 450}
  - {a: gpu0, b: gpu1, kind: nvlink, GBps: 25, count: 3}
)");
  const std::string text = nccl_text(g);
  EXPECT_EQ(occurrences(text, "tclass=\"0x068001\""), 2);
  EXPECT_EQ(occurrences(text, "tclass=\"0x030200\""), 2);
  EXPECT_EQ(occurrences(text, "<c2c bw=\"450000\" count=\"1\"/>"), 2);
  EXPECT_EQ(occurrences(text, "arch=\"ppc64\""), 2);
  EXPECT_LT(text.find("rank=\"1\""), text.find("numaid=\"1\""));
  EXPECT_GT(text.find("rank=\"2\""), text.find("numaid=\"1\""));
}

TEST(NcclExport, PortsOfACardShareOneDeviceAndSocketsStandBelowEveryCpu) {
  const Graph g = read_graph(R"(
devices:
  - {id: "cpu[0-1]", kind: cpu}
  - {id: gpu0, kind: gpu, attributes: {sm: 80}}
  - {id: "p[0-1]", kind: nic, port: {kind: infiniband, GBps: 25}, attributes: {busid: "0000:0c:00.0", dev: 0}}
  - {id: eth0, kind: nic, port: {kind: ethernet, GBps: 1.25}, attributes: {dev: 9}}
links:
  - {a: gpu0, b: cpu0, kind: pcie, GBps: 31.5}
  - {a: "p[0-1]", b: cpu0, kind: pcie, GBps: 31.5}
  - {a: eth0, b: "cpu[0-1]", kind: pcie, GBps: 5000}
)");
  const std::string text = nccl_text(g);
  EXPECT_EQ(occurrences(text, "busid=\"0000:0c:00.0\""), 1);
  EXPECT_EQ(occurrences(text, "name=\"p"), 2);
  EXPECT_EQ(occurrences(text, "name=\"eth0\" dev=\"9\""), 2);
  EXPECT_EQ(occurrences(text, "<pci"), 2);
}

TEST(NcclExport, SeveralMachinesWithOneNvlinkDomainAreOneFile) {
  Graph g;
  for (int n = 0; n < 3; ++n) {
    ASSERT_TRUE(g.add_device({.id = fmt::format("n{}/gpu0", n), .kind = DeviceKind::gpu, .node = n, .attributes = {{"sm", "100", ""}}}));
    ASSERT_TRUE(g.add_device({.id = fmt::format("n{}/cpu0", n), .kind = DeviceKind::cpu, .name = "Grace", .node = n}));
  }
  ASSERT_TRUE(g.add_device({.id = "nvswitch0", .kind = DeviceKind::nvswitch, .node = -1}));
  for (int n = 0; n < 2; ++n)
    ASSERT_TRUE(g.add_link({.a = 2 * n, .b = 6, .kind = LinkKind::nvlink, .bandwidth = Bandwidth::gigabytes(50), .count = 18}));
  const std::string text = nccl_text(g);
  EXPECT_EQ(occurrences(text, "<gpu "), 2);
  EXPECT_THAT(text, HasSubstr("host_hash=\"0x1\""));
  EXPECT_THAT(text, HasSubstr("host_hash=\"0x2\""));
  EXPECT_THAT(text, HasSubstr("the first 2 of 3 machines"));
  EXPECT_EQ(occurrences(text, "count=\"18\" tclass=\"0x068000\""), 2);
}

TEST(NcclExport, NamesCannotEndAnAttributeOrAComment) {
  Graph g;
  g.title = "a --> <system>";
  ASSERT_TRUE(g.add_device({.id = "gpu0", .kind = DeviceKind::gpu}));
  ASSERT_TRUE(g.add_device({.id = "x\"/><y>", .kind = DeviceKind::nic, .port = kPort}));
  const std::string text = nccl_text(g);
  EXPECT_EQ(occurrences(text, "-->"), 1);
  EXPECT_THAT(text, HasSubstr("name=\"x_/__y_\""));
}

TEST(NcclExport, AMachineWithoutGpusIsRefused) {
  Graph g;
  ASSERT_TRUE(g.add_device({.id = "cpu0"}));
  const auto text = export_nccl_topology(g);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("no GPU"));
}

TEST(SlurmGres, OfADgxA100IsTheRecordedOne) {
  const auto text = export_slurm_gres(machine_graph("dgx-a100"));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, golden("gres_dgx-a100.conf"));
}

TEST(SlurmGres, LinksCountThoseToEachDeviceWithMinusOneInItsOwnPlace) {
  const auto text = export_slurm_gres(machine_graph("dgx-1-v100"));
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("File=/dev/nvidia0 Links=-1,1,1,2,2,0,0,0\n"));
  EXPECT_THAT(*text, HasSubstr("File=/dev/nvidia5 Links=0,2,0,0,1,-1,2,1\n"));
  EXPECT_THAT(*text, Not(HasSubstr("NVSwitch")));
}

TEST(SlurmGres, LinesStandInTheOrderOfBusIds) {
  const auto text = export_slurm_gres(read_graph(R"(
devices:
  - {id: gpu0, kind: gpu, name: "RTX 4090", numa: 1, attributes: {busid: "0000:c1:00.0", minor: 0}}
  - {id: gpu1, kind: gpu, name: "RTX 4090", numa: 0, attributes: {busid: "0000:0a:00.0", minor: 1}}
  - {id: gpu2, kind: gpu, name: "RTX 4090", numa: 0, attributes: {busid: "0000:9:00.0", minor: 2}}
  - {id: "cpu[0-1]", kind: cpu, attributes: {cores: 4}}
links:
  - {a: gpu0, b: gpu1, kind: nvlink, GBps: 14, count: 4}
)"));
  ASSERT_TRUE(text);
  const std::string lines = text->substr(text->find("Name="));
  EXPECT_EQ(lines,
            "Name=gpu Type=rtx_4090 File=/dev/nvidia2 Cores=0-3 Links=-1,0,0\n"
            "Name=gpu Type=rtx_4090 File=/dev/nvidia1 Cores=0-3 Links=0,-1,4\n"
            "Name=gpu Type=rtx_4090 File=/dev/nvidia0 Cores=4-7 Links=0,4,-1\n");
}

TEST(SlurmGres, AHostWithoutGpusIsRefused) {
  const auto text = export_slurm_gres(machines(0));
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("a made-up fabric has no GPU"));
}

TEST(SlurmTopology, OfATwoLevelFabricIsTheRecordedOne) {
  const Graph g = two_levels(4, 8, 2);
  const auto tree = export_slurm_topology(g, SlurmForm::tree);
  const auto block = export_slurm_topology(g, SlurmForm::block);
  const auto yaml = export_slurm_topology_yaml(g);
  ASSERT_TRUE(tree && block && yaml);
  EXPECT_EQ(*tree, golden("slurm_two_levels_tree.conf"));
  EXPECT_EQ(*block, golden("slurm_two_levels_block.conf"));
  EXPECT_EQ(*yaml, golden("slurm_two_levels.yaml"));
}

TEST(SlurmTopology, RailsOfAFabricActAsOneSwitch) {
  const auto cluster = build_cluster("dgx-a100", 12);
  ASSERT_TRUE(cluster);
  const auto graph = cluster->graph();
  ASSERT_TRUE(graph);
  const auto text = export_slurm_topology(*graph, SlurmForm::tree);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, HasSubstr("\nSwitchName=rail0-7 Nodes=n[0-11]\n"));
  EXPECT_EQ(occurrences(*text, "SwitchName="), 1);
}

TEST(SlurmTopology, GroupsOfADragonflyStandBetweenRoutersAndTheWhole) {
  Graph g = machines(8);
  for (int r = 0; r < 4; ++r) {
    add_switch(g, fmt::format("fabric/group{}/router{}", r / 2, r % 2));
    for (int n = 0; n < 2; ++n) join(g, fmt::format("n{}/nic0", 2 * r + n), fmt::format("fabric/group{}/router{}", r / 2, r % 2));
  }
  join(g, "fabric/group0/router0", "fabric/group0/router1");
  join(g, "fabric/group1/router0", "fabric/group1/router1");
  join(g, "fabric/group0/router1", "fabric/group1/router0");
  const auto text = export_slurm_topology(g, SlurmForm::tree);
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("SwitchName=group0 Switches=group0_router[0-1]\n"));
  EXPECT_THAT(*text, HasSubstr("SwitchName=all Switches=group[0-1]\n"));
}

TEST(SlurmTopology, BlocksAreNvlinkDomainsWhereTheySpanMachines) {
  Graph g = two_levels(2, 4, 1);
  for (int d = 0; d < 4; ++d) {
    ASSERT_TRUE(g.add_device({.id = fmt::format("domain{}", d), .kind = DeviceKind::nvswitch, .node = -1}));
    for (int n = 2 * d; n < 2 * d + 2; ++n)
      ASSERT_TRUE(g.add_link({.a = g.find(fmt::format("n{}/gpu0", n)),
                              .b = g.find(fmt::format("domain{}", d)),
                              .kind = LinkKind::nvlink,
                              .bandwidth = Bandwidth::gigabytes(50)}));
  }
  const auto text = export_slurm_topology(g, SlurmForm::block);
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("BlockName=nvlink3 Nodes=n[6-7]\nBlockSizes=2,4,8\n"));
}

TEST(SlurmTopology, EveryMachineIsBelowExactlyOneSwitch) {
  for (int leaves : {1, 2, 5})
    for (int each : {1, 3, 16}) {
      const auto text = export_slurm_topology(two_levels(leaves, each, 3), SlurmForm::tree);
      ASSERT_TRUE(text);
      EXPECT_EQ(occurrences(*text, "Nodes="), leaves);
      EXPECT_EQ(occurrences(*text, "Switches="), leaves > 1 ? 1 : 0);
    }
}

TEST(SlurmTopology, OneMachineAloneIsRefused) {
  const auto text = export_slurm_topology(machine_graph("dgx-a100"), SlurmForm::tree);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("--nodes"));
}

TEST(Sbatch, OfADgxA100ClusterIsTheRecordedOne) {
  const auto cluster = build_cluster("dgx-a100", 4);
  ASSERT_TRUE(cluster);
  const auto text = export_sbatch(*cluster, 24);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, golden("sbatch_dgx-a100.sh"));
}

TEST(Sbatch, RanksAreSplitEvenlyOverTheFewestMachines) {
  const auto cluster = build_cluster("dgx-a100", 4);
  ASSERT_TRUE(cluster);
  const auto script = [&](int ranks) { return export_sbatch(*cluster, ranks).value_or("refused"); };
  EXPECT_THAT(script(8), HasSubstr("--nodes=1\n"));
  EXPECT_THAT(script(12), HasSubstr("--nodes=2\n"));
  EXPECT_THAT(script(12), HasSubstr("--gpus-per-node=6\n"));
  EXPECT_THAT(script(9), HasSubstr("--nodes=3\n"));
  EXPECT_THAT(script(32), HasSubstr("--nodes=4\n"));
  EXPECT_EQ(occurrences(script(32), "--ntasks-per-node=8"), 0);
}

TEST(Sbatch, NumbersThatCannotBePlacedAreRefusedWithOnesThatCan) {
  const auto cluster = build_cluster("dgx-a100", 4);
  ASSERT_TRUE(cluster);
  const auto why = [&](int ranks) { return export_sbatch(*cluster, ranks).error().message; };
  EXPECT_THAT(why(33), HasSubstr("32 in all"));
  EXPECT_THAT(why(13), HasSubstr("give --ranks 8 or 16"));
  EXPECT_THAT(why(0), HasSubstr("1 or more"));
}

TEST(NvlinkStatus, ListsEveryWireOfEveryGpu) {
  const auto text = export_nvlink_status(machine_graph("dgx-h100"));
  ASSERT_TRUE(text);
  EXPECT_TRUE(text->starts_with("GPU 0: H100-SXM5\n\t Link 0: 25 GB/s\n\t Link 1: 25 GB/s\n"));
  EXPECT_EQ(occurrences(*text, "Link "), 8 * 18);
  EXPECT_EQ(occurrences(*text, "Link 17: "), 8);
  EXPECT_FALSE(export_nvlink_status(machine_graph("mi300x-8")));
}

TEST(Exports, TitlesCannotLeaveTheirComment) {
  Graph g = two_levels(1, 2, 1);
  g.title = "x\nrm -rf /\r\x7f";
  for (const auto& text :
       {export_slurm_gres(g), export_slurm_topology(g, SlurmForm::tree), export_slurm_topology_yaml(g), export_sbatch(Cluster(g), 2)}) {
    ASSERT_TRUE(text);
    EXPECT_EQ(occurrences(*text, "\nrm"), 0);
    EXPECT_EQ(occurrences(*text, "\r"), 0);
  }
}

}  // namespace
}  // namespace peal::topology
