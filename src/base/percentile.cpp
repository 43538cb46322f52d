#include <algorithm>
#include <base/percentile.hpp>
#include <cmath>
#include <numeric>

namespace peal {

double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - std::floor(place)) * (values[above] - values[below]);
}

double value_at(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double mean_of_middle_half(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t outside = std::min((values.size() + 2) / 4, (values.size() - 1) / 2);
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(outside);
  const auto end = values.end() - static_cast<std::ptrdiff_t>(outside);
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

}  // namespace peal
