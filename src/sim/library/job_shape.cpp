#include "job_shape.hpp"

#include <algorithm>
#include <base/index.hpp>
#include <charconv>
#include <map>
#include <numeric>
#include <set>
#include <topology/cpu_identity.hpp>
#include <topology/machine.hpp>
#include <topology/resources.hpp>
#include <tuning/ring_report.hpp>

namespace peal::sim {

using topology::Device;
using topology::DeviceKind;
using topology::LinkKind;
using topology::PathClass;

namespace {

/// Of CUDA's compute capability; AMD's and Huawei's by what joins them.
Result<std::string> generation_of(const Device& gpu, NodeWire wire) {
  if (gpu.kind != DeviceKind::gpu)
    return fail(ErrorCode::unsupported, "{} is no GPU: the libraries of GPUs are predicted for GPUs only", gpu.id);
  int sm = 0;
  const std::string_view text = gpu.attribute("sm");
  std::from_chars(text.data(), text.data() + text.size(), sm);
  if (sm >= 120) return "blackwell-12";
  if (sm >= 100) return "blackwell";
  if (sm >= 90) return "hopper";
  if (sm >= 80) return "ampere";
  if (sm >= 60) return "volta";
  if (!gpu.attribute("gfx").empty() || wire == NodeWire::xgmi) return "cdna";
  if (wire == NodeWire::hccs) return "ascend";
  return fail(ErrorCode::unsupported, "{} ({}) has neither an attribute sm nor gfx: write attributes: {{sm: 90}} at the device", gpu.id,
              gpu.name);
}

/// GPUs of one node that reach each other without PCIe are of one island.
std::vector<int> islands_of(const topology::Resources& resources, std::span<const int> devices) {
  std::vector<int> island(devices.size());
  std::iota(island.begin(), island.end(), 0);
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = a + 1; b < devices.size(); ++b) {
      if (resources.route(devices[a], devices[b]).path_class != PathClass::nvl || island[a] == island[b]) continue;
      const int from = island[b];
      std::replace(island.begin(), island.end(), from, island[a]);
    }
  return island;
}

/// The rate at which a GPU's PCIe port is left, line rate; 0: it has none.
double pcie_port(const topology::Graph& machine, int device) {
  double best = 0;
  for (const int link : machine.links_of(device))
    if (machine.link(link).kind == LinkKind::pcie) best = std::max(best, machine.link(link).total().gigabytes());
  return best;
}

/// A machine of the catalogue with such GPUs on PCIe; empty: there is none.
std::string machine_on_pcie(const std::string& gpu) {
  const auto machines = topology::list_machines();
  if (!machines) return {};
  for (const topology::MachineEntry& entry : *machines) {
    const auto machine = topology::load_machine(entry.name);
    if (!machine || machine->compute_devices().empty()) continue;
    const int first = machine->compute_devices().front();
    if (machine->device(first).name == gpu && pcie_port(*machine, first) > 0) return entry.name;
  }
  return {};
}

tl::unexpected<Failure> no_pcie(const Device& gpu) {
  const std::string other = machine_on_pcie(gpu.name);
  return fail(ErrorCode::unsupported,
              "the libraries' formulas pass from GPUs to others that no fast link joins over PCIe, and {} ({}) has no PCIe link here; give "
              "--library peal, whose schedules take the links that there are{}",
              gpu.id, gpu.name, other.empty() ? std::string() : fmt::format(", or a machine with such GPUs on PCIe: --machine {}", other));
}

LinkKind kind_of(NodeWire wire) {
  return wire == NodeWire::nvlink ? LinkKind::nvlink
         : wire == NodeWire::xgmi ? LinkKind::xgmi
         : wire == NodeWire::hccs ? LinkKind::hccs
                                  : LinkKind::pcie;
}

/// Usable rate of a GPU's links to switches and to other GPUs of the job.
double own_links(const topology::Graph& machine, int device, NodeWire wire, std::span<const int> peers) {
  double rate = 0;
  for (const int index : machine.links_of(device)) {
    const topology::Link& link = machine.link(index);
    if (link.kind != kind_of(wire)) continue;
    const int other = machine.other_end(index, device);
    const bool is_peer = std::find(peers.begin(), peers.end(), other) != peers.end();
    if (is_peer || machine.device(other).kind != DeviceKind::gpu) rate += link.usable_total().gigabytes();
  }
  return rate;
}

int nvlinks_of(const topology::Graph& machine, int device) {
  int count = 0;
  for (const int link : machine.links_of(device))
    if (machine.link(link).kind == LinkKind::nvlink) count += machine.link(link).count;
  return count;
}

NodeWire wire_of(const topology::Graph& machine, int device) {
  for (const NodeWire wire : {NodeWire::nvlink, NodeWire::xgmi, NodeWire::hccs})
    if (machine.total_of(device, kind_of(wire)).value > 0) return wire;
  return NodeWire::pcie;
}

class Look {
 public:
  Look(const topology::Cluster& cluster, std::span<const int> device_of_rank, const LibraryOptions& options)
      : resources_(cluster), machine_(resources_.cluster().machine()), device_of_rank_(device_of_rank), options_(options) {}

