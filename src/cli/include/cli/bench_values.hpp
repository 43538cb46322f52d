// The data of a checked benchmark: every element of every rank is known beforehand, by arithmetic that shares nothing with Peal's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <peal/types.hpp>
#include <vector>

namespace peal::cli {

/// The value that `rank` contributes at element `index` of its input: a small integer, so that sums are exact in every
/// type (8-bit floats: up to 32 ranks, 12 with premul_sum; what they contribute to sums is mostly zero).
std::int64_t contribution(int rank, std::uint64_t index, DataType type, ReduceOp op);

/// This rank's factor for premul_sum.
constexpr double premul_factor(int rank) { return rank % 3 + 1; }

/// Writes contributions index, index + 1, ... of `rank` to `count` elements.
void fill_contributions(void* data, std::uint64_t count, int rank, std::uint64_t index, DataType type, ReduceOp op);

/// The reduction of all ranks' contributions at element `index`, before it is rounded to a floating type.
double expected_reduction(int ranks, std::uint64_t index, DataType type, ReduceOp op);

/// How many of `count` elements are not what `rank` contributed from `index` on.
std::int64_t count_wrong_copies(const void* data, std::uint64_t count, int rank, std::uint64_t index, DataType type, ReduceOp op);

/// How many of `count` elements are not the reduction over all ranks from `index` on. Averages of floating types may be off by one
/// unit in the last place (two roundings); everything else is exact.
std::int64_t count_wrong_reductions(const void* data, std::uint64_t count, int ranks, std::uint64_t index, DataType type, ReduceOp op);

}  // namespace peal::cli
