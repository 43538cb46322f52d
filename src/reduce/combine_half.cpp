// f16 and bf16: two operands, and the parts of a fold that stays in f32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "combine_half.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "elementwise-inl.hpp"
#include "kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {

namespace {

template <class Half, class Op>
CombineFn pick(Stores stores) {
  return Elementwise<Half, Half, Half, Op>::pick(stores);
}

template <class Half>
CombineFn pick_operator(ReduceOp op, Stores stores) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum: return pick<Half, Sum>(stores);
    case ReduceOp::prod: return pick<Half, Prod>(stores);
    case ReduceOp::min: return pick<Half, Min>(stores);
    case ReduceOp::max: return pick<Half, Max>(stores);
    default: return nullptr;
  }
}

template <class Half, class Op>
HalfFold fold(Stores stores) {
  using Full = Plain<float>;
  return {Elementwise<Full, Half, Half, Op>::pick(Stores::cached), Elementwise<Full, Full, Half, Op>::pick(Stores::cached), nullptr,
          Elementwise<Half, Full, Half, Op>::pick(stores), Elementwise<Half, Full, Full, Op>::pick(stores)};
}

template <class Half>
HalfFold pick_fold(ReduceOp op, Stores stores) {
  return op == ReduceOp::prod ? fold<Half, Prod>(stores) : fold<Half, Sum>(stores);
}

}  // namespace

CombineFn pick_half(DataType type, ReduceOp op, Stores stores) {
  return type == DataType::f16 ? pick_operator<Float16>(op, stores) : pick_operator<Bfloat16>(op, stores);
}

HalfFold pick_half_fold(DataType type, ReduceOp op, Stores stores) {
  return type == DataType::f16 ? pick_fold<Float16>(op, stores) : pick_fold<Bfloat16>(op, stores);
}

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peal::reduce {
HWY_EXPORT(pick_half);
HWY_EXPORT(pick_half_fold);

CombineFn combine_for_half(DataType type, ReduceOp op, Stores stores) noexcept { return HWY_DYNAMIC_DISPATCH(pick_half)(type, op, stores); }

HalfFold half_fold_for(DataType type, ReduceOp op, Stores stores) noexcept {
  HalfFold fold = HWY_DYNAMIC_DISPATCH(pick_half_fold)(type, op, stores);
  fold.join = combine_for_wide(DataType::f32, op, Stores::cached);
  return fold;
}
}  // namespace peal::reduce
#endif
