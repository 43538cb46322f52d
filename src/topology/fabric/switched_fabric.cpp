#include "switched_fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace peal::topology {
namespace {

constexpr std::size_t kMostDrawn = 4'000'000;

}  // namespace

std::size_t Seats::number(FabricPort p) const {
  const auto node = static_cast<std::size_t>(p.node);
  const auto port = static_cast<std::size_t>(p.port);
  return node < copies ? node * ports + port : compute_ports() + (node - copies) * storage_ports + port;
}

std::size_t Seats::edge_of(FabricPort p) const {
  const std::size_t port = number(p);
  if (is_storage(p)) {
    const std::size_t storage_port = port - compute_ports();
    return order == Order::by_node ? copies * hosts + storage_port / storage_ports : storage_port % edges;
  }
  const auto local = static_cast<std::size_t>(p.port);
  const std::size_t host = static_cast<std::size_t>(p.node) * hosts + host_of[local];
  switch (order) {
    case Order::packed: return port / per_edge;
    case Order::by_rail: return host / unit * rails + rail_of[local];
    case Order::by_node: return host;
  }
  return 0;
}

Seats seats_of(const std::vector<FabricPlug>& plugs, int copies, const FabricSpec& spec) {
  Seats seats;
  seats.copies = static_cast<std::size_t>(copies);
  seats.splits_nodes = spec.down > 0;
  seats.ports = plugs.size();
  seats.storage_nodes = static_cast<std::size_t>(spec.storage_nodes);
  seats.storage_ports = static_cast<std::size_t>(spec.storage_ports);
  std::map<int, std::size_t> rails;
  for (const FabricPlug& plug : plugs) rails.emplace(plug.rail, 0);
  for (auto& [rail, number] : rails) number = seats.rails++ - 1;
  --seats.rails;
  for (const FabricPlug& plug : plugs) {
    seats.rail_of.push_back(rails[plug.rail]);
    seats.host_of.push_back(static_cast<std::size_t>(plug.host));
    seats.hosts = std::max(seats.hosts, static_cast<std::size_t>(plug.host) + 1);
  }
  return seats;
}

std::size_t pack_seats(Seats& seats, std::size_t slots, std::size_t most) {
  const std::size_t ports = seats.compute_ports();
  const std::size_t storage = seats.all_storage_ports();
  // Whole nodes where one fits: ports of a node that lie on one switch reach each other without leaving it.
  const std::size_t per_node = seats.ports % seats.hosts == 0 ? seats.ports / seats.hosts : seats.ports;
  if (slots <= (storage > 0 ? 1u : 0u)) return 0;
  for (std::size_t edges = ceil_div(ports + storage, slots); edges <= most; ++edges) {
    const std::size_t reserved = ceil_div(storage, edges);
    if (reserved >= slots) continue;
    std::size_t per_edge = slots - reserved;
    if (per_edge >= per_node && !seats.splits_nodes) per_edge -= per_edge % per_node;
    const std::size_t needed = ceil_div(ports, per_edge);
    if (needed > edges && storage > 0) continue;
    if (std::max(needed, edges) > most) return 0;
    seats.per_edge = per_edge;
    return std::max(needed, edges);
  }
  return 0;
}

SwitchedFabric::SwitchedFabric(FabricSpec spec, std::vector<FabricPlug> plugs, Seats seats, std::vector<Tier> tiers)
    : spec_(std::move(spec)), plugs_(std::move(plugs)), seats_(std::move(seats)), tiers_(std::move(tiers)) {
  for (const Tier& tier : tiers_) {
    first_.push_back(first_storage_);
    first_storage_ += 2 * (tier.cables / pool_of(tier));
  }
  const auto faster = [](const FabricPlug& a, const FabricPlug& b) { return a.port.bandwidth < b.port.bandwidth; };
  cable_ = std::max_element(plugs_.begin(), plugs_.end(), faster)->port;
  storage_ = cable_;
  const double share = cable_.bandwidth.value > 0 ? cable_.usable.value / cable_.bandwidth.value : 1;
  const auto set_rate = [&](Port& port, double rate) {
    if (rate <= 0) return;
    port.bandwidth = Bandwidth::gigabytes(rate);
    port.usable = {port.bandwidth.value * share};
    port.source = spec_.source;
  };
  set_rate(cable_, spec_.link_GBps);
  set_rate(storage_, spec_.storage_GBps);
}

