// hwloc XML of lstopo: NUMA domains and sockets, cores on the cache that they share, PCIe down to GPUs and NICs, and the GPU links of the
// matrices NVLinkBandwidth and XGMIBandwidth. Shaped like a host that Peal discovers itself (discovery/discover.hpp); what hwloc does not
// know, memory and core rates above all, is assumed from data/constants/host.yaml and says so.
#include <algorithm>
#include <filesystem>
#include <map>
#include <topology/constants.hpp>
#include <topology/import.hpp>

#include "hwloc_objects.hpp"
#include "import_figures.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostSockets = 256;
constexpr double kUsualLinkMbps = 25'000;  // NVLink 2 to 4: one link, one direction

class HwlocBuilder {
 public:
  HwlocBuilder(XmlFile& file, HwMachine machine, const ImportFigures& figures, HostDefaults defaults)
      : file_(file), machine_(std::move(machine)), figures_(figures), defaults_(std::move(defaults)) {}
  Result<Graph> build();

 private:
  Status add_devices();
  Status add_domains();
  Status add_cores();
  Status join_sockets();
  Status join_io();
  Status join_bandwidths();
  void find_junctions();
  void warn();
  Device device_of(const HwIo& io, int number) const;
  Status add_io(std::size_t index, Device device);
  Status join(int a, int b, LinkKind kind, Bandwidth rate, Nanoseconds latency);
  bool is_shown(const HwIo& io) const {
    return io.kind != HwIoKind::other && io.kind != HwIoKind::bridge && io.kind != HwIoKind::host_bridge;
  }
  const HwIo& io(int index) const { return machine_.io[static_cast<std::size_t>(index)]; }
  int cpu_of(int domain) const { return domains_[static_cast<std::size_t>(domain)]; }

  XmlFile& file_;
  HwMachine machine_;
  const ImportFigures& figures_;
  HostDefaults defaults_;
  Graph graph_;
  std::string source_;
  std::string assumed_;
  std::vector<int> domains_;   ///< device of each domain, -1: memory beside another
  std::vector<int> io_;        ///< device of each shown PCI device and of each junction
  std::vector<int> branches_;  ///< how many ways down from a bridge lead to shown devices
  std::unordered_map<std::string, int> names_;
};

Result<Graph> HwlocBuilder::build() {
  source_ = fmt::format("hwloc XML {}", std::filesystem::path(file_.name()).filename().string());
  assumed_ = fmt::format("not in hwloc's XML, assumed: {}", defaults_.source);
  graph_.title = machine_.title.empty() ? std::filesystem::path(file_.name()).stem().string() : machine_.title;
  PEAL_TRY(add_devices());
  PEAL_TRY(add_domains());
  PEAL_TRY(join_sockets());
  PEAL_TRY(add_cores());
  PEAL_TRY(join_io());
  PEAL_TRY(join_bandwidths());
  warn();
  file_.give_warnings(graph_);
  graph_.add_warning(fmt::format("{}: hwloc knows no rates of memory and none of networks: those of memory are assumed ({})", file_.name(),
                                 defaults_.source));
  return std::move(graph_);
}

void HwlocBuilder::warn() {
  const auto is_xgmi = [](const HwBandwidth& pair) { return pair.is_xgmi; };
  const auto& pairs = machine_.bandwidths;
  if (std::any_of(pairs.begin(), pairs.end(), is_xgmi))
    file_.warn(1, "hwloc counts 100 GB/s for any direct xGMI link, whatever its generation: these rates are no measure of the machine");
  if (pairs.empty() && graph_.devices_of(DeviceKind::gpu).size() > 1)
    file_.warn(1, "the file holds no matrix of GPU links (NVLinkBandwidth, XGMIBandwidth): GPUs are joined by PCIe only");
}

Status HwlocBuilder::join(int a, int b, LinkKind kind, Bandwidth rate, Nanoseconds latency) {
  Link link{.a = a, .b = b, .kind = kind, .bandwidth = rate, .usable = {}};
  link.latency = latency;
  link.source = assumed_;
  PEAL_TRY(graph_.add_link(std::move(link)));
  return {};
}

