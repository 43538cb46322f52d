// How sums of f16, bf16 and f8 travel until they are finished: in their own type, rounded at every hop, or as f32, rounded once.
#pragma once

#include <base/names.hpp>
#include <base/result.hpp>
#include <string_view>

namespace peal {

/// True for "f32", false for "element" (their own type).
Result<bool> parse_partial_sums(std::string_view text);

/// True where every combination rounds to the type unless partial sums are f32; min and max round nothing.
constexpr bool rounds(DataType t, ReduceOp op) noexcept { return is_narrow(t) && op != ReduceOp::min && op != ReduceOp::max; }

}  // namespace peal
