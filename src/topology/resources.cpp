#include <fmt/format.h>
#include <algorithm>
#include <base/index.hpp>
#include <limits>
#include <map>
#include <mutex>
#include <topology/link_catalogue.hpp>
#include <topology/resources.hpp>
#include <tuple>

namespace peal::topology {
namespace {

constexpr ResourceId kNone = std::numeric_limits<ResourceId>::max();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

struct Resources::State {
  explicit State(Cluster c);

  struct Part {
    PathClass path_class = PathClass::none;
    std::vector<ResourceId> resources;  // of copy 0
    double latency = 0;
    double bottleneck = kInfinite;
    std::string_view scope;
    int wires = 0;
  };

  ResourceId add(double capacity, std::string name) {
    capacities.push_back(capacity);
    names.push_back(std::move(name));
    return static_cast<ResourceId>(capacities.size() - 1);
  }
  using Bundles = std::map<std::tuple<int, int, LinkKind>, ResourceId>;
  void add_links();
  void add_both_ways(const Bundles& bundles);
  void add_devices();
  void choose_nics();
  ResourceId of(DirectedLink l) const { return link_resource[at(2 * l.link + (l.forward ? 0 : 1))]; }
  const Part& part(int from, int to, Via via);
  Part find_part(int from, int to, Via via) const;
  Part self_part(int device) const;
  void append(const Part& part, int copy, Route& out) const;
  void cross(ResourceId id, Route& out) const;
  Nanoseconds cross_fabric(FabricPort from, FabricPort to, Route& out) const;

