#include <algorithm>
#include <base/names.hpp>
#include <bit>
#include <cli/bench_reals.hpp>
#include <cli/bench_values.hpp>
#include <cli/elements.hpp>
#include <cmath>
#include <cstring>

namespace peal::cli {

namespace {

constexpr std::uint64_t kSeed = 0x5065616c;  // of all inputs

// splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014) of a rank and an element.
std::uint64_t mixed(int rank, std::uint64_t index) {
  std::uint64_t z = kSeed + static_cast<std::uint64_t>(rank + 1) * 0x9e3779b97f4a7c15ull + (index + 1) * 0xd1342543de82ef95ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

struct Parts {
  bool negative;
  int exponent;
  std::uint64_t fraction;
};

Parts parts_of(std::uint64_t z, int fraction_bits, ReduceOp op) {
  const std::uint64_t all = (std::uint64_t{1} << fraction_bits) - 1;
  const bool negative = z >> 63 != 0;
  if (op != ReduceOp::prod) return {negative, static_cast<int>(z >> 60 & 7) - 6, z & all};
  // 1 to 1.25, or 0.75 to 1: products of many ranks stay near 1
  if ((z >> 60 & 1) != 0) return {negative, 0, z & all >> 2};
  return {negative, -1, (z & all) | std::uint64_t{1} << (fraction_bits - 1)};
}

// hi + lo, exactly so after an addition (Knuth's TwoSum); `lo` gathers what is lost.
struct Sum {
  double hi = 0, lo = 0;
  void add(double x) {
    const double sum = hi + x;
    const double part = sum - hi;
    lo += (hi - (sum - part)) + (x - part);
    hi = sum;
  }
  void add_product(double factor, double x) {
    const double product = factor * x;
    add(product);
    lo += std::fma(factor, x, -product);
  }
};

double real_of(int rank, std::uint64_t index, int fraction_bits, ReduceOp op) {
  constexpr FloatFormat kWide = {8, 52, 1023, true};  // f64
  const Parts parts = parts_of(mixed(rank, index), fraction_bits, op);
  return std::bit_cast<double>(kWide.bits(parts.negative, parts.exponent, parts.fraction << (kWide.fraction_bits - fraction_bits)));
}

}  // namespace

double real_contribution(int rank, std::uint64_t index, DataType type, ReduceOp op) {
  if (!is_floating(type)) return static_cast<double>(contribution(rank, index, type, op));
  return real_of(rank, index, float_format(type).fraction_bits, op);
}

void fill_reals(void* data, std::uint64_t count, int rank, std::uint64_t index, DataType type, ReduceOp op) {
  auto* at = static_cast<std::byte*>(data);
  const std::size_t element = size_of(type);
  if (!is_floating(type)) {
    for (std::uint64_t i = 0; i < count; ++i) encode(at + i * element, type, contribution(rank, index + i, type, op));
    return;
  }
  const FloatFormat format = float_format(type);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Parts parts = parts_of(mixed(rank, index + i), format.fraction_bits, op);
    const std::uint64_t bits = format.bits(parts.negative, parts.exponent, parts.fraction);
    std::memcpy(at + i * element, &bits, element);  // little endian
  }
}

Reference reference_reduction(int ranks, std::uint64_t index, DataType type, ReduceOp op) {
  if (!is_floating(type)) {
    const long double value = expected_reduction(ranks, index, type, op);
    return {value, std::abs(value)};
  }
  const int bits = float_format(type).fraction_bits;
  if (op == ReduceOp::prod || op == ReduceOp::min || op == ReduceOp::max) {
    long double value = real_of(0, index, bits, op);
    for (int r = 1; r < ranks; ++r) {
      const long double x = real_of(r, index, bits, op);
      value = op == ReduceOp::prod ? value * x : op == ReduceOp::min ? std::min(value, x) : std::max(value, x);
    }
    return {value, std::abs(value)};
  }
  Sum sum;
  double magnitudes = 0;
  for (int r = 0; r < ranks; ++r) {
    const double x = real_of(r, index, bits, op);
    if (op != ReduceOp::premul_sum) {
      sum.add(x);
      magnitudes += std::abs(x);
      continue;
    }
    sum.add_product(premul_factor(r), x);
    magnitudes += premul_factor(r) * std::abs(x);
  }
  const long double divisor = op == ReduceOp::avg ? ranks : 1;
  return {(static_cast<long double>(sum.hi) + sum.lo) / divisor, magnitudes / divisor};
}

void measure_errors(const void* data, std::uint64_t count, std::uint64_t stride, int ranks, std::uint64_t index, DataType type, ReduceOp op,
                    ErrorFigures& figures) {
  const auto* at = static_cast<const std::byte*>(data);
  for (std::uint64_t i = 0; i < count; i += stride) {
    const double result = decode(at + i * size_of(type), type);
    ++figures.elements;
    if (!std::isfinite(result)) {
      ++figures.not_finite;
      continue;
    }
    const Reference reference = reference_reduction(ranks, index + i, type, op);
    const auto error = static_cast<double>(std::abs(result - reference.value));
    const double ulps = error / last_place(static_cast<double>(reference.value), type);
    figures.max_ulps = std::max(figures.max_ulps, ulps);
    figures.sum_ulps += ulps;
    if (reference.value != 0) figures.max_relative = std::max(figures.max_relative, static_cast<double>(error / std::abs(reference.value)));
    if (reference.magnitudes != 0) figures.max_backward = std::max(figures.max_backward, static_cast<double>(error / reference.magnitudes));
  }
}

}  // namespace peal::cli
