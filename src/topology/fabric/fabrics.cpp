#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "switched_fabric.hpp"

namespace peal::topology {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"ideal",          "fat-tree", "rail-optimised", "dragonfly",
                                                    "dragonfly-plus", "torus",    "full-mesh"};
constexpr double kMostPorts = 1 << 24;
constexpr int kMostJoinedDevices = 100'000;
constexpr long long kMostNvlinks = 1'000'000;

std::unique_ptr<Fabric> ideal_fabric(const FabricSpec& spec, const std::vector<FabricPlug>& plugs, int copies) {
  IdealFabricSpec ideal;
  ideal.nodes = copies;
  ideal.switch_latency = spec.switch_latency;
  ideal.source = spec.source;
  for (const FabricPlug& plug : plugs) {
    ideal.ports.push_back(plug.port);
    ideal.rails.push_back(plug.rail);
  }
  return make_ideal_fabric(std::move(ideal));
}

Result<std::unique_ptr<Fabric>> generate(const FabricSpec& spec, std::vector<FabricPlug> plugs, int copies) {
  Seats seats = seats_of(plugs, copies, spec);
  switch (spec.kind) {
    case FabricKind::fat_tree:
    case FabricKind::rail_optimised: return make_fat_tree(spec, std::move(plugs), std::move(seats));
    case FabricKind::dragonfly: return make_dragonfly(spec, std::move(plugs), std::move(seats));
    case FabricKind::dragonfly_plus: return make_dragonfly_plus(spec, std::move(plugs), std::move(seats));
    case FabricKind::torus: return make_torus(spec, std::move(plugs), std::move(seats));
    case FabricKind::full_mesh: return make_full_mesh(spec, std::move(plugs), std::move(seats));
    case FabricKind::ideal: break;
  }
  return ideal_fabric(spec, plugs, copies);
}

/// NVLinks between GPUs and NVSwitches, one wire: what the second level is made of too.
const Link* gpu_link_of(const Graph& machine) {
  for (const Link& link : machine.links()) {
    const bool has_switch = machine.device(link.a).kind == DeviceKind::nvswitch || machine.device(link.b).kind == DeviceKind::nvswitch;
    if (link.kind == LinkKind::nvlink && has_switch) return &link;
  }
  return nullptr;
}

}  // namespace

std::string_view name_of(FabricKind kind) noexcept { return kNames[static_cast<std::size_t>(kind)]; }

std::optional<FabricKind> fabric_kind_of(std::string_view text) noexcept {
  const auto it = std::find(kNames.begin(), kNames.end(), text);
  if (it == kNames.end()) return std::nullopt;
  return static_cast<FabricKind>(it - kNames.begin());
}

std::vector<FabricPlug> plugs_of(const Graph& machine) {
  std::vector<FabricPlug> plugs;
  for (const Device& d : machine.devices())
    if (d.kind == DeviceKind::nic && d.rail >= 0 && d.port) plugs.push_back({*d.port, d.rail, std::max(d.node, 0)});
  return plugs;
}

Result<std::unique_ptr<Fabric>> make_fabric(const FabricSpec& spec, std::vector<FabricPlug> plugs, int copies) {
  if (plugs.empty() || copies < 1)
    return fail(ErrorCode::invalid_argument, "{} nodes cannot be joined, the machine has no NIC for it: give one a `port:` and a `rail:`",
                copies);
  if (spec.kind == FabricKind::ideal) return ideal_fabric(spec, plugs, copies);
  const double ports = static_cast<double>(copies) * static_cast<double>(plugs.size());
  if (ports > kMostPorts) {
    return fail(ErrorCode::unsupported, "{:.0f} ports are more than the {:.0f} of a fabric: describe fewer nodes, or write `kind: ideal`",
                ports, kMostPorts);
  }
  const bool has_rate = std::any_of(plugs.begin(), plugs.end(), [](const FabricPlug& p) { return p.port.bandwidth.value > 0; });
  if (!has_rate) return fail(ErrorCode::invalid_argument, "nobody knows the rate of the NICs: give their `port:` a `GBps:`");
  PEAL_ASSIGN(std::unique_ptr<Fabric> fabric, generate(spec, std::move(plugs), copies));
  if (static_cast<double>(fabric->resource_count()) <= 2 * kMostCables) return fabric;
  return fail(ErrorCode::unsupported, "{} cables between switches are more than {:.0f}: describe fewer nodes, or smaller switches",
              fabric->resource_count() / 2, kMostCables);
}

Result<Graph> join_by_nvlink(const Graph& machine, int nodes, const NvlinkNetworkSpec& spec) {
  if (nodes == 1) return machine;
  const Link* gpu_link = gpu_link_of(machine);
  const std::vector<int> switches = machine.devices_of(DeviceKind::nvswitch);
  const int first_level = static_cast<int>(switches.size());
  if (gpu_link == nullptr || machine.node_count() != 1)
    return fail(ErrorCode::invalid_argument, "an NVLink network joins machines of one node with NVSwitches, such as dgx-h100");
  if (spec.links % spec.switches != 0) {
    return fail(ErrorCode::invalid_argument, "{} links of a node cannot be spread evenly over {} switches: write a multiple of it",
                spec.links, spec.switches);
  }
  const int most = spec.radix / (spec.links / spec.switches);
  if (nodes > most) {
    return fail(ErrorCode::invalid_argument,
                "{} nodes need {} ports of each NVLink switch and it has {}: at most {} nodes are one NVLink network; write `pod: {}`",
                nodes, nodes * (spec.links / spec.switches), spec.radix, most, most);
  }
  if (static_cast<long long>(nodes) * spec.links > kMostNvlinks) {
    return fail(ErrorCode::unsupported, "{} nodes with {} links each are more than the {} links of one NVLink network", nodes, spec.links,
                kMostNvlinks);
  }
  PEAL_ASSIGN(Graph all, Cluster(machine, nodes, nullptr).graph(kMostJoinedDevices));
  const int first = all.device_count();
  for (int s = 0; s < spec.switches; ++s) {
    PEAL_TRY(all.add_device({.id = fmt::format("nvlink-switch{}", s),
                             .kind = DeviceKind::nvswitch,
                             .name = "second-level NVSwitch",
                             .node = -1,
                             .source = spec.source}));
  }
  // Links go to the switches above in turn, and leave from the NVSwitches of the node in turn: pairs as even as can be.
  std::map<std::pair<int, int>, int> wires;
  for (int i = 0; i < spec.links; ++i) {
    const int above = i % spec.switches;
    ++wires[{switches[static_cast<std::size_t>((i / spec.switches + above) % first_level)], above}];
  }
  for (int n = 0; n < nodes; ++n) {
    for (const auto& [ends, count] : wires) {
      Link link = *gpu_link;
      link.a = n * machine.device_count() + ends.first;
      link.b = first + ends.second;
      link.count = count;
      link.source = spec.source;
      PEAL_TRY(all.add_link(std::move(link)));
    }
  }
  return all;
}

std::string describe_fabric(const Cluster& cluster) {
  if (cluster.fabric() == nullptr) return {};
  return fmt::format("{} x {}, {} ranks\nfabric {}\n", cluster.copies(), cluster.machine().title, cluster.ranks(),
                     cluster.fabric()->summary());
}

}  // namespace peal::topology
