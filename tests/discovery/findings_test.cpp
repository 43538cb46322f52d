// Every finding from a recorded tree: a host with nothing wrong, and what each single change to it gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <discovery/findings.hpp>
#include <functional>
#include <set>

#include "healthy_host.hpp"
#include "source_tree.hpp"

namespace peal::discovery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  std::function<void(Host&)> change;
  std::vector<const char*> ids;   ///< of all findings, in order
  const char* sentence;           ///< part of the first one's
  const char* source;             ///< part of the first one's
  Weight weight = Weight::wrong;  ///< of the first one
  ExamineOptions options = {};
  bool has_nvml = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"NarrowGpu",
     [](Host& h) { h.pcie(kGpu1, "16.0", "8", "16.0", "16"); },
     {"pcie-narrow"},
     "GPU 1 (0000:14:00.0): PCIe x8 instead of x16, half the host bandwidth (15.8 of 31.5 GB/s each way): reseat",
     "0000:14:00.0/current_link_* and max_link_*, "},
    {"NarrowNic", [](Host& h) { h.pcie(kEth0, "16.0", "4", "16.0", "16"); }, {"nic-starved", "pcie-narrow"}, "", "", Weight::wrong},
    {"NarrowSwitch",
     [](Host& h) { h.pcie(kSwitch, "16.0", "8", "16.0", "16"); },
     {"pcie-narrow"},
     "PCIe port 0000:11:00.0 above GPU 0 (0000:13:00.0): PCIe x8 instead of x16",
     "0000:11:00.0"},
    {"SlowGpu",
     [](Host& h) { h.pcie(kGpu0, "8.0", "16", "16.0", "16"); },
     {"pcie-slow"},
     "GPU 0 (0000:13:00.0): PCIe at 8 GT/s instead of 16, half the host bandwidth",
     "0000:13:00.0"},
    {"IdleGpu",
     [](Host& h) { h.pcie(kGpu0, "2.5", "16", "16.0", "16"); },
     {"pcie-slow"},
     "look again while it works",
     "0000:13:00.0",
     Weight::note},
    {"BusyGpuAtIdleSpeed",
     [](Host& h) {
       h.pcie(kGpu0, "2.5", "16", "16.0", "16");
       library.performance_state = 0;
     },
     {"pcie-slow"},
     "reseat",
     "0000:13:00.0",
     Weight::wrong,
     {},
     true},
    {"NarrowByLibraryAlone",
     [](Host& h) {
       h.pcie(kGpu1, "Unknown", "0", "Unknown", "0");
       library.width = 4;
     },
     {"pcie-narrow"},
     "GPU 1 (0000:14:00.0): PCIe x4 instead of x16, a quarter of the host bandwidth",
     "NVML",
     Weight::wrong,
     {},
     true},
    {"SlotOfEightLanes",
     [](Host& h) {
       h.pcie(kGpu0.substr(0, kGpu0.rfind('/')), "16.0", "8", "16.0", "8");
       h.pcie(kGpu0, "16.0", "8", "16.0", "16");
     },
     {"pcie-slot"},
     "the port above it ends at x8 of 16 GT/s, the card could do x16 of 16, half the host bandwidth",
     "0000:13:00.0",
     Weight::note},
    {"NoPortAbove",
     [](Host& h) {
       h.pcie("pci0000:30/0000:30:02.0", "16.0", "8", "16.0", "16");
       h.ethernet("eth5", "pci0000:30/0000:30:02.0");
     },
     {"pcie-narrow", "numa-unknown"},
     "NIC eth5 (0000:30:02.0): PCIe x8 instead of x16 (what the slot can is not said)",
     "0000:30:02.0"},
    {"NoPortAboveInAVirtualMachine",
     [](Host& h) {
       h.write("proc/cpuinfo", "flags : hypervisor\n");
       h.pcie("pci0000:30/0000:30:02.0", "16.0", "8", "16.0", "16");
       h.write("sys/devices/pci0000:30/0000:30:02.0/numa_node", "0\n");
       h.ethernet("eth5", "pci0000:30/0000:30:02.0");
     },
     {"pcie-narrow"},
     "what the slot can is not said",
     "0000:30:02.0",
     Weight::note},
    {"CorrectedErrors",
     [](Host& h) { h.write("sys/devices/" + kGpu0 + "/aer_dev_correctable", "Receiver Error 2\nBad TLP 7\nTOTAL_ERR_COR 9\n"); },
     {"pcie-corrected"},
     "corrected PCIe errors since boot: Receiver Error 2, Bad TLP 7, each one is a packet that was sent again",
     "0000:13:00.0/aer_dev_correctable"},
    {"RemarksOfADevice",
     [](Host& h) { h.write("sys/devices/" + kGpu0 + "/aer_dev_correctable", "RxErr 0\nNonFatalErr 3\n"); },
     {"pcie-corrected"},
     "the device reported it and went on",
     "aer_dev_correctable",
     Weight::note},
    {"UncorrectedErrorsOfAPort",
     [](Host& h) { h.write("sys/devices/" + kRoot + "/aer_dev_fatal", "SDES 1\nTOTAL_ERR_FATAL 1\n"); },
     {"pcie-uncorrected"},
     "PCIe port 0000:10:01.0 above GPU 0 (0000:13:00.0): uncorrected PCIe errors since boot: SDES 1",
     "aer_dev_fatal"},
    {"AccessControl",
     [](Host& h) { h.write("sys/devices/" + kSwitch + "/0000:12:01.0/config", config_space(0x1d)); },
     {"acs-redirect"},
     "PCIe switch 0000:11:00.0: its ports 0000:12:01.0 redirect peer-to-peer traffic",
     "/config"},
    {"Iommu",
     [](Host& h) { h.write("sys/devices/" + kGpu1 + "/iommu_group/type", "DMA-FQ\n"); },
     {"iommu-translates"},
     "1 GPU: the IOMMU translates the addresses of 0000:14:00.0",
     "iommu_group/type",
     Weight::note},
    {"NvlinkDown",
     [](Host&) { library.links_up = 1; },
     {"nvlink-down"},
     "GPU 1 (0000:14:00.0): 1 link of NVLink active, 2 at another A100, 50 % of the other's bandwidth",
     "NVML",
     Weight::wrong,
     {},
     true},
    {"NvlinkErrors",
     [](Host&) { library.replays = 12; },
     {"nvlink-errors"},
     "GPU 1 (0000:14:00.0) link 1: NVLink errors: replays 12",
     "NVML",
     Weight::wrong,
     {},
     true},
    {"SlowNic",
     [](Host& h) { h.write("sys/class/net/eth1/speed", "25000\n"); },
     {"nic-slow"},
     "NIC eth1: 25 Gb/s, while eth0 of the same model has 100",
     "net/eth1/speed"},
    {"HalfDuplex",
     [](Host& h) { h.write("sys/class/net/eth0/duplex", "half\n"); },
     {"nic-half-duplex"},
     "NIC eth0: half duplex",
     "net/eth0/duplex"},
    {"NoCarrierWhereASiblingHasOne",
     [](Host& h) {
       h.write("sys/class/net/eth0/carrier", "0\n");
       h.write("sys/class/net/eth0/operstate", "down\n");
     },
     {"nic-no-carrier"},
     "NIC eth0: enabled and without a signal",
     "net/eth0/carrier"},
    {"SparePortWithoutCarrier",
     [](Host& h) {
       h.pci("pci0000:20/0000:20:03.0/0000:23:00.0", "0x8086", "0x1533", "0x020000");
       h.ethernet("eno1", "pci0000:20/0000:20:03.0/0000:23:00.0");
       h.write("sys/class/net/eno1/carrier", "0\n");
       h.write("sys/class/net/eno1/operstate", "down\n");
     },
     {"nic-no-carrier"},
     "NIC eno1",
     "eno1/carrier",
     Weight::note},
    {"MtusDiffer", [](Host& h) { h.write("sys/class/net/eth1/mtu", "1500\n"); }, {"nic-mtu"}, "(eth0 9000, eth1 1500)", "net/eth0/mtu"},
    {"DamagedFrames",
     [](Host& h) { h.write("sys/class/net/eth1/statistics/rx_crc_errors", "31\n"); },
     {"nic-errors"},
     "rx_crc_errors 31",
     "net/eth1/statistics"},
    {"StarvedNic",
     [](Host& h) {
       h.write("sys/class/net/eth0/speed", "400000\n");
       h.write("sys/class/net/eth1/speed", "400000\n");
     },
     {"nic-starved", "nic-starved"},
     "a line of 50 GB/s on a PCIe link of 31.5 GB/s each way",
     "net/eth0/speed",
     Weight::note},
    {"PollingPort",
     [](Host& h) {
       h.write(Host::port("mlx5_1") + "state", "1: DOWN\n");
       h.write(Host::port("mlx5_1") + "phys_state", "2: Polling\n");
     },
     {"ib-down"},
     "InfiniBand port mlx5_1: down (Polling), no data can go this way",
     "ports/1/state"},
    {"PortWithoutSubnetManager",
     [](Host& h) { h.write(Host::port("mlx5_0") + "state", "2: INIT\n"); },
     {"ib-waiting"},
     "waits in INIT for a subnet manager",
     "ports/1/state"},
    {"DisabledPort",
     [](Host& h) {
       h.write(Host::port("mlx5_1") + "state", "1: DOWN\n");
       h.write(Host::port("mlx5_1") + "phys_state", "3: Disabled\n");
     },
     {"ib-disabled"},
     "mlx5_1: disabled",
     "phys_state",
     Weight::note},
    {"SlowPort",
     [](Host& h) { h.write(Host::port("mlx5_1") + "rate", "100 Gb/sec (2X HDR)\n"); },
     {"ib-slow"},
     "InfiniBand port mlx5_1: 100 Gb/sec (2X HDR), while mlx5_0 of the same model has 200 Gb/sec (4X HDR)",
     "ports/1/rate"},
    {"PortErrors",
     [](Host& h) {
       h.write(Host::port("mlx5_0") + "counters/symbol_error", "12\n");
       h.write(Host::port("mlx5_0") + "counters/link_downed", "1\n");
     },
     {"ib-errors"},
     "InfiniBand port mlx5_0: errors of the link: symbol_error 12, link_downed 1",
     "ports/1/counters"},
    {"LossOnRoce",
     [](Host& h) {
       h.write(Host::port("mlx5_1") + "link_layer", "Ethernet\n");
       h.write(Host::port("mlx5_1") + "hw_counters/out_of_sequence", "88\n");
     },
     {"rdma-losses"},
     "RoCE port mlx5_1: lost or disordered packets: out_of_sequence 88",
     "hw_counters"},
    {"DomainWithoutMemory",
     [](Host& h) { h.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:   0 kB\n"); },
     {"numa-empty"},
     "NUMA domain 1: processors 2-3 and no memory",
     "node1/meminfo"},
    {"HiddenDomains",
     [](Host& h) {
       h.remove("sys/devices/system/node/node1");
       h.write("sys/devices/system/node/node0/cpulist", "0-3\n");
     },
     {"numa-hidden"},
     "2 sockets in one NUMA domain",
     "physical_package_id",
     Weight::note},
    {"DeviceWithoutDomain",
     [](Host& h) { h.write("sys/devices/" + kEth1 + "/numa_node", "-1\n"); },
     {"numa-unknown"},
     "eth1: no NUMA domain is said",
     "numa_node",
     Weight::note},
    {"SharedMemoryRefusedByASetting",
     [](Host& h) { h.write("proc/sys/vm/memfd_noexec", "2\n"); },
     {"shared-memory"},
     "vm.memfd_noexec is 2",
     "memfd_noexec"},
    {"SharedMemoryRefusedInATrial",
     [](Host&) {},
     {"shared-memory"},
     "Function not implemented",
     "measured",
     Weight::wrong,
     {.probes = {.shared_memory = ENOSYS}}},
    {"YamaWithoutRights",
     [](Host& h) { h.write("proc/sys/kernel/yama/ptrace_scope", "1\n"); },
     {"cross-memory"},
     "ranks of this host: kernel.yama.ptrace_scope is 1, large messages between ranks of this host are copied twice",
     "ptrace_scope"},
    {"CrossMemoryRefusedInATrial",
     [](Host&) {},
     {"cross-memory"},
     "the kernel refuses process_vm_readv: Operation not permitted",
     "measured",
     Weight::wrong,
     {.probes = {.cross_memory = EPERM}}},
    {"MemoryPolicyRefusedInATrial",
     [](Host&) {},
     {"memory-policy"},
     "the kernel refuses a memory policy: Operation not permitted",
     "measured",
     Weight::note,
     {.probes = {.memory_policy = EPERM}}},
    {"LittleLockedMemory",
     [](Host& h) { h.limits("1048576", "8388608"); },
     {"locked-memory"},
     "may lock 8 MiB of memory",
     "limits",
     Weight::note},
    {"FewOpenFiles", [](Host& h) { h.limits("100", "unlimited"); }, {"open-files"}, "may open 100 files, and 4 ranks need about", "limits"},
    {"SmallCpuSet",
     [](Host& h) { h.write("proc/self/status", "Cpus_allowed_list:\t1,3,64-127\n"); },
     {"cpu-set"},
     "may use 2 of 4 processors (1,3)",
     "Cpus_allowed_list",
     Weight::note},
    {"Quota",
     [](Host& h) {
       h.write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
       h.write("sys/fs/cgroup/job/cpu.stat", "nr_periods 10\nnr_throttled 7\n");
     },
     {"cpu-quota"},
     "grants 1.5 CPUs' time for 4 processors; it was stopped in 7 periods",
     "job/cpu.max"},
    {"MoreRanksThanCores",
     [](Host& h) { h.write("sys/devices/system/cpu/cpu1/topology/core_cpus_list", "0\n"); },
     {"few-cores"},
     "4 ranks: more than the 3 cores",
     "topology",
     Weight::wrong,
     {.ranks = 4}},
    {"Powersave",
     [](Host& h) { h.write("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n"); },
     {"slow-clocks"},
     "processors 2: frequency governor powersave of acpi-cpufreq",
     "scaling_governor"},
    {"PacedByTimers",
     [](Host& h) { h.write("proc/sys/net/core/default_qdisc", "pfifo_fast\n"); },
     {"tcp-paced"},
     "TCP: congestion control bbr, and interfaces come up with pfifo_fast, each connection sends by timers",
     "tcp_congestion_control",
     Weight::note},
    {"HugePagesNever",
     [](Host& h) { h.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"); },
     {"small-pages"},
     "transparent huge pages: never",
     "transparent_hugepage",
     Weight::note},
    {"SlowClock",
     [](Host& h) { h.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"); },
     {"clock-source"},
     "hpet instead of tsc",
     "current_clocksource"},
};

class FromATree : public ::testing::TestWithParam<Case> {};

TEST_P(FromATree, IsTheOnlyFinding) {
  const Case& c = GetParam();
  library = {};
  Host host;
  c.change(host);
  Roots roots = host.roots("");
  if (c.has_nvml) roots.nvml = &kNvml;
  const Examination found = examine(roots, c.options);
  std::multiset<std::string> expected(c.ids.begin(), c.ids.end()), ids;
  bool is_well = true;
  for (const Finding& f : found.findings) {
    ids.insert(std::string(f.kind->id));
    is_well = is_well && f.weight != Weight::wrong;
    EXPECT_FALSE(f.source.empty());
    EXPECT_FALSE(f.mend.empty());
  }
  EXPECT_EQ(ids, expected);
  EXPECT_EQ(found.is_well(), is_well);
  ASSERT_FALSE(found.findings.empty());
  EXPECT_THAT(found.findings.front().sentence(), HasSubstr(c.sentence));
  EXPECT_THAT(found.findings.front().source, HasSubstr(c.source));
  EXPECT_EQ(found.findings.front().weight, c.weight);
}
INSTANTIATE_TEST_SUITE_P(Findings, FromATree, ::testing::ValuesIn(kCases), [](const auto& test) { return std::string(test.param.name); });

TEST(Findings, AHostWithNothingWrongHasNone) {
  library = {};
  const Host host;
  for (const bool has_nvml : {false, true}) {
    Roots roots = host.roots("");
    if (has_nvml) roots.nvml = &kNvml;
    const Examination found = examine(roots, {.ranks = 4, .probes = {0, 0}});
    for (const Finding& f : found.findings) ADD_FAILURE() << f.sentence();
    EXPECT_TRUE(found.is_well());
    EXPECT_FALSE(found.seen.empty());
  }
}

TEST(Findings, EveryKindIsTestedHere) {
  std::set<std::string> tested = {"small-message"};  // of the cost model, not of a tree: tests/multiprocess/doctor_test.py
  for (const Case& c : kCases) tested.insert(c.ids.begin(), c.ids.end());
  std::set<std::string> known;
  for (const FindingKind& kind : finding_kinds()) known.insert(std::string(kind.id));
  EXPECT_EQ(tested, known);
  EXPECT_EQ(known.size(), finding_kinds().size());  // no id twice
}

TEST(Findings, ThePageHoldsTheListAsItIs) {
  std::ifstream file(peal::test::in_source("docs/guide/doctor.md"));
  std::vector<std::string> rows, expected;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("| `")) rows.push_back(line);
  for (const FindingKind& kind : finding_kinds()) expected.push_back(row_of(kind));
  EXPECT_EQ(rows, expected) << "docs/guide/doctor.md: put in what `peal doctor --list --markdown` prints";
}

TEST(Findings, WhatIsNotSaidIsUnknownAndNoFinding) {
  Tree tree;  // nearly nothing is there
  tree.write("proc/cpuinfo", "flags : hypervisor\n");
  tree.nic("eth0", "pci0000:00/0000:00:03.0/virtio2", "-1");
  const Examination found = examine(tree.roots(""));
  for (const Finding& f : found.findings) ADD_FAILURE() << f.sentence();
  std::string all;
  for (const std::string& line : found.unknown) all += line + "\n";
  EXPECT_THAT(all, HasSubstr("eth0 (0000:00:03.0): no PCIe link state"));
  EXPECT_THAT(all, HasSubstr("eth0/speed says nothing"));
  EXPECT_THAT(all, HasSubstr("virtual machine"));
}

TEST(Findings, AnyBytesAreNoCrash) {
  const std::string junk[] = {
      "", "\n", std::string(200'000, '9'), std::string("\0\xff\xfe:,-[]", 8), "-", "4294967296-99999999999", "0-2147483647"};
  for (const std::string& bytes : junk) {
    Host host;
    for (auto it = std::filesystem::recursive_directory_iterator(host.path()); it != std::filesystem::recursive_directory_iterator(); ++it)
      if (it->is_regular_file()) std::ofstream(it->path(), std::ios::binary) << bytes;
    examine(host.roots(""));
  }
  EXPECT_TRUE(examine({"/nonexistent", "/nonexistent"}).is_well());
}

std::vector<std::string> sentences(const Roots& roots) {
  std::vector<std::string> all;
  for (const Finding& f : examine(roots).findings) all.push_back(f.sentence());
  return all;
}

TEST(Findings, ARecordedHostGivesTheSameFindings) {
  library = {};
  for (const Case& c : kCases) {
    if (c.has_nvml || c.options.ranks > 0 || (&c - kCases) % 4 != 0) continue;  // the way is the same for all of them
    Host host;
    c.change(host);
    const Roots roots = host.roots("");
    const Tree kept;
    const auto done = record_host(roots, kept.path().string() + "/copy");
    ASSERT_TRUE(done) << done.error().message;
    const std::string copy = kept.path().string() + "/copy";
    const std::vector<std::string> before = sentences(roots);
    host.remove("sys");
    host.remove("proc");
    EXPECT_EQ(sentences({copy + "/sys", copy + "/proc"}), before) << c.name;
  }
}

TEST(Findings, AHostIsNotRecordedOverSomethingElse) {
  Host host;
  host.write("kept/sys/mine", "mine\n");
  const auto done = record_host(host.roots(""), (host.path() / "kept").string());
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("is there already"));
  EXPECT_FALSE(record_host(host.roots(""), "/proc/nowhere"));
}

TEST(Findings, ThisHostCanBeTried) {
  const Probes probes = probe_host();
  ASSERT_TRUE(probes.shared_memory);
  EXPECT_EQ(*probes.shared_memory, 0);  // Peal's other tests need it, too
  EXPECT_TRUE(probes.memory_policy);
  examine({}, {.probes = probes});
}

}  // namespace
}  // namespace peal::discovery
