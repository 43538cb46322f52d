// Sums of f16, bf16 and f8 that are not finished: f32 from the first addition to the one rounding at the end.
#pragma once

#include <cstddef>
#include <peal/types.hpp>

namespace peal::reduce {

/// One contribution or sum to be added. Contributions are of the narrow type; a scaled one (premul_sum) is rounded to it first, as
/// everywhere.
struct Addend {
  const void* data = nullptr;
  bool is_wide = false;            ///< f32, a sum that is not finished
  const double* factor = nullptr;  ///< of a narrow one; null: as it is
};

/// dst[i] = own[i] in f32. `type` is narrow; `dst` does not overlap. Any alignment.
void widen(DataType type, void* dst, Addend own, std::size_t count) noexcept;

/// dst[i] = own[i] op partial[i], computed in f32; `partial` is f32. Where `is_finished` dst is of `type`: the result is divided by
/// `divisor` (avg; 1: not) and rounded once, to nearest even; else dst is f32. `op` is one that rounds: sum, avg, premul_sum, prod.
/// dst may equal own or partial exactly where it is as wide. Any alignment. Uses 8 KiB of stack.
void add_partial(DataType type, ReduceOp op, void* dst, bool is_finished, Addend own, const void* partial, std::size_t count,
                 int divisor = 1) noexcept;

}  // namespace peal::reduce
