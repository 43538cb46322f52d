#include "grid.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace peal::schedule {

namespace {

using Sides = std::vector<std::int32_t>;

std::int32_t steps_of(const Sides& sides) { return std::accumulate(sides.begin(), sides.end(), 0); }

}  // namespace

Sides grid_sides(std::int32_t groups) {
  Sides best;
  const auto offer = [&](Sides sides) {
    std::sort(sides.begin(), sides.end(), std::greater<>());
    if (best.empty() || steps_of(sides) < steps_of(best)) best = std::move(sides);
  };
  for (std::int32_t a = 2; a <= groups / a; ++a)
    if (groups % a == 0) offer({a, groups / a});
  for (std::int32_t a = 2; a <= groups / a / a; ++a) {
    if (groups % a != 0) continue;
    const std::int32_t rest = groups / a;
    for (std::int32_t b = a; b <= rest / b; ++b)
      if (rest % b == 0) offer({a, b, rest / b});
  }
  return best;
}

bool has_sides_for_rails(const GroupMap& map) { return map.is_equal && map.groups() > kLongestRail && !grid_sides(map.groups()).empty(); }

std::vector<Side> places_in_grid(const Sides& sides, std::int32_t number) {
  std::vector<Side> places;
  std::int32_t stride = 1;
  for (const std::int32_t size : sides) {
    places.push_back({size, number / stride % size, stride});
    stride *= size;
  }
  return places;
}

}  // namespace peal::schedule
