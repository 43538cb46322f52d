// A cluster: one machine (its graph) repeated on several nodes, plugged into a fabric. Nothing is stored per node,
// so a cluster of 100,000 nodes costs as much memory as one machine.
//
// Numbering: device d of node n is n * devices_per_node() + d; the fabric's own devices follow. Ranks fill node after node, in the
// order of Graph::compute_devices(). An explicit graph of several nodes is a cluster of one "machine" (nodes are then what its devices
// say).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <topology/graph.hpp>

namespace peal::topology {

/// Where a cluster's node is plugged in: number of the copy of the machine and index of its port (NICs with a rail >= 0, in device order).
/// Storage nodes have the numbers after the last copy.
struct FabricPort {
  int node = 0;
  int port = 0;
};

/// What the switches of a fabric can sum (SHARP).
struct ReductionLimits {
  std::string scope;       ///< whose constants apply, and for people: "quantum-2"
  int trees_a_switch = 0;  ///< trees that are at work in a switch at a time; 0: one a port
  int most_trees = 0;      ///< of one job, or in the subnet; 0: not said
};
/// A tree of switches that sums what some ports send, and copies the sum back to them. Resources of the fabric.
struct ReductionTree {
  std::vector<std::uint32_t> up;        ///< cables that sums cross on the way to the top; each carries the bytes of one port
  std::vector<std::uint32_t> down;      ///< the same on the way back
  std::vector<std::uint32_t> switches;  ///< numbers of those that take part
  Nanoseconds latency;                  ///< of switches, up and down
};

/// What a generator of fabrics must answer. Immutable after creation, thread-safe.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const = 0;
  /// One line for people: how many switches and cables of which kind.
  virtual std::string summary() const { return std::string(name()); }
  /// Storage nodes that hang on the fabric beside the machines.
  virtual int storage_nodes() const { return 0; }
  virtual int storage_ports() const { return 0; }  ///< of each
  /// The switch that a node hangs on, by the first of its ports. Numbers that lie side by side are joined below the others: who visits
  /// nodes in their order crosses each way up once.
  virtual std::uint32_t rack_of([[maybe_unused]] int node) const { return 0; }
  /// True where a route depends on the ports and on whether the nodes differ, but on nothing else of them, and crosses no resource inside.
  virtual bool treats_nodes_alike() const { return false; }
  /// Shared resources inside the fabric (not the ports of the NICs): number, name and capacity of each.
  virtual std::size_t resource_count() const = 0;
  virtual std::string resource_name(std::size_t index) const = 0;
  virtual Bandwidth resource_capacity(std::size_t index) const = 0;
  /// Appends the fabric resources that traffic between two ports crosses; returns the latency of wires and switches (and of the NICs of
  /// storage nodes, whose ports are the fabric's own resources).
  virtual Nanoseconds route(FabricPort from, FabricPort to, std::vector<std::uint32_t>& resources) const = 0;
  /// Null where no switch of the fabric sums.
  virtual const ReductionLimits* reduction_limits() const { return nullptr; }
  /// Of a fabric that has limits; at least one port. Trees of different numbers take different switches where there are several at the top.
  virtual ReductionTree reduction_tree(std::span<const FabricPort>, [[maybe_unused]] std::size_t number) const { return {}; }
  /// Adds switches and links to the materialised graph; `ports[node][port]` is the device index of that NIC.
  virtual Status draw(Graph& graph, const std::vector<std::vector<int>>& ports) const = 0;
  virtual std::unique_ptr<Fabric> clone() const = 0;
};

/// The fabric that never limits: NIC i of every node hangs on switch "rail i", rails join in a spine. The generators are in fabrics.hpp.
struct IdealFabricSpec {
  int nodes = 1;
  std::vector<Port> ports = {};  ///< of one node, by port index
  std::vector<int> rails = {};   ///< rail of each port
  Nanoseconds switch_latency;    ///< one switch, port to port
  std::string source = {};
};
std::unique_ptr<Fabric> make_ideal_fabric(IdealFabricSpec spec);

class Cluster {
 public:
  /// One node, or an explicit graph of several.
  explicit Cluster(Graph graph);
  /// `nodes` copies of `machine` on `fabric`.
  Cluster(Graph machine, int nodes, std::unique_ptr<Fabric> fabric);
  Cluster(const Cluster& other);
  Cluster& operator=(const Cluster& other);
  Cluster(Cluster&&) noexcept = default;
  Cluster& operator=(Cluster&&) noexcept = default;

  const Graph& machine() const { return machine_; }
  const Fabric* fabric() const { return fabric_.get(); }  ///< null when there is none
  int copies() const { return copies_; }                  ///< how often the machine is repeated
  int nodes() const;                                      ///< machines in all (an explicit graph may hold several)
  int devices_per_node() const { return machine_.device_count(); }
  int device_count() const { return copies_ * machine_.device_count(); }
  int ranks() const { return copies_ * static_cast<int>(compute_.size()); }  ///< one a compute device
  int ranks_per_node() const;                                                ///< of the first node
  int device_of_rank(int rank) const;                                        ///< rank in [0, ranks())
  int node_of(int device) const;
  int copy_of(int device) const { return device / machine_.device_count(); }
  int local_of(int device) const { return device % machine_.device_count(); }
  const Device& device(int device_index) const { return machine_.device(local_of(device_index)); }
  /// "n3/gpu0"; "gpu0" when there is one copy.
  std::string id_of(int device) const;

  /// Every device and link spelled out. Refuses more than `max_devices` (say why and what to do instead).
  Result<Graph> graph(int max_devices = 1 << 20) const;

 private:
  Graph machine_;
  int copies_ = 1;
  std::unique_ptr<Fabric> fabric_;
  std::vector<int> compute_;
};

}  // namespace peal::topology
