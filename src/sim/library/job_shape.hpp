// What a collective library sees of a job: how many GPUs a node, what joins them, what leads out. Private to this room.
#pragma once

#include <sim/library.hpp>

namespace peal::sim {

enum class NodeWire : std::uint8_t { nvlink, xgmi, hccs, pcie };
std::string_view name_of(NodeWire wire) noexcept;  ///< "nvlink": part of constants' names

/// Of JobShape::gpu: what NCCL has LL128 over PXN, NVLS and fewer doubled channels for.
bool is_hopper_or_blackwell(std::string_view gpu) noexcept;

/// How GPUs reach a node's NICs with GPUDirect RDMA: over PCIe switches; so do others of the node, but not each its own; over wires of
/// their own to the processor, which has the NICs; through host bridges or host memory.
enum class NicPath : std::uint8_t { switches, other_gpu, wires, host };

struct JobShape {
  int ranks = 1;
  int nodes = 1;
  int per_node = 1;
  std::string gpu;   ///< generation: "volta", "ampere", "hopper", "blackwell", "blackwell-12" (GB10, RTX 50), "cdna", "ascend"
  std::string link;  ///< whose share of the rings is known: "nvlink", "xgmi", "pcie"
  NodeWire wire = NodeWire::nvlink;
  double ring_GBps = 0;           ///< of all rings inside a node together, usable; 0: one rank a node
  double port_GBps = 0;           ///< of one GPU's own links to the others, usable
  double pair_GBps = 0;           ///< from one GPU to one other of its node
  bool has_multicast = false;     ///< NVSwitches that reduce and multicast, and GPUs that can use them
  bool has_network_sums = false;  ///< between nodes are switches that sum (SHARP)
  int nics = 0;                   ///< of a node
  double net_GBps = 0;            ///< of all NICs of a node, line rate, one direction
  NicPath nic_path = NicPath::host;
  bool has_amd_host = false;    ///< processors of AMD, by whose hosts NCCL plans LL between nodes slower
  bool is_staged = false;       ///< bytes between NICs and GPUs go through host memory: no GPUDirect RDMA
  bool crosses_bridge = false;  ///< GPUDirect RDMA goes through a host bridge, from one PCIe root to another
  double stage_GBps = 0;        ///< of the GPUs' PCIe ports that they take then, line rate; 0: not staged, or no such port
  std::string network;          ///< "infiniband", "roce", "efa-1", "tcp"; empty: one node
  int channels = 1;
  int graph_channels = 1;  ///< of the graph that NCCL plans with, between nodes before it takes each twice
};

Result<JobShape> shape_of(const topology::Cluster& cluster, std::span<const int> device_of_rank, const LibraryOptions& options,
                          const topology::LibraryConstants& constants);

}  // namespace peal::sim