/// A bridge where ways to several shown devices meet is a switch, or a slot of several functions. The others only pass on.
void HwlocBuilder::find_junctions() {
  std::vector<char> leads(machine_.io.size(), 0);
  branches_.assign(machine_.io.size(), 0);
  for (std::size_t i = machine_.io.size(); i-- > 0;) {
    if (is_shown(machine_.io[i])) leads[i] = 1;
    const int parent = machine_.io[i].parent;
    if (leads[i] == 0 || parent < 0) continue;
    leads[static_cast<std::size_t>(parent)] = 1;
    ++branches_[static_cast<std::size_t>(parent)];
  }
}

Device HwlocBuilder::device_of(const HwIo& io, int number) const {
  constexpr std::string_view kWords[] = {"bridge", "pci", "gpu", "nic", "nvswitch", "cxl", "other"};
  const std::string_view busid = text_of(io.node, "pci_busid");
  Device device{.id = fmt::format("{}{}", kWords[static_cast<std::size_t>(io.kind)], number), .source = source_};
  if (io.kind == HwIoKind::bridge) device.id = fmt::format("pci-{}", busid);
  if (io.kind == HwIoKind::nic && !io.name.empty()) device.id = io.name;
  device.kind = io.kind == HwIoKind::gpu        ? DeviceKind::gpu
                : io.kind == HwIoKind::nic      ? DeviceKind::nic
                : io.kind == HwIoKind::nvswitch ? DeviceKind::nvswitch
                : io.kind == HwIoKind::memory   ? DeviceKind::memory
                                                : DeviceKind::pcie_switch;
  device.numa = io.is_near_several ? -1 : machine_.domains[static_cast<std::size_t>(io.domain)].os_index;
  const std::string_view type = text_of(io.node, "pci_type");
  if (type.size() >= 15) device.name = figures_.name_of(type.substr(6, 9));
  if (device.name.empty()) device.name = info_of(io.node, "PCIDevice");
  for (const pugi::xml_node& child : io.node.children("object")) {
    if (const std::string_view model = info_of(child, "GPUModel"); !model.empty() && device.name.empty()) device.name = model;
    for (const char* fact : {"CUDAGlobalMemorySize", "CXLRAMSize", "CXLPMEMSize", "Port1State", "XGMIPeers", "NodeGUID"})
      if (const std::string_view value = info_of(child, fact); !value.empty() && device.attribute(fact).empty())
        device.attributes.push_back({fact, std::string(value), source_});
  }
  if (device.name.empty() && io.kind == HwIoKind::memory) device.name = "CXL memory";
  if (device.name.empty() && io.kind == HwIoKind::nvswitch) device.name = "NVSwitch";
  if (device.name.empty() && io.kind == HwIoKind::bridge) device.name = "PCIe switch or slot";
  if (!busid.empty()) device.attributes.push_back({"busid", std::string(busid), source_});
  if (!type.empty()) device.attributes.push_back({"pci_type", std::string(type), source_});
  // Without a rate there is no port that a fabric could be plugged into.
  if (io.kind == HwIoKind::nic) device.attributes.push_back({"network", io.is_infiniband ? "infiniband" : "ethernet", source_});
  return device;
}

Status HwlocBuilder::add_io(std::size_t index, Device device) {
  int& used = names_[device.id];
  if (used++ > 0 || graph_.find(device.id) >= 0) device.id = fmt::format("{}@{}", device.id, index);
  PEAL_ASSIGN(io_[index], graph_.add_device(std::move(device)));
  return {};
}

/// GPUs first, then NICs, then what joins them.
Status HwlocBuilder::add_devices() {
  find_junctions();
  io_.assign(machine_.io.size(), -1);
  for (HwIoKind kind : {HwIoKind::gpu, HwIoKind::nic, HwIoKind::nvswitch, HwIoKind::memory, HwIoKind::bridge}) {
    int number = 0;
    for (std::size_t i = 0; i < machine_.io.size(); ++i) {
      if (machine_.io[i].kind != kind || (kind == HwIoKind::bridge && branches_[i] < 2)) continue;
      PEAL_TRY(add_io(i, device_of(machine_.io[i], number++)));
    }
  }
  return {};
}

