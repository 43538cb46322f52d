// f64 and f32, two operands.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "combine_wide.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include "elementwise-inl.hpp"
#include "kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {

namespace {

template <class T, class Op>
Kernels pick(Stores stores) {
  return Elementwise<Plain<T>, Plain<T>, Plain<T>, Op>::kernels(stores);
}

template <class T>
Kernels pick_operator(ReduceOp op, Stores stores) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum: return pick<T, Sum>(stores);
    case ReduceOp::prod: return pick<T, Prod>(stores);
    case ReduceOp::min: return pick<T, Min>(stores);
    case ReduceOp::max: return pick<T, Max>(stores);
    default: return {};
  }
}

}  // namespace

Kernels pick_wide(DataType type, ReduceOp op, Stores stores) {
  return type == DataType::f64 ? pick_operator<double>(op, stores) : pick_operator<float>(op, stores);
}

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peal::reduce {
HWY_EXPORT(pick_wide);
Kernels kernels_for_wide(DataType type, ReduceOp op, Stores stores) noexcept { return HWY_DYNAMIC_DISPATCH(pick_wide)(type, op, stores); }
}  // namespace peal::reduce
#endif
