// Stable text names of the public enumerations, and the way back.
#pragma once

#include <base/result.hpp>
#include <peal/types.hpp>
#include <string_view>

namespace peal {

std::string_view name_of(DataType type) noexcept;    ///< "f32"
std::string_view name_of(ReduceOp op) noexcept;      ///< "sum"
std::string_view name_of(Collective kind) noexcept;  ///< "all_reduce"

/// Parsers accept the names above (nccl-tests' and MPI's common spellings too: "float", "half", "allreduce"),
/// and fail with the list of what can be typed and the nearest match.
Result<DataType> parse_data_type(std::string_view text);
Result<ReduceOp> parse_reduce_op(std::string_view text);
Result<Collective> parse_collective(std::string_view text);

/// The nearest of `choices` to `text` by edit distance, or empty when none is close.
std::string_view nearest(std::string_view text, const std::string_view* choices, std::size_t count);

/// True for the floats of 16 and 8 bits: computed in f32, then rounded.
constexpr bool is_narrow(DataType t) noexcept {
  return t == DataType::f16 || t == DataType::bf16 || t == DataType::f8_e4m3fn || t == DataType::f8_e5m2;
}
constexpr bool is_floating(DataType t) noexcept { return t == DataType::f64 || t == DataType::f32 || is_narrow(t); }
/// False for the pairs that Peal refuses: bit operators on floating types; avg and premul_sum on booleans (sum is or, prod is and).
constexpr bool is_supported(DataType t, ReduceOp op) noexcept {
  const bool bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  if (bits) return !is_floating(t);
  if (t == DataType::boolean) return op == ReduceOp::sum || op == ReduceOp::min || op == ReduceOp::max || op == ReduceOp::prod;
  return true;
}
constexpr bool has_root(Collective c) noexcept {
  return c == Collective::broadcast || c == Collective::reduce || c == Collective::gather || c == Collective::scatter ||
         c == Collective::gather_v || c == Collective::scatter_v;
}
/// True where bytes go from who has them to who keeps them, from a root or from point to point, and their receiver has nothing else to move
/// (the root of a gather has its own block).
constexpr bool goes_one_way(Collective c) noexcept {
  return c == Collective::broadcast || c == Collective::scatter || c == Collective::scatter_v || c == Collective::send_recv;
}
/// True for the v-collectives, whose counts come one a rank.
constexpr bool varies(Collective c) noexcept {
  return c == Collective::all_gather_v || c == Collective::reduce_scatter_v || c == Collective::all_to_all_v || c == Collective::gather_v ||
         c == Collective::scatter_v;
}
/// True for those of them whose counts only the two ends of each transfer know: nothing that all ranks must do alike may depend on a size.
constexpr bool has_private_counts(Collective c) noexcept {
  return c == Collective::all_to_all_v || c == Collective::gather_v || c == Collective::scatter_v;
}
/// True where the larger buffer holds one block a rank; a size in nccl-tests' sense is then that of all blocks together.
constexpr bool has_blocks(Collective c) noexcept {
  return c == Collective::all_gather || c == Collective::gather || c == Collective::reduce_scatter || c == Collective::scatter ||
         c == Collective::all_to_all || varies(c);
}
constexpr bool has_reduction(Collective c) noexcept {
  return c == Collective::all_reduce || c == Collective::reduce || c == Collective::reduce_scatter || c == Collective::reduce_scatter_v;
}

}  // namespace peal
