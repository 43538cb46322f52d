// Where the kernel files meet the files that anybody calls. Each function answers for the instruction set in use.
#pragma once

#include <peal/types.hpp>
#include <reduce/combine.hpp>

namespace peal::reduce {

// Each knows its own types only, and answers nullptr for an operator that they do not have.
CombineFn combine_for_wide(DataType type, ReduceOp op, Stores stores) noexcept;     // f64, f32
CombineFn combine_for_half(DataType type, ReduceOp op, Stores stores) noexcept;     // f16, bf16
CombineFn combine_for_integer(DataType type, ReduceOp op, Stores stores) noexcept;  // i8 .. u64
CombineFn combine_for_boolean(ReduceOp op, Stores stores) noexcept;

/// The parts of a longer fold of f16 or bf16 ("half"), whose partial results are f32 and which rounds once, at the end.
struct HalfFold {
  CombineFn begin;        ///< f32 = half op half
  CombineFn add;          ///< f32 = f32 op half
  CombineFn join;         ///< f32 = f32 op f32
  CombineFn finish_add;   ///< half = f32 op half
  CombineFn finish_join;  ///< half = f32 op f32
};
/// For sum, avg, premul_sum and prod; min and max round nothing and need no f32 in between.
HalfFold half_fold_for(DataType type, ReduceOp op, Stores stores) noexcept;

}  // namespace peal::reduce
