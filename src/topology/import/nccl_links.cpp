// The wires of an NCCL topology: PCIe by the tree, NVLink, xGMI and C2C by the rows of the GPUs, and what lies between CPUs.
#include <algorithm>
#include <set>

#include "nccl_builder.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostCpusInPairs = 256;

}  // namespace

/// The device that a PCI element hangs on.
int NcclTopologyBuilder::above(int index) const {
  const NcclPci* pci = &tree_.pcis[static_cast<std::size_t>(index)];
  int parent = pci->parent;
  while (parent >= 0) {
    const NcclPci& next = tree_.pcis[static_cast<std::size_t>(parent)];
    if (!next.is_merged && pci_devices_[static_cast<std::size_t>(parent)] >= 0) return pci_devices_[static_cast<std::size_t>(parent)];
    parent = next.parent;
  }
  return cpu_devices_[static_cast<std::size_t>(pci->cpu)];
}

WireFigures NcclTopologyBuilder::pcie_of(int index) {
  const pugi::xml_node& node = tree_.pcis[static_cast<std::size_t>(index)].node;
  const std::string_view speed = text_of(node, "link_speed");
  const long long width = whole_of(node, "link_width").value_or(0);
  const ImportFigures::Pcie pcie = figures_.pcie(speed, width > 0 && width <= 64 ? static_cast<int>(width) : 0);
  if (pcie.is_assumed && assumed_++ == 0) first_assumed_ = node;
  return pcie.wire;
}

/// Two traps of real files: links that sleep or belong to a virtual machine, and ways up that are narrower than what hangs below.
void NcclTopologyBuilder::warn_of_slow_link(int index, const WireFigures& wire) {
  const NcclPci& pci = tree_.pcis[static_cast<std::size_t>(index)];
  const std::string_view speed = text_of(pci.node, "link_speed");
  if (speed.starts_with("2.5 GT/s") && pci.role != PciRole::nic) {
    file_.warn(pci.node,
               fmt::format("a PCIe link of {} x{}, {:.2g} GB/s for NCCL: bridges of virtual machines and devices that save power say so "
                           "without being so slow",
                           speed, text_of(pci.node, "link_width"), wire.usable.gigabytes()));
    return;
  }
  if (pci.role != PciRole::nic) return;
  double needed = 0;
  for (int part : pci_parts_[static_cast<std::size_t>(index)]) {
    const std::optional<Port>& port = graph_.device(part).port;
    if (port && port->source == source_) needed = std::max(needed, port->bandwidth.value);
  }
  const bool is_known = !text_of(pci.node, "link_speed").empty() && whole_of(pci.node, "link_width").value_or(0) > 0;
  if (is_known && needed > wire.line.value * 1.02) {
    file_.warn(pci.node, fmt::format("a port of {:g} GB/s behind a PCIe link of {:.3g} GB/s", needed * 1e-9, wire.line.gigabytes()));
  }
}

Status NcclTopologyBuilder::join_pci() {
  for (int i = 0; i < static_cast<int>(tree_.pcis.size()); ++i) {
    const NcclPci& pci = tree_.pcis[static_cast<std::size_t>(i)];
    if (pci.is_merged) continue;
    const WireFigures wire = pcie_of(i);
    warn_of_slow_link(i, wire);
    const int bridge = pci_devices_[static_cast<std::size_t>(i)];
    const auto join = [&](int lower, int upper) -> Status {
      Link link = wire.link(LinkKind::pcie);
      link.a = lower;
      link.b = upper;
      PEAL_TRY(graph_.add_link(std::move(link)));
      return {};
    };
    if (bridge >= 0) PEAL_TRY(join(bridge, above(i)));
    for (int part : pci_parts_[static_cast<std::size_t>(i)]) PEAL_TRY(join(part, bridge >= 0 ? bridge : above(i)));
  }
  const auto join_locally = [this](int device, int cpu, LinkKind kind) -> Status {
    Link link = figures_.local().link(kind);
    link.a = device;
    link.b = cpu_devices_[static_cast<std::size_t>(cpu)];
    link.source = link.usable_source = fmt::format("no PCIe device in the file; {}", link.source);
    PEAL_TRY(graph_.add_link(std::move(link)));
    return {};
  };
  for (std::size_t i = 0; i < tree_.nets.size(); ++i)
    if (tree_.nets[i].pci < 0)
      for (int cpu : tree_.nets[i].cpus) PEAL_TRY(join_locally(net_devices_[i], cpu, LinkKind::pcie));
  for (std::size_t i = 0; i < tree_.gpus.size(); ++i)
    if (tree_.gpus[i].pci < 0) PEAL_TRY(join_locally(gpu_devices_[i], tree_.gpus[i].cpu, LinkKind::pcie));
  return {};
}

