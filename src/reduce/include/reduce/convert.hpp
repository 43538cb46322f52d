// Conversion between floating types.
#pragma once

#include <base/names.hpp>
#include <cstddef>
#include <peal/types.hpp>

namespace peal::reduce {

/// True for f32 <-> f16, f32 <-> bf16, f32 <-> f8, f64 <-> f32, and any type to itself.
constexpr bool is_convertible(DataType from, DataType to) noexcept {
  if (from == to) return true;
  const auto meets_f32 = [](DataType type) { return is_narrow(type) || type == DataType::f64; };
  return (from == DataType::f32 && meets_f32(to)) || (to == DataType::f32 && meets_f32(from));
}

/// dst[i] = to(src[i]), to nearest even; overflow becomes infinity (NaN in f8_e4m3fn), NaN stays NaN (made quiet where the format changes
/// by rounding). The ranges must not overlap (equal is allowed when from == to). Any alignment. False, and nothing done, where it is not
/// convertible.
bool convert(DataType to, void* dst, DataType from, const void* src, std::size_t count) noexcept;

}  // namespace peal::reduce
