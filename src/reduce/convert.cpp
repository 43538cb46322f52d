// Between floating types.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "convert.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include <reduce/convert.hpp>
#include <reduce/copy.hpp>

#include "elementwise-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {

template <class To, class From>
void convert_all(void* dst, const void* src, std::size_t count) {
  map<To, From>(Same(), dst, src, count);
}

using ConvertFn = void (*)(void* dst, const void* src, std::size_t count);

/// nullptr where from == to.
ConvertFn pick_convert(DataType to, DataType from) {
  if (from == DataType::f32) {
    if (to == DataType::f16) return &convert_all<Float16, Plain<float>>;
    if (to == DataType::bf16) return &convert_all<Bfloat16, Plain<float>>;
    if (to == DataType::f8_e4m3fn) return &convert_all<Float8<E4m3fn>, Plain<float>>;
    if (to == DataType::f8_e5m2) return &convert_all<Float8<E5m2>, Plain<float>>;
    if (to == DataType::f64) return &convert_all<Plain<double>, Float32AsFloat64>;
  }
  if (to == DataType::f32) {
    if (from == DataType::f16) return &convert_all<Plain<float>, Float16>;
    if (from == DataType::bf16) return &convert_all<Plain<float>, Bfloat16>;
    if (from == DataType::f8_e4m3fn) return &convert_all<Plain<float>, Float8<E4m3fn>>;
    if (from == DataType::f8_e5m2) return &convert_all<Plain<float>, Float8<E5m2>>;
    if (from == DataType::f64) return &convert_all<Float32AsFloat64, Plain<double>>;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peal::reduce {
HWY_EXPORT(pick_convert);

bool convert(DataType to, void* dst, DataType from, const void* src, std::size_t count) noexcept {
  if (!is_convertible(from, to)) return false;
  if (from != to) {
    HWY_DYNAMIC_DISPATCH(pick_convert)(to, from)(dst, src, count);
  } else if (dst != src) {
    copy(dst, src, count * size_of(to), Stores::cached);
  }
  return true;
}
}  // namespace peal::reduce
#endif