Status HwlocBuilder::add_domains() {
  domains_.assign(machine_.domains.size(), -1);
  std::map<int, int> numbers;
  for (std::size_t d = 0; d < machine_.domains.size(); ++d) {
    const HwDomain& domain = machine_.domains[d];
    const bool is_memory = !domain.has_cores;
    std::string id = fmt::format("{}{}", is_memory ? "memory-numa" : "numa", domain.os_index);
    if (graph_.find(id) >= 0) {
      file_.warn(domain.node, fmt::format("a second NUMA node with os_index {}", domain.os_index));
      id += fmt::format(".{}", d);
    }
    Device device{.id = id, .kind = is_memory ? DeviceKind::memory : DeviceKind::cpu, .numa = domain.os_index, .source = source_};
    device.name = is_memory ? "memory without cores of its own" : machine_.cpu_name;
    if (domain.memory_bytes > 0) device.attributes.push_back({"memory_bytes", std::to_string(domain.memory_bytes), source_});
    PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
    if (!is_memory) domains_[d] = index;
    if (!is_memory || domain.beside < 0) continue;
    PEAL_TRY(join(index, cpu_of(domain.beside), LinkKind::memory, defaults_.domain_memory, {}));
  }
  return {};
}

/// A socket of several domains has one way out that they share; a socket of one domain is that domain.
Status HwlocBuilder::join_sockets() {
  std::map<int, std::vector<int>> by_package;
  int alone = -1;
  for (std::size_t d = 0; d < machine_.domains.size(); ++d)
    if (domains_[d] >= 0) by_package[machine_.domains[d].package >= 0 ? machine_.domains[d].package : alone--].push_back(domains_[d]);
  std::vector<int> sockets;
  for (const auto& [package, members] : by_package) {
    if (members.size() == 1) {
      sockets.push_back(members.front());
      continue;
    }
    const int os_index = machine_.packages[static_cast<std::size_t>(package)].os_index;
    std::string id = fmt::format("socket{}", os_index);
    if (graph_.find(id) >= 0) id += fmt::format(".{}", package);
    PEAL_ASSIGN(const int socket, graph_.add_device({.id = id, .kind = DeviceKind::package, .name = machine_.cpu_name, .source = source_}));
    sockets.push_back(socket);
    for (int domain : members) PEAL_TRY(join(domain, socket, LinkKind::sys, defaults_.domain_memory, {}));
  }
  if (sockets.size() > kMostSockets) {
    file_.warn(1, fmt::format("{} sockets; links between more than {} are left out", sockets.size(), kMostSockets));
    return {};
  }
  std::string_view arch = machine_.architecture;
  if (arch.starts_with("ppc64")) arch = "ppc64";
  if (arch == "aarch64") arch = "arm64";
  if (arch.empty() && !machine_.cpu_vendor.empty()) arch = "x86_64";
  WireFigures wire = figures_.between_cpus(arch, machine_.cpu_vendor, machine_.cpu_family, machine_.cpu_model);
  const bool is_known = wire.usable < figures_.local().usable;
  for (std::size_t a = 0; a < sockets.size(); ++a) {
    for (std::size_t b = a + 1; b < sockets.size(); ++b) {
      Link link = wire.link(LinkKind::sys);
      link.a = sockets[a];
      link.b = sockets[b];
      if (!is_known) {
        link.bandwidth = link.usable = defaults_.between_domains;
        link.source = link.usable_source = assumed_;
      }
      link.latency = {(defaults_.far_exchange.value - defaults_.near_exchange.value) / 2};
      PEAL_TRY(graph_.add_link(std::move(link)));
    }
  }
  return {};
}

Status HwlocBuilder::add_cores() {
  const Nanoseconds quarter_far{(defaults_.far_exchange.value - defaults_.near_exchange.value) / 4};
  std::vector<int> caches;
  for (std::size_t i = 0; i < machine_.caches.size(); ++i) {
    const HwCache& cache = machine_.caches[i];
    Device device{
        .id = fmt::format("cache{}", i), .kind = DeviceKind::memory, .name = fmt::format("L{} cache", cache.level), .source = source_};
    device.numa = machine_.domains[static_cast<std::size_t>(cache.domain)].os_index;
    device.capacity = defaults_.domain_memory;
    if (cache.bytes > 0) device.attributes.push_back({"cache_bytes", std::to_string(cache.bytes), source_});
    device.attributes.push_back({"capacity_source", assumed_, assumed_});
    PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
    caches.push_back(index);
    PEAL_TRY(join(index, cpu_of(cache.domain), LinkKind::memory, defaults_.domain_memory, quarter_far));
  }
  for (std::size_t i = 0; i < machine_.cores.size(); ++i) {
    const HwCore& core = machine_.cores[i];
    const std::string pus = fmt::format("{}", fmt::join(core.pus, ","));
    Device device{.id = fmt::format("core{}", i), .kind = DeviceKind::core, .name = fmt::format("cpu {}", pus), .source = source_};
    device.numa = machine_.domains[static_cast<std::size_t>(core.domain)].os_index;
    device.attributes.push_back({"cpus", pus, source_});
    PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
    const int above = core.cache >= 0 ? caches[static_cast<std::size_t>(core.cache)] : cpu_of(core.domain);
    PEAL_TRY(join(index, above, LinkKind::shm, defaults_.core_copy, 0.5 * defaults_.near_exchange));
  }
  return {};
}