SwitchedFabric::Place SwitchedFabric::place_of(std::size_t resource) const {
  std::size_t tier = tiers_.size() - 1;
  while (first_[tier] > resource) --tier;
  const std::size_t pool = pool_of(tiers_[tier]);
  const std::size_t inside = resource - first_[tier];
  return {tier, inside / 2 * pool, pool, inside % 2 == 1};
}

std::string SwitchedFabric::resource_name(std::size_t index) const {
  if (index >= first_storage_) {
    const std::size_t port = (index - first_storage_) / 2;
    return fmt::format("storage{}/nic{} port {}", port / seats_.storage_ports, port % seats_.storage_ports,
                       (index - first_storage_) % 2 == 0 ? "out" : "in");
  }
  const Place place = place_of(index);
  const CableEnds e = ends(place.tier, place.first);
  const std::string lower = "fabric/" + switch_id(e.lower);
  const std::string upper = "fabric/" + switch_id(e.upper);
  const std::string cables = place.count == 1 ? fmt::format("(cable {})", place.first) : fmt::format("(and beside, x{})", place.count);
  return fmt::format("{} > {} {}", place.is_down ? upper : lower, place.is_down ? lower : upper, cables);
}

Bandwidth SwitchedFabric::resource_capacity(std::size_t index) const {
  if (index >= first_storage_) return storage_.usable;
  return {cable_.usable.value * static_cast<double>(place_of(index).count)};
}

void SwitchedFabric::Trail::cross(std::size_t tier, std::size_t cable, std::size_t direction) {
  out_.push_back(static_cast<std::uint32_t>(fabric_.first_[tier] + 2 * (cable / fabric_.pool_of(fabric_.tiers_[tier])) + direction));
}

Nanoseconds SwitchedFabric::route(FabricPort from, FabricPort to, std::vector<std::uint32_t>& resources) const {
  const auto cross_storage = [&](FabricPort p, std::size_t direction) {
    if (seats_.is_storage(p))
      resources.push_back(static_cast<std::uint32_t>(first_storage_ + 2 * (seats_.number(p) - seats_.compute_ports()) + direction));
  };
  cross_storage(from, 0);
  const std::size_t a = seats_.edge_of(from);
  const std::size_t b = seats_.edge_of(to);
  const std::size_t before = resources.size();
  if (a != b) {
    Choice choice(spec_.seed, seats_.number(from), seats_.number(to));
    Trail trail(*this, resources);
    walk(a, b, choice, trail);
  }
  const auto switches = static_cast<double>(resources.size() - before + 1);
  cross_storage(to, 1);
  const int storage_nics = (seats_.is_storage(from) ? 1 : 0) + (seats_.is_storage(to) ? 1 : 0);
  return switches * spec_.switch_latency + storage_nics * storage_.latency;
}

ReductionTree SwitchedFabric::reduction_tree(std::span<const FabricPort> ports, std::size_t number) const {
  std::vector<std::size_t> edges;
  for (const FabricPort& port : ports) edges.push_back(seats_.edge_of(port));
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  ReductionTree tree;
  tree.switches.assign(edges.begin(), edges.end());
  Trail up(*this, tree.up);
  Trail down(*this, tree.down);
  const std::size_t above = edges.size() > 1 ? join(edges, number, up, down, tree.switches) : 0;
  tree.latency = static_cast<double>(2 * above + 1) * spec_.switch_latency;
  return tree;
}

Status SwitchedFabric::draw_nics(Graph& graph, const std::vector<std::vector<int>>& ports, int first_switch) const {
  for (std::size_t node = 0; node < ports.size(); ++node) {
    for (std::size_t p = 0; p < ports[node].size() && p < plugs_.size(); ++p) {
      const Port& port = plugs_[p].port;
      Link link{.a = ports[node][p], .kind = port.kind, .bandwidth = port.bandwidth, .usable = port.usable};
      link.b = first_switch + static_cast<int>(seats_.edge_of({static_cast<int>(node), static_cast<int>(p)}));
      // A path through the drawing costs what route() says: NIC and half of the switch on every wire that ends at one.
      link.latency = port.latency + 0.5 * spec_.switch_latency;
      link.scope = port.scope;
      link.source = link.usable_source = port.source;
      PEAL_TRY(graph.add_link(std::move(link)));
    }
  }
  return {};
}

