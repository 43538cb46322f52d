// What comes before and after a sum: the multiplication of premul_sum and the division of avg.
#pragma once

#include <cstddef>
#include <cstdint>
#include <peal/types.hpp>
#include <type_traits>

namespace peal::reduce {

/// dst[i] = src[i] * factor. f64 in f64, f32 in f32 (the factor rounded to f32), f16, bf16 and f8 in fp32 with one rounding;
/// integers multiply by integer_factor<T>(factor) and wrap; a boolean is kept (as 0 or 1) when factor is not 0, else cleared.
/// dst may equal src exactly. Any alignment.
void scale(DataType type, void* dst, const void* src, std::size_t count, double factor) noexcept;

/// dst[i] = src[i] / n, n >= 1. Floats divide and round once (f16, bf16 and f8 in fp32); integers truncate toward zero;
/// booleans are only normalised. dst may equal src exactly. Any alignment.
void divide(DataType type, void* dst, const void* src, std::size_t count, int n) noexcept;

/// `factor` as a T: truncated toward zero, NaN is 0, clamped to the 64-bit range, then wrapped modulo 2^bits (-1 is all ones).
template <class T>
constexpr T integer_factor(double factor) noexcept {
  static_assert(std::is_integral_v<T>);
  if (factor != factor) return 0;
  if (factor >= 0x1p64) return static_cast<T>(~std::uint64_t{0});
  if (factor >= 0x1p63) return static_cast<T>(static_cast<std::uint64_t>(factor));
  if (factor < -0x1p63) return static_cast<T>(std::uint64_t{1} << 63);
  return static_cast<T>(static_cast<std::uint64_t>(static_cast<std::int64_t>(factor)));
}

}  // namespace peal::reduce
