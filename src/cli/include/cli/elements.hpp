// One element of a data type at a time, as its bits: what a benchmark's inputs are written with and its results read with. Shares
// nothing with `reduce`, whose results it judges.
#pragma once

#include <cstdint>
#include <peal/types.hpp>

namespace peal::cli {

/// Where the parts of a floating type lie: sign, exponent, fraction, from the highest bit down.
struct FloatFormat {
  int bytes;
  int fraction_bits;
  int bias;
  bool has_infinity;
  constexpr int exponent_bits() const { return bytes * 8 - 1 - fraction_bits; }
  constexpr int lowest_exponent() const { return 1 - bias; }  ///< of the normal numbers
  /// The bits of (-1)^negative * (1 + fraction / 2^fraction_bits) * 2^exponent, which must be a normal number of the format.
  constexpr std::uint64_t bits(bool negative, int exponent, std::uint64_t fraction) const {
    return std::uint64_t{negative} << (bytes * 8 - 1) | static_cast<std::uint64_t>(exponent + bias) << fraction_bits | fraction;
  }
};

/// Of a floating type.
FloatFormat float_format(DataType type);

/// What the element at `at` is worth (integers of 64 bits: rounded to a double).
double decode(const void* at, DataType type);

/// Writes a whole number that is exact in the type.
void encode(void* at, DataType type, std::int64_t value);

/// The distance between the numbers of the type around `value`: 1 for integers, never below the smallest number of a float.
double last_place(double value, DataType type);

}  // namespace peal::cli