Status SwitchedFabric::draw_storage(Graph& graph, int first_switch) const {
  const int first_node = graph.node_count();
  for (std::size_t n = 0; n < seats_.storage_nodes; ++n) {
    for (std::size_t p = 0; p < seats_.storage_ports; ++p) {
      PEAL_ASSIGN(const int nic, graph.add_device({.id = fmt::format("storage{}/nic{}", n, p),
                                                   .kind = DeviceKind::nic,
                                                   .name = "storage node",
                                                   .node = first_node + static_cast<int>(n),
                                                   .source = spec_.source,
                                                   .port = storage_}));
      const FabricPort port{static_cast<int>(seats_.copies + n), static_cast<int>(p)};
      Link link{.a = nic, .kind = storage_.kind, .bandwidth = storage_.bandwidth, .usable = storage_.usable};
      link.b = first_switch + static_cast<int>(seats_.edge_of(port));
      link.latency = storage_.latency + 0.5 * spec_.switch_latency;
      link.scope = storage_.scope;
      link.source = link.usable_source = storage_.source;
      PEAL_TRY(graph.add_link(std::move(link)));
    }
  }
  return {};
}

Status SwitchedFabric::draw(Graph& graph, const std::vector<std::vector<int>>& ports) const {
  std::size_t cables = 0;
  for (const Tier& tier : tiers_) cables += tier.cables;
  if (cables + switch_count() > kMostDrawn) {
    return fail(ErrorCode::unsupported,
                "this {} has {} switches and {} cables, more than the {} that are drawn one by one: ask for fewer nodes", name(),
                switch_count(), cables, kMostDrawn);
  }
  const int first_switch = graph.device_count();
  for (std::size_t s = 0; s < switch_count(); ++s) {
    PEAL_TRY(graph.add_device(
        {.id = "fabric/" + switch_id(s), .kind = DeviceKind::net_switch, .name = "switch", .node = -1, .source = spec_.source}));
  }
  PEAL_TRY(draw_nics(graph, ports, first_switch));
  for (std::size_t t = 0; t < tiers_.size(); ++t) {
    std::map<std::pair<std::size_t, std::size_t>, int> bundles;
    for (std::size_t c = 0; c < tiers_[t].cables; ++c) {
      const CableEnds e = ends(t, c);
      ++bundles[{e.lower, e.upper}];
    }
    for (const auto& [pair, count] : bundles) {
      Link link{.a = first_switch + static_cast<int>(pair.first), .b = first_switch + static_cast<int>(pair.second), .kind = cable_.kind};
      link.bandwidth = cable_.bandwidth;
      link.usable = cable_.usable;
      link.count = count;
      link.latency = spec_.switch_latency;
      link.scope = cable_.scope;
      link.source = link.usable_source = cable_.source;
      PEAL_TRY(graph.add_link(std::move(link)));
    }
  }
  return draw_storage(graph, first_switch);
}

std::string SwitchedFabric::join_summary(const std::vector<std::pair<std::size_t, std::string_view>>& parts) const {
  std::string text = fmt::format("{}:", name());
  for (const auto& [count, what] : parts)
    if (count > 0) text += fmt::format(" {} {},", count, what);
  std::size_t cables = 0;
  for (const Tier& tier : tiers_) cables += tier.cables;
  text += fmt::format(" {} cables of {:g} GB/s between switches, {:g} ns a switch, {}", cables, cable_.bandwidth.gigabytes(),
                      spec_.switch_latency.value, spec_.is_adaptive ? "adaptive routing" : "ECMP by hash");
  if (spec_.reduces) text += ", switches that sum (SHARP)";
  if (seats_.storage_nodes > 0) text += fmt::format(", {} storage nodes of {} ports", seats_.storage_nodes, seats_.storage_ports);
  return text;
}

}  // namespace peal::topology
