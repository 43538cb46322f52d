// Index arithmetic of grids: the groups of a placement stand in rows, rows in planes; ranks of one group are one more side. Private to this
// room.
#pragma once

#include <cstdint>
#include <vector>

#include "group_map.hpp"

namespace peal::schedule {

/// How many groups stand along each side, neighbours first: `groups` = the product of the sides, which are 2 or more. Of all ways to write
/// it as two or three factors that with the smallest sum, because a ring along a side of s takes s - 1 steps; of equal sums the shorter
/// list. The longest side comes first: what goes along it crosses most bytes and stays among neighbours. Empty: a prime, or less than 4.
std::vector<std::int32_t> grid_sides(std::int32_t groups);

/// A ring along a rail of g groups takes 2 (g - 1) steps; longer rails than this many groups are left to rings along the sides of a grid,
/// by `hierarchical` too.
inline constexpr std::int32_t kLongestRail = 1024;
bool has_sides_for_rails(const GroupMap& map);

/// A place among those that differ from it along one side alone.
struct Side {
  std::int32_t size = 1;
  std::int32_t position = 0;
  std::int32_t stride = 1;  ///< between the numbers of neighbours

  /// Who stands at a position of this side, seen from `number`.
  std::int32_t at(std::int32_t number, std::int32_t there) const { return number + (there - position) * stride; }
};

/// The place of a number along each side, the first of which tells neighbouring numbers apart.
std::vector<Side> places_in_grid(const std::vector<std::int32_t>& sides, std::int32_t number);

}  // namespace peal::schedule
