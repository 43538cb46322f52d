// Dragonfly and dragonfly+: groups of switches, each pair of groups joined by at least one global cable.
//
//      group 0                     group 1             Of g groups, group i sees group (i + q + 1) mod g on its global channels
//   [r0]--[r1]  ------ c ------ [r0]--[r1]             q * w .. q * w + w - 1, where w = channels / (g - 1); channel c belongs to
//     \ /  \ /                    \ /  \ /             switch c / h of the group.
//   [r2]--[r3]                  [r2]--[r3]             dragonfly: routers of a group are all joined; dragonfly+: leaves with spines,
//                                                      global cables at the spines.
//
// Minimal routes: to a switch that has a cable to the other group, across, to the router that is meant. Non-minimal ones (Valiant, UGAL)
// are not taken, so traffic from one group to one other meets on w cables.
#include <fmt/format.h>

#include <algorithm>

#include "switched_fabric.hpp"

namespace peal::topology {
namespace {

/// The cables between groups.
struct Globe {
  std::size_t groups = 1;
  std::size_t per_switch = 0;  // global cables of a switch
  std::size_t width = 0;       // cables of a pair of groups

  std::size_t cables() const { return groups * (groups - 1) / 2 * width; }
  /// Number of the cable: groups i < j, the x-th between them.
  std::size_t cable(std::size_t i, std::size_t j, std::size_t x) const {
    if (i > j) std::swap(i, j);
    return (i * (2 * groups - i - 1) / 2 + (j - i - 1)) * width + x;
  }
  /// Switch of group `here` (counted inside it) that holds the x-th cable to group `there`.
  std::size_t holder(std::size_t here, std::size_t there, std::size_t x) const {
    const std::size_t q = (there + groups - here - 1) % groups;
    return (q * width + x) / per_switch;
  }
  /// Groups of a cable, lower first, and which of their cables it is.
  struct Pair {
    std::size_t i, j, x;
  };
  Pair pair_of(std::size_t cable_number) const {
    std::size_t rest = cable_number / width;
    // Row i has groups - 1 - i pairs: find the row by bisection over the rows' beginnings.
    std::size_t low = 0;
    std::size_t high = groups - 1;
    while (low + 1 < high) {
      const std::size_t middle = (low + high) / 2;
      (middle * (2 * groups - middle - 1) / 2 <= rest ? low : high) = middle;
    }
    rest -= low * (2 * groups - low - 1) / 2;
    return {low, low + 1 + rest, cable_number % width};
  }
};

class Dragonfly final : public SwitchedFabric {
 public:
  Dragonfly(FabricSpec spec, std::vector<FabricPlug> plugs, Seats seats, std::size_t routers, std::size_t wires, const Globe& globe)
      : SwitchedFabric(
            std::move(spec), std::move(plugs), std::move(seats),
            {{globe.groups * routers * (routers - 1) / 2 * wires, wires}, {globe.cables(), std::max<std::size_t>(globe.width, 1)}}),
        routers_(routers),
        wires_(wires),
        inside_{routers, 1, wires},
        globe_(globe) {}

  std::string summary() const override {
    return join_summary({{globe_.groups, "groups"}, {routers_, "routers each"}, {globe_.width, "cables between two groups"}});
  }
  std::unique_ptr<Fabric> clone() const override { return std::make_unique<Dragonfly>(*this); }

 private:
  std::size_t switch_count() const override { return globe_.groups * routers_; }
  std::string switch_id(std::size_t i) const override { return fmt::format("group{}/router{}", i / routers_, i % routers_); }

  CableEnds ends(std::size_t tier, std::size_t cable) const override {
    if (tier == 0) {
      const std::size_t group = cable / inside_.cables();
      const Globe::Pair p = inside_.pair_of(cable % inside_.cables());
      return {group * routers_ + p.i, group * routers_ + p.j};
    }
    const Globe::Pair p = globe_.pair_of(cable);
    return {p.i * routers_ + globe_.holder(p.i, p.j, p.x), p.j * routers_ + globe_.holder(p.j, p.i, p.x)};
  }

  void walk_inside(std::size_t group, std::size_t a, std::size_t b, Choice& choice, Trail& trail) const {
    if (a == b) return;
    const std::size_t cable = group * inside_.cables() + inside_.cable(a, b, choice.among(wires_));
    a < b ? trail.up(0, cable) : trail.down(0, cable);
  }

  void walk(std::size_t from, std::size_t to, Choice& choice, Trail& trail) const override {
    const std::size_t i = from / routers_;
    const std::size_t j = to / routers_;
    if (i == j) return walk_inside(i, from % routers_, to % routers_, choice, trail);
    const std::size_t x = choice.among(globe_.width);
    const std::size_t cable = globe_.cable(i, j, x);
    walk_inside(i, from % routers_, globe_.holder(i, j, x), choice, trail);
    i < j ? trail.up(1, cable) : trail.down(1, cable);
    walk_inside(j, globe_.holder(j, i, x), to % routers_, choice, trail);
  }

  std::size_t routers_;
  std::size_t wires_;
  Globe inside_;  // routers of a group are joined as groups are: each with each
  Globe globe_;
};

class DragonflyPlus final : public SwitchedFabric {
 public:
  DragonflyPlus(FabricSpec spec, std::vector<FabricPlug> plugs, Seats seats, std::size_t leaves, std::size_t spines, const Globe& globe)
      : SwitchedFabric(std::move(spec), std::move(plugs), std::move(seats),
                       {{globe.groups * leaves * spines, spines}, {globe.cables(), std::max<std::size_t>(globe.width, 1)}}),
        leaves_(leaves),
        spines_(spines),
        globe_(globe) {}