Status NcclTopologyBuilder::join_gpu_links() {
  for (std::size_t i = 0; i < tree_.gpus.size(); ++i) {
    const NcclGpu& gpu = tree_.gpus[i];
    for (const pugi::xml_node& row : gpu.node.children()) {
      const std::string_view name = row.name();
      if (name == "nvlink" || name == "xgmi") PEAL_TRY(join_gpu_row(gpu, gpu_devices_[i], row, name == "xgmi"));
      if (name == "c2c") PEAL_TRY(join_c2c(gpu, gpu_devices_[i], row));
    }
  }
  return finish_gpu_links();
}

/// Several hosts in one file share their switches; all switches that a virtual machine does not see count as one.
std::pair<int, std::string> NcclTopologyBuilder::switch_key(int host, std::string_view busid) const {
  const auto bus = is_invisible(busid) ? std::nullopt : bus_number(busid);
  return {tree_.hosts > 1 ? -1 : host, bus ? fmt::format("{:x}", *bus) : std::string("invisible")};
}

Result<int> NcclTopologyBuilder::nvswitch(int host, std::string_view target, const pugi::xml_node& row) {
  const auto [it, is_new] = switches_.emplace(switch_key(host, target), 0);
  if (!is_new) return it->second;
  Device device{.id = free_id(fmt::format("nvswitch{}", switches_.size() - 1)), .kind = DeviceKind::nvswitch, .source = source_};
  device.name = is_invisible(target) ? "NVSwitches, not visible" : "NVSwitch";
  device.node = tree_.hosts > 1 ? -1 : host;
  device.attributes.push_back({"busid", std::string(target), source_});
  device.attributes.push_back({"class", std::string(text_of(row, "tclass")), source_});
  PEAL_ASSIGN(it->second, graph_.add_device(std::move(device)));
  return it->second;
}

Status NcclTopologyBuilder::join_gpu_row(const NcclGpu& gpu, int device, const pugi::xml_node& row, bool is_xgmi) {
  const std::string_view target = text_of(row, "target");
  const std::string_view target_class = text_of(row, "tclass");
  const long long count = whole_of(row, "count").value_or(0);
  if (count < 1 || count > 10'000) {
    file_.warn(row, fmt::format("count=\"{}\" is no number of links; the row is left out", text_of(row, "count")));
    return {};
  }
  WireFigures wire = is_xgmi ? figures_.xgmi(gpu.gfx) : figures_.nvlink(gpu.sm);
  const int parts = gpu.pci < 0 ? 1 : std::max(1, tree_.pcis[static_cast<std::size_t>(gpu.pci)].parts);
  if (parts > 1) {
    // The parts of one GPU share its links.
    wire.line.value /= parts;
    wire.usable.value /= parts;
    wire.source += fmt::format("; shared by {} parts of the GPU", parts);
  }
  const int host = host_of(gpu.cpu);
  const auto bus = bus_number(target);
  int peer = -1;
  if (is_invisible(target) || target_class.starts_with("0x068000")) {
    PEAL_ASSIGN(peer, nvswitch(host, target, row));
  } else if (target_class.starts_with("0x068001")) {
    peer = cpu_devices_[static_cast<std::size_t>(gpu.cpu)];
  } else if (const auto it = bus ? tree_.pci_at.find({host, *bus}) : tree_.pci_at.end(); it != tree_.pci_at.end()) {
    const auto& devices = pci_parts_[static_cast<std::size_t>(it->second)];
    peer = devices.empty() ? pci_devices_[static_cast<std::size_t>(it->second)] : devices.front();
  }
  if (peer == device) {
    file_.warn(row, fmt::format("the {} of {} leads to itself ({}); it is left out", row.name(), graph_.device(device).id, target));
    return {};
  }
  const auto takes_gpu_links = [this](int d) {
    const DeviceKind kind = graph_.device(d).kind;
    return kind == DeviceKind::gpu || kind == DeviceKind::nvswitch || kind == DeviceKind::cpu;
  };
  if (peer < 0 || !takes_gpu_links(peer)) {
    if (dropped_rows_++ == 0) first_dropped_ = row;
    return {};
  }
  Count& pair = gpu_pairs_[std::minmax(device, peer)];
  if (pair.forward + pair.backward == 0 || wire.usable < pair.wire.usable) pair.wire = wire;
  pair.kind = is_xgmi ? LinkKind::xgmi : LinkKind::nvlink;
  pair.row = row;
  (device < peer ? pair.forward : pair.backward) += static_cast<int>(count);
  return {};
}

