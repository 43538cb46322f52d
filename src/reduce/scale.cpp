// Multiplication by a factor and division by a count.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scale.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <reduce/combine.hpp>
#include <reduce/scale.hpp>
#include <type_traits>

#include "elementwise-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {

template <class Format>
void multiply_all(void* dst, const void* src, std::size_t count, double factor) {
  using C = typename Format::Compute;
  if constexpr (std::is_floating_point_v<C>) {
    map<Format, Format>(MultiplyBy<C>{static_cast<C>(factor)}, dst, src, count);
  } else {
    map<Format, Format>(MultiplyBy<C>{integer_factor<C>(factor)}, dst, src, count);
  }
}

template <class Format>
void divide_all(void* dst, const void* src, std::size_t count, int n) {
  using C = typename Format::Compute;
  map<Format, Format>(DivideBy<C>{static_cast<C>(n)}, dst, src, count);
}

/// 32 and 64 bits: the machine's own division, which no vector unit has.
template <class T>
void divide_integers(void* dst, const void* src, std::size_t count, int n) {
  const T divisor = static_cast<T>(n);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(src) + i * sizeof(T), sizeof(T));
    value = static_cast<T>(value / divisor);
    std::memcpy(static_cast<std::byte*>(dst) + i * sizeof(T), &value, sizeof(T));
  }
}

using ScaleFn = void (*)(void* dst, const void* src, std::size_t count, double factor);
ScaleFn pick_scale(DataType type) {
  switch (type) {
    case DataType::f64: return &multiply_all<Plain<double>>;
    case DataType::f32: return &multiply_all<Plain<float>>;
    case DataType::f16: return &multiply_all<Float16>;
    case DataType::bf16: return &multiply_all<Bfloat16>;
    case DataType::f8_e4m3fn: return &multiply_all<Float8<E4m3fn>>;
    case DataType::f8_e5m2: return &multiply_all<Float8<E5m2>>;
    case DataType::i8:
    case DataType::u8: return &multiply_all<Plain<std::uint8_t>>;
    case DataType::i16:
    case DataType::u16: return &multiply_all<Plain<std::uint16_t>>;
    case DataType::i32:
    case DataType::u32: return &multiply_all<Plain<std::uint32_t>>;
    case DataType::i64:
    case DataType::u64: return &multiply_all<Plain<std::uint64_t>>;
    case DataType::boolean: return nullptr;
  }
  return nullptr;
}

using DivideFn = void (*)(void* dst, const void* src, std::size_t count, int n);
DivideFn pick_divide(DataType type) {
  switch (type) {
    case DataType::f64: return &divide_all<Plain<double>>;
    case DataType::f32: return &divide_all<Plain<float>>;
    case DataType::f16: return &divide_all<Float16>;
    case DataType::bf16: return &divide_all<Bfloat16>;
    case DataType::f8_e4m3fn: return &divide_all<Float8<E4m3fn>>;
    case DataType::f8_e5m2: return &divide_all<Float8<E5m2>>;
    case DataType::i8: return &divide_all<IntegerAsFloat32<std::int8_t>>;
    case DataType::u8: return &divide_all<IntegerAsFloat32<std::uint8_t>>;
    case DataType::i16: return &divide_all<IntegerAsFloat32<std::int16_t>>;
    case DataType::u16: return &divide_all<IntegerAsFloat32<std::uint16_t>>;
    case DataType::i32: return &divide_integers<std::int32_t>;
    case DataType::u32: return &divide_integers<std::uint32_t>;
    case DataType::i64: return &divide_integers<std::int64_t>;
    case DataType::u64: return &divide_integers<std::uint64_t>;
    case DataType::boolean: return nullptr;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peal::reduce {
HWY_EXPORT(pick_scale);
HWY_EXPORT(pick_divide);

void scale(DataType type, void* dst, const void* src, std::size_t count, double factor) noexcept {
  if (type != DataType::boolean) return HWY_DYNAMIC_DISPATCH(pick_scale)(type)(dst, src, count, factor);
  const ReduceOp op = factor != 0.0 ? ReduceOp::band : ReduceOp::bxor;  // x and x is x, x xor x is 0
  combine_for(type, op)(dst, src, src, count);
}

void divide(DataType type, void* dst, const void* src, std::size_t count, int n) noexcept {
  if (type != DataType::boolean) return HWY_DYNAMIC_DISPATCH(pick_divide)(type)(dst, src, count, n);
  combine_for(type, ReduceOp::band)(dst, src, src, count);
}
}  // namespace peal::reduce
#endif
