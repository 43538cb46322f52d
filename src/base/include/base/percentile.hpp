// Percentiles of figures that are all at hand.
#pragma once

#include <vector>

namespace peal {

/// Of `values`, which are not empty; `share` from 0 to 1, 0.5 is the median. Interpolates between neighbours.
double percentile(std::vector<double> values, double share);

/// The one of `values` that this share of them is before in order, and none between two: 0.5 of an even number is the upper of the middle
/// two; 0 of none. `share` is from 0 to below 1.
double value_at(std::vector<double> values, double share);

/// Mean of those that lie neither in the lowest nor in the highest quarter of `values`, which are not empty; at least one or two of them.
double mean_of_middle_half(std::vector<double> values);

}  // namespace peal
