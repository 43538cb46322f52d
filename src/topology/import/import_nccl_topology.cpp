// NCCL and RCCL topology XML: what NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE reads, and what people write by hand for clouds.
//
//   system > cpu > pci > (pci | gpu > nvlink, xgmi, c2c | nic > net | pcilink),  cpu > nic > net
//
// Line rates are those of the specification, usable rates those that NCCL itself plans with, both from data/import/nccl.yaml. Every
// attribute of the file is kept under its own name at the device that it belongs to.
#include <algorithm>
#include <filesystem>
#include <topology/import.hpp>

#include "nccl_builder.hpp"

namespace peal::topology {
namespace {

constexpr double kMostNetMbps = 10e6;  // no port carries 10 Tb/s

}  // namespace

Result<Graph> NcclTopologyBuilder::build() {
  source_ = fmt::format("NCCL topology XML {}", std::filesystem::path(file_.name()).filename().string());
  const std::string_view label = text_of(file_.top().child("system"), "name");
  graph_.title = label.empty() ? std::filesystem::path(file_.name()).stem().string() : std::string(label);
  cpu_devices_.assign(tree_.cpus.size(), -1);
  pci_devices_.assign(tree_.pcis.size(), -1);
  pci_parts_.resize(tree_.pcis.size());
  PEAL_TRY(add_gpus());
  PEAL_TRY(add_nets());
  PEAL_TRY(add_bridges());
  PEAL_TRY(add_cpus());
  PEAL_TRY(join_pci());
  PEAL_TRY(join_gpu_links());
  PEAL_TRY(join_pcilinks());
  PEAL_TRY(join_cpus());
  if (dropped_rows_ > 0) {
    file_.warn(first_dropped_, fmt::format("a row to a GPU that is not in the file ({} such): left out, as NCCL does", dropped_rows_));
  }
  if (assumed_ > 0) {
    file_.warn(
        first_assumed_,
        fmt::format("a PCIe link without a known speed or width ({} in the file): taken as PCIe 3.0 and x16, as NCCL does", assumed_));
  }
  file_.give_warnings(graph_);
  return std::move(graph_);
}

std::string NcclTopologyBuilder::id_of(int host, std::string_view stem) const {
  return tree_.hosts > 1 ? fmt::format("n{}/{}", host, stem) : std::string(stem);
}

/// The id, or the id with the first number that makes it unique.
std::string NcclTopologyBuilder::free_id(const std::string& id) {
  int& used = used_ids_[id];
  std::string next = used == 0 ? id : fmt::format("{}.{}", id, used);
  while (graph_.find(next) >= 0) next = fmt::format("{}.{}", id, ++used);
  ++used;
  return next;
}

void NcclTopologyBuilder::keep_attributes(const pugi::xml_node& node, Device& device) const {
  int kept = 0;
  for (const pugi::xml_attribute& a : node.attributes()) {
    if (++kept > 32) break;
    device.attributes.push_back(
        {std::string(std::string_view(a.name()).substr(0, 64)), std::string(std::string_view(a.value()).substr(0, 255)), source_});
  }
}

/// "A100-SXM4-40GB", or nothing.
std::string_view NcclTopologyBuilder::name_of(const pugi::xml_node& pci) const {
  const auto vendor = hex_of(text_of(pci, "vendor"));
  const auto device = hex_of(text_of(pci, "device"));
  if (!vendor || !device) return {};
  return figures_.name_of(fmt::format("{:04x}:{:04x}", *vendor, *device));
}

Status NcclTopologyBuilder::add_gpus() {
  int counted = 0;
  for (const NcclGpu& gpu : tree_.gpus) {
    const int host = host_of(gpu.cpu);
    // By its number on the machine, as graph files and nvidia-smi name it; the order of devices is that of the ranks.
    std::string stem = fmt::format("gpu{}", gpu.dev ? *gpu.dev : counted);
    if (const auto part = whole_of(gpu.node, "mlopart")) stem += fmt::format("p{}", *part);
    ++counted;
    Device device{.id = free_id(id_of(host, stem)), .kind = DeviceKind::gpu, .node = host, .numa = numa_of(gpu.cpu), .source = source_};
    if (gpu.pci >= 0) {
      const pugi::xml_node& pci = tree_.pcis[static_cast<std::size_t>(gpu.pci)].node;
      device.name = name_of(pci);
      keep_attributes(pci, device);
    }
    if (device.name.empty() && gpu.sm > 0) device.name = fmt::format("GPU sm {}", gpu.sm);
    if (device.name.empty() && !gpu.gfx.empty()) device.name = fmt::format("GPU gfx{}", gpu.gfx);
    keep_attributes(gpu.node, device);
    PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
    gpu_devices_.push_back(index);
    if (gpu.pci >= 0) pci_parts_[static_cast<std::size_t>(gpu.pci)].push_back(index);
  }
  return {};
}

/// The kind of network is not in the file: it is told by the PCI class (0x0207 is InfiniBand) and by the names that drivers give.
std::optional<Port> NcclTopologyBuilder::port_of(const NcclNet& net) {
  if (!net.node) return std::nullopt;
  Port port;
  const std::string_view name = text_of(net.node, "name");
  const std::string_view pci_class =
      net.pci < 0 ? std::string_view() : text_of(tree_.pcis[static_cast<std::size_t>(net.pci)].node, "class");
  const auto begins_with_any = [&](std::initializer_list<std::string_view> stems) {
    return std::any_of(stems.begin(), stems.end(), [&](std::string_view stem) { return name.starts_with(stem); });
  };
  const bool is_infiniband = pci_class.starts_with("0x0207") || (!pci_class.starts_with("0x02") && begins_with_any({"mlx", "ib", "hfi"}));
  const bool is_rdma = is_infiniband || begins_with_any({"mlx", "ib", "roce", "rdma", "efa", "cxi", "bnxt_re", "irdma", "hns"});
  port.kind = is_infiniband ? LinkKind::infiniband : LinkKind::ethernet;
  port.scope = is_rdma ? "infiniband" : "";
  port.source = source_;
  double mbps = number_of(text_of(net.node, "speed")).value_or(0);
  if (mbps > kMostNetMbps) {
    file_.warn(net.node, fmt::format("speed=\"{}\" Mbit/s is that of no network; read as kbit/s ({:g} Gbit/s). NCCL plans with {:g} GB/s",
                                     text_of(net.node, "speed"), mbps / 1e6, mbps / 8000));
    mbps = std::min(mbps / 1000, kMostNetMbps);
  } else if (!(mbps > 0)) {
    mbps = figures_.net_mbps();
    file_.warn(net.node, fmt::format("net {} without speed: {:g} Gbit/s, as NCCL takes it", name, mbps / 1000));
    port.source = fmt::format("{}; {}: without a speed", source_, figures_.default_source());
  }
  port.bandwidth = port.usable = {mbps * 1e6 / 8};
  if (const auto latency = number_of(text_of(net.node, "latency")); latency && *latency > 0 && *latency < 1e9)
    port.latency = {*latency * 1e3};
  return port;
}

/// Network cards in the order of dev, from 0 on every host. Sockets only where there is nothing better.
std::vector<int> NcclTopologyBuilder::rails_of_nets() const {
  const auto is_card = [](const NcclNet& net) { return net.dev && net.pci >= 0; };
  const bool has_card = std::any_of(tree_.nets.begin(), tree_.nets.end(), is_card);
  std::vector<std::pair<std::pair<int, long long>, std::size_t>> order;
  for (std::size_t i = 0; i < tree_.nets.size(); ++i) {
    const NcclNet& net = tree_.nets[i];
    if (net.dev && (is_card(net) || !has_card)) order.push_back({{host_of(net.cpus.front()), *net.dev}, i});
  }
  std::sort(order.begin(), order.end());
  std::vector<int> rails(tree_.nets.size(), -1);
  int rail = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (k > 0 && order[k].first.first != order[k - 1].first.first) rail = 0;
    rails[order[k].second] = rail++;
  }
  return rails;
}

