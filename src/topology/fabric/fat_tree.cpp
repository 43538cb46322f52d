// Fat trees of one to three levels, and the rail-optimised kind.
//
//            core 0 .. C-1 of plane 0         core 0 .. C-1 of plane 1        spine a of every pod is joined to the cores of plane a
//              |        |                       |        |
//   pod 0:   spine 0  spine 1 ..      pod 1:  spine 0  spine 1 ..             cable j of a leaf goes to spine (x * up + j) mod spines
//              |  \  /  |                       |  \  /  |                    (x: leaf in its pod), so that all spines have equally many
//            leaf 0  leaf 1 ..                leaf 0  leaf 1 ..
//
// Rail-optimised: leaf r of unit u takes the NICs of rail r of the nodes of that unit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "switched_fabric.hpp"

namespace peal::topology {
namespace {

struct Shape {
  std::size_t levels = 1;
  std::size_t leaves = 0;
  std::size_t up = 0;  // cables of a leaf
  std::size_t pods = 1;
  std::size_t leaves_per_pod = 0;
  std::size_t spines = 0;   // of a pod
  std::size_t core_up = 0;  // cables of a spine
  std::size_t cores = 0;    // of a plane; planes are as many as spines of a pod
};

class FatTree final : public SwitchedFabric {
 public:
  FatTree(FabricSpec spec, std::vector<FabricPlug> plugs, Seats seats, const Shape& shape)
      : SwitchedFabric(std::move(spec), std::move(plugs), std::move(seats), tiers_of(shape)), s_(shape) {}

  std::string summary() const override {
    return join_summary({{s_.levels, s_.levels == 1 ? "level" : "levels"},
                         {s_.leaves, "leaves"},
                         {s_.pods * s_.spines, "spines"},
                         {s_.levels == 3 ? s_.pods : 0, "pods"},
                         {s_.spines * s_.cores, "cores"}});
  }
  std::unique_ptr<Fabric> clone() const override { return std::make_unique<FatTree>(*this); }

 private:
  static std::vector<Tier> tiers_of(const Shape& s) {
    return {{s.leaves * s.up, std::max<std::size_t>(s.up, 1)},
            {s.pods * s.spines * s.core_up, std::max<std::size_t>(s.spines * s.core_up, 1)}};
  }

  std::size_t switch_count() const override { return s_.leaves + s_.pods * s_.spines + s_.spines * s_.cores; }
  std::string switch_id(std::size_t i) const override {
    if (i < s_.leaves) return fmt::format("leaf{}", i);
    if (i < s_.leaves + s_.pods * s_.spines) return fmt::format("spine{}", i - s_.leaves);
    return fmt::format("core{}", i - s_.leaves - s_.pods * s_.spines);
  }

  // Which spine of its pod, which core of its plane a cable goes to; and the cables that come from one, of which there is at least one.
  static std::size_t upper_of(std::size_t lower, std::size_t cable, std::size_t cables, std::size_t uppers) {
    return (lower * cables + cable) % uppers;
  }
  static std::size_t cable_from(std::size_t upper, std::size_t lower, std::size_t cables, std::size_t uppers, Choice& choice) {
    const std::size_t first = (upper + uppers - lower * cables % uppers) % uppers;
    return first + uppers * choice.among(ceil_div(cables - first, uppers));
  }

  CableEnds ends(std::size_t tier, std::size_t cable) const override {
    if (tier == 0) {
      const std::size_t leaf = cable / s_.up;
      const std::size_t spine = upper_of(leaf % s_.leaves_per_pod, cable % s_.up, s_.up, s_.spines);
      return {leaf, s_.leaves + leaf / s_.leaves_per_pod * s_.spines + spine};
    }
    const std::size_t spine = cable / s_.core_up;
    const std::size_t core = upper_of(spine / s_.spines, cable % s_.core_up, s_.core_up, s_.cores);
    return {s_.leaves + spine, s_.leaves + s_.pods * s_.spines + spine % s_.spines * s_.cores + core};
  }

  void walk(std::size_t from, std::size_t to, Choice& choice, Trail& trail) const override {
    const std::size_t pod_a = from / s_.leaves_per_pod;
    const std::size_t pod_b = to / s_.leaves_per_pod;
    const std::size_t rise = choice.among(s_.up);
    const std::size_t spine = upper_of(from % s_.leaves_per_pod, rise, s_.up, s_.spines);
    trail.up(0, from * s_.up + rise);
    if (pod_a != pod_b) {
      const std::size_t high = choice.among(s_.core_up);
      const std::size_t core = upper_of(pod_a, high, s_.core_up, s_.cores);
      trail.up(1, (pod_a * s_.spines + spine) * s_.core_up + high);
      trail.down(1, (pod_b * s_.spines + spine) * s_.core_up + cable_from(core, pod_b, s_.core_up, s_.cores, choice));
    }
    trail.down(0, to * s_.up + cable_from(spine, to % s_.leaves_per_pod, s_.up, s_.spines, choice));
  }

