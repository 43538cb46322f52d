#include <topology/switch_tree.hpp>

#include <algorithm>
#include <topology/link_catalogue.hpp>

namespace peal::topology {

namespace {

constexpr std::string_view kInstead = "type --algorithm ring";

/// The NVLink switch that a device hangs on, -1 where there is none.
int nvlink_switch_of(const Graph& machine, int device) {
  for (const int link : machine.links_of(device)) {
    const int other = machine.other_end(link, device);
    if (machine.device(other).kind == DeviceKind::nvswitch) return other;
  }
  return -1;
}

Result<std::string> scope_of(const Device& chip) {
  if (chip.attribute("nvls") != "true")
    return fail(ErrorCode::unsupported,
                "{} passes on what GPUs send and computes nothing (NVSwitch 3, of H100 machines, was the first to); {}",
                chip.name.empty() ? "the NVLink switch of this machine" : chip.name, kInstead);
  PEAL_ASSIGN(const LinkCatalogue* catalogue, link_catalogue());
  std::string known;
  for (const SwitchGeneration& generation : catalogue->switches) {
    if (generation.title == chip.name) return generation.name;
    if (generation.reduction.starts_with("yes")) known += (known.empty() ? "" : ", ") + generation.title;
  }
  return fail(ErrorCode::unsupported, "no figures for a switch named '{}' that reduces; name it as one of {}", chip.name, known);
}

/// The parts of a way that belong to one copy of the machine, or to none (the fabric's).
void keep_parts(const Resources& resources, const Route& route, int copy, std::vector<ResourceId>& parts) {
  const std::size_t per_copy = resources.per_copy();
  const std::size_t all = per_copy * static_cast<std::size_t>(resources.cluster().copies());
  for (const ResourceId id : route.resources)
    if (id < all && id / per_copy == static_cast<std::size_t>(copy)) parts.push_back(id);
}

void add_bottleneck(const Resources& resources, std::span<const ResourceId> parts, SwitchTree& tree) {
  for (const ResourceId id : parts)
    if (const Bandwidth capacity = resources.capacity(id); capacity.value > 0) tree.bottleneck = std::min(tree.bottleneck, capacity);
}

Status join_inside(const Resources& resources, std::span<const int> devices, SwitchTree& tree) {
  const Cluster& cluster = resources.cluster();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int chip = nvlink_switch_of(cluster.machine(), cluster.local_of(devices[i]));
    if (chip < 0) return fail(ErrorCode::unsupported, "no NVLink switch joins these GPUs; {}", kInstead);
    PEAL_ASSIGN(tree.scope, scope_of(cluster.machine().device(chip)));
    const int next = devices[(i + 1) % devices.size()];
    const Route there = resources.route(devices[i], next);
    const Route back = resources.route(next, devices[i]);
    if (there.resources.size() != 2 || back.resources.size() != 2)
      return fail(ErrorCode::unsupported,
                  "these GPUs lie behind several NVLink switches, one above the other: what those compute together is not modelled; {}",
                  kInstead);
    tree.up.push_back({there.resources.front()});
    tree.down.push_back({back.resources.back()});
    tree.latency = std::max(tree.latency, there.latency);
  }
  return {};
}

/// Index of a NIC among the ports of its machine.
int port_of(const Graph& machine, int nic) {
  int port = 0;
  for (int d = 0; d < nic; ++d)
    port += machine.device(d).kind == DeviceKind::nic && machine.device(d).rail >= 0 && machine.device(d).port ? 1 : 0;
  return port;
}

Status join_between(const Resources& resources, std::span<const int> devices, std::size_t number, SwitchTree& tree) {
  const Cluster& cluster = resources.cluster();
  const ReductionLimits* limits = cluster.fabric() == nullptr ? nullptr : cluster.fabric()->reduction_limits();
  if (limits == nullptr)
    return fail(ErrorCode::unsupported,
                "the network's switches do not sum here; a fabric of InfiniBand switches that do has `sharp: true` (--fabric "
                "rail-optimised,switch=quantum-2,sharp=true); type --algorithm hierarchical");
  std::vector<FabricPort> ports;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int nic = resources.nic_of(cluster.local_of(devices[i]));
    const int next = devices[(i + 1) % devices.size()];
    const Route there = resources.route(devices[i], next);
    if (nic < 0 || !there.exists() || cluster.copy_of(next) == cluster.copy_of(devices[i]))
      return fail(ErrorCode::unsupported,
                  "{} has no NIC to the fabric, or shares its machine with another of its rail; type --algorithm ring",
                  cluster.id_of(devices[i]));
    ports.push_back({cluster.copy_of(devices[i]), port_of(cluster.machine(), nic)});
    keep_parts(resources, there, cluster.copy_of(devices[i]), tree.up.emplace_back());
    keep_parts(resources, resources.route(next, devices[i]), cluster.copy_of(devices[i]), tree.down.emplace_back());
    tree.latency = std::max(tree.latency, 2 * cluster.machine().device(nic).port->latency);
  }
  ReductionTree cables = cluster.fabric()->reduction_tree(ports, number);
  const auto base = static_cast<ResourceId>(resources.per_copy() * static_cast<std::size_t>(cluster.copies()));
  for (const std::uint32_t cable : cables.up) tree.cables_up.push_back(base + cable);
  for (const std::uint32_t cable : cables.down) tree.cables_down.push_back(base + cable);
  tree.latency = tree.latency + cables.latency;
  tree.scope = limits->scope;
  tree.trees_a_switch = limits->trees_a_switch;
  tree.most_trees = limits->most_trees;
  if (tree.trees_a_switch > 0) tree.switches = std::move(cables.switches);
  return {};
}

}  // namespace

Result<SwitchTree> switch_tree(const Resources& resources, std::span<const int> devices, std::size_t number) {
  const Cluster& cluster = resources.cluster();
  SwitchTree tree;
  tree.bottleneck = {std::numeric_limits<double>::infinity()};
  for (const int device : devices)
    if (cluster.device(device).kind != DeviceKind::gpu)
      return fail(ErrorCode::unsupported, "ranks are processes on a host, where no switch computes; use ring");
  if (devices.size() < 2) return fail(ErrorCode::unsupported, "one rank alone needs no switch; {}", kInstead);
  const bool is_one_machine = cluster.copy_of(devices[0]) == cluster.copy_of(devices[1]);
  PEAL_TRY(is_one_machine ? join_inside(resources, devices, tree) : join_between(resources, devices, number, tree));
  for (const auto& parts : tree.up) add_bottleneck(resources, parts, tree);
  for (const auto& parts : tree.down) add_bottleneck(resources, parts, tree);
  return tree;
}

}  // namespace peal::topology
