// Leaves first: machines whose NICs hang on the same switches are one group. Then the switches are taken in tier by tier, nearest to the
// machines first; wherever a tier joins groups, the join is one switch of the tree:
//
//     core0 core1                    (joins pod A and pod B)      ->  core0-1: spineA, spineB
//     spineA0 spineA1   spineB0 ...  (joins the leaves of a pod)  ->  spineA0-1: leafA0, leafA1
//     leafA0 leafA1     leafB0 ...                                ->  leafA0: n0, n1 ...
#include "slurm_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "slurm_words.hpp"

namespace peal::topology {
namespace {

/// Sets that only ever grow together.
class Joined {
 public:
  explicit Joined(int n) : parent_(static_cast<std::size_t>(n)) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int x) {
    while (at(x) != x) x = at(x) = at(at(x));
    return x;
  }
  void join(int a, int b) {
    a = find(a);
    b = find(b);
    at(std::max(a, b)) = std::min(a, b);
  }

 private:
  int& at(int x) { return parent_[static_cast<std::size_t>(x)]; }
  std::vector<int> parent_;
};

/// A machine's NICs with a rail; all of them where none has one.
std::vector<std::vector<int>> leaf_switches_of(const Graph& graph) {
  const std::vector<int> nics = graph.devices_of(DeviceKind::nic);
  const bool has_rails = std::any_of(nics.begin(), nics.end(), [&](int d) { return graph.device(d).rail >= 0; });
  std::vector<std::vector<int>> leaves(static_cast<std::size_t>(graph.node_count()));
  for (int d = 0; d < graph.device_count(); ++d) {
    const Device& device = graph.device(d);
    if (device.node < 0 || device.kind == DeviceKind::net_switch || (device.kind == DeviceKind::nic && has_rails && device.rail < 0))
      continue;
    for (int l : graph.links_of(d)) {
      const int other = graph.other_end(l, d);
      if (graph.device(other).kind == DeviceKind::net_switch) leaves[static_cast<std::size_t>(device.node)].push_back(other);
    }
  }
  for (auto& row : leaves) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return leaves;
}

/// "fabric/leaf3" -> "leaf3"; several: "leaf0-7" where they are counted through, else "leaf0-and-7-more".
std::string name_of_members(const Graph& graph, const std::vector<int>& members) {
  std::vector<std::string> names;
  for (int d : members) {
    const std::string& id = graph.device(d).id;
    names.push_back(slurm_name(id.starts_with("fabric/") ? std::string_view(id).substr(7) : std::string_view(id)));
  }
  if (names.empty()) return "switch";
  if (names.size() == 1) return names.front();
  const std::string folded = fold_names(names);
  const std::size_t open = folded.find('[');
  const bool is_one_range = open != std::string::npos && folded.back() == ']' && folded.find_first_of(",[", open + 1) == std::string::npos;
  if (is_one_range) return folded.substr(0, open) + folded.substr(open + 1, folded.size() - open - 2);
  return fmt::format("{}-and-{}-more", names.front(), names.size() - 1);
}

class SlurmPlanner {
 public:
  explicit SlurmPlanner(const Graph& graph) : graph_(graph), joined_(graph.device_count()), leaves_(leaf_switches_of(graph)) {}

  std::vector<SlurmSwitch> plan() {
    make_leaves();
    if (tree_.empty()) return {};
    tier_by_tier();
    return std::move(tree_);
  }

 private:
  void make_leaves() {
    for (const auto& row : leaves_)
      for (std::size_t i = 1; i < row.size(); ++i) joined_.join(row[0], row[i]);
    std::map<int, std::size_t> by_root;
    for (std::size_t n = 0; n < leaves_.size(); ++n) {
      if (leaves_[n].empty()) continue;
      const auto [it, is_new] = by_root.emplace(joined_.find(leaves_[n].front()), tree_.size());
      if (is_new) tree_.emplace_back();
      SlurmSwitch& leaf = tree_[it->second];
      leaf.machines.push_back(static_cast<int>(n));
      leaf.members.insert(leaf.members.end(), leaves_[n].begin(), leaves_[n].end());
    }
    for (SlurmSwitch& leaf : tree_) {
      std::sort(leaf.members.begin(), leaf.members.end());
      leaf.members.erase(std::unique(leaf.members.begin(), leaf.members.end()), leaf.members.end());
      leaf.everything = leaf.machines;
      leaf.name = unique_name(leaf.members);
      top_of_[joined_.find(leaf.members.front())] = static_cast<int>(&leaf - tree_.data());
      for (int d : leaf.members) seen_.insert(d);
    }
  }

  /// Links among the switches that are there already join first (the groups of a dragonfly), then the next tier of switches comes in.
  void tier_by_tier() {
    std::vector<int> ring(seen_.begin(), seen_.end());
    join_links_between(ring);
    while (!ring.empty()) {
      std::vector<int> next;
      for (int d : ring)
        for (int l : graph_.links_of(d)) {
          const int other = graph_.other_end(l, d);
          if (graph_.device(other).kind == DeviceKind::net_switch && seen_.insert(other).second) next.push_back(other);
        }
      const std::map<int, std::vector<int>> before = tops();
      const std::set<int> fresh(next.begin(), next.end());
      for (int d : next)
        for (int l : graph_.links_of(d)) {
          const int other = graph_.other_end(l, d);
          if (seen_.contains(other) && !fresh.contains(other)) joined_.join(d, other);
        }
      add_joins(before, next);
      join_links_between(next);
      ring = std::move(next);
    }
  }