  Cluster cluster;
  PathFinder paths;
  std::vector<double> capacities;                                // of one copy
  std::vector<std::string> names;                                // of one copy
  std::vector<ResourceId> link_resource;                         // by link and direction
  std::unordered_map<ResourceId, ResourceId> both_ways;          // by a slot of a CPU, either way: both together
  std::vector<bool> is_both_ways;                                // of one copy
  std::vector<ResourceId> device_resource;                       // by device
  std::vector<std::pair<ResourceId, ResourceId>> port_resource;  // out, in; by device
  std::vector<int> port_index;                                   // by device, -1: not on the fabric
  std::vector<int> nic;                                          // by device
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Part> parts;
};

Resources::State::State(Cluster c) : cluster(std::move(c)), paths(cluster.machine()) {
  add_links();
  add_devices();
  choose_nics();
  is_both_ways.resize(capacities.size());
  for (const auto& [wire, both] : both_ways) is_both_ways[both] = true;
}

void Resources::State::add_links() {
  const Graph& g = cluster.machine();
  Bundles bundles;
  std::map<ResourceId, int> wires;
  link_resource.assign(at(2 * g.link_count()), kNone);
  for (int l = 0; l < g.link_count(); ++l) {
    const Link& link = g.link(l);
    const int a = paths.place_of(link.a);
    const int b = paths.place_of(link.b);
    for (bool forward : {true, false}) {
      auto key = forward ? std::tuple{a, b, link.kind} : std::tuple{b, a, link.kind};
      if (link.is_shared) key = std::tuple{std::min(a, b), std::max(a, b), link.kind};
      const auto [it, is_new] = bundles.emplace(key, kNone);
      if (is_new)
        it->second =
            add(0, fmt::format("{} {} {}", g.device(std::get<0>(key)).id, link.is_shared ? "=" : ">", g.device(std::get<1>(key)).id));
      link_resource[at(2 * l + (forward ? 0 : 1))] = it->second;
      if (link.is_shared && !forward) continue;
      capacities[it->second] += link.usable_total().value;
      wires[it->second] += link.count;
    }
  }
  for (const auto& [key, id] : bundles) names[id] += fmt::format(" ({} x{})", name_of(std::get<2>(key)), wires[id]);
  add_both_ways(bundles);
}

/// A slot of a CPU carries less both ways than twice one way, while GPUs speak to one another through it.
void Resources::State::add_both_ways(const Bundles& bundles) {
  const Graph& g = cluster.machine();
  const std::vector<int> compute = g.compute_devices();
  if (std::none_of(compute.begin(), compute.end(), [&](int d) { return g.device(d).kind == DeviceKind::gpu; })) return;
  for (const auto& [key, out] : bundles) {
    const auto [from, to, kind] = key;
    if (kind != LinkKind::pcie || g.device(to).kind != DeviceKind::cpu) continue;
    const auto back = bundles.find({to, from, kind});
    if (back == bundles.end()) continue;  // half-duplex
    const double both = pcie_both_ways_through_cpu() * (capacities[out] + capacities[back->second]);
    both_ways[out] = both_ways[back->second] = add(both, fmt::format("{} with {} both ways (pcie)", g.device(from).id, g.device(to).id));
  }
}

void Resources::State::add_devices() {
  const Graph& g = cluster.machine();
  device_resource.assign(at(g.device_count()), kNone);
  port_resource.assign(at(g.device_count()), {kNone, kNone});
  port_index.assign(at(g.device_count()), -1);
  int ports = 0;
  for (int d = 0; d < g.device_count(); ++d) {
    const Device& device = g.device(d);
    if (device.capacity.value > 0) {
      ResourceId& of_place = device_resource[at(paths.place_of(d))];
      if (of_place == kNone) of_place = add(0, device.id);
      capacities[of_place] += device.capacity.value;
    }
    if (device.kind == DeviceKind::nic && device.rail >= 0 && device.port) port_index[at(d)] = ports++;
    if (port_index[at(d)] < 0 || cluster.fabric() == nullptr) continue;
    port_resource[at(d)].first = add(device.port->usable.value, fmt::format("{} port out", device.id));
    port_resource[at(d)].second = add(device.port->usable.value, fmt::format("{} port in", device.id));
  }
}

void Resources::State::choose_nics() {
  const Graph& g = cluster.machine();
  nic.assign(at(g.device_count()), -1);
  std::map<std::vector<int>, std::size_t> users;  // equally near NICs -> how many devices share them so far
  // A device uses the NICs of its own node; those of others only where that has none.
  std::map<int, std::vector<int>> of_node;
  std::vector<int> all;
  for (int n = 0; n < g.device_count(); ++n) {
    if (port_index[at(n)] < 0) continue;
    of_node[g.device(n).node].push_back(n);
    all.push_back(n);
  }
  const auto choose = [&](int d) {
    std::vector<int> nearest;
    std::pair<int, double> best{static_cast<int>(PathClass::none), 0};
    const auto own = of_node.find(g.device(d).node);
    for (int n : own == of_node.end() ? all : own->second) {
      const Path& path = paths.path(d, n);
      if (!path.exists()) continue;
      const std::pair<int, double> rank{static_cast<int>(path.path_class),
                                        -std::min(path.bottleneck.value, g.device(n).port->usable.value)};
      if (rank > best) continue;
      if (rank < best) nearest.clear();
      best = rank;
      nearest.push_back(n);
    }
    if (!nearest.empty()) nic[at(d)] = nearest[users[nearest]++ % nearest.size()];
  };
  // Ranks' places first and in order, so that they are spread evenly over NICs that are equally near.
  const std::vector<int> compute = g.compute_devices();
  for (int d : compute) choose(d);
  for (int d = 0; d < g.device_count(); ++d) {
    if (port_index[at(d)] >= 0) nic[at(d)] = d;
    if (nic[at(d)] < 0 && cluster.fabric() != nullptr) choose(d);
  }
}

Resources::State::Part Resources::State::self_part(int device) const {
  const Graph& g = cluster.machine();
  Part part;
  part.path_class = PathClass::self;
  for (int l : g.links_of(device)) {
    const Link& link = g.link(l);
    if (part.scope.empty()) part.scope = link.scope;
    if (link.kind != LinkKind::shm && link.kind != LinkKind::memory) continue;
    // Two ranks on one core still exchange through the cache or memory that the core hangs on.
    const bool is_a = link.a == device;
    part.resources = {of({l, is_a})};
    if (of({l, !is_a}) != part.resources.front()) part.resources.push_back(of({l, !is_a}));
    const ResourceId shared = device_resource[at(g.other_end(l, device))];
    if (shared != kNone) part.resources.push_back(shared);
    part.latency = 2 * link.latency.value;
    part.scope = link.scope;
    break;
  }
  for (ResourceId r : part.resources) part.bottleneck = std::min(part.bottleneck, capacities[r]);
  return part;
}

Resources::State::Part Resources::State::find_part(int from, int to, Via via) const {
  if (from == to && via != Via::socket) return self_part(from);
  const Path& path = paths.path(from, to, via);
  Part part;
  part.path_class = path.path_class;
  part.latency = path.latency.value;
  part.scope = path.scope;
  part.wires = path.wires;
  const auto cross_once = [&](ResourceId id) {
    if (id == kNone || std::find(part.resources.begin(), part.resources.end(), id) != part.resources.end()) return;
    part.resources.push_back(id);
    part.bottleneck = std::min(part.bottleneck, capacities[id]);
  };
  const auto is_gpu = [&](int device) { return cluster.machine().device(device).kind == DeviceKind::gpu; };
  const auto is_cpu = [&](int device) { return cluster.machine().device(device).kind == DeviceKind::cpu; };
  const bool is_between_gpus = is_gpu(from) && is_gpu(to);
  for (const Hop& hop : path.hops) {
    cross_once(device_resource[at(hop.from)]);
    const ResourceId wire = of(hop.links.front());
    const auto both = is_between_gpus ? both_ways.find(wire) : both_ways.end();
    // A way begins and ends with wires.
    if (both == both_ways.end() || is_cpu(hop.to)) cross_once(wire);
    if (both != both_ways.end()) cross_once(both->second);
    cross_once(wire);
    cross_once(device_resource[at(hop.to)]);
  }
  return part;
}

const Resources::State::Part& Resources::State::part(int from, int to, Via via) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(via) << 62) | (static_cast<std::uint64_t>(from) << 31) | static_cast<std::uint64_t>(to);
  const std::lock_guard lock(mutex);
  const auto it = parts.find(key);
  if (it != parts.end()) return it->second;
  return parts.emplace(key, find_part(from, to, via)).first->second;
}

