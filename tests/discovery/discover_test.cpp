#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <discovery/binding.hpp>
#include <topology/link_catalogue.hpp>
#include <topology/resources.hpp>
#include <vendor/nvml.hpp>

#include "tree.hpp"

namespace peal::discovery {
namespace {

using ::testing::HasSubstr;
using topology::DeviceKind;
using topology::Graph;
using topology::PathClass;
using topology::Via;

Graph discover(const Roots& roots) {
  auto graph = discover_host(roots);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}

std::string all_warnings(const Graph& g) {
  std::string all;
  for (const std::string& w : g.warnings()) all += w + "\n";
  return all;
}

TEST(Discover, ThisHostHasCoresThatReachEachOther) {
  const Graph g = discover({});
  const std::vector<int> places = g.compute_devices();
  ASSERT_FALSE(places.empty());
  for (int d : places) EXPECT_EQ(g.device(d).kind, DeviceKind::core);
  for (const auto& d : g.devices()) EXPECT_FALSE(d.source.empty()) << d.id;
  for (const auto& l : g.links()) EXPECT_FALSE(l.source.empty());
  const topology::Resources r{Graph(g)};
  for (int a : places) {
    for (int b : places) {
      EXPECT_EQ(r.route(a, b, Via::shared_memory).path_class, a == b ? PathClass::self : PathClass::shm);
      EXPECT_EQ(r.route(a, b, Via::socket).path_class, PathClass::loopback);
    }
  }
}

TEST(Discover, ThisHostHasAFingerprintThatStays) {
  const auto first = host_fingerprint();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_THAT(*first, HasSubstr("cores"));
  EXPECT_THAT(*first, HasSubstr("Linux"));
  EXPECT_EQ(*first, *host_fingerprint());
}

TEST(Discover, FingerprintSaysModelCachesKernel) {
  const Tree tree;
  const auto text = host_fingerprint(tree.roots("pack:2 numa:1 l3:1(size=33554432) core:4 pu:2"));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "Test CPU 9000 | 8 cores, 16 cpus, 2 packages, 2 NUMA | L3 32M | Linux 6.1.0-test");
}

TEST(Discover, TwoSocketsAreFarAndOneCacheIsNear) {
  const Tree tree;
  const Graph g = discover(tree.roots("pack:2 numa:1 l3:2 core:2 pu:1"));
  EXPECT_EQ(g.compute_devices().size(), 8u);
  EXPECT_EQ(g.devices_of(DeviceKind::cpu).size(), 2u);
  EXPECT_TRUE(g.devices_of(DeviceKind::package).empty());  // one domain a socket: the domain stands for it
  const topology::Resources r{Graph(g)};
  const auto latency = [&](const char* a, const char* b) { return r.route(g.find(a), g.find(b)).latency.value; };
  EXPECT_DOUBLE_EQ(latency("core0", "core1"), 60);
  EXPECT_GT(latency("core0", "core2"), 60);
  EXPECT_DOUBLE_EQ(latency("core0", "core4"), 260);
}

TEST(Discover, SocketsOfSeveralDomainsShareTheirWayOut) {
  const Tree tree;
  const Graph g = discover(tree.roots("pack:2 numa:4 core:2 pu:1"));
  EXPECT_EQ(g.devices_of(DeviceKind::package).size(), 2u);
  const topology::Resources r{Graph(g)};
  const auto a = r.route(g.find("core0"), g.find("core8"));
  const auto b = r.route(g.find("core2"), g.find("core10"));
  int shared = 0;
  for (auto x : a.resources) shared += std::count(b.resources.begin(), b.resources.end(), x) > 0 ? 1 : 0;
  EXPECT_EQ(shared, 1);  // the link between the sockets
}

TEST(Discover, NicsSayTheirRatesAndTheirPlace) {
  Tree tree;
  const std::string slot = "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:83:00.0";
  tree.write("sys/devices/" + slot + "/numa_node", "1\n");
  tree.write("sys/devices/" + slot + "/current_link_speed", "16.0 GT/s PCIe\n");
  tree.write("sys/devices/" + slot + "/current_link_width", "16\n");
  tree.nic("eth7", slot, "100000");
  tree.nic("eth8", "pci0000:00/0000:00:02.0", "1000", "down");
  tree.write("sys/class/net/lo/type", "772\n");
  tree.write("sys/class/net/br0/type", "1\n");  // no device: a bridge is no hardware
  const Graph g = discover(tree.roots("pack:2 numa:1 core:1 pu:1"));
  ASSERT_EQ(g.devices_of(DeviceKind::nic).size(), 2u);
  const auto& nic = g.device(g.find("eth7"));
  ASSERT_TRUE(nic.port);
  EXPECT_DOUBLE_EQ(nic.port->bandwidth.gigabytes(), 12.5);
  EXPECT_THAT(nic.port->source, HasSubstr("class/net/eth7/speed"));
  EXPECT_EQ(nic.numa, 1);
  EXPECT_EQ(nic.rail, 0);
  EXPECT_EQ(g.device(g.find("eth8")).rail, -1);  // down
  const int pcie = g.find("pcie-0000:81:00.0");
  ASSERT_GE(pcie, 0);
  EXPECT_NEAR(g.total_of(pcie, topology::LinkKind::pcie).gigabytes(), 63, 0.1);  // down to the NIC and up to the domain
  const topology::PathFinder paths(g);
  EXPECT_EQ(paths.path(g.find("core1"), g.find("eth7")).path_class, PathClass::phb);
  EXPECT_EQ(paths.path(g.find("core0"), g.find("eth7")).path_class, PathClass::sys);
}

TEST(Discover, ANicWithoutASpeedIsAnHonestGuess) {
  Tree tree;
  tree.nic("eth0", "pci0000:00/0000:00:03.0/virtio2", "-1");
  const Graph g = discover(tree.roots("core:2 pu:1"));
  EXPECT_THAT(all_warnings(g), HasSubstr("eth0: the system does not say its speed"));
  EXPECT_THAT(g.device(g.find("eth0")).port->source, HasSubstr("assumed"));
}

TEST(Discover, InfiniBandIsReadAndRoceIsLeftToItsInterface) {
  Tree tree;
  for (const char* name : {"mlx5_0", "mlx5_1"}) {
    const std::string port = std::string("sys/class/infiniband/") + name + "/ports/1/";
    tree.write(port + "link_layer", name == std::string("mlx5_0") ? "InfiniBand\n" : "Ethernet\n");
    tree.write(port + "state", "4: ACTIVE\n");
    tree.write(port + "rate", "200 Gb/sec (4X HDR)\n");
  }
  const Graph g = discover(tree.roots("core:2 pu:1"));
  ASSERT_EQ(g.devices_of(DeviceKind::nic).size(), 1u);
  const auto& nic = g.device(g.find("mlx5_0"));
  EXPECT_DOUBLE_EQ(nic.port->bandwidth.gigabytes(), 25);
  EXPECT_EQ(nic.port->kind, topology::LinkKind::infiniband);
}

TEST(Discover, GpusAreListedButRanksStayOnCores) {
  Tree tree;
  const std::string gpu = "pci0000:16/0000:16:01.0/0000:17:00.0";
  tree.write("sys/devices/" + gpu + "/class", "0x030200\n");
  tree.write("sys/devices/" + gpu + "/vendor", "0x10de\n");
  tree.write("sys/devices/" + gpu + "/device", "0x2330\n");
  tree.write("sys/devices/" + gpu + "/current_link_speed", "32.0 GT/s PCIe\n");
  tree.write("sys/devices/" + gpu + "/current_link_width", "16\n");
  tree.link("sys/bus/pci/devices/0000:17:00.0", "sys/devices/" + gpu);
  tree.write("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");  // a server's own VGA chip
  tree.write("sys/bus/pci/devices/0000:00:02.0/vendor", "0x1a03\n");
  const Graph g = discover(tree.roots("core:2 pu:1"));
  ASSERT_EQ(g.devices_of(DeviceKind::gpu).size(), 1u);
  EXPECT_NEAR(g.total_of(g.find("gpu0"), topology::LinkKind::pcie).gigabytes(), 63, 0.1);
  EXPECT_EQ(g.compute_devices(), g.devices_of(DeviceKind::core));
  EXPECT_THAT(all_warnings(g), HasSubstr("1 GPU found"));
}

TEST(Discover, VirtualMachinesAndQuotasAreSaid) {
  Tree tree;
  tree.write("proc/cpuinfo", "model name : V\nflags : fpu hypervisor\n");
  tree.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  const std::string text = all_warnings(discover(tree.roots("core:4 pu:1")));
  EXPECT_THAT(text, HasSubstr("virtual machine"));
  EXPECT_THAT(text, HasSubstr("1.5 CPUs"));
}

/// The attribute's value; its source must name `file`.
std::string attribute(const topology::Device& device, const char* key, const char* file) {
  for (const auto& a : device.attributes) {
    if (a.key != key) continue;
    EXPECT_THAT(a.source, HasSubstr(file)) << key;
    return a.value;
  }
  return "none";
}

TEST(Discover, PcieCarriesWhatTheCatalogueSaysOfItsGeneration) {
  ASSERT_EQ(topology::pcie_generations().size(), 6u);
  for (const topology::LinkGeneration* lane : topology::pcie_generations()) {
    Tree tree;
    const std::string gpu = "pci0000:16/0000:16:01.0/0000:17:00.0", speed = fmt::format("{:.1f}", lane->lane_gbps);
    tree.gpu(gpu, "0x20b0");
    tree.pcie(gpu, speed, "4", speed, "16");
    const Graph g = discover(tree.roots("core:2 pu:1"));
    EXPECT_NEAR(g.total_of(g.find("gpu0"), topology::LinkKind::pcie).gigabytes(), 4 * lane->bandwidth.gigabytes(), 1e-6) << lane->title;
  }
}

TEST(Discover, PcieFactsStandInAttributesWithTheirFiles) {
  Tree tree;
  const std::string port = "pci0000:16/0000:16:01.0", gpu = port + "/0000:17:00.0";
  tree.pcie(port, "16.0", "8", "32.0", "16");
  tree.gpu(gpu, "0x20b0");
  const Graph g = discover(tree.roots("core:2 pu:1"));
  const auto& device = g.device(g.find("gpu0"));
  EXPECT_EQ(attribute(device, "pcie_width", "0000:17:00.0/current_link_width"), "8");
  EXPECT_EQ(attribute(device, "pcie_width_capable", "0000:17:00.0/max_link_width"), "16");
  EXPECT_EQ(attribute(device, "pcie_width_port", "0000:16:01.0/max_link_width"), "16");
  EXPECT_EQ(attribute(device, "pcie_speed", "0000:17:00.0/current_link_speed"), "16");
  EXPECT_EQ(attribute(device, "pcie_speed_port", "0000:16:01.0/max_link_speed"), "32");
  EXPECT_EQ(attribute(device, "pcie_errors", "aer_dev"), "RxErr 4");
  EXPECT_EQ(attribute(device, "model", "vendor"), "0x10de:0x20b0");
}

TEST(Discover, InterfacesSayMtuDuplexAndCarrierWithTheirFiles) {
  Tree tree;
  tree.nic("eth0", "pci0000:00/0000:00:02.0", "25000");
  tree.write("sys/class/net/eth0/mtu", "9000\n");
  tree.write("sys/class/net/eth0/duplex", "full\n");
  tree.write("sys/class/net/eth0/carrier", "1\n");
  tree.write("sys/class/net/eth0/statistics/rx_crc_errors", "5\n");
  const Graph g = discover(tree.roots("core:2 pu:1"));
  const auto& device = g.device(g.find("eth0"));
  EXPECT_EQ(attribute(device, "mtu", "net/eth0/mtu"), "9000");
  EXPECT_EQ(attribute(device, "duplex", "net/eth0/duplex"), "full");
  EXPECT_EQ(attribute(device, "carrier", "net/eth0/carrier"), "1");
  EXPECT_EQ(attribute(device, "errors", "net/eth0/statistics"), "rx_crc_errors 5");
  EXPECT_EQ(attribute(device, "pcie_width", ""), "none");  // the system does not say
}

TEST(Discover, SecondInfiniBandPortsAreListedOnceTheyAreActive) {
  Tree tree;
  for (const char* port : {"1", "2", "3"}) {
    const std::string folder = std::string("sys/class/infiniband/mlx5_0/ports/") + port + "/";
    tree.write(folder + "link_layer", "InfiniBand\n");
    tree.write(folder + "state", *port == '3' ? "1: DOWN\n" : "4: ACTIVE\n");
    tree.write(folder + "phys_state", *port == '3' ? "2: Polling\n" : "5: LinkUp\n");
    tree.write(folder + "rate", "400 Gb/sec (4X NDR)\n");
  }
  const Graph g = discover(tree.roots("core:2 pu:1"));
  EXPECT_GE(g.find("mlx5_0"), 0);
  ASSERT_GE(g.find("mlx5_0:2"), 0);
  EXPECT_EQ(g.find("mlx5_0:3"), -1);
  EXPECT_EQ(attribute(g.device(g.find("mlx5_0:2")), "ib_physical", "ports/2/phys_state"), "LinkUp");
}

TEST(Discover, ContainersAndNestedQuotasAreSaid) {
  Tree tree;
  tree.write("proc/self/cgroup", "0::/docker/4711/job\n");
  tree.write("sys/fs/cgroup/docker/4711/cpu.max", "250000 100000\n");
  tree.write("sys/fs/cgroup/docker/4711/job/cpu.max", "max 100000\n");
  const Graph g = discover(tree.roots("core:4 pu:1"));
  EXPECT_THAT(all_warnings(g), HasSubstr("2.5 CPUs"));
  EXPECT_THAT(all_warnings(g), HasSubstr("container (the control group /docker/4711/job"));
  EXPECT_EQ(attribute(g.device(g.find("numa0")), "cpu_quota", "docker/4711/cpu.max"), "2.5");
  EXPECT_EQ(attribute(g.device(g.find("numa0")), "container", "self/cgroup"), "yes");
}

TEST(Discover, MakerFamilyAndModelOfTheProcessorAreKept) {
  Tree tree;
  tree.write("proc/cpuinfo", "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 207\nmodel name : Xeon\n\nprocessor : 1\n");
  const Graph g = discover(tree.roots("core:4 pu:1"));
  EXPECT_EQ(attribute(g.device(g.find("numa0")), "processor", "cpuinfo"), "GenuineIntel 6 207");
  // An Arm core does not say them so.
  tree.write("proc/cpuinfo", "processor : 0\nCPU implementer : 0x41\n");
  const Graph arm = discover(tree.roots("core:4 pu:1"));
  EXPECT_EQ(attribute(arm.device(arm.find("numa0")), "processor", ""), "none");
}

TEST(Discover, QuotasOfTheFirstVersionAreSaid) {
  Tree tree;
  tree.write("proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a/../b\n2:cpu,cpuacct:/a\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  tree.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(all_warnings(discover(tree.roots("core:4 pu:1"))), HasSubstr("0.5 CPUs"));
}

TEST(Discover, EmptyRootsAndBadTextsAreNoCrash) {
  const Graph g = discover({"/nonexistent", "/nonexistent", "core:3 pu:1"});
  EXPECT_EQ(g.compute_devices().size(), 3u);
  const auto bad = discover_host({"/nonexistent", "/nonexistent", "this is no machine"});
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("this is no machine"));
  Tree tree;
  tree.nic("eth0", "pci0000:00/0000:00:03.0", std::string(100'000, '9'));
  tree.write("sys/class/net/eth0/type", std::string("1\n\0\xff", 4));
  EXPECT_EQ(discover(tree.roots("core:1 pu:1")).devices_of(DeviceKind::nic).size(), 1u);
}

int times_asked = 0;
int count_asking() { return ++times_asked, vendor::kNvmlSuccess; }
int succeed() { return vendor::kNvmlSuccess; }
int no_gpus(unsigned* count) { return *count = 0, vendor::kNvmlSuccess; }

TEST(Discover, AJobReadsTheWiringAndNothingElse) {
  Tree tree;
  const std::string port = "pci0000:16/0000:16:01.0", gpu = port + "/0000:17:00.0";
  tree.gpu(gpu, "0x2330");
  tree.nic("eth0", "pci0000:20/0000:20:01.0/0000:21:00.0", "100000");
  tree.write("sys/class/net/eth0/mtu", "9000\n");
  const vendor::NvmlTable library = {.init = count_asking, .shutdown = succeed, .device_count = no_gpus};
  Roots roots = tree.roots("pack:1 numa:1 core:2 pu:1");
  roots.nvml = &library;
  const auto all = discover_host(roots);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_GT(times_asked, 0);
  times_asked = 0;
  const auto wiring = discover_host(roots, nullptr, Detail::wiring);
  ASSERT_TRUE(wiring) << wiring.error().message;
  EXPECT_EQ(times_asked, 0);
  ASSERT_EQ(wiring->device_count(), all->device_count());
  ASSERT_EQ(wiring->link_count(), all->link_count());
  for (int l = 0; l < all->link_count(); ++l) {
    EXPECT_EQ(wiring->link(l).a, all->link(l).a);
    EXPECT_EQ(wiring->link(l).b, all->link(l).b);
    EXPECT_EQ(wiring->link(l).bandwidth.value, all->link(l).bandwidth.value);
  }
  for (int d = 0; d < all->device_count(); ++d) EXPECT_EQ(wiring->device(d).id, all->device(d).id);
  EXPECT_EQ(wiring->device(wiring->find("gpu0")).attributes.size(), 1u) << "pci";
  EXPECT_GT(all->device(all->find("gpu0")).attributes.size(), 4u);
  EXPECT_TRUE(wiring->device(wiring->find("eth0")).attribute("mtu").empty());
  EXPECT_EQ(all->device(all->find("eth0")).attribute("mtu"), "9000");
}

TEST(Places, CoresStandInTheOrderOfTheGraphWithTheirDomains) {
  const Tree tree;
  const Roots roots = tree.roots("pack:2 numa:2 core:2 pu:2");
  const auto places = find_places(roots);
  ASSERT_TRUE(places) << places.error().message;
  EXPECT_EQ(places->domains, 4);
  const Graph g = discover(roots);
  const std::vector<int> cores = g.compute_devices();
  ASSERT_EQ(places->cores.size(), 8u);
  ASSERT_EQ(cores.size(), 8u);
  for (std::size_t i = 0; i < cores.size(); ++i) {
    EXPECT_EQ(places->cores[i].domain, g.device(cores[i]).numa) << i;
    EXPECT_EQ(places->cores[i].domain, static_cast<int>(i) / 2);
    EXPECT_THAT(places->cores[i].cpus, ::testing::ElementsAre(2 * i, 2 * i + 1));
  }
}

/// Notes what it is asked, and answers as it is told.
struct FakePolicy {
  bool is_default = true;
  int read_error = 0, prefer_error = 0;
  std::vector<int> asked;  // domains, -1 for the default
  MemoryPolicy policy() {
    return {.read =
                [this](bool& answer) {
                  answer = is_default;
                  return read_error;
                },
            .prefer =
                [this](int domain) {
                  asked.push_back(domain);
                  return prefer_error;
                },
            .reset =
                [this] {
                  asked.push_back(-1);
                  return 0;
                }};
  }
};

TEST(MemoryPolicy, IsTriedAndTakenBack) {
  FakePolicy fake;
  EXPECT_EQ(try_memory_policy(fake.policy(), 3).kind, MemoryBinding::Kind::preferred);
  EXPECT_THAT(fake.asked, ::testing::ElementsAre(3, -1));
}

TEST(MemoryPolicy, OfSomebodyElseIsLeftAlone) {
  FakePolicy fake{.is_default = false};
  const MemoryBinding binding = try_memory_policy(fake.policy(), 0);
  EXPECT_EQ(binding.kind, MemoryBinding::Kind::left);
  EXPECT_TRUE(fake.asked.empty());
  EXPECT_THAT(describe(binding, 4), HasSubstr("is set already"));
}

TEST(MemoryPolicy, RefusalsAreNoFailures) {
  for (FakePolicy fake : {FakePolicy{.read_error = ENOSYS}, FakePolicy{.prefer_error = EPERM}}) {
    const MemoryBinding binding = try_memory_policy(fake.policy(), 0);
    EXPECT_EQ(binding.kind, MemoryBinding::Kind::refused);
    EXPECT_EQ(binding.error, fake.read_error + fake.prefer_error);
    EXPECT_THAT(describe(binding, 2), HasSubstr("refuses to set a memory policy (" + std::string(std::strerror(binding.error))));
    EXPECT_THAT(describe(binding, 2), Not(HasSubstr("one NUMA domain")));
    EXPECT_THAT(describe(binding, 1), HasSubstr("one NUMA domain"));
  }
}

}  // namespace
}  // namespace peal::discovery
