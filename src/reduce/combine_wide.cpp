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
Kernels pick(Stores stores, Reads reads) {
  return Elementwise<Plain<T>, Plain<T>, Plain<T>, Op>::kernels(stores, reads);
}

template <class T>
Kernels pick_operator(ReduceOp op, Stores stores, Reads reads) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum: return pick<T, Sum>(stores, reads);
    case ReduceOp::prod: return pick<T, Prod>(stores, reads);
    case ReduceOp::min: return pick<T, Min>(stores, reads);
    case ReduceOp::max: return pick<T, Max>(stores, reads);
    default: return {};
  }
}

}  // namespace

Kernels pick_wide(DataType type, ReduceOp op, Stores stores, Reads reads) {
  return type == DataType::f64 ? pick_operator<double>(op, stores, reads) : pick_operator<float>(op, stores, reads);
}

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peal::reduce {
HWY_EXPORT(pick_wide);
Kernels kernels_for_wide(DataType type, ReduceOp op, Stores stores, Reads reads) noexcept {
  return HWY_DYNAMIC_DISPATCH(pick_wide)(type, op, stores, reads);
}
}  // namespace peal::reduce
#endif