void Resources::State::cross(ResourceId id, Route& out) const {
  out.resources.push_back(id);
  const std::size_t all = capacities.size() * at(cluster.copies());
  const double capacity = id < all ? capacities[id % capacities.size()] : cluster.fabric()->resource_capacity(id - all).value;
  out.bottleneck.value = std::min(out.bottleneck.value, capacity);
}

Nanoseconds Resources::State::cross_fabric(FabricPort from, FabricPort to, Route& out) const {
  const Fabric& fabric = *cluster.fabric();
  const std::size_t begin = out.resources.size();
  const Nanoseconds latency = fabric.route(from, to, out.resources);
  const auto base = static_cast<ResourceId>(capacities.size() * at(cluster.copies()));
  for (std::size_t i = begin; i < out.resources.size(); ++i) {
    out.bottleneck.value = std::min(out.bottleneck.value, fabric.resource_capacity(out.resources[i]).value);
    out.resources[i] += base;
  }
  return latency;
}

void Resources::State::append(const Part& p, int copy, Route& out) const {
  const auto base = static_cast<ResourceId>(at(copy) * capacities.size());
  for (ResourceId r : p.resources) out.resources.push_back(base + r);
  out.latency.value += p.latency;
  out.bottleneck.value = std::min(out.bottleneck.value, p.bottleneck);
  if (p.wires > 0) out.wires = p.wires;
}

Resources::Resources(Cluster cluster) : state_(std::make_unique<State>(std::move(cluster))) {}
Resources::~Resources() = default;
Resources::Resources(Resources&&) noexcept = default;
Resources& Resources::operator=(Resources&&) noexcept = default;

const Cluster& Resources::cluster() const { return state_->cluster; }
const PathFinder& Resources::paths() const { return state_->paths; }
std::size_t Resources::per_copy() const { return state_->capacities.size(); }
int Resources::nic_of(int local_device) const { return state_->nic[at(local_device)]; }

std::size_t Resources::count() const {
  const Fabric* fabric = state_->cluster.fabric();
  return per_copy() * at(state_->cluster.copies()) + (fabric == nullptr ? 0 : fabric->resource_count());
}

Bandwidth Resources::capacity(ResourceId id) const {
  const std::size_t all = per_copy() * at(state_->cluster.copies());
  if (id >= all) return state_->cluster.fabric()->resource_capacity(id - all);
  return {state_->capacities[id % per_copy()]};
}

