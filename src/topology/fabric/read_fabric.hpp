// The `fabric:` of a cluster file and of a command line, and the joining of machines by it.
#pragma once

#include <topology/fabrics.hpp>

#include <topology/yaml_tree.hpp>

namespace peal::topology {

/// What was said of a fabric. What depends on the machine's NICs (a switch that fits them) is filled in by join_nodes.
struct FabricText {
  FabricSpec spec;               ///< between machines, or between NVLink networks of `pod` machines
  std::string switch_name = {};  ///< of data/fabrics/switches.yaml; empty: the one that fits the NICs
  bool has_latency = false;      ///< spec.switch_latency was said
  std::optional<NvlinkNetworkSpec> nvlink = {};
  int pod = 0;             ///< machines of one NVLink network; 0: as many as it takes
  std::string where = {};  ///< "FILE:LINE", "--fabric"; empty where nothing was said
};

/// A mapping with `kind:` or `of:`, or one word: a kind or a name of data/fabrics.
Result<FabricText> read_fabric(const YamlNode& node, const std::string& file);
/// "fat-tree,levels=2,oversubscription=2"
Result<FabricText> fabric_of_words(std::string_view words);
/// `nodes` machines on that fabric; `where` stands for the machine in messages.
Result<Cluster> join_nodes(Graph machine, int nodes, FabricText text, const std::string& where);

}  // namespace peal::topology
