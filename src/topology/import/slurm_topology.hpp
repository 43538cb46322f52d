// What Slurm's topology.conf and topology.yaml say, and the graph of it.
//
//   tree      switches over switches over hosts
//   block     hosts of a block below one switch, blocks below one that the file does not name
//   ring      neighbours joined, in the order of the list
//   torus3d   hosts in the order x, then y, then z, joined to their neighbours, with the way around
#pragma once

#include <string>
#include <vector>

#include "network_drawing.hpp"

namespace peal::topology {

struct SlurmTopology {
  struct Switch {
    std::string name;
    int line = 0;
    std::string switches = {};  ///< host list of the switches below
    std::string nodes = {};     ///< host list
  };
  struct Group {  ///< a block or a ring
    std::string name;
    int line = 0;
    std::string nodes = {};
  };
  struct Torus {
    std::string name;
    int line = 0;
    int x = 0;
    int y = 0;
    int z = 0;
    std::string nodes = {};
  };
  std::vector<Switch> switches;
  std::vector<Group> blocks;
  std::vector<int> block_sizes;  ///< the planning size first
  int block_sizes_line = 0;
  std::vector<Group> rings;
  std::vector<Torus> toruses;

  bool is_empty() const { return switches.empty() && blocks.empty() && rings.empty() && toruses.empty(); }
  /// "tree of 4 switches, block of 3 blocks".
  std::string summary() const;
};

/// Adds hosts, switches and links, and warns of what does not fit together.
Status draw_slurm_topology(const SlurmTopology& topology, Graph& graph, Remarks& remarks, const std::string& source);

}  // namespace peal::topology
