// Element-wise reduction of two or of k buffers.
//
// Rules for every kernel here, on every instruction set:
//  - integers wrap modulo 2^bits;
//  - f16, bf16 and f8 are computed in fp32 and rounded to nearest even once per call. What rounds beyond the largest number is infinity;
//    in f8_e4m3fn, which has none, it is NaN, and so is an infinite fp32 result. NaN stays a quiet NaN;
//  - min and max propagate NaN (NaN when either side is NaN) and order -0 below +0, as minimum and maximum of IEEE 754-2019;
//  - a boolean is read as 0 or not 0 and written as 0 or 1: sum, max, bor are or; prod, min, band are and; bxor is exclusive or;
//  - avg and premul_sum combine as sum: see scale.hpp for what comes before and after.
// The payload and sign of a NaN are not promised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <peal/types.hpp>

namespace peal::reduce {

/// How results are stored. `streaming` bypasses the caches, for large results that nobody will read soon; a store fence at the end
/// makes them visible before any later release store of the calling thread.
enum class Stores : std::uint8_t { cached, streaming };

/// How long sources are read. `in_lanes`: in four parts of equal length by turns, half a kibibyte of each, so that four pages are fetched
/// ahead at a time. Lines that another core wrote come at 1.2 to 1.35 times the rate where cores share no cache but a mesh
/// (docs/decisions/messages-are-taken-out-in-lanes.md). The results are the same, bit by bit.
enum class Reads : std::uint8_t { in_a_row, in_lanes };
inline constexpr std::size_t kLeastInLanes = 64 << 10;  ///< bytes that are read; with 16 KiB nothing is won, with 32 up to a tenth lost

/// dst[i] = a[i] op b[i] for i in [0, count). `dst` may equal `a` or `b` exactly; otherwise nothing overlaps.
/// Any alignment; nothing outside the three ranges is read or written. Thread safe; no allocation.
using CombineFn = void (*)(void* dst, const void* a, const void* b, std::size_t count);

/// The same into two places in one pass: dst[i] = also[i] = a[i] op b[i]. `dst` and `also` are apart from each other; each may equal `a` or
/// `b` exactly. Both are stored in the caches.
using CombineTwiceFn = void (*)(void* dst, void* also, const void* a, const void* b, std::size_t count);

/// The kernels of a type and an operator for this CPU; resolve them once and call them often. nullptr where is_supported(type, op) is
/// false. `stores` is how `once` does it, `reads` how both do.
struct Kernels {
  CombineFn once = nullptr;
  CombineTwiceFn twice = nullptr;
};
Kernels kernels_for(DataType type, ReduceOp op, Stores stores = Stores::cached, Reads reads = Reads::in_a_row) noexcept;
inline CombineFn combine_for(DataType type, ReduceOp op, Stores stores = Stores::cached, Reads reads = Reads::in_a_row) noexcept {
  return kernels_for(type, op, stores, reads).once;
}

/// The order in which combine_many folds its sources.
/// canonical: one fixed binary tree, a function of k alone: the left part gets the largest power of two strictly below k, recursively.
enum class Order : std::uint8_t { left_to_right, canonical };

/// dst[i] = sources[0][i] op ... op sources[k-1][i], in one pass over memory. f16, bf16 and f8 stay in fp32 until one rounding at the end.
/// `dst` may equal any one source exactly; otherwise nothing overlaps dst. 1 <= k <= 65536; k = 1 copies (booleans are normalised).
/// `divisor` above 1 divides the result (avg), for f16, bf16 and f8 before their rounding. False, and nothing done, where the pair
/// is refused or k or divisor is out of range. Uses up to 80 KiB of stack.
bool combine_many(DataType type, ReduceOp op, void* dst, const void* const* sources, int k, std::size_t count, Order order,
                  Stores stores = Stores::cached, int divisor = 1) noexcept;

/// How many of k sources the canonical tree gives to its left part (k >= 2).
constexpr int canonical_left(int k) noexcept {
  int left = 1;
  while (left < k - left) left *= 2;
  return left;
}

}  // namespace peal::reduce
