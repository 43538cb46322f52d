// f16, bf16 and f8: two operands, and the parts of a fold that stays in f32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "combine_narrow.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "elementwise-inl.hpp"
#include "kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {

namespace {

template <class Narrow, class Op>
Kernels pick(Stores stores, Reads reads) {
  return Elementwise<Narrow, Narrow, Narrow, Op>::kernels(stores, reads);
}

template <class Narrow>
Kernels pick_operator(ReduceOp op, Stores stores, Reads reads) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum: return pick<Narrow, Sum>(stores, reads);
    case ReduceOp::prod: return pick<Narrow, Prod>(stores, reads);
    case ReduceOp::min: return pick<Narrow, Min>(stores, reads);
    case ReduceOp::max: return pick<Narrow, Max>(stores, reads);
    default: return {};
  }
}

template <class Narrow, class Op>
NarrowFold fold(Stores stores) {
  using Full = Plain<float>;
  return {Elementwise<Full, Narrow, Narrow, Op>::pick(Stores::cached), Elementwise<Full, Full, Narrow, Op>::pick(Stores::cached), nullptr,
          Elementwise<Narrow, Full, Narrow, Op>::pick(stores), Elementwise<Narrow, Full, Full, Op>::pick(stores)};
}

template <class Narrow>
NarrowFold pick_fold(ReduceOp op, Stores stores) {
  return op == ReduceOp::prod ? fold<Narrow, Prod>(stores) : fold<Narrow, Sum>(stores);
}

}  // namespace

Kernels pick_narrow(DataType type, ReduceOp op, Stores stores, Reads reads) {
  switch (type) {
    case DataType::f16: return pick_operator<Float16>(op, stores, reads);
    case DataType::bf16: return pick_operator<Bfloat16>(op, stores, reads);
    case DataType::f8_e4m3fn: return pick_operator<Float8<E4m3fn>>(op, stores, reads);
    case DataType::f8_e5m2: return pick_operator<Float8<E5m2>>(op, stores, reads);
    default: return {};
  }
}

NarrowFold pick_narrow_fold(DataType type, ReduceOp op, Stores stores) {
  switch (type) {
    case DataType::f16: return pick_fold<Float16>(op, stores);
    case DataType::bf16: return pick_fold<Bfloat16>(op, stores);
    case DataType::f8_e4m3fn: return pick_fold<Float8<E4m3fn>>(op, stores);
    case DataType::f8_e5m2: return pick_fold<Float8<E5m2>>(op, stores);
    default: return {};
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peal::reduce {
HWY_EXPORT(pick_narrow);
HWY_EXPORT(pick_narrow_fold);

Kernels kernels_for_narrow(DataType type, ReduceOp op, Stores stores, Reads reads) noexcept {
  return HWY_DYNAMIC_DISPATCH(pick_narrow)(type, op, stores, reads);
}

NarrowFold narrow_fold_for(DataType type, ReduceOp op, Stores stores) noexcept {
  NarrowFold fold = HWY_DYNAMIC_DISPATCH(pick_narrow_fold)(type, op, stores);
  fold.join = kernels_for_wide(DataType::f32, op, Stores::cached, Reads::in_a_row).once;
  return fold;
}
}  // namespace peal::reduce
#endif