  /// What comes before the last slash of an id: switches with the same words there belong together ("fabric/group3/router2").
  std::string_view group_of(int d) const {
    const std::string_view id = graph_.device(d).id;
    return id.substr(0, id.rfind('/') == std::string_view::npos ? 0 : id.rfind('/'));
  }

  /// Of a dragonfly: first the links inside each group, then all.
  void join_links_between(const std::vector<int>& ring) {
    const std::set<int> here(ring.begin(), ring.end());
    for (const bool is_inside : {true, false}) {
      const std::map<int, std::vector<int>> before = tops();
      for (int d : ring)
        for (int l : graph_.links_of(d)) {
          const int other = graph_.other_end(l, d);
          if (!here.contains(other)) continue;
          if (!is_inside || group_of(d) == group_of(other)) joined_.join(d, other);
        }
      add_joins(before, {});
    }
  }

  /// The switches at the top of the tree so far, by what they have been joined to.
  std::map<int, std::vector<int>> tops() {
    std::map<int, std::vector<int>> result;
    for (const auto& [root, top] : top_of_) result[joined_.find(root)].push_back(top);
    return result;
  }

  /// A switch of the tree wherever several tops have come together; `members` are the switches that did it.
  void add_joins(const std::map<int, std::vector<int>>& before, const std::vector<int>& members) {
    std::map<int, std::vector<int>> now;
    for (const auto& [root, list] : before) {
      auto& joined = now[joined_.find(root)];
      joined.insert(joined.end(), list.begin(), list.end());
    }
    std::map<int, std::vector<int>> doing;
    for (int d : members) doing[joined_.find(d)].push_back(d);
    top_of_.clear();
    for (auto& [root, list] : now) {
      std::sort(list.begin(), list.end());
      if (list.size() == 1) {
        top_of_[root] = list.front();
        auto& above = tree_[static_cast<std::size_t>(list.front())].above;
        above.insert(above.end(), doing[root].begin(), doing[root].end());
        continue;
      }
      SlurmSwitch join;
      join.children = list;
      join.members = doing[root];
      std::sort(join.members.begin(), join.members.end());
      for (int child : list) {
        const auto& below = tree_[static_cast<std::size_t>(child)].everything;
        join.everything.insert(join.everything.end(), below.begin(), below.end());
      }
      std::sort(join.everything.begin(), join.everything.end());
      join.name = join.members.empty() ? unique(name_of_join(list)) : unique_name(join.members);
      top_of_[root] = static_cast<int>(tree_.size());
      tree_.push_back(std::move(join));
    }
  }

  /// Groups that are joined without switches of their own: by what their switches' ids have in common.
  std::string name_of_join(const std::vector<int>& tops) const {
    std::set<std::string> groups;
    for (int top : tops) {
      const SlurmSwitch* s = &tree_[static_cast<std::size_t>(top)];
      while (s->members.empty()) s = &tree_[static_cast<std::size_t>(s->children.front())];
      groups.insert(std::string(group_of(s->members.front())));
    }
    const std::string& first = *groups.begin();
    const std::string_view stem = std::string_view(first).substr(first.rfind('/') == std::string::npos ? 0 : first.rfind('/') + 1);
    return groups.size() == 1 && !stem.empty() ? slurm_name(stem) : "all";
  }

  std::string unique_name(const std::vector<int>& members) { return unique(name_of_members(graph_, members)); }
  std::string unique(const std::string& name) {
    std::string result = name;
    for (int i = 2; !names_.insert(result).second; ++i) result = fmt::format("{}_{}", name, i);
    return result;
  }

  const Graph& graph_;
  Joined joined_;  // of devices: switches
  std::vector<std::vector<int>> leaves_;
  std::vector<SlurmSwitch> tree_;
  std::map<int, int> top_of_;  // by a member of each joined set
  std::set<int> seen_;
  std::set<std::string> names_;
};

}  // namespace

std::vector<SlurmSwitch> plan_slurm_tree(const Graph& graph) { return SlurmPlanner(graph).plan(); }

std::vector<SlurmBlock> plan_slurm_blocks(const Graph& graph, const std::vector<SlurmSwitch>& tree) {
  Joined joined(graph.device_count());
  for (const Link& l : graph.links())
    if (l.kind == LinkKind::nvlink) joined.join(l.a, l.b);
  std::map<int, std::set<int>> domains;
  for (int d : graph.devices_of(DeviceKind::gpu)) domains[joined.find(d)].insert(graph.device(d).node);
  std::vector<SlurmBlock> blocks;
  std::set<std::set<int>> several;
  for (const auto& [root, machines] : domains)
    if (machines.size() > 1) several.insert(machines);
  for (const auto& machines : several)
    blocks.push_back({fmt::format("nvlink{}", blocks.size()), std::vector<int>(machines.begin(), machines.end())});
  if (!blocks.empty()) return blocks;
  for (const SlurmSwitch& s : tree)
    if (!s.machines.empty()) blocks.push_back({s.name, s.machines});
  return blocks;
}

}  // namespace peal::topology
