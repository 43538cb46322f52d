// What a flow-level model needs of a cluster: every directed, shared resource with its capacity, and for each pair of devices
// the resources that its traffic crosses. Nothing is stored per pair of nodes: routes are composed of cached parts.
//
// Resource ids: resource r of copy n is n * per_copy() + r, then the fabric's. Capacities are usable rates in bytes a second.
// A bundle of wires that is always used together (12 NVLinks to six switches) is one resource a direction; a half-duplex wire is one for
// both. A PCIe slot of a CPU has a third one beside its two directions, what both carry together while GPUs speak to one another through
// the CPU: less than twice one direction (data/links/pcie.yaml).
#pragma once

#include <memory>
#include <topology/cluster.hpp>
#include <topology/path.hpp>

namespace peal::topology {

using ResourceId = std::uint32_t;

struct Route {
  PathClass path_class = PathClass::none;
  std::vector<ResourceId> resources;  ///< in the order of travel, no repeats
  Nanoseconds latency;                ///< wires, NICs and switches; software is in ProtocolConstants
  Bandwidth bottleneck;               ///< smallest capacity on the way (infinite when nothing limits)
  std::string_view scope = {};        ///< which constants apply ("shm", "nvlink-a100", "infiniband"); lives as long as the Resources
  int wires = 0;                      ///< NVLink wires of the narrowest NVLink hop

  bool exists() const { return path_class != PathClass::none; }
};

/// Owns its cluster. Thread-safe.
class Resources {
 public:
  explicit Resources(Cluster cluster);
  explicit Resources(Graph graph) : Resources(Cluster(std::move(graph))) {}
  ~Resources();
  Resources(Resources&&) noexcept;
  Resources& operator=(Resources&&) noexcept;

  const Cluster& cluster() const;
  std::size_t count() const;
  std::size_t per_copy() const;
  Bandwidth capacity(ResourceId id) const;
  std::string name(ResourceId id) const;  ///< "n3: gpu0 > nvswitch0 (nvlink x12)"
  /// No wire of its own: both directions of a slot together.
  bool is_both_ways(ResourceId id) const;
  /// Equal for resources that are copies of one another (same wire of another node).
  std::uint32_t class_of(ResourceId id) const;

  /// Way from device to device (cluster numbering). A device to itself crosses nothing, except that two ranks on one core or NUMA domain
  /// still share its memory. Between machines: the NIC nearest to each end (neighbours that are equally near take different ones).
  Route route(int from, int to, Via via = Via::any) const;
  /// The same into an existing Route, without allocation once it is warm.
  void route(int from, int to, Via via, Route& out) const;
  /// Between a device and a storage node of the fabric, by the device's own NIC: what it reads, or writes. Does not exist where the fabric
  /// has no such node.
  Route storage_route(int device, int storage_node, bool is_write) const;
  /// NIC (local device index) that a local device uses for other machines, or -1.
  int nic_of(int local_device) const;
  /// Link-level paths inside one copy.
  const PathFinder& paths() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace peal::topology
