// Round numbers along an axis.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace peal {

/// Multiples of 1, 2 or 5 times a power of ten from 0 up to the first that is at or above `most`; about `count` of them.
inline std::vector<double> round_ticks(double most, int count) {
  most = std::max(most, 1e-9);
  const double raw = most / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (double factor : {5.0, 2.0, 1.0})
    if (factor * power >= raw * (1 - 1e-9)) step = factor * power;
  std::vector<double> ticks{0};
  while (ticks.back() < most * (1 - 1e-9)) ticks.push_back(static_cast<double>(ticks.size()) * step);
  return ticks;
}

}  // namespace peal
