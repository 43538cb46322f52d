// Which machine a command is about: one of the catalogue, a file, or this host. Shared by topo, explain and sim.
#pragma once

#include <base/result.hpp>
#include <string>
#include <topology/cluster.hpp>

namespace CLI {
class App;
}

namespace peal::cli {

struct ClusterWords {
  std::string machine;
  std::string file;
  int nodes = 1;
  std::string fabric;  ///< in words (topology/machine.hpp); empty: one that never limits
};

/// Adds --machine, --nodes, --fabric and --file.
void add_cluster_options(CLI::App& command, ClusterWords& words);

/// The cluster that is meant; this host when nothing was given.
Result<topology::Cluster> cluster_of(const ClusterWords& words);

}  // namespace peal::cli
