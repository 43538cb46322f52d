// The catalogue (data/machines/*.yaml) and our own YAML form of machines and clusters.
//
//   machine: dgx-h100        # a cluster of catalogue machines
//   nodes: 4
//
//   devices:                 # or a machine spelled out; "gpu[0-7]" stands for eight ids
//     - {id: "gpu[0-1]", kind: gpu, name: RTX 4090}
//     - {id: cpu0, kind: cpu}
//   links:                   # join: each (default: every a with every b), pair (first with first), group (equal shares of a with each
//                            # of b: the first half of a with the first of two) or mesh (every two of a; b says the same)
//     - {a: "gpu[0-1]", b: cpu0, kind: pcie, GBps: 31.5, source: PCIe 4.0 x16}
//     - {a: gpu0, b: gpu1, of: nvlink-3, count: 4}     # or by its generation (link_catalogue.hpp); what is written beside `of:` wins
//   ranks: gpu               # optional: the kind of device that ranks are placed on
//   nodes: 2                 # optional: so many copies, joined by those of their NICs that have a port and a rail
//   fabric: {kind: fat-tree, levels: 2, radix: 64, oversubscription: 2}   # optional; or a name of data/fabrics
//
// Kinds of fabric and their keys are in docs/guide/clusters.md, what they mean in fabrics.hpp. A fabric is also words,
// "fat-tree,levels=2,oversubscription=2", the same keys (`peal topo --fabric`). Without one nothing between the NICs ever limits.
//
// Every figure has a source; where a user's file gives none it is "declared in FILE:LINE". Errors name file, line and the mend.
#pragma once

#include <topology/cluster.hpp>

namespace peal::topology {

struct MachineEntry {
  std::string name;   ///< "dgx-a100"
  std::string title;  ///< "NVIDIA DGX A100, 8 GPUs, ..."
};

/// Where data/ is: PEAL_DATA_DIR, else share/peal beside the executable's folder, else the source tree.
std::string data_directory();

/// The catalogue, sorted by name.
Result<std::vector<MachineEntry>> list_machines();
/// One machine. An unknown name fails with the nearest match.
Result<Graph> load_machine(std::string_view name);
/// `nodes` of them, joined by their NICs through a fabric in words; empty: an ideal non-blocking one, NIC i of every node on rail i.
Result<Cluster> build_cluster(std::string_view name, int nodes, std::string_view fabric = {});
/// The same from a graph that is at hand (a discovered host).
Result<Cluster> build_cluster(Graph machine, int nodes, std::string_view fabric = {});

struct FabricEntry {
  std::string name;  ///< "dgx-h100-superpod"
  std::string title;
};
/// Published fabrics (data/fabrics/*.yaml), sorted by name.
Result<std::vector<FabricEntry>> list_fabrics();

/// A file in our YAML form.
Result<Cluster> read_cluster_file(const std::string& path);
/// The same from text; `name` stands for the file in messages. Takes any bytes: at most 4 MiB, 64 levels, 100,000 devices and 1,000,000
/// links.
Result<Cluster> read_cluster_text(std::string_view text, const std::string& name);
/// read_cluster_file, spelled out as one graph.
Result<Graph> read_graph_file(const std::string& path);

}  // namespace peal::topology
