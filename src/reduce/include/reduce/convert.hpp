// Conversion between floating types.
#pragma once

#include <cstddef>
#include <peal/types.hpp>

namespace peal::reduce {

/// True for f32 <-> f16, f32 <-> bf16, f64 <-> f32, and any type to itself.
constexpr bool is_convertible(DataType from, DataType to) noexcept {
  if (from == to) return true;
  const bool from_narrow = from == DataType::f16 || from == DataType::bf16 || from == DataType::f64;
  const bool to_narrow = to == DataType::f16 || to == DataType::bf16 || to == DataType::f64;
  return (from == DataType::f32 && to_narrow) || (to == DataType::f32 && from_narrow);
}

/// dst[i] = to(src[i]), to nearest even; overflow becomes infinity, NaN stays NaN (made quiet where the format changes by rounding).
/// The ranges must not overlap (equal is allowed when from == to). Any alignment. False, and nothing done, where it is not convertible.
bool convert(DataType to, void* dst, DataType from, const void* src, std::size_t count) noexcept;

}  // namespace peal::reduce