  std::string summary() const override {
    return join_summary(
        {{globe_.groups, "groups"}, {leaves_, "leaves each"}, {spines_, "spines each"}, {globe_.width, "cables between two groups"}});
  }
  std::unique_ptr<Fabric> clone() const override { return std::make_unique<DragonflyPlus>(*this); }

 private:
  std::size_t all_leaves() const { return globe_.groups * leaves_; }
  std::size_t switch_count() const override { return globe_.groups * (leaves_ + spines_); }
  std::string switch_id(std::size_t i) const override {
    if (i < all_leaves()) return fmt::format("group{}/leaf{}", i / leaves_, i % leaves_);
    i -= all_leaves();
    return fmt::format("group{}/spine{}", i / spines_, i % spines_);
  }

  CableEnds ends(std::size_t tier, std::size_t cable) const override {
    if (tier == 0) {
      const std::size_t leaf = cable / spines_;
      return {leaf, all_leaves() + leaf / leaves_ * spines_ + cable % spines_};
    }
    const Globe::Pair p = globe_.pair_of(cable);
    return {all_leaves() + p.i * spines_ + globe_.holder(p.i, p.j, p.x), all_leaves() + p.j * spines_ + globe_.holder(p.j, p.i, p.x)};
  }

  void walk(std::size_t from, std::size_t to, Choice& choice, Trail& trail) const override {
    const std::size_t i = from / leaves_;
    const std::size_t j = to / leaves_;
    if (i == j) {
      const std::size_t spine = choice.among(spines_);
      trail.up(0, from * spines_ + spine);
      trail.down(0, to * spines_ + spine);
      return;
    }
    const std::size_t x = choice.among(globe_.width);
    const std::size_t cable = globe_.cable(i, j, x);
    trail.up(0, from * spines_ + globe_.holder(i, j, x));
    i < j ? trail.up(1, cable) : trail.down(1, cable);
    trail.down(0, to * spines_ + globe_.holder(j, i, x));
  }

  std::size_t leaves_;
  std::size_t spines_;
  Globe globe_;
};

std::size_t given(int value, std::size_t otherwise) { return value > 0 ? static_cast<std::size_t>(value) : otherwise; }

/// Packs the nodes into groups of `edges` switches and joins `globals` switches a group with `per_switch` global cables each.
Result<Globe> group_nodes(Seats& seats, std::size_t down, std::size_t edges, std::size_t globals, std::size_t per_switch) {
  const std::size_t needed = pack_seats(seats, down);
  if (needed == 0) return fail(ErrorCode::invalid_argument, "no port of a switch is left for nodes: write `down: 1` or more");
  Globe globe;
  globe.groups = ceil_div(needed, edges);
  globe.per_switch = per_switch;
  const std::size_t channels = globals * per_switch;
  seats.edges = globe.groups * edges;
  if (globe.groups > channels + 1) {
    return fail(ErrorCode::invalid_argument,
                "{} ports for nodes fill {} groups of {} switches, and the {} global links of a group reach at most {} groups: write a "
                "larger `routers:`, `down:` or `global_links:` (or a larger `radix:`)",
                seats.compute_ports() + seats.all_storage_ports(), globe.groups, edges, channels, channels + 1);
  }
  if (globe.groups > 1) globe.width = channels / (globe.groups - 1);
  return globe;
}

Status check_ports(std::string_view what, std::size_t needed, std::string_view sum, std::size_t radix) {
  if (needed <= radix) return {};
  return fail(ErrorCode::invalid_argument, "a {} needs {} ports ({}) and has {}: write `radix: {}`, or fewer of them", what, needed, sum,
              radix, needed);
}

}  // namespace

Result<std::unique_ptr<Fabric>> make_dragonfly(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats) {
  const auto radix = static_cast<std::size_t>(spec.radix);
  // Balanced (Kim et al.): a = 2p = 2h, so that radix = p + (a - 1) + h = 4p - 1.
  const std::size_t quarter = std::max<std::size_t>(1, (radix + 1) / 4);
  const std::size_t down = given(spec.down, quarter);
  const std::size_t routers = given(spec.routers, 2 * quarter);
  const std::size_t global_links = given(spec.global_links, quarter);
  const std::size_t wires = given(spec.wires, 1);
  PEAL_TRY(check_ports("router", down + (routers - 1) * wires + global_links,
                       fmt::format("{} for nodes, {} to its group, {} global", down, (routers - 1) * wires, global_links), radix));
  PEAL_ASSIGN(const Globe globe, group_nodes(seats, down, routers, routers, global_links));
  return std::make_unique<Dragonfly>(spec, std::move(plugs), std::move(seats), routers, wires, globe);
}

Result<std::unique_ptr<Fabric>> make_dragonfly_plus(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats) {
  const auto radix = static_cast<std::size_t>(spec.radix);
  const std::size_t half = std::max<std::size_t>(1, radix / 2);
  const std::size_t down = given(spec.down, half);
  const std::size_t leaves = given(spec.routers, half);
  const std::size_t spines = given(spec.spines, half);
  const std::size_t global_links = given(spec.global_links, half);
  PEAL_TRY(check_ports("leaf", down + spines, fmt::format("{} for nodes, {} to spines", down, spines), radix));
  PEAL_TRY(check_ports("spine", leaves + global_links, fmt::format("{} to leaves, {} global", leaves, global_links), radix));
  PEAL_ASSIGN(const Globe globe, group_nodes(seats, down, leaves, spines, global_links));
  return std::make_unique<DragonflyPlus>(spec, std::move(plugs), std::move(seats), leaves, spines, globe);
}

}  // namespace peal::topology
