// Integers and booleans, two operands. Sums, products and bits do not care for the sign, so they are computed unsigned (and wrap).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "combine_integer.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "elementwise-inl.hpp"
#include "kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {

namespace {

template <class Format, class Op>
Kernels pick(Stores stores, Reads reads) {
  return Elementwise<Format, Format, Format, Op>::kernels(stores, reads);
}

/// Bits do not care for the width either: all widths share the loop over bytes.
template <class Op, std::size_t kWidth>
struct Bits {
  using Bytes = Elementwise<Plain<std::uint8_t>, Plain<std::uint8_t>, Plain<std::uint8_t>, Op>;
  template <Stores kStores, Reads kReads>
  static void combine(void* dst, const void* a, const void* b, std::size_t count) {
    Bytes::template combine<kStores, kReads>(dst, a, b, count * kWidth);
  }
  template <Reads kReads>
  static void combine_twice(void* dst, void* also, const void* a, const void* b, std::size_t count) {
    Bytes::template combine_twice<kReads>(dst, also, a, b, count * kWidth);
  }
  static Kernels kernels(Stores stores, Reads reads) { return pick_kernels<Bits>(stores, reads); }
};

template <class T>
Kernels pick_operator(ReduceOp op, Stores stores, Reads reads) {
  using Unsigned = Plain<std::make_unsigned_t<T>>;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum: return pick<Unsigned, Sum>(stores, reads);
    case ReduceOp::prod: return pick<Unsigned, Prod>(stores, reads);
    case ReduceOp::min: return pick<Plain<T>, Min>(stores, reads);
    case ReduceOp::max: return pick<Plain<T>, Max>(stores, reads);
    case ReduceOp::band: return Bits<And, sizeof(T)>::kernels(stores, reads);
    case ReduceOp::bor: return Bits<Or, sizeof(T)>::kernels(stores, reads);
    case ReduceOp::bxor: return Bits<Xor, sizeof(T)>::kernels(stores, reads);
  }
  return {};
}

}  // namespace

Kernels pick_integer(DataType type, ReduceOp op, Stores stores, Reads reads) {
  switch (type) {
    case DataType::i8: return pick_operator<std::int8_t>(op, stores, reads);
    case DataType::u8: return pick_operator<std::uint8_t>(op, stores, reads);
    case DataType::i16: return pick_operator<std::int16_t>(op, stores, reads);
    case DataType::u16: return pick_operator<std::uint16_t>(op, stores, reads);
    case DataType::i32: return pick_operator<std::int32_t>(op, stores, reads);
    case DataType::u32: return pick_operator<std::uint32_t>(op, stores, reads);
    case DataType::i64: return pick_operator<std::int64_t>(op, stores, reads);
    case DataType::u64: return pick_operator<std::uint64_t>(op, stores, reads);
    default: return {};
  }
}

Kernels pick_boolean(ReduceOp op, Stores stores, Reads reads) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bor: return pick<Boolean, Or>(stores, reads);
    case ReduceOp::prod:
    case ReduceOp::min:
    case ReduceOp::band: return pick<Boolean, And>(stores, reads);
    case ReduceOp::bxor: return pick<Boolean, Xor>(stores, reads);
    default: return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peal::reduce {
HWY_EXPORT(pick_integer);
HWY_EXPORT(pick_boolean);

Kernels kernels_for_integer(DataType type, ReduceOp op, Stores stores, Reads reads) noexcept {
  return HWY_DYNAMIC_DISPATCH(pick_integer)(type, op, stores, reads);
}
Kernels kernels_for_boolean(ReduceOp op, Stores stores, Reads reads) noexcept {
  return HWY_DYNAMIC_DISPATCH(pick_boolean)(op, stores, reads);
}
}  // namespace peal::reduce
#endif
