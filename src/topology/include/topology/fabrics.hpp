// Generators of fabrics: the switches and cables between the NICs of a cluster, worked out from a few numbers. Nothing is stored per
// port, cable or pair, so that 100,000 GPUs cost as much as eight; a route is arithmetic.
//
//   fat_tree        leaves, spines, cores (M. Al-Fares et al., SIGCOMM 2008: with radix k and three full levels (k/2)^2 cores, k pods)
//   rail_optimised  a fat tree whose leaf i of a unit of nodes takes NIC i of each of them
//   dragonfly       groups of routers, all joined; each pair of groups joined (J. Kim et al., ISCA 2008: p ports, a routers, h global)
//   dragonfly_plus  groups of leaves and spines, the spines joined to other groups (A. Shpiner et al., HiPINEB 2017)
//   torus           rings in each dimension, dimension-order routing, of nodes or of switches
//   full_mesh       each node (or each switch) joined to each other
//
// Routing is minimal. ECMP: where several cables do, hash(seed, from, to) takes one of them (splitmix64's finaliser over the three numbers,
// fabrics.cpp), always the same for a pair of ports, so that two pairs that meet on a cable share its rate. Adaptive: cables that lead the
// same way act as one resource of their sum (all cables up from a leaf; from a pod to the cores; between two groups), as if traffic were
// spread over them evenly; the hash then chooses only among cables that are not interchangeable.
//
// A switch costs its latency once a crossing; cables cost none. Cables have the rate of the NICs unless `link_GBps` says otherwise, and
// software gets the same share of it as of the NICs.
#pragma once

#include <array>
#include <topology/cluster.hpp>

namespace peal::topology {

enum class FabricKind : std::uint8_t { ideal, fat_tree, rail_optimised, dragonfly, dragonfly_plus, torus, full_mesh };
std::string_view name_of(FabricKind kind) noexcept;  ///< "fat-tree"
std::optional<FabricKind> fabric_kind_of(std::string_view text) noexcept;

/// A NIC of the repeated machine: a place where the fabric is plugged in.
struct FabricPlug {
  Port port;
  int rail = 0;
  int host = 0;  ///< node inside the machine (a rack of 18 trays is one machine of 18 hosts)
};

/// A NIC is a port of a cluster's fabric when it has a port and a rail.
std::vector<FabricPlug> plugs_of(const Graph& machine);

inline constexpr int kMostDimensions = 6;

/// What a person says; zero stands for "as large as fits" or "as needed".
struct FabricSpec {
  FabricKind kind = FabricKind::ideal;
  int radix = 0;                     ///< ports of a switch (of a leaf or router)
  int spine_radix = 0;               ///< of a spine; zero: radix
  int core_radix = 0;                ///< of a core; zero: spine_radix
  int levels = 0;                    ///< fat trees: 1 to 3; zero: the fewest that are enough
  double oversubscription = 1;       ///< ports down to nodes over ports up, at a leaf
  double core_oversubscription = 1;  ///< the same at a spine, towards the cores
  int down = 0;                      ///< ports of a leaf (router, switch) for nodes
  int up = 0;                        ///< ports of a leaf for spines
  int pod = 0;                       ///< leaves under one set of spines, three levels
  int unit = 0;                      ///< rail-optimised: nodes that share a set of leaves
  int routers = 0;                   ///< dragonfly: routers of a group; dragonfly_plus: leaves of a group
  int spines = 0;                    ///< dragonfly_plus: spines of a group
  int global_links = 0;              ///< dragonfly: global links of a router; dragonfly_plus: of a spine
  int wires = 0;                     ///< torus, full mesh, dragonfly inside a group: cables side by side
  bool of_switches = false;          ///< torus, full mesh: of switches with `down` ports each, not of nodes
  std::array<int, kMostDimensions> dims = {};
  bool is_adaptive = false;
  std::uint64_t seed = 0;
  double link_GBps = 0;        ///< line rate of a cable between switches; zero: that of the NICs
  Nanoseconds switch_latency;  ///< one switch, port to port
  std::string source = {};     ///< who said so, for the drawing
  int storage_nodes = 0;       ///< plugged into the same leaves as the nodes, spread evenly: node numbers follow the compute nodes
  int storage_ports = 1;       ///< NICs of each
  double storage_GBps = 0;     ///< line rate of one of them; zero: that of the nodes' NICs
  bool reduces = false;        ///< its switches sum (SHARP); fat trees and rail-optimised ones
  ReductionLimits reduction = {};
};

/// A fabric for `copies` machines with these plugs. Fails with what is needed and what to change where the ports are not enough.
Result<std::unique_ptr<Fabric>> make_fabric(const FabricSpec& spec, std::vector<FabricPlug> plugs, int copies);

/// How many machines, and what joins them, in two lines; empty without a fabric.
std::string describe_fabric(const Cluster& cluster);

/// The seed of the hash that chooses among the cables of a cluster's fabric; empty where nothing is left for it to choose: no fabric, or
/// one with a single way for each pair, or adaptive. Looks at some thousand pairs.
std::optional<std::uint64_t> hash_seed_of(const Cluster& cluster);
/// The same cluster with another seed of that hash.
Cluster with_hash_seed(const Cluster& cluster, std::uint64_t seed);

/// A second level of NVSwitches over several machines, as in an NVLink SuperPOD: `links` NVLinks leave each machine, spread evenly over its
/// NVSwitches and over `switches` switches of `radix` ports above.
struct NvlinkNetworkSpec {
  int switches = 0;
  int radix = 0;
  int links = 0;
  std::string source = {};
};
/// One machine of `nodes` nodes: `machine` repeated, its NVSwitches joined by the second level. Cables have the rate of the machine's own
/// GPU links. Its NICs stay where they were, for a fabric between several such machines.
Result<Graph> join_by_nvlink(const Graph& machine, int nodes, const NvlinkNetworkSpec& spec);

}  // namespace peal::topology
