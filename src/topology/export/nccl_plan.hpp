// A graph as the trees that NCCL wants: every GPU, NIC and PCIe switch below exactly one CPU.
#pragma once

#include <string>
#include <topology/graph.hpp>
#include <vector>

namespace peal::topology {

struct NcclPlan {
  std::vector<int> machines;  ///< node numbers, the first machine and what its NVLinks reach
  std::vector<int> cpus;      ///< devices that become a `cpu` element, in order
  std::vector<int> host;      ///< of each CPU in `cpus`, from 0: its machine, or the tray of a rack that is described as one machine
  int hosts = 0;
  std::vector<int> parent;          ///< by device: what it hangs on, -1 none (a CPU, or no part of the tree); kNoCpu: a machine without CPU
  std::vector<int> up_link;         ///< by device: the PCIe link to its parent, -1 none
  std::vector<std::string> bus_id;  ///< by device: of GPUs, NICs, PCIe switches, NVSwitches, and of CPUs that NVLinks end at
  bool has_made_up_ids = false;     ///< of some device
  static constexpr int kNoCpu = -2;

  /// Number of the machine in `machines`, from 0; -1 when it is not there.
  int host_of(int node) const;
};

/// Deterministic. Ids that are made up ascend in the order of the GPUs, domain k on machine k, and are none that the graph has.
NcclPlan plan_nccl(const Graph& graph);

}  // namespace peal::topology