Status NcclTopologyBuilder::add_nets() {
  const std::vector<int> rails = rails_of_nets();
  int guessed = 0;
  for (std::size_t i = 0; i < tree_.nets.size(); ++i) {
    const NcclNet& net = tree_.nets[i];
    const int cpu = net.cpus.front();
    const int host = host_of(cpu);
    std::string stem(text_of(net.node, "name"));
    if (stem.empty()) stem = net.dev ? fmt::format("net{}", *net.dev) : fmt::format("nic{}", guessed++);
    Device device{.id = free_id(id_of(host, stem)),
                  .kind = DeviceKind::nic,
                  .node = host,
                  .numa = net.cpus.size() > 1 ? -1 : numa_of(cpu),
                  .source = source_};
    if (net.pci >= 0) {
      const pugi::xml_node& pci = tree_.pcis[static_cast<std::size_t>(net.pci)].node;
      device.name = name_of(pci);
      keep_attributes(pci, device);
    }
    keep_attributes(net.node, device);
    const auto rail = whole_of(net.node, "rail");
    device.rail = rail && *rail >= 0 && *rail < 100'000 ? static_cast<int>(*rail) : rails[i];
    device.port = port_of(net);
    PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
    net_devices_.push_back(index);
    if (net.pci >= 0) pci_parts_[static_cast<std::size_t>(net.pci)].push_back(index);
  }
  return {};
}

