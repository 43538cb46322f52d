// What the two-level algorithms cost, and when their sums are canonical (build_hierarchical.cpp builds them).
#include <algorithm>
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "grid.hpp"
#include "group_map.hpp"
#include "radix_tree.hpp"

namespace peal::schedule {

namespace {

// The terms of the trees inside groups, over their actual roots, at their largest.
TreeTerms inside_terms(const Request& request, const GroupMap& map) {
  TreeTerms most = tree_terms(map.largest(), 0, request.radix);
  if (!has_root(request.collective)) return most;
  const GroupSeat top = group_seat(request, map, request.root);
  const auto size = static_cast<std::int32_t>(map.members[static_cast<std::size_t>(top.group)].size());
  const TreeTerms own = tree_terms(size, top.local, request.radix);
  most.depth = std::max(most.depth, own.depth);
  most.most_children = std::max(most.most_children, own.most_children);
  most.down = std::max(most.down, own.down);
  most.up = std::max(most.up, own.up);
  return most;
}

CostTerms all_reduce_cost(const Request& request, const GroupMap& map) {
  if (has_sides_for_rails(map)) return grid_all_reduce_cost(request);
  const double g = map.groups();
  CostTerms cost;
  cost.pipelined = true;
  if (map.is_equal) {
    const double m = map.size();
    if (m > 1) cost.level[0] = {2 * (m - 1), 2 * (m - 1), 2 * (m - 1) / m, 2 * (m - 1) / m, m - 1};
    cost.level[1] = {2 * (g - 1), 2 * (g - 1), 2 * (g - 1) / (g * m), 2 * (g - 1) / (g * m), g - 1};
    cost.reduced = (m - 1) / m + (g - 1) / (g * m);
    return cost;
  }
  const TreeTerms inside = inside_terms(request, map);
  cost.level[0] = {2 * inside.depth, inside.most_sent_up_down, inside.most_sent_up_down, inside.up + inside.down};
  cost.level[1] = {2 * (g - 1), 2 * (g - 1), 2 * (g - 1) / g, 2 * (g - 1) / g};
  cost.reduced = inside.most_children + (g - 1) / g;
  return cost;
}

// Blocks inside move one at a time: g rings one after another, each beside a step of the ring between.
CostTerms rails_cost(const Request& request, const GroupMap& map) {
  const double g = map.groups();
  const double m = map.size();
  const double n = request.ranks;
  CostTerms cost;
  cost.pipelined = true;
  cost.rounds_at_once = true;  // while a block goes round a group the next one crosses
  if (m > 1) cost.level[0] = {g * (m - 1), g * (m - 1), g * (m - 1) / n, g * (m - 1) / n, g * (m - 1)};
  cost.level[1] = {g - 1, g - 1, (g - 1) / n, (g - 1) / n, g - 1};
  if (has_reduction(request.collective))
    cost.reduced = (n - 1) / n;
  else
    cost.copied = request.in_place ? 0 : 1 / n;
  return cost;
}

// Broadcast and reduce: trees inside groups, and among leaders what `between` says of it.
CostTerms trees_cost(const Request& request, const GroupMap& map, const TreeTerms& between) {
  const TreeTerms inside = inside_terms(request, map);
  CostTerms cost;
  if (request.collective == Collective::broadcast) {
    cost.level[0] = {inside.depth, inside.most_children, inside.most_children, inside.down};
    cost.level[1] = {between.depth, between.most_children, between.most_children, between.down};
    cost.copied = request.in_place ? 0 : 1;
  } else {
    cost.level[0] = {.rounds = inside.depth, .messages = 1, .sent = 1, .critical = inside.up, .received = inside.most_children};
    cost.level[1] = {.rounds = between.depth, .messages = 1, .sent = 1, .critical = between.up, .received = between.most_children};
    cost.reduced = inside.most_children + between.most_children;
  }
  cost.pipelined = true;
  return cost;
}

// A tree in which everybody has one child.
TreeTerms chain_terms(std::int32_t n) {
  TreeTerms terms;
  terms.depth = terms.down = terms.up = n - 1;
  terms.most_children = 1;
  return terms;
}

CostTerms barrier_cost(const Request& request, const GroupMap& map) {
  const TreeTerms inside = inside_terms(request, map);
  double rounds = 0;
  for (std::int64_t reach = 1; reach < map.groups(); reach *= 2) rounds += 1;
  CostTerms cost;
  cost.level[0] = {2 * inside.depth, inside.most_sent_up_down, 0, 0};
  cost.level[1] = {rounds, rounds, 0, 0};
  return cost;
}

std::vector<CanonicalNode> single_ranks(const std::vector<std::int32_t>& ranks) {
  std::vector<CanonicalNode> nodes;
  for (const std::int32_t rank : ranks) nodes.push_back({rank, 1});
  return nodes;
}

// A ring sums one rotation a chunk: canonical for all of them only between two.
bool rings_are_canonical(const GroupMap& map) {
  if (map.size() > 2 || map.groups() > 2) return false;
  const CanonicalNode first = tree_sum(single_ranks(map.members[0]), 0, 2);
  const CanonicalNode second = tree_sum(single_ranks(map.members[1]), 0, 2);
  return combined(first, second).count != 0;
}

// What the leaders hold when the trees inside their groups are done; `top`: the root of all.
std::vector<CanonicalNode> sums_of_groups(const Request& request, const GroupMap& map, GroupSeat top) {
  std::vector<CanonicalNode> sums;
  for (std::int32_t k = 0; k < map.groups(); ++k)
    sums.push_back(tree_sum(single_ranks(map.members[static_cast<std::size_t>(k)]), k == top.group ? top.local : 0, request.radix));
  return sums;
}

bool trees_are_canonical(const Request& request, const GroupMap& map, std::int32_t root) {
  const GroupSeat top = group_seat(request, map, root);
  return tree_sum(sums_of_groups(request, map, top), top.group, request.radix).count != 0;
}

bool is_canonical_by_chain(const Request& request, const GroupMap& map) {
  const GroupSeat top = group_seat(request, map, request.root);
  std::vector<CanonicalNode> sums = sums_of_groups(request, map, top);
  std::rotate(sums.begin(), sums.begin() + top.group, sums.end());
  CanonicalNode sum = sums.back();
  for (auto next = sums.rbegin() + 1; next != sums.rend(); ++next) sum = combined(*next, sum);
  return sum.count != 0;
}

}  // namespace

CostTerms hierarchical_cost(const Request& request) {
  const GroupMap map = group_map(request);
  switch (request.collective) {
    case Collective::all_reduce: return all_reduce_cost(request, map);
    case Collective::all_gather:
    case Collective::reduce_scatter: return rails_cost(request, map);
    case Collective::barrier: return barrier_cost(request, map);
    default: return trees_cost(request, map, tree_terms(map.groups(), group_seat(request, map, request.root).group, request.radix));
  }
}

bool hierarchical_is_canonical(const Request& request) {
  if (!has_reduction(request.collective)) return true;
  const GroupMap map = group_map(request);
  if (request.collective == Collective::reduce) return trees_are_canonical(request, map, request.root);
  if (map.is_equal) return rings_are_canonical(map);
  return map.groups() == 2 && trees_are_canonical(request, map, map.member(0, 0));
}

CostTerms leader_chain_cost(const Request& request) {
  const GroupMap map = group_map(request);
  return trees_cost(request, map, chain_terms(map.groups()));
}

bool leader_chain_is_canonical(const Request& request) {
  return !has_reduction(request.collective) || is_canonical_by_chain(request, group_map(request));
}

}  // namespace peal::schedule