  // Over one spine of every pod (of one plane, where there are cores), and one core.
  std::size_t join(std::span<const std::size_t> leaves, std::size_t number, Trail& up, Trail& down,
                   std::vector<std::uint32_t>& switches) const override {
    const std::size_t spine = number % s_.spines;
    Choice choice(spec().seed, number, 0);
    std::vector<std::size_t> pods;
    for (const std::size_t leaf : leaves) {
      const std::size_t cable = leaf * s_.up + cable_from(spine, leaf % s_.leaves_per_pod, s_.up, s_.spines, choice);
      up.up(0, cable);
      down.down(0, cable);
      if (pods.empty() || pods.back() != leaf / s_.leaves_per_pod) pods.push_back(leaf / s_.leaves_per_pod);
    }
    const auto first_spine = static_cast<std::uint32_t>(s_.leaves + spine);
    for (const std::size_t pod : pods) switches.push_back(first_spine + static_cast<std::uint32_t>(pod * s_.spines));
    if (pods.size() == 1) return 1;
    const std::size_t core = number / s_.spines % s_.cores;
    for (const std::size_t pod : pods) {
      const std::size_t cable = (pod * s_.spines + spine) * s_.core_up + cable_from(core, pod, s_.core_up, s_.cores, choice);
      up.up(1, cable);
      down.down(1, cable);
    }
    switches.push_back(static_cast<std::uint32_t>(s_.leaves + s_.pods * s_.spines + spine * s_.cores + core));
    return 2;
  }

  Shape s_;
};

std::size_t slots_of(std::size_t radix, double oversubscription) {
  return static_cast<std::size_t>(std::floor(static_cast<double>(radix) * oversubscription / (1 + oversubscription) + 1e-9));
}

std::size_t up_of(std::size_t down, double oversubscription) {
  return static_cast<std::size_t>(std::max(1.0, std::ceil(static_cast<double>(down) / oversubscription - 1e-9)));
}

class Sizing {
 public:
  Sizing(const FabricSpec& spec, Seats& seats) : spec_(spec), seats_(seats) {
    radix_ = static_cast<std::size_t>(spec.radix);
    spine_radix_ = spec.spine_radix > 0 ? static_cast<std::size_t>(spec.spine_radix) : radix_;
    core_radix_ = spec.core_radix > 0 ? static_cast<std::size_t>(spec.core_radix) : spine_radix_;
  }

  Result<Shape> shape() {
    if (spec_.levels > 0) return at(static_cast<std::size_t>(spec_.levels));
    if (auto one = at(1)) return one;
    if (auto two = at(2)) return two;
    return at(3);
  }

 private:
  Result<Shape> at(std::size_t levels) {
    Shape s;
    s.levels = levels;
    PEAL_TRY(seat(s));
    if (levels == 1) {
      if (s.leaves == 1) return s;
      return fail(ErrorCode::invalid_argument, "one level is one switch, and {} ports do not fit into its {}: write `levels: 2`",
                  seats_.compute_ports() + seats_.all_storage_ports(), radix_);
    }
    return levels == 2 ? two(s) : three(s);
  }

  /// Leaves, their cables up, and who sits where.
  Status seat(Shape& s) {
    const std::size_t for_nodes = spec_.down > 0  ? static_cast<std::size_t>(spec_.down)
                                  : s.levels == 1 ? radix_
                                  : spec_.up > 0  ? radix_ - std::min(radix_, static_cast<std::size_t>(spec_.up))
                                                  : slots_of(radix_, spec_.oversubscription);
    std::size_t used = 0;
    if (spec_.kind == FabricKind::rail_optimised) {
      PEAL_ASSIGN(used, seat_rails(s, for_nodes));
    } else {
      s.leaves = pack_seats(seats_, for_nodes);
      used = seats_.per_edge + (s.leaves > 0 ? ceil_div(seats_.all_storage_ports(), s.leaves) : 0);
    }
    if (s.leaves == 0 || for_nodes > radix_) {
      return fail(ErrorCode::invalid_argument,
                  "a leaf of {} ports has {} for nodes at {:g} to 1: write a larger `radix:` or a smaller `oversubscription:`", radix_,
                  for_nodes, spec_.oversubscription);
    }
    s.leaves_per_pod = s.leaves;
    seats_.edges = s.leaves;
    if (s.levels == 1) return {};
    s.up = spec_.up > 0 ? static_cast<std::size_t>(spec_.up) : up_of(used, spec_.oversubscription);
    if (used + s.up <= radix_) return {};
    return fail(ErrorCode::invalid_argument,
                "a leaf needs {} ports ({} for nodes, {} for spines) and has {}: write `radix: {}` or fewer `down:`", used + s.up, used,
                s.up, radix_, used + s.up);
  }

