#include <topology/path.hpp>

#include "import_fixtures.hpp"

namespace peal::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph imported_nccl(const std::string& name) { return import_fixture("nccl_topology/" + name, FileForm::nccl_topology); }

TEST(ImportNcclTopology, GpusComeInTheOrderOfRanksAndAreNamedByDev) {
  const Graph g = imported_nccl("switches_and_sockets.xml");
  EXPECT_EQ(g.title, "invented box (NCCL topology XML)");
  EXPECT_THAT(ids_of(g, DeviceKind::gpu), ElementsAre("gpu1", "gpu3"));
  EXPECT_EQ(device_of(g, "gpu3").numa, 1);
  EXPECT_EQ(device_of(g, "gpu3").attribute("rank"), "1");
  EXPECT_EQ(device_of(g, "gpu3").name, "H100-SXM5-80GB");
}

TEST(ImportNcclTopology, LinksToSwitchesKeepTheirCountsAndNcclsRate) {
  const Graph g = imported_nccl("switches_and_sockets.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::nvswitch), ElementsAre("nvswitch0", "nvswitch1"));
  EXPECT_EQ(device_of(g, "nvswitch0").attribute("busid"), "0000:05:00.0");
  const Link l = link_between(g, "gpu3", "nvswitch0");
  EXPECT_EQ(l.count, 5);
  EXPECT_DOUBLE_EQ(l.bandwidth.gigabytes(), 25);
  EXPECT_DOUBLE_EQ(l.usable.gigabytes(), 20.6);
  EXPECT_EQ(wires_between(g, "gpu3", "nvswitch1", LinkKind::nvlink), 4);
  const PathFinder paths(g);
  EXPECT_EQ(paths.path(g.find("gpu1"), g.find("gpu3")).wires, 9);
}

TEST(ImportNcclTopology, PcieHasTheSpecificationsRateAndNcclsPlan) {
  const Graph g = imported_nccl("switches_and_sockets.xml");
  const Link wide = link_between(g, "gpu3", "pci-0000:a0:00.0");
  EXPECT_NEAR(wide.bandwidth.gigabytes(), 63.015, 0.001);
  EXPECT_DOUBLE_EQ(wide.usable.gigabytes(), 48);
  const Link narrow = link_between(g, "gpu1", "cpu0");
  EXPECT_NEAR(narrow.bandwidth.gigabytes(), 15.754, 0.001);
  EXPECT_DOUBLE_EQ(narrow.usable.gigabytes(), 12);
}

TEST(ImportNcclTopology, PortsOfOneCardShareItsPcieLink) {
  const Graph g = imported_nccl("switches_and_sockets.xml");
  const int card = g.find("pci-0000:a2:00.0");
  ASSERT_GE(card, 0);
  EXPECT_EQ(wires_between(g, "mlx5_8", "pci-0000:a2:00.0", LinkKind::pcie), 1);
  EXPECT_EQ(wires_between(g, "mlx5_9", "pci-0000:a2:00.0", LinkKind::pcie), 1);
  EXPECT_EQ(wires_between(g, "pci-0000:a2:00.0", "pci-0000:a0:00.0", LinkKind::pcie), 1);
  const Device& port = device_of(g, "mlx5_8");
  ASSERT_TRUE(port.port);
  EXPECT_EQ(port.port->kind, LinkKind::infiniband);
  EXPECT_DOUBLE_EQ(port.port->bandwidth.gigabytes(), 25);
  EXPECT_DOUBLE_EQ(port.port->latency.value, 1500);
  EXPECT_EQ(port.rail, 0);
  EXPECT_EQ(device_of(g, "mlx5_9").rail, 1);
}

TEST(ImportNcclTopology, SocketsListedUnderEveryCpuCountOnceAndReachAll) {
  const Graph g = imported_nccl("switches_and_sockets.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::nic), ElementsAre("mlx5_8", "mlx5_9", "veth0"));
  EXPECT_EQ(wires_between(g, "veth0", "cpu0", LinkKind::pcie), 1);
  EXPECT_EQ(wires_between(g, "veth0", "cpu1", LinkKind::pcie), 1);
  EXPECT_EQ(device_of(g, "veth0").rail, -1);  // there are cards
  EXPECT_THAT(warnings_of(g), HasSubstr(":32: net veth0 (dev 0) again, first in line 20"));
}

TEST(ImportNcclTopology, UnknownElementsAreSkippedWithWhatIsInside) {
  const Graph g = imported_nccl("switches_and_sockets.xml");
  EXPECT_EQ(g.find("pci-0000:99:00.0"), -1);
  EXPECT_THAT(warnings_of(g), HasSubstr(":34: <teapot>"));
}

TEST(ImportNcclTopology, EveryAttributeIsKeptUnderItsName) {
  const Graph g = imported_nccl("switches_and_sockets.xml");
  const Device& gpu = device_of(g, "gpu1");
  EXPECT_EQ(gpu.attribute("busid"), "0000:10:00.0");
  EXPECT_EQ(gpu.attribute("subsystem_device"), "0x0001");
  EXPECT_EQ(gpu.attribute("future"), "yes");
  EXPECT_EQ(device_of(g, "cpu0").attribute("affinity"), "00ff");
  EXPECT_EQ(device_of(g, "mlx5_9").attribute("guid"), "0xabc");
}

TEST(ImportNcclTopology, BetweenCpusLiesNcclsFigureForTheProcessor) {
  EXPECT_DOUBLE_EQ(link_between(imported_nccl("switches_and_sockets.xml"), "cpu0", "cpu1").usable.gigabytes(), 22);
  EXPECT_DOUBLE_EQ(link_between(imported_nccl("power_and_pcilink.xml"), "cpu0", "cpu8").usable.gigabytes(), 32);
}

TEST(ImportNcclTopology, BroadcomSwitchesInsideOneAnotherAreOne) {
  const Graph four = imported_nccl("broadcom_gen4.xml");
  EXPECT_EQ(four.find("pci-0000:21:00.0"), -1);
  EXPECT_DOUBLE_EQ(link_between(four, "gpu0", "pci-0000:20:00.0").usable.gigabytes(), 24);
  EXPECT_EQ(device_of(four, "pci-0000:20:00.0").attribute("merged_switches"), "1");
  EXPECT_GE(four.find("pci-0000:23:00.0"), 0);  // another maker's switch stays
  const Graph five = imported_nccl("broadcom_gen5.xml");
  EXPECT_EQ(five.find("pci-0000:31:00.0"), -1);
  EXPECT_EQ(wires_between(five, "gpu0", "pci-0000:30:00.0", LinkKind::pcie), 1);
}

TEST(ImportNcclTopology, DevicesOfCloudFilesAreToldByTheirClass) {
  const Graph g = imported_nccl("cloud_classes_only.xml");
  EXPECT_EQ(count_of(g, DeviceKind::gpu), 1);
  EXPECT_EQ(count_of(g, DeviceKind::nic), 1);
  EXPECT_EQ(count_of(g, DeviceKind::pcie_switch), 1);
  EXPECT_DOUBLE_EQ(link_between(g, "gpu0", "pci-ffff:ff:01.0").usable.gigabytes(), 24);
  EXPECT_FALSE(g.device(g.devices_of(DeviceKind::nic).front()).port);
  EXPECT_THAT(warnings_of(g), HasSubstr(":5: a GPU told by its PCI class only (1 in the file)"));
}

TEST(ImportNcclTopology, EndpointsOfUnknownKindAreListedAndSaidSo) {
  const Graph g = imported_nccl("cloud_busids_only.xml");
  EXPECT_EQ(count_of(g, DeviceKind::pcie_switch), 3);
  EXPECT_EQ(device_of(g, "pci-0000:41:00.0").name, "PCIe endpoint of unknown kind");
  EXPECT_EQ(device_of(g, "pci-0000:40:00.0").name, "PCIe switch");
  // "32 GT/s PCIe/s" begins with "32 GT/s"; nothing at all counts as Gen3 x16.
  EXPECT_DOUBLE_EQ(link_between(g, "pci-0000:41:00.0", "pci-0000:40:00.0").usable.gigabytes(), 48);
  EXPECT_DOUBLE_EQ(link_between(g, "pci-0000:42:00.0", "pci-0000:40:00.0").usable.gigabytes(), 12);
  EXPECT_THAT(warnings_of(g), HasSubstr(":4: a PCI endpoint without class, gpu or net (2 in the file)"));
}

TEST(ImportNcclTopology, TargetsThatAVirtualMachineCannotSeeAreOneSwitch) {
  const Graph g = imported_nccl("vm_invisible_switch.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::nvswitch), ElementsAre("nvswitch0"));
  EXPECT_EQ(wires_between(g, "gpu0", "nvswitch0", LinkKind::nvlink), 18);
  EXPECT_EQ(wires_between(g, "gpu1", "nvswitch0", LinkKind::nvlink), 18);
  EXPECT_EQ(device_of(g, "cpu0").numa, -1);
}

TEST(ImportNcclTopology, ABridgeOfAVirtualMachineKeepsNcclsRateWithAWarning) {
  const Graph g = imported_nccl("vm_invisible_switch.xml");
  EXPECT_NEAR(link_between(g, "pci-0000:00:01.0", "pci-0000:00:00.0").usable.gigabytes(), 0.1875, 1e-9);
  EXPECT_THAT(warnings_of(g), HasSubstr(":4: a PCIe link of 2.5 GT/s x1"));
}

TEST(ImportNcclTopology, HostsOfOneNvlinkDomainShareTheSwitchAndNothingElse) {
  const Graph g = imported_nccl("two_hosts.xml");
  EXPECT_EQ(g.node_count(), 2);
  EXPECT_THAT(ids_of(g, DeviceKind::gpu), ElementsAre("n0/gpu0", "n1/gpu0"));
  EXPECT_THAT(ids_of(g, DeviceKind::nic), ElementsAre("n0/mlx5_0", "n1/mlx5_0"));
  EXPECT_EQ(device_of(g, "n1/mlx5_0").rail, 0);
  ASSERT_EQ(count_of(g, DeviceKind::nvswitch), 1);
  EXPECT_EQ(g.device(g.devices_of(DeviceKind::nvswitch).front()).node, -1);
  const PathFinder paths(g);
  EXPECT_EQ(paths.path(g.find("n0/gpu0"), g.find("n1/gpu0")).path_class, PathClass::nvl);
  EXPECT_EQ(paths.path(g.find("n0/cpu0"), g.find("n1/cpu0")).path_class, PathClass::none);
}

TEST(ImportNcclTopology, ChipToChipLinksRunToTheCpu) {
  const Graph g = imported_nccl("two_hosts.xml");
  EXPECT_EQ(wires_between(g, "n0/gpu0", "n0/cpu0", LinkKind::c2c), 5);
  EXPECT_NEAR(g.total_of(g.find("n0/gpu0"), LinkKind::c2c).gigabytes(), 5 * 44.712, 1e-9);
}

TEST(ImportNcclTopology, XgmiHasRcclsRateOfItsGeneration) {
  const Graph g = imported_nccl("rccl_version_2.xml");
  const Link l = link_between(g, "gpu0", "gpu1");
  EXPECT_EQ(l.kind, LinkKind::xgmi);
  EXPECT_DOUBLE_EQ(l.usable.gigabytes(), 36);  // the slower of MI300X (48) and MI250X (36)
  EXPECT_EQ(l.count, 1);
  EXPECT_THAT(ids_of(g, DeviceKind::gpu), ElementsAre("gpu1", "gpu0"));  // ranks 0 and 1
  EXPECT_THAT(warnings_of(g), HasSubstr("a row to a GPU that is not in the file (1 such)"));
}

TEST(ImportNcclTopology, ASpeedInTheWrongUnitIsReadAsWhatItMustMean) {
  const Graph g = imported_nccl("rccl_version_2.xml");
  const Device& nic = device_of(g, "cxi0");
  ASSERT_TRUE(nic.port);
  EXPECT_DOUBLE_EQ(nic.port->bandwidth.gigabytes(), 25);
  EXPECT_EQ(nic.port->kind, LinkKind::ethernet);
  EXPECT_THAT(warnings_of(g), HasSubstr(":15: speed=\"200000000\" Mbit/s is that of no network"));
}

TEST(ImportNcclTopology, PartsOfOneGpuShareItsLinks) {
  const Graph g = imported_nccl("two_parts_fragment.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::gpu), ElementsAre("gpu0p0", "gpu0p1"));
  const Link l = link_between(g, "gpu0p0", "nvswitch0");
  EXPECT_EQ(l.count, 36);
  EXPECT_DOUBLE_EQ(l.usable.gigabytes(), 40.1 / 2);
  EXPECT_NEAR(link_between(g, "pci-0002:81:00.0", "cpu0").usable.gigabytes(), 12, 1e-9);  // 64.0 GT/s x2
  EXPECT_NEAR(g.total_of(g.find("gpu0p1"), LinkKind::c2c).gigabytes(), 7 * 56.376, 1e-9);
  EXPECT_THAT(warnings_of(g), HasSubstr(":1: <pci> without a cpu around it"));
}

TEST(ImportNcclTopology, PowerGpusReachTheirCpuByNvlink) {
  const Graph g = imported_nccl("power_and_pcilink.xml");
  EXPECT_EQ(wires_between(g, "gpu0", "cpu0", LinkKind::nvlink), 3);
  EXPECT_EQ(wires_between(g, "gpu0", "gpu1", LinkKind::nvlink), 3);
}

TEST(ImportNcclTopology, SwitchesJoinedStraightHaveOneLink) {
  const Graph g = imported_nccl("power_and_pcilink.xml");
  EXPECT_DOUBLE_EQ(link_between(g, "pci-0035:01:00.0", "pci-0036:01:00.0").usable.gigabytes(), 24);
  EXPECT_THAT(warnings_of(g), HasSubstr(":18: a pcilink to 00aa:00:00.0"));
}

TEST(ImportNcclTopology, ContradictionsAreNamedByLineAndTheRestIsRead) {
  const Graph g = imported_nccl("contradictions.xml");
  const std::string said = warnings_of(g);
  for (const char* part : {":6: the nvlink of gpu0 leads to itself", ":7: a row to a GPU that is not in the file", ":8: count=\"many\"",
                           ":12: a gpu without rank", ":13: gpu0 lists 4 links to gpu1, which lists 2 back",
                           ":16: bus id 0000:02:00.0 is there before, in line 11", ":17: net eth5 without dev",
                           ":17: net eth5 without speed: 10 Gbit/s", ":19: busid=\"not a bus\"", ":21: a second cpu with numaid 0"})
    EXPECT_THAT(said, HasSubstr(part));
  EXPECT_EQ(wires_between(g, "gpu0", "gpu1", LinkKind::nvlink), 2);
  EXPECT_THAT(ids_of(g, DeviceKind::cpu), ElementsAre("cpu0", "cpu1"));
  EXPECT_EQ(device_of(g, "eth5").rail, -1);
  EXPECT_DOUBLE_EQ(device_of(g, "eth5").port->bandwidth.gigabytes(), 1.25);
}

TEST(ImportNcclTopology, AFileThatBreaksOffGivesWhatStandsBefore) {
  const Graph g = imported_nccl("cut_in_attribute.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::gpu), ElementsAre("gpu3"));
  EXPECT_EQ(count_of(g, DeviceKind::nvswitch), 0);  // the row in which it breaks off is not half read
  EXPECT_THAT(warnings_of(g), HasSubstr(":8: the file breaks off here"));
}

TEST(ImportNcclTopology, TagsThatDoNotFitCostNoMoreThanThemselves) {
  const Graph g = imported_nccl("lost_closing_tag.xml");
  EXPECT_EQ(count_of(g, DeviceKind::gpu), 2);
  EXPECT_EQ(count_of(g, DeviceKind::cpu), 2);
  EXPECT_THAT(warnings_of(g), HasSubstr(":7: not XML here"));
}

TEST(ImportNcclTopology, NothingOfATopologyFailsWithTheLine) {
  for (const char* text : {"<system version=\"1\"/>", "<system", "<nvlink target=\"0\"/>", "<pci"}) {
    const auto graph = import_nccl_topology(text, "empty.xml");
    ASSERT_FALSE(graph) << text;
    EXPECT_THAT(graph.error().message, HasSubstr("empty.xml:1: "));
  }
}

TEST(ImportNcclTopology, DeepNestingAndLongListsStayWithinLimits) {
  std::string deep = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 5000; ++i) deep += fmt::format("<pci busid=\"0000:{:02x}:{:02x}.0\">", i / 256, i % 256);
  const auto nested = import_nccl_topology(deep, "deep.xml");
  ASSERT_TRUE(nested);
  EXPECT_LT(nested->device_count(), 100);
  EXPECT_THAT(warnings_of(*nested), HasSubstr("nested too deep"));

  std::string many = "<system version=\"1\">";
  for (int i = 0; i < 6000; ++i) many += "<cpu numaid=\"0\"/>";
  const auto wide = import_nccl_topology(many + "</system>", "wide.xml");
  ASSERT_TRUE(wide);
  EXPECT_LE(wide->device_count(), 4096);
  EXPECT_EQ(wide->link_count(), 0);
}

}  // namespace
}  // namespace peal::topology