Status NcclTopologyBuilder::add_bridges() {
  std::vector<int> merged(tree_.pcis.size(), 0);
  for (const NcclPci& pci : tree_.pcis)
    if (pci.is_merged) ++merged[static_cast<std::size_t>(pci.parent)];
  for (std::size_t i = 0; i < tree_.pcis.size(); ++i) {
    const NcclPci& pci = tree_.pcis[i];
    const bool is_card = pci.parts > 1 || (pci.parts == 1 && pci.has_children);
    if (pci.is_merged || (pci.parts > 0 && !is_card)) continue;
    const std::string_view busid = text_of(pci.node, "busid");
    const int host = host_of(pci.cpu);
    const std::string stem = pci.role == PciRole::nvswitch ? fmt::format("nvswitch{}", switches_.size())
                                                           : fmt::format("pci-{}", busid.empty() ? "unknown" : busid);
    Device device{.id = free_id(id_of(host, stem)),
                  .kind = pci.role == PciRole::nvswitch ? DeviceKind::nvswitch : DeviceKind::pcie_switch,
                  .name = std::string(name_of(pci.node)),
                  .node = host,
                  .numa = numa_of(pci.cpu),
                  .source = source_};
    if (merged[i] > 0)
      device.attributes.push_back(
          {"merged_switches", std::to_string(merged[i]), "Broadcom switches inside this one, which NCCL takes as one"});
    if (is_card) device.name = pci.role == PciRole::gpu ? "parts of one GPU" : "ports behind one PCIe function";
    if (device.name.empty()) {
      device.name = pci.role == PciRole::nvswitch  ? "NVSwitch"
                    : pci.role == PciRole::unknown ? "PCIe endpoint of unknown kind"
                                                   : "PCIe switch";
    }
    keep_attributes(pci.node, device);
    PEAL_ASSIGN(pci_devices_[i], graph_.add_device(std::move(device)));
    if (pci.role == PciRole::nvswitch) switches_.emplace(switch_key(host, busid), pci_devices_[i]);
  }
  return {};
}

Status NcclTopologyBuilder::add_cpus() {
  for (std::size_t i = 0; i < tree_.cpus.size(); ++i) {
    const NcclCpu& cpu = tree_.cpus[i];
    Device device{.id = free_id(id_of(cpu.host, fmt::format("cpu{}", cpu.place))),
                  .kind = DeviceKind::cpu,
                  .node = cpu.host,
                  .numa = cpu.numa,
                  .source = source_};
    const std::string_view vendor = text_of(cpu.node, "vendor");
    device.name = vendor.empty() ? std::string(text_of(cpu.node, "arch")) : std::string(vendor);
    if (!cpu.node) device.name = "implied";
    keep_attributes(cpu.node, device);
    PEAL_ASSIGN(cpu_devices_[i], graph_.add_device(std::move(device)));
  }
  return {};
}

Result<Graph> import_nccl_topology(std::string_view text, const std::string& name) {
  const Result<ImportFigures>& figures = ImportFigures::all();
  if (!figures) return pass_on(figures.error());
  PEAL_ASSIGN(XmlFile file, XmlFile::parse(text, name));
  PEAL_ASSIGN(NcclTree tree, read_nccl_tree(file));
  return NcclTopologyBuilder(file, std::move(tree), *figures).build();
}

}  // namespace peal::topology
