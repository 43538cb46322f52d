// The plain rules. Shares no code with the kernels but the conversion of single f16, bf16 and f8, which tests hold against the definition.
#include <base/names.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <reduce/f8_float.hpp>
#include <reduce/half_float.hpp>
#include <reduce/reference.hpp>
#include <reduce/scale.hpp>
#include <type_traits>

namespace peal::reduce {
namespace {

template <class T>
T load(const void* from, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* to, std::size_t i, T value) {
  std::memcpy(static_cast<char*>(to) + i * sizeof(T), &value, sizeof(T));
}

template <class T>
T minimum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <class T>
T maximum(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

template <class T>
T apply(ReduceOp op, T a, T b) {
  if (op == ReduceOp::min) return minimum(a, b);
  if (op == ReduceOp::max) return maximum(a, b);
  if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::prod ? a * b : a + b;
  } else {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    switch (op) {
      case ReduceOp::prod: return static_cast<T>(x * y);
      case ReduceOp::band: return static_cast<T>(x & y);
      case ReduceOp::bor: return static_cast<T>(x | y);
      case ReduceOp::bxor: return static_cast<T>(x ^ y);
      default: return static_cast<T>(x + y);
    }
  }
}

// A Memory says what an element is in memory (Lane), what it is computed as (Value), and the way between.
template <class T>
struct Same {
  using Lane = T;
  using Value = T;
  static Value widen(Lane lane) { return lane; }
  static Lane narrow(Value value) { return value; }
  static Value combine(ReduceOp op, Value a, Value b) { return apply(op, a, b); }
};

struct F16 : Same<float> {
  using Lane = std::uint16_t;
  static Value widen(Lane lane) { return f32_of_f16(lane); }
  static Lane narrow(Value value) { return f16_of_f32(value); }
};

struct Bf16 : Same<float> {
  using Lane = std::uint16_t;
  static Value widen(Lane lane) { return f32_of_bf16(lane); }
  static Lane narrow(Value value) { return bf16_of_f32(value); }
};

template <class Format>
struct F8 : Same<float> {
  using Lane = std::uint8_t;
  static Value widen(Lane lane) { return f32_of_f8<Format>(lane); }
  static Lane narrow(Value value) { return f8_of_f32<Format>(value); }
};

struct Bool {
  using Lane = std::uint8_t;
  using Value = bool;
  static Value widen(Lane lane) { return lane != 0; }
  static Lane narrow(Value value) { return value; }
  static Value combine(ReduceOp op, Value a, Value b) {
    if (op == ReduceOp::bxor) return a != b;
    const bool both = op == ReduceOp::prod || op == ReduceOp::min || op == ReduceOp::band;
    return both ? a && b : a || b;
  }
};

template <class Visit>
void with_memory(DataType type, Visit visit) {
  switch (type) {
    case DataType::f64: return visit(Same<double>());
    case DataType::f32: return visit(Same<float>());
    case DataType::f16: return visit(F16());
    case DataType::bf16: return visit(Bf16());
    case DataType::i8: return visit(Same<std::int8_t>());
    case DataType::u8: return visit(Same<std::uint8_t>());
    case DataType::i16: return visit(Same<std::int16_t>());
    case DataType::u16: return visit(Same<std::uint16_t>());
    case DataType::i32: return visit(Same<std::int32_t>());
    case DataType::u32: return visit(Same<std::uint32_t>());
    case DataType::i64: return visit(Same<std::int64_t>());
    case DataType::u64: return visit(Same<std::uint64_t>());
    case DataType::boolean: return visit(Bool());
    case DataType::f8_e4m3fn: return visit(F8<E4m3fn>());
    case DataType::f8_e5m2: return visit(F8<E5m2>());
  }
}

template <class Value>
Value divided(Value value, int n) {
  if constexpr (std::is_same_v<Value, bool>) return value;
  if constexpr (std::is_floating_point_v<Value>) return value / static_cast<Value>(n);
  if constexpr (std::is_signed_v<Value>) return static_cast<Value>(std::int64_t(value) / n);
  return static_cast<Value>(std::uint64_t(value) / static_cast<std::uint64_t>(n));
}

template <class Memory>
typename Memory::Value fold(ReduceOp op, const void* const* sources, int k, std::size_t i, Order order) {
  if (k == 1) return Memory::widen(load<typename Memory::Lane>(sources[0], i));
  int left = k - 1;
  if (order == Order::canonical) {
    for (left = 1; left * 2 < k;) left *= 2;
  }
  return Memory::combine(op, fold<Memory>(op, sources, left, i, order), fold<Memory>(op, sources + left, k - left, i, order));
}

}  // namespace

bool combine_reference(DataType type, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count) {
  const void* sources[2] = {a, b};
  return combine_many_reference(type, op, dst, sources, 2, count, Order::left_to_right);
}

bool combine_many_reference(DataType type, ReduceOp op, void* dst, const void* const* sources, int k, std::size_t count, Order order,
                            int divisor) {
  if (!is_supported(type, op) || k < 1 || divisor < 1) return false;
  with_memory(type, [&](auto memory) {
    using Memory = decltype(memory);
    for (std::size_t i = 0; i < count; ++i) {
      store(dst, i, Memory::narrow(divided(fold<Memory>(op, sources, k, i, order), divisor)));
    }
  });
  return true;
}

void scale_reference(DataType type, void* dst, const void* src, std::size_t count, double factor) {
  with_memory(type, [&](auto memory) {
    using Memory = decltype(memory);
    using Value = typename Memory::Value;
    for (std::size_t i = 0; i < count; ++i) {
      const Value value = Memory::widen(load<typename Memory::Lane>(src, i));
      if constexpr (std::is_same_v<Value, bool>) {
        store(dst, i, Memory::narrow(value && factor != 0.0));
      } else if constexpr (std::is_floating_point_v<Value>) {
        store(dst, i, Memory::narrow(value * static_cast<Value>(factor)));
      } else {
        store(dst, i, apply(ReduceOp::prod, value, integer_factor<Value>(factor)));
      }
    }
  });
}

void divide_reference(DataType type, void* dst, const void* src, std::size_t count, int n) {
  combine_many_reference(type, ReduceOp::max, dst, &src, 1, count, Order::left_to_right, n);
}

}  // namespace peal::reduce
