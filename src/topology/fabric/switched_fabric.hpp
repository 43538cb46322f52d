// What all generated fabrics have in common: numbering of switches, cables and resources, where NICs are plugged in, hashing, drawing.
// A generator adds which switches a cable joins and which cables a route takes.
//
// Numbering. Switches: those that nodes are plugged into first ("edges"). Cables: by tier (all cables of one kind), dense. Resources: for
// each tier and each pool of `pool` consecutive cables of it, up (from lower to upper end) and down; then storage ports, out and in.
#pragma once

#include <base/mix_bits.hpp>
#include <limits>
#include <topology/fabrics.hpp>

namespace peal::topology {

/// The choices of one pair of ports, one after the other.
class Choice {
 public:
  Choice(std::uint64_t seed, std::uint64_t from, std::uint64_t to) : state_(mix_bits(mix_bits(mix_bits(seed) + from) + to)) {}
  /// A number below `count`.
  std::size_t among(std::size_t count) {
    state_ = mix_bits(state_);
    return count < 2 ? 0 : state_ % count;
  }

 private:
  std::uint64_t state_;
};

/// Where the NICs go: an edge switch for each.
struct Seats {
  enum class Order : std::uint8_t { packed, by_rail, by_node };
  Order order = Order::packed;
  std::size_t copies = 0;
  std::size_t ports = 0;      // of a copy
  std::size_t hosts = 1;      // of a copy
  bool splits_nodes = false;  // packed: a node may lie on two edges, so that no port is left over
  std::size_t per_edge = 1;   // packed: compute ports of an edge
  std::size_t unit = 1;       // by_rail: hosts of a unit
  std::size_t rails = 1;
  std::vector<std::size_t> rail_of;  // by port, dense
  std::vector<std::size_t> host_of;  // by port
  std::size_t edges = 0;             // set when the shape is known
  std::size_t storage_nodes = 0;
  std::size_t storage_ports = 0;  // of one storage node

  std::size_t compute_ports() const { return copies * ports; }
  std::size_t all_storage_ports() const { return storage_nodes * storage_ports; }
  bool is_storage(FabricPort p) const { return static_cast<std::size_t>(p.node) >= copies; }
  /// Dense number of a port: compute ports, then storage ports.
  std::size_t number(FabricPort p) const;
  std::size_t edge_of(FabricPort p) const;
};
Seats seats_of(const std::vector<FabricPlug>& plugs, int copies, const FabricSpec& spec);

struct Tier {
  std::size_t cables = 0;
  std::size_t pool = 1;  ///< consecutive cables that adaptive routing uses as one
};

struct CableEnds {
  std::size_t lower = 0;
  std::size_t upper = 0;
};

class SwitchedFabric : public Fabric {
 public:
  std::string_view name() const override { return name_of(spec_.kind); }
  int storage_nodes() const override { return static_cast<int>(seats_.storage_nodes); }
  int storage_ports() const override { return static_cast<int>(seats_.storage_ports); }
  std::uint32_t rack_of(int node) const override { return static_cast<std::uint32_t>(seats_.edge_of({node, 0})); }
  std::size_t resource_count() const override { return first_storage_ + 2 * seats_.all_storage_ports(); }
  std::string resource_name(std::size_t index) const override;
  Bandwidth resource_capacity(std::size_t index) const override;
  Nanoseconds route(FabricPort from, FabricPort to, std::vector<std::uint32_t>& resources) const override;
  std::uint64_t seed() const { return spec_.seed; }
  void set_seed(std::uint64_t seed) { spec_.seed = seed; }
  const ReductionLimits* reduction_limits() const override { return spec_.reduces ? &spec_.reduction : nullptr; }
  ReductionTree reduction_tree(std::span<const FabricPort> ports, std::size_t number) const override;
  Status draw(Graph& graph, const std::vector<std::vector<int>>& ports) const override;

 protected:
  /// Collects the resources of a route.
  class Trail {
   public:
    Trail(const SwitchedFabric& fabric, std::vector<std::uint32_t>& out) : fabric_(fabric), out_(out) {}
    void up(std::size_t tier, std::size_t cable) { cross(tier, cable, 0); }
    void down(std::size_t tier, std::size_t cable) { cross(tier, cable, 1); }

   private:
    void cross(std::size_t tier, std::size_t cable, std::size_t direction);
    const SwitchedFabric& fabric_;
    std::vector<std::uint32_t>& out_;
  };

  SwitchedFabric(FabricSpec spec, std::vector<FabricPlug> plugs, Seats seats, std::vector<Tier> tiers);

  virtual std::size_t switch_count() const = 0;
  virtual std::string switch_id(std::size_t index) const = 0;  ///< without "fabric/"
  virtual CableEnds ends(std::size_t tier, std::size_t cable) const = 0;
  /// A minimal way between two different edge switches.
  virtual void walk(std::size_t from, std::size_t to, Choice& choice, Trail& trail) const = 0;
  /// The tree over several edge switches, which ascend; adds the other switches to `switches`, and returns how many lie between an edge and
  /// the top, that included. Of kinds that can have FabricSpec::reduces.
  virtual std::size_t join(std::span<const std::size_t>, [[maybe_unused]] std::size_t number, Trail&, Trail&,
                           std::vector<std::uint32_t>&) const {
    return 0;
  }

  const FabricSpec& spec() const { return spec_; }
  const Seats& seats() const { return seats_; }
  std::string join_summary(const std::vector<std::pair<std::size_t, std::string_view>>& parts) const;

 private:
  struct Place {
    std::size_t tier = 0;
    std::size_t first = 0;  // cable
    std::size_t count = 0;  // cables
    bool is_down = false;
  };
  std::size_t pool_of(const Tier& tier) const { return spec_.is_adaptive ? tier.pool : 1; }
  Place place_of(std::size_t resource) const;
  Status draw_nics(Graph& graph, const std::vector<std::vector<int>>& ports, int first_switch) const;
  Status draw_storage(Graph& graph, int first_switch) const;

  FabricSpec spec_;
  std::vector<FabricPlug> plugs_;
  Seats seats_;
  std::vector<Tier> tiers_;
  std::vector<std::size_t> first_;  // resource, by tier
  std::size_t first_storage_ = 0;
  Port cable_;    // a cable between switches
  Port storage_;  // a storage node's port
};

// Sizes: each says what is needed where it does not fit. A generator a file.
Result<std::unique_ptr<Fabric>> make_fat_tree(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats);
Result<std::unique_ptr<Fabric>> make_dragonfly(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats);
Result<std::unique_ptr<Fabric>> make_dragonfly_plus(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats);
Result<std::unique_ptr<Fabric>> make_torus(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats);
Result<std::unique_ptr<Fabric>> make_full_mesh(const FabricSpec& spec, std::vector<FabricPlug> plugs, Seats seats);

/// Packs ports into switches with `slots` ports for nodes: fewest switches, room for an even share of the storage ports on each, whole
/// nodes where a node fits. Sets seats.per_edge and returns the number of switches, or 0 where `most` are not enough.
std::size_t pack_seats(Seats& seats, std::size_t slots, std::size_t most = std::numeric_limits<std::size_t>::max());

/// Most cables of a fabric: resources are numbered with 32 bits.
inline constexpr double kMostCables = 1u << 30;

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) noexcept { return (a + b - 1) / b; }

}  // namespace peal::topology
