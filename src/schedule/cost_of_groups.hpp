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

}  // namespace peal::schedule
