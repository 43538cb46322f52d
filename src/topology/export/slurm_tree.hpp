// A cluster's fabric as Slurm wants it: every machine below exactly one switch, every switch below at most one.
#pragma once

#include <string>
#include <topology/graph.hpp>
#include <vector>

namespace peal::topology {

/// One switch of Slurm's tree: one or more switches of the fabric that join the same machines.
struct SlurmSwitch {
  std::string name;             ///< unique
  std::vector<int> members;     ///< device indices, the switches of the fabric that it stands for
  std::vector<int> above;       ///< switches of the fabric further up that reach nothing but what this one does
  std::vector<int> machines;    ///< node numbers right below it (leaves)
  std::vector<int> children;    ///< indices of switches right below it, all smaller than its own
  std::vector<int> everything;  ///< node numbers anywhere below it, ascending
};

struct SlurmBlock {
  std::string name;
  std::vector<int> machines;  ///< node numbers, ascending
};

/// Switches from the leaves up. Machines with NICs on the same, or on overlapping, sets of switches share a leaf. Empty when no machine
/// hangs on a switch.
std::vector<SlurmSwitch> plan_slurm_tree(const Graph& graph);

/// NVLink domains where some span several machines, else the leaves of `tree`.
std::vector<SlurmBlock> plan_slurm_blocks(const Graph& graph, const std::vector<SlurmSwitch>& tree);

}  // namespace peal::topology