/// Two GPUs list the links between them once each; what does not agree is counted by the smaller number.
Status NcclTopologyBuilder::finish_gpu_links() {
  for (const auto& [ends, pair] : gpu_pairs_) {
    int count = std::max(pair.forward, pair.backward);
    const bool is_between_gpus = graph_.device(ends.first).kind == DeviceKind::gpu && graph_.device(ends.second).kind == DeviceKind::gpu;
    if (is_between_gpus && pair.forward != pair.backward) {
      file_.warn(pair.row, fmt::format("{} lists {} links to {}, which lists {} back", graph_.device(ends.first).id, pair.forward,
                                       graph_.device(ends.second).id, pair.backward));
      if (std::min(pair.forward, pair.backward) > 0) count = std::min(pair.forward, pair.backward);
    }
    Link link = pair.wire.link(pair.kind, count);
    link.a = ends.first;
    link.b = ends.second;
    PEAL_TRY(graph_.add_link(std::move(link)));
  }
  return {};
}

Status NcclTopologyBuilder::join_c2c(const NcclGpu& gpu, int device, const pugi::xml_node& row) {
  const double mbps = number_of(text_of(row, "bw")).value_or(0);
  const long long count = whole_of(row, "count").value_or(0);
  if (!(mbps > 0) || mbps > 1e9 || count < 1 || count > 10'000) {
    file_.warn(row, "a c2c without bw (MB/s) and count; it is left out");
    return {};
  }
  Link link{.a = device,
            .b = cpu_devices_[static_cast<std::size_t>(gpu.cpu)],
            .kind = LinkKind::c2c,
            .bandwidth = {mbps * 1e6},
            .usable = {},
            .count = static_cast<int>(count)};
  link.source = source_;
  PEAL_TRY(graph_.add_link(std::move(link)));
  return {};
}

/// Between two switches of Broadcom that pass traffic straight on: as wide as the wider of their ways up.
Status NcclTopologyBuilder::join_pcilinks() {
  std::set<std::pair<int, int>> joined;
  for (int i = 0; i < static_cast<int>(tree_.pcis.size()); ++i) {
    const NcclPci& pci = tree_.pcis[static_cast<std::size_t>(i)];
    for (const pugi::xml_node& row : pci.node.children("pcilink")) {
      const auto bus = bus_number(text_of(row, "target"));
      const auto it = bus ? tree_.pci_at.find({tree_.host_of_pci(i), *bus}) : tree_.pci_at.end();
      const int here = pci_devices_[static_cast<std::size_t>(i)];
      const int there = it == tree_.pci_at.end() ? -1 : pci_devices_[static_cast<std::size_t>(it->second)];
      if (here < 0 || there < 0 || here == there) {
        file_.warn(row, fmt::format("a pcilink to {}, which is no other switch of this file; it is left out", text_of(row, "target")));
        continue;
      }
      if (!joined.insert(std::minmax(here, there)).second) continue;
      const WireFigures a = pcie_of(i);
      const WireFigures b = pcie_of(it->second);
      Link link = (a.usable < b.usable ? b : a).link(LinkKind::pcie);
      link.a = here;
      link.b = there;
      link.source = fmt::format("assumed as wide as the switch's way up: {}", link.source);
      PEAL_TRY(graph_.add_link(std::move(link)));
    }
  }
  return {};
}

Status NcclTopologyBuilder::join_cpus() {
  std::map<int, std::vector<int>> by_host;
  for (int i = 0; i < static_cast<int>(tree_.cpus.size()); ++i) by_host[tree_.cpus[static_cast<std::size_t>(i)].host].push_back(i);
  for (const auto& [host, cpus] : by_host) {
    if (cpus.size() > kMostCpusInPairs) {
      file_.warn(1, fmt::format("host {} has {} cpus; links between more than {} are left out", host, cpus.size(), kMostCpusInPairs));
      continue;
    }
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      for (std::size_t j = i + 1; j < cpus.size(); ++j) {
        const pugi::xml_node& node = tree_.cpus[static_cast<std::size_t>(cpus[i])].node;
        std::string_view vendor = text_of(node, "vendor");
        while (vendor.starts_with(' ')) vendor.remove_prefix(1);
        while (vendor.ends_with(' ')) vendor.remove_suffix(1);
        const auto family = whole_of(node, "familyid");
        const auto model = whole_of(node, "modelid");
        Link link =
            figures_
                .between_cpus(text_of(node, "arch"), vendor, static_cast<int>(family.value_or(-1)), static_cast<int>(model.value_or(-1)))
                .link(LinkKind::sys);
        link.a = cpu_devices_[static_cast<std::size_t>(cpus[i])];
        link.b = cpu_devices_[static_cast<std::size_t>(cpus[j])];
        PEAL_TRY(graph_.add_link(std::move(link)));
      }
    }
  }
  return {};
}

}  // namespace peal::topology
