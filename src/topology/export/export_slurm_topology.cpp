// topology.conf and topology.yaml: the fabric of a cluster for Slurm. Forms: man topology.conf(5) and topology.yaml(5), Slurm 284c3b95.
#include <algorithm>
#include <topology/export.hpp>

#include "slurm_tree.hpp"
#include "slurm_words.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostBlockSizes = 16;

struct Plan {
  std::vector<std::string> names;  // of machines
  std::vector<SlurmSwitch> tree;
  std::vector<SlurmBlock> blocks;
  std::vector<int> sizes;  // of blocks: the planning size, then its doublings
};

Result<Plan> plan(const Graph& graph) {
  Plan p{.names = machine_names(graph), .tree = plan_slurm_tree(graph)};
  p.blocks = plan_slurm_blocks(graph, p.tree);
  if (p.blocks.empty()) {
    return fail(ErrorCode::invalid_argument,
                "{}: no machine hangs on a network switch, so Slurm has no topology to know: describe a cluster (--machine NAME --nodes N)",
                graph.title.empty() ? "the machine" : graph.title);
  }
  std::size_t smallest = p.blocks.front().machines.size();
  std::size_t largest = smallest;
  for (const SlurmBlock& b : p.blocks) {
    smallest = std::min(smallest, b.machines.size());
    largest = std::max(largest, b.machines.size());
  }
  for (std::size_t size = smallest; p.sizes.size() < kMostBlockSizes && (p.sizes.empty() || size <= smallest * p.blocks.size()); size *= 2)
    p.sizes.push_back(static_cast<int>(size));
  return p;
}

std::string machines_of(const Plan& p, const std::vector<int>& machines) {
  std::vector<std::string> names;
  for (int n : machines) names.push_back(p.names[static_cast<std::size_t>(n)]);
  return fold_names(std::move(names));
}

std::string children_of(const Plan& p, const SlurmSwitch& s) {
  std::vector<std::string> names;
  for (int child : s.children) names.push_back(p.tree[static_cast<std::size_t>(child)].name);
  // Names that already are a range ("leaf0-7") do not fold further.
  const bool can_fold = std::none_of(names.begin(), names.end(), [](const std::string& n) { return n.find('-') != std::string::npos; });
  return can_fold ? fold_names(std::move(names)) : fmt::format("{}", fmt::join(names, ","));
}

std::string head(const Graph& graph, const Plan& p) {
  const bool is_guess = p.names.empty() || p.names.front() == "n0";
  return fmt::format("# {}\n# Written by peal.{}\n", one_line(graph.title),
                     is_guess ? " Machines are called n0, n1 ... here: put your host names in their place, in this order." : "");
}

constexpr std::string_view kActAsOne = "{}# {}: {} switches that join the same machines, which Slurm sees as one\n";

}  // namespace

Result<std::string> export_slurm_topology(const Graph& graph, SlurmForm form) {
  PEAL_ASSIGN(const Plan p, plan(graph));
  std::string out = head(graph, p);
  if (form == SlurmForm::block) {
    out += "# slurm.conf: TopologyPlugin=topology/block\n";
    for (const SlurmBlock& b : p.blocks) out += fmt::format("BlockName={} Nodes={}\n", b.name, machines_of(p, b.machines));
    return out + fmt::format("BlockSizes={}\n", fmt::join(p.sizes, ","));
  }
  if (p.tree.empty())
    return fail(ErrorCode::invalid_argument, "{}: no machine hangs on a network switch: only blocks can be written (slurm-topology-block)",
                graph.title);
  out += "# slurm.conf: TopologyPlugin=topology/tree\n";
  for (const SlurmSwitch& s : p.tree) {
    if (s.members.size() > 1) out += fmt::format(kActAsOne, "", s.name, s.members.size());
    out += s.children.empty() ? fmt::format("SwitchName={} Nodes={}\n", s.name, machines_of(p, s.machines))
                              : fmt::format("SwitchName={} Switches={}\n", s.name, children_of(p, s));
  }
  return out;
}

Result<std::string> export_slurm_topology_yaml(const Graph& graph) {
  PEAL_ASSIGN(const Plan p, plan(graph));
  std::string out = head(graph, p) + "---\n";
  if (!p.tree.empty()) {
    out += "- topology: tree\n  cluster_default: true\n  tree:\n    switches:\n";
    for (const SlurmSwitch& s : p.tree) {
      if (s.members.size() > 1) out += fmt::format(kActAsOne, "      ", s.name, s.members.size());
      out += fmt::format("      - switch: {}\n", s.name);
      out += s.children.empty() ? fmt::format("        nodes: {}\n", machines_of(p, s.machines))
                                : fmt::format("        children: {}\n", children_of(p, s));
    }
  }
  out += fmt::format("- topology: block\n  cluster_default: {}\n  block:\n    block_sizes:\n", p.tree.empty());
  for (int size : p.sizes) out += fmt::format("      - {}\n", size);
  out += "    blocks:\n";
  for (const SlurmBlock& b : p.blocks) out += fmt::format("      - block: {}\n        nodes: {}\n", b.name, machines_of(p, b.machines));
  return out;
}

}  // namespace peal::topology
