// Constants of the roofline fitted to runs.
#pragma once

#include "estimate.hpp"

namespace peal::training {

struct FitRun {
  OpenRun open;
  double seconds = 0;  ///< measured
  std::string id, source;
};

/// Least squares of logarithms, each constant held to its prior by its spread. A source of n runs weighs as sqrt(n) of them: its runs are
/// not so many witnesses. Names the sources and runs that decided each constant.
topology::LibraryConstants fit_rates(const std::vector<const FitRun*>& runs, topology::LibraryConstants constants);

}  // namespace peal::training
