#include "narrow_machine.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <topology/link_catalogue.hpp>
#include <topology/machine.hpp>
#include <topology/resources.hpp>

namespace peal::sim {
namespace {

using topology::Device;
using topology::DeviceKind;
using topology::Graph;
using topology::Link;
using topology::LinkKind;
using topology::Port;

constexpr double kSameRate = 0.1;  // NICs that carry as much in sum are the same network, however it is counted

/// The graph again, device by device and link by link, as the two say; a link for which `keeps` is false goes.
Result<Graph> rebuild(const Graph& machine, const std::function<void(int, Device&)>& change,
                      const std::function<bool(const Link&)>& keeps) {
  Graph made;
  made.title = machine.title;
  made.rank_kind = machine.rank_kind;
  for (int d = 0; d < machine.device_count(); ++d) {
    Device device = machine.device(d);
    change(d, device);
    PEAL_TRY(made.add_device(std::move(device)));
  }
  for (const Link& link : machine.links())
    if (keeps(link)) PEAL_TRY(made.add_link(link));
  for (const std::string& warning : machine.warnings()) made.add_warning(warning);
  return made;
}

bool is_plugged(const Device& device) { return device.kind == DeviceKind::nic && device.rail >= 0 && device.port; }

double gbps_of(const Port& port) { return port.bandwidth.gigabytes() * 8; }

std::vector<int> plugged_nics(const Graph& machine) {
  std::vector<int> nics = machine.devices_of(DeviceKind::nic);
  nics.erase(std::remove_if(nics.begin(), nics.end(), [&](int d) { return !is_plugged(machine.device(d)); }), nics.end());
  return nics;
}

/// What a port is called in NetworkWords as far as a port tells: RDMA over Ethernet has several names.
bool is_technology(const Port& port, std::string_view name) {
  if (name.empty()) return true;
  if (name == "infiniband") return port.kind == LinkKind::infiniband;
  if (port.kind != LinkKind::ethernet) return false;
  return (name == "ethernet") == (port.scope == "tcp");
}

std::string_view family_of(std::string_view technology) {
  if (technology == "tcpx") return "gcp-gpudirect-tcpx";
  if (technology == "tcpxo") return "gpudirect-tcpxo";
  return technology;
}

/// The generation of data/links whose rate is nearest.
Result<const topology::LinkGeneration*> nearest_generation(std::string_view technology, double gbps) {
  PEAL_ASSIGN(const topology::LinkCatalogue* catalogue, topology::link_catalogue());
  const std::string start = fmt::format("{}-", family_of(technology));
  const topology::LinkGeneration* best = nullptr;
  const auto distance = [&](const topology::LinkGeneration& g) { return std::abs(std::log(g.bandwidth.gigabytes() * 8 / gbps)); };
  for (const topology::LinkGeneration& g : catalogue->links) {
    if (g.name.compare(0, start.size(), start) != 0 || !topology::is_network(g.kind)) continue;
    if (best == nullptr || distance(g) < distance(*best)) best = &g;
  }
  if (best == nullptr)
    return fail(ErrorCode::unsupported, "data/links has no network called '{}': describe it in a cluster file", technology);
  return best;
}

/// A port of that technology and rate; what is not said is taken from `before`.
Result<Port> port_of(const NetworkWords& network, const Port& before) {
  const double gbps = network.gbps > 0 ? network.gbps : gbps_of(before);
  if (!(gbps > 0)) return fail(ErrorCode::unsupported, "nobody says the rate of the NICs: write it, as in 1x400G RoCE");
  Port port = before;
  if (!is_technology(before, network.technology) || network.gbps > 0) {
    const bool is_kept = network.technology.empty() && before.kind != LinkKind::infiniband;
    const std::string_view technology = !network.technology.empty() ? std::string_view(network.technology)
                                        : is_kept                   ? "roce"
                                                                    : "infiniband";
    PEAL_ASSIGN(const topology::LinkGeneration* of, nearest_generation(technology, gbps));
    port = Port{of->kind, of->bandwidth, of->usable, of->latency, of->scope, fmt::format("as the table says; {}", of->origin())};
  }
  const double factor = gbps / gbps_of(port);
  if (std::abs(factor - 1) < 0.02) return port;
  port.bandwidth.value *= factor;
  port.usable.value *= factor;
  port.source += fmt::format(", at {:g} Gb/s", gbps);
  return port;
}

/// The NICs that stay: those that the GPUs use first, then the others in order.
std::vector<int> nearest_nics(const Graph& machine, std::span<const int> gpus, std::vector<int> nics) {
  const topology::Resources resources{Graph(machine)};
  std::vector<int> order;
  for (const int gpu : gpus) {
    const int nic = resources.nic_of(gpu);
    if (std::find(nics.begin(), nics.end(), nic) != nics.end() && std::find(order.begin(), order.end(), nic) == order.end())
      order.push_back(nic);
  }
  for (const int nic : nics)
    if (std::find(order.begin(), order.end(), nic) == order.end()) order.push_back(nic);
  return order;
}

bool is_same_network(const Graph& machine, const NetworkWords& network, const std::vector<int>& nics) {
  double sum = 0;
  bool is_same = true;
  for (const int nic : nics) {
    const Port& port = *machine.device(nic).port;
    sum += gbps_of(port);
    is_same &= is_technology(port, network.technology);
  }
  const double each = network.gbps > 0 ? network.gbps : sum / static_cast<double>(nics.size());
  const double said = each * (network.nics > 0 ? network.nics : static_cast<double>(nics.size()));
  return is_same && std::abs(said / sum - 1) < kSameRate;
}

/// NICs for a machine that has none in the catalogue: at its first CPU, by a link such as its GPUs have.
Result<Graph> with_new_nics(const Graph& machine, const NetworkWords& network) {
  const std::vector<int> cpus = machine.devices_of(DeviceKind::cpu);
  if (cpus.empty() || network.technology.empty() || network.gbps <= 0)
    return fail(ErrorCode::unsupported,
                "'{}' has no NIC in the catalogue: write the network in full, as in 1x400G RoCE a node, or give a cluster file",
                machine.title);
  const auto wire = std::find_if(machine.links().begin(), machine.links().end(), [](const Link& l) { return l.kind == LinkKind::pcie; });
  if (wire == machine.links().end()) return fail(ErrorCode::unsupported, "'{}' has no PCIe that a NIC could sit on", machine.title);
  PEAL_ASSIGN(const Port port, port_of(network, Port{}));
  Graph made = machine;
  for (int i = 0; i < std::max(network.nics, 1); ++i) {
    Device nic{.id = fmt::format("said-nic{}", i), .kind = DeviceKind::nic, .name = "NIC", .rail = i, .source = "as the table says"};
    nic.port = port;
    PEAL_ASSIGN(const int index, made.add_device(std::move(nic)));
    Link link = *wire;
    link.a = index;
    link.b = cpus[0];
    link.count = 1;
    link.source = "assumed: a NIC that the table names, at the first CPU, wired as the machine's other PCIe devices";
    PEAL_TRY(made.add_link(std::move(link)));
  }
  made.add_warning("where the NIC sits is assumed");
  return made;
}

}  // namespace

bool is_on_infiniband(const Graph& machine) {
  const std::vector<int> nics = plugged_nics(machine);
  return std::any_of(nics.begin(), nics.end(), [&](int d) { return machine.device(d).port->kind == LinkKind::infiniband; });
}

Result<Graph> without_nvlink(const Graph& machine) {
  const auto is_gpu_side = [&](int d) {
    return machine.device(d).kind == DeviceKind::gpu || machine.device(d).kind == DeviceKind::nvswitch;
  };
  PEAL_ASSIGN(Graph made, rebuild(
                              machine, [](int, Device&) {},
                              [&](const Link& l) {
                                const bool joins_gpus = is_gpu_side(l.a) && is_gpu_side(l.b);
                                return l.kind == LinkKind::pcie || !joins_gpus;
                              }));
  for (const int gpu : made.devices_of(DeviceKind::gpu))
    if (made.links_of(gpu).empty()) return fail(ErrorCode::unsupported, "'{}' has no way between its GPUs but NVLink", machine.title);
  return made;
}

Result<Graph> with_network(const Graph& machine, const NetworkWords& network, std::span<const int> gpus) {
  std::vector<int> nics = plugged_nics(machine);
  if (nics.empty()) return with_new_nics(machine, network);
  if (is_same_network(machine, network, nics)) return machine;
  const std::size_t count = network.nics > 0 ? static_cast<std::size_t>(network.nics) : nics.size();
  if (count > nics.size())
    return fail(ErrorCode::unsupported, "{} NICs a node are said, '{}' has {}: describe the cluster in a file", count, machine.title,
                nics.size());
  nics = nearest_nics(machine, gpus, std::move(nics));
  nics.resize(count);
  std::vector<Port> ports(static_cast<std::size_t>(machine.device_count()));
  for (const int nic : nics) {
    PEAL_ASSIGN(ports[static_cast<std::size_t>(nic)], port_of(network, *machine.device(nic).port));
  }
  const auto change = [&](int d, Device& device) {
    if (!is_plugged(device)) return;
    if (std::find(nics.begin(), nics.end(), d) == nics.end())
      device.rail = -1;
    else
      device.port = ports[static_cast<std::size_t>(d)];
  };
  return rebuild(machine, change, [](const Link&) { return true; });
}

}  // namespace peal::sim
