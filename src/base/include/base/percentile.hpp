// Percentiles of figures that are all at hand.
#pragma once

#include <vector>

namespace peal {

/// Of `values`, which are not empty; `share` from 0 to 1, 0.5 is the median. Interpolates between neighbours.
double percentile(std::vector<double> values, double share);

}  // namespace peal
