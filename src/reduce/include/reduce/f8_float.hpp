// One f8 at a time, as bit patterns: the OCP 8-bit Floating Point Specification (revision 1.0), conversions that do not saturate.
// The vector kernels give the same bits, but for those of a NaN (a test compares them).
#pragma once

#include <bit>
#include <cstdint>

namespace peal::reduce {

// A format: bits of fraction, exponent bias, and the pattern that follows the largest finite one. Overflow becomes that pattern,
// and no pattern from there on is a number.
struct E4m3fn {
  static constexpr int kFraction = 3;
  static constexpr int kBias = 7;
  static constexpr int kOverflow = 0x7f;       // the only NaN; 0x7e is 448
  static constexpr float kSmallest = 0x1p-9f;  // the smallest number above zero
};
struct E5m2 {
  static constexpr int kFraction = 2;
  static constexpr int kBias = 15;
  static constexpr int kOverflow = 0x7c;  // infinity, and NaNs behind it; 0x7b is 57344
  static constexpr float kSmallest = 0x1p-16f;
};

template <class Format>
constexpr float f32_of_f8(std::uint8_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x80u) << 24;
  const std::uint32_t magnitude = bits & 0x7fu;
  const std::uint32_t fraction = magnitude & ((1u << Format::kFraction) - 1);
  const std::uint32_t exponent = magnitude >> Format::kFraction;
  const std::uint32_t low = fraction << (23 - Format::kFraction);
  if (magnitude >= Format::kOverflow) return std::bit_cast<float>(sign | 0x7f800000u | low);
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * Format::kSmallest;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 127 - Format::kBias) << 23) | low);
}

/// To nearest even; what rounds beyond the largest number is infinity, or NaN in a format without one; NaN is 0x7f with its sign.
template <class Format>
constexpr std::uint8_t f8_of_f32(float value) noexcept {
  constexpr int kDropped = 23 - Format::kFraction;
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 24) & 0x80u;
  const std::uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | 0x7fu);
  if (magnitude < (128u - Format::kBias) << 23) {  // below the normal numbers: the adder rounds to a multiple of the smallest
    constexpr float kAdder = Format::kSmallest * 0x1p23f;
    const float rounded = std::bit_cast<float>(magnitude) + kAdder;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(rounded) - std::bit_cast<std::uint32_t>(kAdder)));
  }
  const std::uint32_t half = (1u << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1u);
  const std::uint32_t rounded = (magnitude - ((127u - Format::kBias) << 23) + half) >> kDropped;
  return static_cast<std::uint8_t>(sign | (rounded < Format::kOverflow ? rounded : Format::kOverflow));
}

}  // namespace peal::reduce
