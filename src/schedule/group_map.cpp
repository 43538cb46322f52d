#include "group_map.hpp"

#include <algorithm>

#include "radix_tree.hpp"

namespace peal::schedule {

std::int32_t GroupMap::index_in(std::int32_t group, std::int32_t rank) const {
  const std::vector<std::int32_t>& list = members[static_cast<std::size_t>(group)];
  return static_cast<std::int32_t>(std::find(list.begin(), list.end(), rank) - list.begin());
}

std::int32_t GroupMap::largest() const {
  std::size_t most = 0;
  for (const auto& list : members) most = std::max(most, list.size());
  return static_cast<std::int32_t>(most);
}

namespace {

GroupMap map_of(const Request& request) {
  std::vector<std::vector<std::int32_t>> members;
  for (std::int32_t p = 0; p < request.ranks; ++p) {
    const std::int32_t rank = request.placement.ring.empty() ? p : request.placement.ring[static_cast<std::size_t>(p)];
    const auto group =
        static_cast<std::size_t>(request.placement.group.empty() ? 0 : request.placement.group[static_cast<std::size_t>(rank)]);
    if (group >= members.size()) members.resize(group + 1);
    members[group].push_back(rank);
  }
  GroupMap map;
  std::int32_t next = 0;
  for (const auto& list : members) {
    map.is_equal = map.is_equal && list.size() == members[0].size();
    for (const std::int32_t rank : list) map.is_regular = map.is_regular && rank == next++;
  }
  map.is_regular = map.is_regular && map.is_equal;
  map.members = SharedLists(std::move(members));
  return map;
}

}  // namespace

GroupMap group_map(const Request& request) { return request.known.groups ? *request.known.groups : map_of(request); }

void keep_groups(Request& request) { request.known.groups = std::make_shared<const GroupMap>(map_of(request)); }

GroupSeat group_seat(const Request& request, const GroupMap& map, std::int32_t rank) {
  const std::int32_t group = request.placement.group.empty() ? 0 : request.placement.group[static_cast<std::size_t>(rank)];
  return {group, map.index_in(group, rank)};
}

CanonicalNode combined(CanonicalNode a, CanonicalNode b) {
  if (a.count == 0 || b.count == 0) return {};
  if (b.first < a.first) std::swap(a, b);
  if (a.first + a.count != b.first || a.count != power_below(a.count + b.count, 2)) return {};
  return {a.first, a.count + b.count};
}

namespace {

CanonicalNode sum_below(const std::vector<CanonicalNode>& nodes, std::int32_t root_index, std::int32_t radix, std::int32_t index) {
  const auto n = static_cast<std::int32_t>(nodes.size());
  const TreeSeat seat = tree_seat(n, root_index, radix, index);
  CanonicalNode sum = nodes[static_cast<std::size_t>(index)];
  for (auto child = seat.children.rbegin(); child != seat.children.rend(); ++child)
    sum = combined(sum, sum_below(nodes, root_index, radix, child->number));
  return sum;
}

}  // namespace

CanonicalNode tree_sum(const std::vector<CanonicalNode>& nodes, std::int32_t root_index, std::int32_t radix) {
  return sum_below(nodes, root_index, radix, root_index);
}

}  // namespace peal::schedule
