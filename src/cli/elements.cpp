#include <algorithm>
#include <base/names.hpp>
#include <cli/elements.hpp>
#include <cmath>
#include <cstring>
#include <limits>

namespace peal::cli {

namespace {

// The floats of 16 and 8 bits, which are taken apart by hand.
double decode_narrow(const void* at, const FloatFormat& format) {
  unsigned bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(format.bytes));  // little endian
  const int highest_fraction = (1 << format.fraction_bits) - 1;
  const int highest_exponent = (1 << format.exponent_bits()) - 1;
  const int fraction = static_cast<int>(bits) & highest_fraction;
  const int exponent = static_cast<int>(bits >> format.fraction_bits) & highest_exponent;
  const double sign = (bits >> (format.bytes * 8 - 1) & 1u) != 0 ? -1 : 1;
  if (exponent == highest_exponent && format.has_infinity)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == highest_exponent && fraction == highest_fraction) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - format.bias - format.fraction_bits);
  return sign * std::ldexp(fraction + (1 << format.fraction_bits), exponent - format.bias - format.fraction_bits);
}

void encode_narrow(void* at, const FloatFormat& format, std::int64_t value) {
  std::uint64_t bits = 0;
  if (value != 0) {
    const auto magnitude = static_cast<std::uint64_t>(value < 0 ? -value : value);
    int exponent = 0;
    while ((magnitude >> exponent) > 1) ++exponent;
    const std::uint64_t fraction = magnitude << format.fraction_bits >> exponent & ((1u << format.fraction_bits) - 1);
    bits = format.bits(value < 0, exponent, fraction);
  }
  std::memcpy(at, &bits, static_cast<std::size_t>(format.bytes));
}

}  // namespace

FloatFormat float_format(DataType type) {
  switch (type) {
    case DataType::f64: return {8, 52, 1023, true};
    case DataType::f32: return {4, 23, 127, true};
    case DataType::f16: return {2, 10, 15, true};
    case DataType::bf16: return {2, 7, 127, true};
    case DataType::f8_e4m3fn: return {1, 3, 7, false};
    default: return {1, 2, 15, true};  // f8_e5m2
  }
}

double decode(const void* at, DataType type) {
  const auto load = [at](auto zero) {
    std::memcpy(&zero, at, sizeof zero);
    return static_cast<double>(zero);
  };
  switch (type) {
    case DataType::f64: return load(double{});
    case DataType::f32: return load(float{});
    case DataType::i8: return load(std::int8_t{});
    case DataType::u8:
    case DataType::boolean: return load(std::uint8_t{});
    case DataType::i16: return load(std::int16_t{});
    case DataType::u16: return load(std::uint16_t{});
    case DataType::i32: return load(std::int32_t{});
    case DataType::u32: return load(std::uint32_t{});
    case DataType::i64: return load(std::int64_t{});
    case DataType::u64: return load(std::uint64_t{});
    case DataType::bf16:
    case DataType::f16:
    case DataType::f8_e4m3fn:
    case DataType::f8_e5m2: break;
  }
  return decode_narrow(at, float_format(type));
}

void encode(void* at, DataType type, std::int64_t value) {
  const auto store = [at](auto v) { std::memcpy(at, &v, sizeof v); };
  switch (type) {
    case DataType::f64: return store(static_cast<double>(value));
    case DataType::f32: return store(static_cast<float>(value));
    case DataType::i8:
    case DataType::u8:
    case DataType::boolean: return store(static_cast<std::uint8_t>(value));
    case DataType::i16:
    case DataType::u16: return store(static_cast<std::uint16_t>(value));
    case DataType::i32:
    case DataType::u32: return store(static_cast<std::uint32_t>(value));
    case DataType::i64:
    case DataType::u64: return store(static_cast<std::uint64_t>(value));
    case DataType::bf16:
    case DataType::f16:
    case DataType::f8_e4m3fn:
    case DataType::f8_e5m2: break;
  }
  encode_narrow(at, float_format(type), value);
}

double last_place(double value, DataType type) {
  if (!is_floating(type)) return 1;
  const FloatFormat format = float_format(type);
  const int exponent = value == 0 ? format.lowest_exponent() : std::max(std::ilogb(value), format.lowest_exponent());
  return std::ldexp(1.0, exponent - format.fraction_bits);
}

}  // namespace peal::cli