  Result<JobShape> shape(const topology::LibraryConstants& constants) {
    PEAL_TRY(count_nodes());
    const Device& gpu = resources_.cluster().device(local_.front());
    shape_.wire = wire_of(machine_, first_gpu());
    PEAL_ASSIGN(shape_.gpu, generation_of(gpu, shape_.wire));
    if (options_.is_p2p_off) shape_.wire = NodeWire::pcie;
    shape_.link = name_of(shape_.wire);
    if (shape_.per_node > 1) PEAL_TRY(look_inside());
    shape_.has_multicast = can_multicast();
    shape_.has_amd_host = has_amd_host();
    if (shape_.nodes > 1) {
      PEAL_TRY(look_outside());
      look_at_staging(constants.has("plan.direct." + shape_.network));
      shape_.nic_path = nic_path();
    }
    const topology::Fabric* const fabric = resources_.cluster().fabric();
    shape_.has_network_sums = shape_.nodes > 1 && fabric != nullptr && fabric->reduction_limits() != nullptr;
    if (options_.whose != Library::hccl) PEAL_TRY(count_channels(constants));
    return shape_;
  }

 private:
  /// Within its node.
  int first_gpu() const { return resources_.cluster().local_of(local_.front()); }

  Status count_nodes() {
    const topology::Cluster& cluster = resources_.cluster();
    std::map<int, int> ranks_of;
    for (const int device : device_of_rank_) ++ranks_of[cluster.node_of(device)];
    shape_.ranks = static_cast<int>(device_of_rank_.size());
    shape_.nodes = static_cast<int>(ranks_of.size());
    shape_.per_node = ranks_of.begin()->second;
    for (const auto& [node, ranks] : ranks_of)
      if (ranks != shape_.per_node)
        return fail(ErrorCode::unsupported, "node {} has {} ranks and node {} has {}: give every node equally many", node, ranks,
                    ranks_of.begin()->first, shape_.per_node);
    for (const int device : device_of_rank_)
      if (cluster.node_of(device) == ranks_of.begin()->first) local_.push_back(device);
    return {};
  }

  Status look_inside() {
    std::vector<int> peers;
    for (const int device : local_) peers.push_back(resources_.cluster().local_of(device));
    const std::vector<int> island = islands_of(resources_, local_);
    const bool is_one_island = std::all_of(island.begin(), island.end(), [&](int i) { return i == island[0]; });
    if (is_one_island && shape_.wire != NodeWire::pcie) {
      PEAL_ASSIGN(const tuning::RingReport report, tuning::report_rings(resources_, local_));
      shape_.ring_GBps = report.rate;
      shape_.port_GBps = own_links(machine_, peers.front(), shape_.wire, peers);
      shape_.pair_GBps = resources_.route(local_[0], local_[1]).bottleneck.gigabytes();
      if (shape_.wire == NodeWire::nvlink && is_wired_to(peers)) shape_.link = "nvlink-mesh";
      return {};
    }
    return look_at_pcie(island, peers);
  }

