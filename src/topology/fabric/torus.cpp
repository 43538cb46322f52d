// Tori and full meshes, of nodes (each node's NICs are one router, as in machines built for a torus) or of switches with several nodes.
//
// Torus: switch (c0, c1, c2) has number c0 + d0 * (c1 + d1 * c2). Cable k of a dimension leads from k to the next along it; a ring of two
// has one cable, not two. Routes correct the first dimension first, the shorter way round; halfway round the hash decides.
#include <fmt/format.h>

#include <algorithm>

#include "switched_fabric.hpp"

namespace peal::topology {
namespace {

class Torus final : public SwitchedFabric {
 public:
  Torus(FabricSpec spec, std::vector<FabricPlug> plugs, Seats seats, std::vector<std::size_t> dims, std::size_t wires)
      : SwitchedFabric(std::move(spec), std::move(plugs), std::move(seats), tiers_of(dims, wires)), dims_(std::move(dims)), wires_(wires) {}

  std::string summary() const override {
    return join_summary({{switch_count(), seats().order == Seats::Order::by_node ? "nodes" : "switches"}, {wires_, "wires side by side"}}) +
           fmt::format(", {}", fmt::join(dims_, "x"));
  }
  std::unique_ptr<Fabric> clone() const override { return std::make_unique<Torus>(*this); }

 private:
  static std::size_t product(const std::vector<std::size_t>& dims) {
    std::size_t all = 1;
    for (std::size_t d : dims) all *= d;
    return all;
  }
  /// Cables of one ring.
  static std::size_t ring(std::size_t length) { return length < 3 ? length - 1 : length; }
  static std::vector<Tier> tiers_of(const std::vector<std::size_t>& dims, std::size_t wires) {
    std::vector<Tier> tiers;
    for (std::size_t d : dims) tiers.push_back({product(dims) / d * ring(d) * wires, wires});
    return tiers;
  }

  std::size_t switch_count() const override { return product(dims_); }
  std::string switch_id(std::size_t i) const override {
    if (seats().order == Seats::Order::by_node) return fmt::format("node{}", i);
    return fmt::format("switch{}", i);
  }
  std::size_t stride(std::size_t dimension) const {
    std::size_t all = 1;
    for (std::size_t d = 0; d < dimension; ++d) all *= dims_[d];
    return all;
  }

  // Cables of a dimension are numbered by place along the ring, then by line (all other coordinates), then by wire.
  CableEnds ends(std::size_t tier, std::size_t cable) const override {
    const std::size_t length = dims_[tier];
    const std::size_t step = stride(tier);
    const std::size_t along = cable / wires_ % ring(length);
    const std::size_t line = cable / wires_ / ring(length);
    const std::size_t base = line % step + line / step * step * length;
    return {base + along * step, base + (along + 1) % length * step};
  }

  void walk(std::size_t from, std::size_t to, Choice& choice, Trail& trail) const override {
    std::size_t at = from;
    for (std::size_t d = 0; d < dims_.size(); ++d) {
      const std::size_t length = dims_[d];
      const std::size_t step = stride(d);
      const std::size_t line = at % step + at / (step * length) * step;
      std::size_t along = at / step % length;
      const std::size_t ahead = (to / step % length + length - along) % length;
      if (ahead == 0) continue;
      const bool is_forward = length == 2 ? along == 0 : 2 * ahead == length ? choice.among(2) == 0 : 2 * ahead < length;
      const std::size_t wire = choice.among(wires_);
      for (std::size_t hops = is_forward || length == 2 ? ahead : length - ahead; hops > 0; --hops) {
        const std::size_t next = is_forward ? (along + 1) % length : (along + length - 1) % length;
        const std::size_t cable = (line * ring(length) + (is_forward ? along : next)) * wires_ + wire;
        is_forward ? trail.up(d, cable) : trail.down(d, cable);
        along = next;
      }
      at = line % step + line / step * step * length + along * step;
    }
  }

  std::vector<std::size_t> dims_;
  std::size_t wires_;
};

class FullMesh final : public SwitchedFabric {
 public:
  FullMesh(FabricSpec spec, std::vector<FabricPlug> plugs, Seats seats, std::size_t switches, std::size_t wires)
      : SwitchedFabric(std::move(spec), std::move(plugs), std::move(seats), {{switches * (switches - 1) / 2 * wires, wires}}),
        switches_(switches),
        wires_(wires) {}

  std::string summary() const override {
    return join_summary({{switches_, seats().order == Seats::Order::by_node ? "nodes" : "switches"}, {wires_, "wires side by side"}});
  }
  std::unique_ptr<Fabric> clone() const override { return std::make_unique<FullMesh>(*this); }

