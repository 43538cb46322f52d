// A graph in words, tables and pictures. All functions are pure; tables end with a newline.
#pragma once

#include <base/result.hpp>
#include <string>
#include <topology/cluster.hpp>

namespace peal::topology {

/// How a machine is wired, for a person: devices by kind, links by kind with their sums, warnings, sources.
std::string describe_text(const Graph& graph);
/// Longer matrices are of use to nobody, and take minutes: every pair's path is searched.
inline constexpr std::size_t kMostMatrixRows = 1024;
/// Path classes between GPUs (or cores) and NICs, as `nvidia-smi topo -m` prints them (tabs, legend).
std::string describe_matrix(const Graph& graph);
/// One line a bundle of links: ends, kind, count, GB/s line and usable, latency, source.
std::string describe_links(const Graph& graph);
/// {"devices":[{"id","kind","name",...}],"links":[{"a","b","kind","GBps","count","latency_ns","source"}],"warnings":[..]}; GBps is the line
/// rate of one wire and direction.
std::string describe_json(const Graph& graph);
/// The catalogue as a table (`peal machines`).
Result<std::string> describe_machines();

/// A drawing of one node: devices in their places, links with width by bandwidth and colour by kind. `node` of a larger graph.
std::string draw_svg(const Graph& graph, int node = 0);
/// A drawing of a cluster: machines at the bottom, switches above them in tiers, what repeats drawn once with its number ("x 28 more").
/// Machines that hang on no switch are drawn with the links between them.
std::string draw_fabric_svg(const Graph& graph);
/// Graphviz.
std::string export_dot(const Graph& graph);
/// Our own form; read_cluster_text reads it back to an equal graph.
std::string export_yaml(const Graph& graph);

}  // namespace peal::topology
