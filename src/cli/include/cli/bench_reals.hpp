// Inputs that tell one order of summation from another, and how far results are from what the inputs sum to.
//
// Floating types: x = (-1)^s (1 + m / 2^f) 2^e with the type's f bits of fraction; s and m are even in all their bits, e is even in
// -6 ... 1 (so magnitudes lie in [2^-6, 4), every x is exact in every type, and f16 sums of 1,000 ranks do not overflow). For prod,
// magnitudes lie in [0.75, 1.25). All is a fixed function of rank and element, nothing else: not of size, machine or run.
// Integers and booleans: `contribution` of bench_values.hpp.
#pragma once

#include <cstdint>
#include <peal/types.hpp>

namespace peal::cli {

/// What `rank` gives at element `index`.
double real_contribution(int rank, std::uint64_t index, DataType type, ReduceOp op);

/// Writes real contributions index, index + 1, ... of `rank` to `count` elements.
void fill_reals(void* data, std::uint64_t count, int rank, std::uint64_t index, DataType type, ReduceOp op);

/// A reduction in more than f64: sums in two doubles that hold what each addition loses.
struct Reference {
  long double value = 0;
  long double magnitudes = 0;  ///< the same of the inputs' absolute values (sum, avg, premul_sum; else of `value`)
};
Reference reference_reduction(int ranks, std::uint64_t index, DataType type, ReduceOp op);

/// How far results are from the reference. Of one rank, or of several together.
struct ErrorFigures {
  std::uint64_t elements = 0;    ///< compared
  std::uint64_t not_finite = 0;  ///< of these: infinite or NaN (overflow); they count in nothing below
  double max_ulps = 0;           ///< |result - reference| / distance of the type's numbers around the reference
  double sum_ulps = 0;
  double max_relative = 0;  ///< |result - reference| / |reference|, where that is not 0
  double max_backward = 0;  ///< |result - reference| / sum of the inputs' magnitudes: what cancellation does not inflate

  double mean_ulps() const { return elements > not_finite ? sum_ulps / static_cast<double>(elements - not_finite) : 0; }
};

/// Compares results 0, stride, 2 stride, ... of `count`, which are those of elements index, index + stride, ..., and adds to `figures`.
void measure_errors(const void* data, std::uint64_t count, std::uint64_t stride, int ranks, std::uint64_t index, DataType type, ReduceOp op,
                    ErrorFigures& figures);

}  // namespace peal::cli
