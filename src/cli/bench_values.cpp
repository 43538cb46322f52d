#include <algorithm>
#include <base/names.hpp>
#include <cli/bench_values.hpp>
#include <cmath>
#include <cstring>
#include <limits>

namespace peal::cli {

namespace {

// A prime, so that chunk boundaries (multiples of 16) never fall onto the same value.
constexpr std::uint64_t kPeriod = 251;

// The floats of 16 and 8 bits, which are taken apart by hand.
struct NarrowFloat {
  int bytes;
  int fraction_bits;
  int bias;
  bool has_infinity;
  int exponent_bits() const { return bytes * 8 - 1 - fraction_bits; }
  unsigned sign() const { return 1u << (bytes * 8 - 1); }
};

NarrowFloat narrow_float(DataType type) {
  switch (type) {
    case DataType::f16: return {2, 10, 15, true};
    case DataType::bf16: return {2, 7, 127, true};
    case DataType::f8_e4m3fn: return {1, 3, 7, false};
    default: return {1, 2, 15, true};  // f8_e5m2
  }
}

double decode_narrow(const void* at, const NarrowFloat& format) {
  unsigned bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(format.bytes));  // little endian
  const int highest_fraction = (1 << format.fraction_bits) - 1;
  const int highest_exponent = (1 << format.exponent_bits()) - 1;
  const int fraction = static_cast<int>(bits) & highest_fraction;
  const int exponent = static_cast<int>(bits >> format.fraction_bits) & highest_exponent;
  const double sign = (bits & format.sign()) != 0 ? -1 : 1;
  if (exponent == highest_exponent && format.has_infinity)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == highest_exponent && fraction == highest_fraction) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - format.bias - format.fraction_bits);
  return sign * std::ldexp(fraction + (1 << format.fraction_bits), exponent - format.bias - format.fraction_bits);
}

void encode_narrow(void* at, const NarrowFloat& format, std::int64_t value) {
  unsigned bits = 0;
  if (value != 0) {
    const auto magnitude = static_cast<std::uint64_t>(value < 0 ? -value : value);
    int exponent = 0;
    while ((magnitude >> exponent) > 1) ++exponent;
    const auto fraction = static_cast<unsigned>(magnitude << format.fraction_bits >> exponent) & ((1u << format.fraction_bits) - 1);
    bits = (value < 0 ? format.sign() : 0u) | static_cast<unsigned>(exponent + format.bias) << format.fraction_bits | fraction;
  }
  std::memcpy(at, &bits, static_cast<std::size_t>(format.bytes));
}

// What a value looks like in memory.
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
  return decode_narrow(at, narrow_float(type));
}

// Whole numbers that are exact in the type only.
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
  encode_narrow(at, narrow_float(type), value);
}

// One element of the reduction, before it is rounded to the type.
double reduced(int ranks, std::uint64_t index, DataType type, ReduceOp op) {
  std::uint64_t product = 1;  // unsigned: of operators that it is not for it may overflow
  std::int64_t sum = 0, low = 0, high = 0, all = 0, any = 0, odd = 0;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t v = contribution(r, index, type, op);
    sum += op == ReduceOp::premul_sum ? static_cast<std::int64_t>(premul_factor(r)) * v : v;
    product *= static_cast<std::uint64_t>(v);
    low = r == 0 ? v : std::min(low, v);
    high = r == 0 ? v : std::max(high, v);
    all = r == 0 ? v : all & v;
    any |= v;
    odd ^= v;
  }
  const bool logical = type == DataType::boolean;
  switch (op) {
    case ReduceOp::sum: return static_cast<double>(logical ? any : sum);
    case ReduceOp::premul_sum: return static_cast<double>(sum);
    case ReduceOp::prod: return static_cast<double>(logical ? all : static_cast<std::int64_t>(product));
    case ReduceOp::min: return static_cast<double>(low);
    case ReduceOp::max: return static_cast<double>(high);
    case ReduceOp::avg: return is_floating(type) ? static_cast<double>(sum) / ranks : static_cast<double>(sum / ranks);
    case ReduceOp::band: return static_cast<double>(all);
    case ReduceOp::bor: return static_cast<double>(any);
    case ReduceOp::bxor: return static_cast<double>(odd);
  }
  return 0;
}

