#include "import_fixtures.hpp"

namespace peal::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph hwloc(const std::string& name) { return import_fixture("hwloc/" + name, FileForm::hwloc); }

TEST(ImportHwloc, VersionOneHasItsNumaNodesAboveTheCores) {
  const Graph g = hwloc("v1.xml");
  EXPECT_EQ(g.title, "Invented One (hwloc XML)");
  EXPECT_THAT(ids_of(g, DeviceKind::cpu), ElementsAre("numa0", "numa1"));
  EXPECT_EQ(device_of(g, "numa1").attribute("memory_bytes"), "2147483648");
  EXPECT_THAT(ids_of(g, DeviceKind::core), ElementsAre("core0", "core1", "core2"));
  EXPECT_EQ(device_of(g, "core2").attribute("cpus"), "2,3");
  EXPECT_EQ(device_of(g, "core2").numa, 1);
  EXPECT_EQ(wires_between(g, "core0", "cache0", LinkKind::shm), 1);
  EXPECT_EQ(wires_between(g, "core2", "numa1", LinkKind::shm), 1);             // no cache above it
  EXPECT_DOUBLE_EQ(link_between(g, "numa0", "numa1").usable.gigabytes(), 10);  // Skylake, by NCCL
}

TEST(ImportHwloc, MemoryWithoutCoresIsNoDomain) {
  const Graph g = hwloc("v1.xml");
  EXPECT_EQ(device_of(g, "memory-numa252").kind, DeviceKind::memory);
  const Graph two = hwloc("v2_gpus.xml");
  EXPECT_EQ(device_of(two, "memory-numa2").kind, DeviceKind::memory);
  EXPECT_EQ(wires_between(two, "memory-numa2", "numa0", LinkKind::memory), 1);
}

TEST(ImportHwloc, ConsolesAreNoGpus) {
  const Graph g = hwloc("v1.xml");
  EXPECT_EQ(count_of(g, DeviceKind::gpu), 1);
  EXPECT_EQ(device_of(g, "gpu0").name, "P100-SXM2");
}

TEST(ImportHwloc, ANicTakesItsNameForVerbsAndItsClass) {
  const Graph g = hwloc("v1.xml");
  const Device& nic = device_of(g, "mlx5_0");
  EXPECT_EQ(nic.attribute("network"), "infiniband");
  EXPECT_EQ(nic.numa, -1);  // under the machine, near both domains
  EXPECT_NEAR(link_between(g, "mlx5_0", "numa0").bandwidth.gigabytes(), 15.754, 0.001);
  EXPECT_DOUBLE_EQ(link_between(g, "mlx5_0", "numa0").usable.gigabytes(), 12);
  EXPECT_THAT(warnings_of(g), HasSubstr("a PCIe device near several NUMA domains (1 in the file)"));
}

TEST(ImportHwloc, SpeedsThatAreNotThereAreAssumedAndSaidSo) {
  const Graph g = hwloc("v1.xml");
  EXPECT_THAT(link_between(g, "gpu0", "numa0").source, HasSubstr("assumed"));
  EXPECT_THAT(warnings_of(g), HasSubstr(":22: a PCIe link without a speed (1 in the file)"));
}

TEST(ImportHwloc, DomainsOfOneSocketShareItsWayOut) {
  const Graph g = hwloc("v2_gpus.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::package), ElementsAre("socket0"));
  EXPECT_EQ(wires_between(g, "numa0", "socket0", LinkKind::sys), 1);
  EXPECT_EQ(wires_between(g, "numa1", "socket0", LinkKind::sys), 1);
}

TEST(ImportHwloc, ThePortOfASwitchSaysHowWideALinkIs) {
  const Graph g = hwloc("v2_gpus.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::pcie_switch), ElementsAre("pci-0000:01:00.0"));
  EXPECT_EQ(device_of(g, "pci-0000:01:00.0").name, "PEX 8725");
  EXPECT_NEAR(link_between(g, "gpu0", "pci-0000:01:00.0").bandwidth.gigabytes(), 1.969, 0.001);
  EXPECT_DOUBLE_EQ(link_between(g, "gpu0", "pci-0000:01:00.0").usable.gigabytes(), 1.5);
  EXPECT_NEAR(link_between(g, "pci-0000:01:00.0", "numa0").bandwidth.gigabytes(), 3.938, 0.001);
}

TEST(ImportHwloc, NvlinkMatricesBecomeLinks) {
  const Graph g = hwloc("v2_gpus.xml");
  EXPECT_EQ(wires_between(g, "gpu0", "gpu1", LinkKind::nvlink), 2);
  EXPECT_EQ(wires_between(g, "gpu0", "nvswitch0", LinkKind::nvlink), 3);
  EXPECT_DOUBLE_EQ(g.total_of(g.find("gpu1"), LinkKind::nvlink).gigabytes(), 125);
  EXPECT_THAT(warnings_of(g), HasSubstr("the matrix XGMIBandwidth has 2 objects and 3 values"));
}

TEST(ImportHwloc, CxlMemoryIsADeviceOnPcie) {
  const Graph g = hwloc("v2_gpus.xml");
  EXPECT_EQ(device_of(g, "cxl0").kind, DeviceKind::memory);
  EXPECT_EQ(device_of(g, "cxl0").attribute("CXLRAMSize"), "262144");
  EXPECT_NEAR(link_between(g, "cxl0", "numa0").bandwidth.gigabytes(), 0.25, 1e-9);
}

TEST(ImportHwloc, VersionThreeHasBitsForKindsAndMayHaveNoNumaNode) {
  const Graph g = hwloc("v3_bits.xml");
  EXPECT_THAT(ids_of(g, DeviceKind::nic), ElementsAre("mlx5_0", "ens3"));
  EXPECT_THAT(ids_of(g, DeviceKind::gpu), ElementsAre("gpu0", "gpu1"));
  EXPECT_THAT(ids_of(g, DeviceKind::cpu), ElementsAre("numa0"));
  EXPECT_THAT(ids_of(g, DeviceKind::core), ElementsAre("core0"));  // a PU without a core around it
  EXPECT_DOUBLE_EQ(link_between(g, "gpu0", "gpu1").bandwidth.gigabytes(), 100);
  EXPECT_THAT(warnings_of(g), HasSubstr("hwloc counts 100 GB/s for any direct xGMI link"));
}

TEST(ImportHwloc, AFileThatBreaksOffGivesWhatStandsBefore) {
  const std::string whole = fixture("hwloc/v1.xml");
  const auto cut = import_hwloc(whole.substr(0, whole.find("os_index=\"5\"")), "cut.xml");
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_THAT(ids_of(*cut, DeviceKind::core), ElementsAre("core0", "core1"));
  EXPECT_EQ(count_of(*cut, DeviceKind::gpu), 1);
  EXPECT_THAT(warnings_of(*cut), HasSubstr("breaks off"));
}

TEST(ImportHwloc, NoObjectFails) {
  for (const char* text : {"<topology version=\"2.0\"/>", "<topology", "<object", "<topology><info name=\"a\"/></topology>"}) {
    const auto graph = import_hwloc(text, "none.xml");
    ASSERT_FALSE(graph) << text;
    EXPECT_THAT(graph.error().message, HasSubstr("none.xml:1: "));
  }
}

}  // namespace
}  // namespace peal::topology