  /// GPUs whose wires lead to each other and not to switches.
  bool is_wired_to(const std::vector<int>& peers) const {
    const auto& links = machine_.links_of(peers.front());
    return std::any_of(links.begin(), links.end(), [&](int link) {
      return machine_.link(link).kind == LinkKind::nvlink &&
             machine_.device(machine_.other_end(link, peers.front())).kind == DeviceKind::gpu;
    });
  }

  /// Rings pass from island to island by the ports of their GPUs, as many at once as the smallest island has.
  Status look_at_pcie(const std::vector<int>& island, const std::vector<int>& peers) {
    shape_.wire = NodeWire::pcie;
    std::map<int, double> ports;
    for (std::size_t i = 0; i < peers.size(); ++i)
      ports[options_.is_p2p_off ? static_cast<int>(i) : island[i]] += pcie_port(machine_, peers[i]);
    shape_.ring_GBps =
        std::min_element(ports.begin(), ports.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->second;
    shape_.port_GBps = shape_.pair_GBps = pcie_port(machine_, peers.front());
    const PathClass way = resources_.route(local_[0], local_.back()).path_class;
    shape_.link = options_.is_p2p_off ? "pcie-memory" : way <= PathClass::pxb ? "pcie-switch" : "pcie-host";
    if (shape_.ring_GBps <= 0) return no_pcie(machine_.device(peers.front()));
    return {};
  }

  bool can_multicast() const {
    if (!is_hopper_or_blackwell(shape_.gpu) || shape_.wire != NodeWire::nvlink || shape_.per_node < 2) return false;
    for (const int index : machine_.links_of(first_gpu()))
      if (machine_.device(machine_.other_end(index, first_gpu())).attribute("nvls") == "true") return true;
    return false;
  }

  bool has_amd_host() const {
    const auto& devices = machine_.devices();
    return std::any_of(devices.begin(), devices.end(), [](const Device& d) {
      return d.kind == DeviceKind::cpu && topology::identify_cpu({d.name}).vendor == "AuthenticAMD";
    });
  }

  Status look_outside() {
    const int all = resources_.cluster().ranks_per_node();
    std::vector<const Device*> nics;
    for (const Device& device : machine_.devices())
      if (device.kind == DeviceKind::nic && device.port && device.rail >= 0 && device.node == machine_.device(0).node)
        nics.push_back(&device);
    if (nics.empty()) return fail(ErrorCode::unsupported, "the machine has no NIC for collectives: give one a rail, or ask for one node");
    // Of a node that is used in part, its share of the NICs.
    const std::size_t used = std::max<std::size_t>(1, nics.size() * at(shape_.per_node) / at(std::max(all, shape_.per_node)));
    nics.resize(std::min(used, nics.size()));
    shape_.nics = static_cast<int>(nics.size());
    for (const Device* nic : nics) shape_.net_GBps += nic->port->bandwidth.gigabytes();
    if (shape_.net_GBps <= 0) return fail(ErrorCode::unsupported, "nobody knows the rate of {}: write GBps at its port", nics.front()->id);
    shape_.network = options_.network;
    if (shape_.network.empty()) shape_.network = nics.front()->attribute("network");
    if (shape_.network.empty())
      shape_.network = nics.front()->port->kind == LinkKind::infiniband ? "infiniband"
                       : nics.front()->port->scope == "tcp"             ? "tcp"
                                                                        : "roce";
    return {};
  }

  /// NICs read and write the memory of GPUs that PCIe switches join to them (NCCL_NET_GDR_LEVEL is PXB unless set; `is_direct`: networks
  /// that are run with PHB) and of GPUs on wires of the CPU's own; sockets never do. A lone GPU's port then carries both directions; of
  /// several, one takes in what comes by a NIC and another sends.
  void look_at_staging(bool is_direct) {
    const double port = pcie_port(machine_, first_gpu());
    const bool is_far = port > 0 && !reaches_nic();
    shape_.is_staged = shape_.network == "tcp" || options_.is_gdr_off || (is_far && !is_direct);
    shape_.crosses_bridge = is_far && !shape_.is_staged;
    if (!shape_.is_staged) return;
    const int ports = std::min(shape_.per_node, 2 * shape_.nics);
    shape_.stage_GBps = ports * port;
  }

  bool reaches_nic() const { return shape_.network != "tcp" && is_on_switches(first_gpu(), resources_.nic_of(first_gpu())); }

  bool is_on_switches(int local, int nic) const { return nic >= 0 && resources_.paths().path(local, nic).path_class <= PathClass::pxb; }

  NicPath nic_path() const {
    if (shape_.is_staged) return NicPath::host;
    if (reaches_nic()) return NicPath::switches;
    const int nic = resources_.nic_of(first_gpu());
    const bool is_near_another =
        std::any_of(local_.begin(), local_.end(), [&](int device) { return is_on_switches(resources_.cluster().local_of(device), nic); });
    if (is_near_another) return NicPath::other_gpu;
    return pcie_port(machine_, first_gpu()) > 0 ? NicPath::host : NicPath::wires;
  }

  /// One for each NIC, two where it is fast and there are few of them (ncclTopoDupChannels of src/graph/search.cc). EFA's plugin shows NCCL
  /// one NIC a GPU where there are more. How many channels a call is asked to take changes nothing of it.
  int count_graph_channels() const {
    const bool is_grouped = shape_.network.starts_with("efa");
    const int nics = std::max(1, is_grouped ? std::min(shape_.nics, shape_.per_node) : shape_.nics);
    constexpr double kFastGBps = 25 / 0.96;  // a channel of 24 GB/s is not taken twice
    constexpr int kFew = 4;
    const bool is_new = is_hopper_or_blackwell(shape_.gpu);
    const bool is_twice = shape_.net_GBps / nics > kFastGBps && (!is_new || nics <= kFew);
    return std::min(is_twice ? 2 * nics : nics, shape_.channels);
  }

  Status count_channels(const topology::LibraryConstants& constants) {
    const std::string name = shape_.wire == NodeWire::pcie ? "pcie" : shape_.gpu;
    PEAL_ASSIGN(const int known, constants.find("plan.channels." + name));
    shape_.channels = static_cast<int>(constants.value(known));
    // Two a wire of a GPU, where it has fewer wires than its generation.
    if (shape_.wire == NodeWire::nvlink) shape_.channels = std::min(shape_.channels, 2 * nvlinks_of(machine_, first_gpu()));
    if (shape_.nodes > 1 && shape_.wire != NodeWire::pcie) shape_.channels = std::max(2, std::min(shape_.channels, 2 * shape_.nics));
    shape_.graph_channels = shape_.channels;
    if (shape_.nodes > 1 && shape_.wire != NodeWire::pcie && shape_.gpu != "cdna") shape_.graph_channels = count_graph_channels();
    if (options_.channels > 0) shape_.channels = options_.channels;
    return {};
  }

  topology::Resources resources_;
  const topology::Graph& machine_;
  std::span<const int> device_of_rank_;
  const LibraryOptions& options_;
  std::vector<int> local_;
  JobShape shape_;
};

}  // namespace

bool is_hopper_or_blackwell(std::string_view gpu) noexcept { return gpu == "hopper" || gpu == "blackwell"; }

std::string_view name_of(NodeWire wire) noexcept {
  constexpr std::string_view kNames[] = {"nvlink", "xgmi", "hccs", "pcie"};
  return kNames[static_cast<std::size_t>(wire)];
}

Result<JobShape> shape_of(const topology::Cluster& cluster, std::span<const int> device_of_rank, const LibraryOptions& options,
                          const topology::LibraryConstants& constants) {
  if (device_of_rank.empty()) return fail(ErrorCode::invalid_argument, "no ranks: give at least one GPU");
  return Look(cluster, device_of_rank, options).shape(constants);
}

}  // namespace peal::sim
