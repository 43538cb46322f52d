/// What a drawing of a cluster says of its parts: tiers of switches, what a machine holds, which groups look alike.
#pragma once

#include <map>
#include <string>
#include <topology/graph.hpp>
#include <vector>

#include "export/slurm_tree.hpp"

namespace peal::topology {

struct FabricParts {
  explicit FabricParts(const Graph& of);

  struct Machine {
    std::string looks;  ///< equal words: drawn alike
    std::string lines[2];
    std::map<std::string, int> compute;
    int ports = 0;
    double GBps = 0;
  };

  bool is_switch(int d) const { return graph.device(d).kind == DeviceKind::net_switch; }
  /// NVSwitches that belong to no machine.
  bool is_shared(int d) const { return graph.device(d).node < 0 && !is_switch(d); }

  const Graph& graph;
  std::vector<SlurmSwitch> tree;
  std::vector<std::string> names;  ///< of the machines
  std::vector<Machine> machines;
  std::map<int, int> tier;  ///< of switches: 0 next to the machines
  int top_tier = 0;
  std::vector<std::string> looks;  ///< of each entry of `tree`; equal words: drawn alike

 private:
  void find_tiers();
  void describe_machines();
  std::string looks_of(const SlurmSwitch& s) const;
};

}  // namespace peal::topology
