// The way from one device to another: best class first, then widest, then fewest hops, then lowest ids.
//
// Wires side by side act as one: parallel links between two devices form one hop, and all NVSwitches of a machine are one
// (the hardware stripes over them, and NCCL plans with them that way). GPUs, cores and NICs relay nothing inside a machine.
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>
#include <topology/graph.hpp>
#include <vector>

namespace peal::topology {

/// From near to far, in the words of NCCL and `nvidia-smi topo -m` (NCCL calls `node` PHB as well); `shm` and `loopback` are ours.
enum class PathClass : std::uint8_t {
  self,
  nvl,       ///< NVLink only, directly or through NVSwitch
  shm,       ///< cores through a cache or memory
  pix,       ///< one PCIe switch
  pxb,       ///< several PCIe switches, no host bridge
  phb,       ///< a host bridge
  node,      ///< several host bridges of one NUMA domain
  sys,       ///< between NUMA domains
  loopback,  ///< the host's network stack to itself
  net,       ///< between machines
  none,      ///< no way
};
std::string_view name_of(PathClass c) noexcept;  ///< "NVL", "PIX", "SHM", "LO", "NET", "NONE"

/// Which kinds of link a path may use.
enum class Via : std::uint8_t {
  any,            ///< everything but the loopback
  shared_memory,  ///< what shared memory of one host can use
  socket,         ///< loopback inside a machine, NICs between machines
};

/// Link index and direction: `forward` runs from link.a to link.b.
struct DirectedLink {
  int link = -1;
  bool forward = true;
  bool operator==(const DirectedLink&) const = default;
};

/// One hop: all wires between two places, used together.
struct Hop {
  int from = -1;  ///< device index (of several merged NVSwitches the lowest)
  int to = -1;
  std::vector<DirectedLink> links;
};

struct Path {
  PathClass path_class = PathClass::none;
  std::vector<Hop> hops;
  Bandwidth line;               ///< narrowest hop by specification, one direction
  Bandwidth bottleneck;         ///< narrowest hop, usable
  Nanoseconds latency;          ///< of the wires
  int wires = 0;                ///< wires of the narrowest NVLink hop (the 12 of NV12), else 0
  std::string_view scope = {};  ///< constants scope of the link that makes the class (points into the graph)

  bool exists() const { return path_class != PathClass::none; }
  std::vector<DirectedLink> links() const;  ///< of all hops, in order
};

/// Answers path questions about one graph, which must outlive it and stay as it is. Computes each pair once. Thread-safe.
class PathFinder {
 public:
  explicit PathFinder(const Graph& graph);
  /// Path from device `from` to device `to`; class none when there is no way. The reference lives as long as the finder.
  const Path& path(int from, int to, Via via = Via::any) const;
  const Graph& graph() const { return graph_; }
  /// The place that stands for a device: itself, or the first NVSwitch of its machine.
  int place_of(int device) const { return place_[static_cast<std::size_t>(device)]; }

 private:
  struct Edge {
    int to = -1;
    LinkKind kind = LinkKind::pcie;
    double line = 0;
    double usable = 0;
    double latency = 0;
    int wires = 0;
    std::vector<DirectedLink> links;
  };
  struct Filter;
  Path search(int from, int to, Via via) const;
  bool widest_shortest(int from, int to, const Filter& filter, std::vector<const Edge*>& out) const;
  bool can_relay(int device, const Filter& filter) const;
  Path assemble(int from, const std::vector<const Edge*>& edges) const;
  PathClass classify(int from, const std::vector<const Edge*>& edges) const;

  const Graph& graph_;
  std::vector<int> place_;
  std::vector<std::vector<Edge>> edges_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::uint64_t, Path> cache_;
};

}  // namespace peal::topology