/// The narrowest of what the bridges on the way to the next junction, or to the CPU, say of their links. A port and what is plugged into it
/// describe one link, and the port is right where they differ.
Status HwlocBuilder::join_io() {
  std::unordered_map<int, int> host_bridges;
  int unknown = 0;
  int near_several = 0;
  pugi::xml_node first;
  pugi::xml_node first_near;
  for (std::size_t i = 0; i < machine_.io.size(); ++i) {
    if (io_[i] < 0) continue;
    double gbps = machine_.io[i].gbps;
    int above = machine_.io[i].parent;
    int bridge = -1;
    while (above >= 0 && io_[static_cast<std::size_t>(above)] < 0) {
      const HwIo& passed = io(above);
      if (passed.kind == HwIoKind::host_bridge) bridge = host_bridges.emplace(above, static_cast<int>(host_bridges.size())).first->second;
      if (passed.gbps > 0) gbps = gbps > 0 ? std::min(gbps, passed.gbps) : passed.gbps;
      above = passed.parent;
    }
    if (!(gbps > 0) && unknown++ == 0) first = machine_.io[i].node;
    WireFigures wire = gbps > 0 ? figures_.pcie_of_rate(gbps) : figures_.pcie("", 0).wire;
    if (gbps > 0) wire.source = fmt::format("{}: link as negotiated", source_);
    Link link = wire.link(LinkKind::pcie);
    link.a = io_[i];
    link.b = above >= 0 ? io_[static_cast<std::size_t>(above)] : cpu_of(machine_.io[i].domain);
    link.host_bridge = above >= 0 ? -1 : bridge;
    PEAL_TRY(graph_.add_link(std::move(link)));
    if (above < 0 && machine_.io[i].is_near_several && near_several++ == 0) first_near = machine_.io[i].node;
  }
  if (unknown > 0)
    file_.warn(
        first,
        fmt::format("a PCIe link without a speed ({} in the file): taken as PCIe 3.0 x16; lstopo reads speeds when run as root", unknown));
  if (near_several > 0)
    file_.warn(first_near,
               fmt::format("a PCIe device near several NUMA domains ({} in the file): shown at the first of them", near_several));
  return {};
}

Status HwlocBuilder::join_bandwidths() {
  for (const HwBandwidth& pair : machine_.bandwidths) {
    const int a = io_[static_cast<std::size_t>(pair.a)];
    const int b = io_[static_cast<std::size_t>(pair.b)];
    if (a < 0 || b < 0 || a == b) continue;
    Link link{.a = a, .b = b, .kind = pair.is_xgmi ? LinkKind::xgmi : LinkKind::nvlink, .bandwidth = {pair.mbps * 1e6}, .usable = {}};
    link.source =
        fmt::format("{}: {}", source_, pair.is_xgmi ? "XGMIBandwidth, which counts 100 GB/s for any direct link" : "NVLinkBandwidth");
    const double links = pair.mbps / kUsualLinkMbps;
    if (!pair.is_xgmi && links >= 1 && links <= 1000 && links == static_cast<int>(links)) {
      link.count = static_cast<int>(links);
      link.bandwidth = {kUsualLinkMbps * 1e6};
      link.source += ", in links of 25 GB/s";
    }
    PEAL_TRY(graph_.add_link(std::move(link)));
  }
  return {};
}

}  // namespace

Result<Graph> import_hwloc(std::string_view text, const std::string& name) {
  const Result<ImportFigures>& figures = ImportFigures::all();
  if (!figures) return pass_on(figures.error());
  PEAL_ASSIGN(HostDefaults defaults, host_defaults());
  PEAL_ASSIGN(XmlFile file, XmlFile::parse(text, name));
  PEAL_ASSIGN(HwMachine machine, read_hwloc_objects(file));
  return HwlocBuilder(file, std::move(machine), *figures, std::move(defaults)).build();
}

}  // namespace peal::topology
