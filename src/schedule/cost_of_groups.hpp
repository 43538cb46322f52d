// Which messages of a flat algorithm cross between groups: index arithmetic for cost terms. Private to this room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <schedule/registry.hpp>

namespace peal::schedule {

/// True where the placement knows more than one group.
inline bool has_groups(const Request& request) {
  const auto& group = request.placement.group;
  return std::any_of(group.begin(), group.end(), [](std::int32_t g) { return g != 0; });
}

inline std::int32_t group_of(const Request& request, std::int32_t rank) {
  return request.placement.group.empty() ? 0 : request.placement.group[static_cast<std::size_t>(rank)];
}

/// Ranks in the smallest and in the largest group.
struct GroupSizes {
  std::int32_t smallest;
  std::int32_t largest;
};
inline GroupSizes group_sizes(const Request& request) {
  if (!has_groups(request)) return {request.ranks, request.ranks};
  std::vector<std::int32_t> size(static_cast<std::size_t>(request.ranks), 0);
  for (std::int32_t g : request.placement.group) ++size[static_cast<std::size_t>(g)];
  GroupSizes sizes{request.ranks, 0};
  for (std::int32_t s : size) {
    if (s > 0) sizes.smallest = std::min(sizes.smallest, s);
    sizes.largest = std::max(sizes.largest, s);
  }
  return sizes;
}

/// Terms of a tree over groups of consecutive ranks, whose upper levels cross: the share `inside` of rounds and critical path stays inside
/// groups. With unequal or scattered groups an estimate.
inline CostTerms split_levels(const Request& request, const CostTerms::Level& all, double inside) {
  CostTerms cost;
  cost.level[0] = all;
  if (!has_groups(request)) return cost;
  cost.level[1] = all;
  cost.level[0].rounds = all.rounds * inside;
  cost.level[0].critical = all.critical * inside;
  cost.level[1].rounds = all.rounds * (1 - inside);
  cost.level[1].critical = all.critical * (1 - inside);
  return cost;
}

}  // namespace peal::schedule