// Integers wrap modulo 2^bits.
double wrapped(double value, DataType type) {
  if (is_floating(type) || type == DataType::boolean || size_of(type) == 8) return value;
  const double modulus = std::ldexp(1.0, static_cast<int>(size_of(type)) * 8);
  double inside = std::fmod(value, modulus);
  if (inside < 0) inside += modulus;
  const bool is_signed = type == DataType::i8 || type == DataType::i16 || type == DataType::i32;
  return is_signed && inside >= modulus / 2 ? inside - modulus : inside;
}

double last_place(double value, DataType type) {
  const int digits = type == DataType::f64 ? 52 : type == DataType::f32 ? 23 : narrow_float(type).fraction_bits;
  return std::ldexp(1.0, value == 0 ? -digits : std::ilogb(value) - digits);
}

// Blocks of other ranks or from other places differ nearly everywhere; with a straight line modulo a number they would not.
std::uint64_t scrambled(int rank, std::uint64_t index) {
  std::uint64_t mixed = (static_cast<std::uint64_t>(rank) * kPeriod + index % kPeriod + 1) * 0x9e3779b97f4a7c15ull;
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ull;
  return mixed ^ mixed >> 32;
}

// For sums of 8-bit floats, which hold only the first 8 whole numbers without a gap: one rank in four gives anything, and all that do
// give the same power of two. Up to 32 ranks (12 with premul_sum) every partial sum is exact.
std::int64_t sparse_contribution(int rank, std::uint64_t index) {
  const std::uint64_t mixed = scrambled(0, index);
  return static_cast<std::uint64_t>(rank % 4) == mixed % 4 ? std::int64_t{1} << (mixed / 4 % 4) : 0;
}

}  // namespace

std::int64_t contribution(int rank, std::uint64_t index, DataType type, ReduceOp op) {
  const bool is_summed = op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::premul_sum;
  if (is_summed && is_floating(type) && size_of(type) == 1) return sparse_contribution(rank, index);
  const std::uint64_t mixed = scrambled(rank, index);
  if (type == DataType::boolean) return static_cast<std::int64_t>(mixed % 2);
  if (op == ReduceOp::prod) return mixed % 4 == 0 ? 2 : 1;
  return static_cast<std::int64_t>(mixed % 4 + 1);
}

void fill_contributions(void* data, std::uint64_t count, int rank, std::uint64_t index, DataType type, ReduceOp op) {
  auto* at = static_cast<std::byte*>(data);
  const std::size_t element = size_of(type);
  const std::uint64_t first = std::min(count, kPeriod);
  for (std::uint64_t i = 0; i < first; ++i) encode(at + i * element, type, contribution(rank, index + i, type, op));
  for (std::uint64_t done = first; done < count;) {  // the pattern repeats: double what is there
    const std::uint64_t more = std::min(done / kPeriod * kPeriod, count - done);
    std::memcpy(at + done * element, at, more * element);
    done += more;
  }
}

std::int64_t count_wrong_copies(const void* data, std::uint64_t count, int rank, std::uint64_t index, DataType type, ReduceOp op) {
  std::vector<std::byte> expected(kPeriod * size_of(type));
  fill_contributions(expected.data(), kPeriod, rank, index, type, op);
  const auto* at = static_cast<const std::byte*>(data);
  const std::size_t element = size_of(type);
  std::int64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; i += kPeriod) {
    const std::uint64_t n = std::min(kPeriod, count - i);
    if (std::memcmp(at + i * element, expected.data(), n * element) == 0) continue;
    for (std::uint64_t k = 0; k < n; ++k)
      if (std::memcmp(at + (i + k) * element, expected.data() + k * element, element) != 0) ++wrong;
  }
  return wrong;
}

std::int64_t count_wrong_reductions(const void* data, std::uint64_t count, int ranks, std::uint64_t index, DataType type, ReduceOp op) {
  double expected[kPeriod], slack[kPeriod];
  for (std::uint64_t k = 0; k < kPeriod; ++k) {
    expected[k] = wrapped(reduced(ranks, index + k, type, op), type);
    slack[k] = op == ReduceOp::avg && is_floating(type) ? last_place(expected[k], type) : 0;
  }
  const auto* at = static_cast<const std::byte*>(data);
  const std::size_t element = size_of(type);
  std::int64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double got = decode(at + i * element, type);
    const std::uint64_t k = i % kPeriod;
    if (!(std::abs(got - expected[k]) <= slack[k])) ++wrong;  // a NaN is wrong
  }
  return wrong;
}

}  // namespace peal::cli