  Result<std::size_t> seat_rails(Shape& s, std::size_t for_nodes) {
    seats_.order = Seats::Order::by_rail;
    const std::size_t hosts = seats_.copies * seats_.hosts;
    // Most NICs that a host has on one rail.
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> count;
    std::size_t per_host = 1;
    for (std::size_t p = 0; p < seats_.ports; ++p) per_host = std::max(per_host, ++count[{seats_.host_of[p], seats_.rail_of[p]}]);
    for (std::size_t units = 1;; ++units) {
      const std::size_t unit = spec_.unit > 0 ? static_cast<std::size_t>(spec_.unit) : ceil_div(hosts, units);
      const std::size_t leaves = ceil_div(hosts, unit) * seats_.rails;
      const std::size_t used = std::min(unit, hosts) * per_host + ceil_div(seats_.all_storage_ports(), leaves);
      if (used <= for_nodes) {
        // Without `unit:` leaves are filled one after the other, where that takes as many of them.
        const std::size_t filled = (for_nodes - ceil_div(seats_.all_storage_ports(), leaves)) / per_host;
        seats_.unit = spec_.unit == 0 && ceil_div(hosts, filled) == ceil_div(hosts, unit) ? filled : unit;
        s.leaves = leaves;
        return std::min(seats_.unit, hosts) * per_host + ceil_div(seats_.all_storage_ports(), leaves);
      }
      if (spec_.unit == 0 && unit > 1) continue;
      return fail(ErrorCode::invalid_argument,
                  "a unit of {} nodes needs {} ports on a leaf (one a node and rail, and the storage's) and it has {} for nodes: write "
                  "`unit: {}` or a larger `radix:`",
                  unit, used, for_nodes, std::max<std::size_t>(1, for_nodes / per_host));
    }
  }

  Result<Shape> two(Shape s) const {
    s.spines = ceil_div(s.leaves * s.up, spine_radix_);
    if (s.spines <= s.up) return s;
    return fail(ErrorCode::invalid_argument,
                "{} leaves are too many for two levels: a spine has {} ports, one for each leaf at least: write `levels: 3`, or "
                "`spine_radix: {}`, or a larger `radix:`",
                s.leaves, spine_radix_, s.leaves);
  }

  Result<Shape> three(Shape s) {
    const std::size_t spine_down = slots_of(spine_radix_, spec_.core_oversubscription);
    const std::size_t block = spec_.kind == FabricKind::rail_optimised && seats_.rails <= spine_down ? seats_.rails : 1;
    if (spine_down == 0 || static_cast<std::size_t>(spec_.pod) > spine_down) {
      return fail(ErrorCode::invalid_argument, "a pod of {} leaves needs spines with as many ports down and they have {}: write `pod: {}`",
                  spec_.pod, spine_down, std::max<std::size_t>(spine_down, 1));
    }
    if (spec_.pod > 0) {
      s.leaves_per_pod = static_cast<std::size_t>(spec_.pod);
    } else {
      // As few pods as possible, all alike.
      const std::size_t blocks = ceil_div(s.leaves, block);
      const std::size_t pods = ceil_div(blocks, spine_down / block);
      s.leaves_per_pod = ceil_div(blocks, pods) * block;
    }
    s.pods = ceil_div(s.leaves, s.leaves_per_pod);
    s.leaves = seats_.edges = s.pods * s.leaves_per_pod;
    s.spines = ceil_div(s.leaves_per_pod * s.up, spine_down);
    s.core_up = up_of(ceil_div(s.leaves_per_pod * s.up, s.spines), spec_.core_oversubscription);
    s.cores = ceil_div(s.pods * s.core_up, core_radix_);
    if (s.cores <= s.core_up) return s;
    return fail(ErrorCode::invalid_argument,
                "{} pods are too many: a core has {} ports, one for each pod at least: write `core_radix: {}`, or a larger `radix:`",
                s.pods, core_radix_, s.pods);
  }

  const FabricSpec& spec_;
  Seats& seats_;
  std::size_t radix_ = 0;
  std::size_t spine_radix_ = 0;
  std::size_t core_radix_ = 0;
};

}  // namespace

Result<std::unique_ptr<Fabric>> make_fat_tree(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats) {
  PEAL_ASSIGN(const Shape shape, Sizing(spec, seats).shape());
  return std::make_unique<FatTree>(spec, std::move(plugs), std::move(seats), shape);
}

}  // namespace peal::topology
