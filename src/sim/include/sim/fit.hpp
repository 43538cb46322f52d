// Fits the constants of library.hpp to measured times. Robust least squares on the logarithm of predicted / measured, with priors.
#pragma once

#include <sim/library.hpp>
#include <span>

namespace peal::sim {

/// One measured call. What the library chose does not depend on fitted constants, so a way is made once.
struct FitRow {
  LibraryWay way;
  double measured_us = 0;
  double weight = 1;    ///< of its squared error
  std::string machine;  ///< catalogue name
  std::string id;       ///< of its case
};

/// `start` with every fitted constant that a row depends on turned to its best value, and with the machines and cases that it rests on;
/// what no row depends on is back at its prior, without machines. Loss of a residual r: 2 (sqrt(1 + (r / 0.05)^2) - 1); of a constant: its
/// distance from the prior in spreads, times a twentieth, squared. Levenberg and Marquardt's method with reweighting; deterministic.
topology::LibraryConstants fit_constants(std::span<const FitRow> rows, topology::LibraryConstants start);

}  // namespace peal::sim