std::string Resources::name(ResourceId id) const {
  const std::size_t all = per_copy() * at(state_->cluster.copies());
  if (id >= all) return state_->cluster.fabric()->resource_name(id - all);
  const std::string& local = state_->names[id % per_copy()];
  return state_->cluster.copies() == 1 ? local : fmt::format("n{}: {}", id / per_copy(), local);
}

bool Resources::is_both_ways(ResourceId id) const {
  const std::size_t all = per_copy() * at(state_->cluster.copies());
  return id < all && state_->is_both_ways[id % per_copy()];
}

std::uint32_t Resources::class_of(ResourceId id) const {
  const std::size_t all = per_copy() * at(state_->cluster.copies());
  return static_cast<std::uint32_t>(id < all ? id % per_copy() : per_copy() + (id - all));
}

Route Resources::route(int from, int to, Via via) const {
  Route out;
  route(from, to, via, out);
  return out;
}

void Resources::route(int from, int to, Via via, Route& out) const {
  out.resources.clear();
  out.path_class = PathClass::none;
  out.latency = {};
  out.bottleneck = {kInfinite};
  out.wires = 0;
  out.scope = {};
  State& s = *state_;
  const Cluster& c = s.cluster;
  const int copy_a = c.copy_of(from);
  const int copy_b = c.copy_of(to);
  if (copy_a == copy_b) {
    const State::Part& part = s.part(c.local_of(from), c.local_of(to), via);
    out.path_class = part.path_class;
    out.scope = part.scope;
    if (out.exists()) s.append(part, copy_a, out);
    return;
  }
  const int nic_a = s.nic[at(c.local_of(from))];
  const int nic_b = s.nic[at(c.local_of(to))];
  if (via == Via::shared_memory || nic_a < 0 || nic_b < 0 || c.fabric() == nullptr) return;
  const Device& device_a = c.machine().device(nic_a);
  const Device& device_b = c.machine().device(nic_b);
  out.path_class = PathClass::net;
  out.scope = device_a.port->scope;
  if (c.local_of(from) != nic_a) s.append(s.part(c.local_of(from), nic_a, Via::any), copy_a, out);
  s.cross(static_cast<ResourceId>(at(copy_a) * per_copy()) + s.port_resource[at(nic_a)].first, out);
  const Nanoseconds inside = s.cross_fabric({copy_a, s.port_index[at(nic_a)]}, {copy_b, s.port_index[at(nic_b)]}, out);
  s.cross(static_cast<ResourceId>(at(copy_b) * per_copy()) + s.port_resource[at(nic_b)].second, out);
  if (c.local_of(to) != nic_b) s.append(s.part(nic_b, c.local_of(to), Via::any), copy_b, out);
  out.latency.value += inside.value + device_a.port->latency.value + device_b.port->latency.value;
}

Route Resources::storage_route(int device, int storage_node, bool is_write) const {
  Route out;
  out.bottleneck = {kInfinite};
  State& s = *state_;
  const Cluster& c = s.cluster;
  const int copy = c.copy_of(device);
  const int local = c.local_of(device);
  const int nic = s.nic[at(local)];
  if (nic < 0 || c.fabric() == nullptr || storage_node < 0 || storage_node >= c.fabric()->storage_nodes()) return out;
  const Port& port = *c.machine().device(nic).port;
  const FabricPort here{copy, s.port_index[at(nic)]};
  const FabricPort there{c.copies() + storage_node, here.port % c.fabric()->storage_ports()};
  const auto base = static_cast<ResourceId>(at(copy) * per_copy());
  out.path_class = PathClass::net;
  out.scope = port.scope;
  if (is_write && local != nic) s.append(s.part(local, nic, Via::any), copy, out);
  if (is_write) s.cross(base + s.port_resource[at(nic)].first, out);
  const Nanoseconds inside = is_write ? s.cross_fabric(here, there, out) : s.cross_fabric(there, here, out);
  if (!is_write) s.cross(base + s.port_resource[at(nic)].second, out);
  if (!is_write && local != nic) s.append(s.part(nic, local, Via::any), copy, out);
  out.latency.value += inside.value + port.latency.value;
  return out;
}

}  // namespace peal::topology
