// Elements to test with: ordinary ones, random bit patterns, and every special value of the type; and what counts as equal.
#pragma once

#include <base/mix_bits.hpp>
#include <base/names.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <reduce/f8_float.hpp>
#include <reduce/half_float.hpp>
#include <reduce/instruction_set.hpp>
#include <string>
#include <vector>

namespace peal::reduce {

/// The numbers of splitmix64: most of the time of these tests is the making of elements.
class Random {
 public:
  using result_type = std::uint64_t;
  explicit Random(std::uint64_t seed) : state_(seed) {}
  static constexpr std::uint64_t min() { return 0; }
  static constexpr std::uint64_t max() { return ~std::uint64_t{0}; }
  std::uint64_t operator()() { return next_mixed(state_); }

 private:
  std::uint64_t state_;
};

inline std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int i = 0; i < kDataTypeCount; ++i) types.push_back(static_cast<DataType>(i));
  return types;
}

inline std::vector<ReduceOp> all_ops() {
  std::vector<ReduceOp> ops;
  for (int i = 0; i < kReduceOpCount; ++i) ops.push_back(static_cast<ReduceOp>(i));
  return ops;
}

inline std::uint64_t load_bits(DataType type, const std::byte* data, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, data + i * size_of(type), size_of(type));  // little endian
  return bits;
}

inline bool is_nan(DataType type, std::uint64_t bits) {
  switch (type) {
    case DataType::f64: return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
    case DataType::f32: return (bits & 0x7fffffffu) > 0x7f800000u;
    case DataType::f16: return (bits & 0x7fffu) > 0x7c00u;
    case DataType::bf16: return (bits & 0x7fffu) > 0x7f80u;
    case DataType::f8_e4m3fn: return (bits & 0x7fu) == 0x7fu;
    case DataType::f8_e5m2: return (bits & 0x7fu) > 0x7cu;
    default: return false;
  }
}

/// The same bits, or a NaN in both (payloads are not promised).
inline bool is_same(DataType type, std::uint64_t a, std::uint64_t b) { return a == b || (is_nan(type, a) && is_nan(type, b)); }

/// Index of the first element that differs, or count.
inline std::size_t first_difference(DataType type, const std::byte* a, const std::byte* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_same(type, load_bits(type, a, i), load_bits(type, b, i))) return i;
  }
  return count;
}

inline std::uint64_t special_bits(DataType type, Random& random) {
  const auto pick = [&](std::initializer_list<std::uint64_t> list) { return *(list.begin() + random() % list.size()); };
  switch (type) {
    case DataType::f64:
      return pick({0, 1, 0x8000000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7ff0000000000001,
                   0xfff8000000000123, 0x7fefffffffffffff, 0x000fffffffffffff, 0x8000000000000001, 0x0010000000000000});
    case DataType::f32:
      return pick({0, 1, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc01234, 0x7f7fffff, 0x007fffff, 0x80000001,
                   0x00800000, 0x7fffffff, 0xffffffff});
    case DataType::f16:
      return pick({0, 1, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xfe12, 0x7bff, 0xfbff, 0x03ff, 0x0400, 0x8001, 0x7fff, 0xffff});
    case DataType::bf16:
      return pick({0, 1, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffc1, 0x7f7f, 0xff7f, 0x007f, 0x0080, 0x8001, 0x7fff, 0xffff});
    case DataType::f8_e4m3fn: return pick({0, 1, 0x80, 0x7f, 0xff, 0x7e, 0xfe, 0x07, 0x08, 0x81});
    case DataType::f8_e5m2: return pick({0, 1, 0x80, 0x7c, 0xfc, 0x7e, 0x7d, 0xff, 0x7b, 0xfb, 0x03, 0x04, 0x81});
    case DataType::boolean: return pick({0, 1, 2, 0x80, 0xff});
    default: {
      const int bits = static_cast<int>(size_of(type)) * 8;
      const std::uint64_t top = std::uint64_t{1} << (bits - 1);
      return pick({0, 1, ~std::uint64_t{0}, top, top - 1, top + 1, 2});
    }
  }
}

inline std::uint64_t ordinary_bits(DataType type, Random& random) {
  const double value = static_cast<double>(random() >> 11) * 0x1p-53 * 200.0 - 100.0;
  const auto narrow = static_cast<float>(value);
  std::uint64_t bits = random();
  if (type == DataType::f64) std::memcpy(&bits, &value, sizeof(value));
  if (type == DataType::f32) {
    bits = 0;
    std::memcpy(&bits, &narrow, sizeof(narrow));
  }
  if (type == DataType::f16) bits = f16_of_f32(narrow);
  if (type == DataType::bf16) bits = bf16_of_f32(narrow);
  if (type == DataType::f8_e4m3fn) bits = f8_of_f32<E4m3fn>(narrow);
  if (type == DataType::f8_e5m2) bits = f8_of_f32<E5m2>(narrow);
  if (type == DataType::boolean) bits = random() & 1;
  return bits;
}

/// A third each: ordinary, any bit pattern, special.
inline void fill(DataType type, std::byte* data, std::size_t count, Random& random) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto kind = random() % 3;
    const std::uint64_t bits = kind == 0 ? ordinary_bits(type, random) : kind == 1 ? random() : special_bits(type, random);
    std::memcpy(data + i * size_of(type), &bits, size_of(type));
  }
}

/// Runs `body` on every instruction set of this machine, then goes back to the best.
template <class Body>
void on_every_instruction_set(Body body) {
  for (const std::string_view name : instruction_sets()) {
    ASSERT_TRUE(use_instruction_set(name)) << name;
    ASSERT_EQ(instruction_set(), name);
    SCOPED_TRACE(std::string(name));
    body();
  }
  ASSERT_TRUE(use_instruction_set(""));
}

}  // namespace peal::reduce