 private:
  std::size_t switch_count() const override { return switches_; }
  std::string switch_id(std::size_t i) const override {
    return fmt::format("{}{}", seats().order == Seats::Order::by_node ? "node" : "switch", i);
  }
  // Pairs a < b in the order (0,1), (0,2), (1,2), (0,3) ...: pair (a, b) is b (b - 1) / 2 + a.
  CableEnds ends(std::size_t, std::size_t cable) const override {
    const std::size_t pair = cable / wires_;
    std::size_t low = 1;
    std::size_t high = switches_;
    while (low + 1 < high) {
      const std::size_t middle = (low + high) / 2;
      (middle * (middle - 1) / 2 <= pair ? low : high) = middle;
    }
    return {pair - low * (low - 1) / 2, low};
  }
  void walk(std::size_t from, std::size_t to, Choice& choice, Trail& trail) const override {
    const std::size_t b = std::max(from, to);
    const std::size_t cable = (b * (b - 1) / 2 + std::min(from, to)) * wires_ + choice.among(wires_);
    from < to ? trail.up(0, cable) : trail.down(0, cable);
  }

  std::size_t switches_;
  std::size_t wires_;
};

std::size_t vertices_of(const Seats& seats) { return seats.copies * seats.hosts + seats.storage_nodes; }

Status check_cables(double cables) {
  if (cables <= kMostCables) return {};
  return fail(ErrorCode::invalid_argument, "{:g} cables are more than {:g}: a full mesh is for few nodes; write `kind: fat-tree`", cables,
              kMostCables);
}

}  // namespace

Result<std::unique_ptr<Fabric>> make_torus(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats) {
  std::vector<std::size_t> dims;
  double all = 1;
  for (int d : spec.dims)
    if (d > 0) {
      dims.push_back(static_cast<std::size_t>(d));
      all *= d;
    }
  if (dims.empty()) return fail(ErrorCode::invalid_argument, "a torus needs its size: write `dims: 4x4x4`");
  const auto wires = static_cast<std::size_t>(std::max(1, spec.wires));
  PEAL_TRY(check_cables(all * static_cast<double>(dims.size() * wires)));
  const auto switches = static_cast<std::size_t>(all);
  seats.edges = switches;
  if (spec.of_switches) {
    std::size_t links = 0;
    for (std::size_t d : dims) links += std::min<std::size_t>(d - 1, 2) * wires;
    const auto radix = static_cast<std::size_t>(spec.radix);
    const std::size_t free = radix > links ? radix - links : 0;
    const std::size_t down = spec.down > 0 ? static_cast<std::size_t>(spec.down) : free;
    const std::size_t needed = down > free ? 0 : pack_seats(seats, down, switches);
    if (needed == 0) {
      return fail(ErrorCode::invalid_argument,
                  "{} switches with {} ports, {} of them to neighbours, do not take {} ports of nodes: write larger `dims:` or `radix:`",
                  switches, radix, links, seats.compute_ports() + seats.all_storage_ports());
    }
    // Nodes are spread over all switches, not packed into the first.
    const std::size_t total = seats.compute_ports() + seats.all_storage_ports();
    for (std::size_t slots = ceil_div(total, switches); slots < down; ++slots)
      if (pack_seats(seats, slots, switches) > 0) break;
  } else {
    seats.order = Seats::Order::by_node;
    if (vertices_of(seats) > switches) {
      return fail(ErrorCode::invalid_argument, "{} nodes do not fit into a torus of {} ({}): write larger `dims:`", vertices_of(seats),
                  fmt::join(dims, "x"), switches);
    }
  }
  return std::make_unique<Torus>(spec, std::move(plugs), std::move(seats), std::move(dims), wires);
}

Result<std::unique_ptr<Fabric>> make_full_mesh(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats) {
  std::size_t switches = vertices_of(seats);
  auto wires = static_cast<std::size_t>(std::max(1, spec.wires));
  if (spec.of_switches) {
    const auto radix = static_cast<std::size_t>(spec.radix);
    const std::size_t total = seats.compute_ports() + seats.all_storage_ports();
    // Each further switch costs every other one a port.
    for (switches = 1; (switches - 1) * wires < radix; ++switches) {
      const std::size_t free = radix - (switches - 1) * wires;
      if (pack_seats(seats, spec.down > 0 ? std::min(free, static_cast<std::size_t>(spec.down)) : free, switches) > 0) break;
    }
    if ((switches - 1) * wires >= radix) {
      std::size_t most = 0;
      for (std::size_t n = 1; (n - 1) * wires < radix; ++n) most = std::max(most, n * (radix - (n - 1) * wires));
      return fail(ErrorCode::invalid_argument,
                  "a full mesh of switches with {} ports has at most {} for nodes, whole nodes on each, and there are {}: write a larger "
                  "`radix:`, or `kind: dragonfly`",
                  radix, most, total);
    }
  } else {
    seats.order = Seats::Order::by_node;
    const std::size_t ports = seats.ports / seats.hosts;
    if ((switches - 1) * wires > ports) {
      return fail(ErrorCode::invalid_argument,
                  "a full mesh of {} nodes needs {} ports at each and there are {}: at most {} nodes, or write `joins: switches`", switches,
                  (switches - 1) * wires, ports, ports / wires + 1);
    }
    // All ports of a node are cabled, as many to each other node as there are.
    if (spec.wires == 0 && switches > 1) wires = ports / (switches - 1);
  }
  seats.edges = switches;
  PEAL_TRY(check_cables(static_cast<double>(switches) * static_cast<double>(switches) / 2 * static_cast<double>(wires)));
  return std::make_unique<FullMesh>(spec, std::move(plugs), std::move(seats), switches, wires);
}

}  // namespace peal::topology
