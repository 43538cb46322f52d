// Where the kernel files meet the files that anybody calls. Each function answers for the instruction set in use.
#pragma once

#include <peal/types.hpp>
#include <reduce/combine.hpp>

namespace peal::reduce {

// Each knows its own types only, and answers nothing for an operator that they do not have.
Kernels kernels_for_wide(DataType type, ReduceOp op, Stores stores, Reads reads) noexcept;     // f64, f32
Kernels kernels_for_narrow(DataType type, ReduceOp op, Stores stores, Reads reads) noexcept;   // f16, bf16, f8
Kernels kernels_for_integer(DataType type, ReduceOp op, Stores stores, Reads reads) noexcept;  // i8 .. u64
Kernels kernels_for_boolean(ReduceOp op, Stores stores, Reads reads) noexcept;

/// The parts of a longer fold of f16, bf16 or f8 ("narrow"), whose partial results are f32 and which rounds once, at the end.
struct NarrowFold {
  CombineFn begin;        ///< f32 = narrow op narrow
  CombineFn add;          ///< f32 = f32 op narrow
  CombineFn join;         ///< f32 = f32 op f32
  CombineFn finish_add;   ///< narrow = f32 op narrow
  CombineFn finish_join;  ///< narrow = f32 op f32
};
/// For sum, avg, premul_sum and prod; min and max round nothing and need no f32 in between.
NarrowFold narrow_fold_for(DataType type, ReduceOp op, Stores stores) noexcept;

}  // namespace peal::reduce
