#include <algorithm>
#include <base/names.hpp>
#include <cli/bench_values.hpp>
#include <cli/elements.hpp>
#include <cmath>
#include <cstring>

namespace peal::cli {

namespace {

// A prime, so that chunk boundaries (multiples of 16) never fall onto the same value.
constexpr std::uint64_t kPeriod = 251;

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

double expected_reduction(int ranks, std::uint64_t index, DataType type, ReduceOp op) {
  return wrapped(reduced(ranks, index, type, op), type);
}

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
    expected[k] = expected_reduction(ranks, index + k, type, op);
    slack[k] = op == ReduceOp::avg && is_floating(type) ? last_place(expected[k], type) : 0;
  }
  const auto* at = static_cast<const std::byte*>(data);
  const std::size_t element = size_of(type);
  std::int64_t wrong = 0;
  bool is_before_right = false;  // all of the period before
  for (std::uint64_t i = 0; i < count; i += kPeriod) {
    const std::uint64_t n = std::min(kPeriod, count - i);
    if (is_before_right && std::memcmp(at + i * element, at + (i - kPeriod) * element, n * element) == 0) continue;
    const std::int64_t before = wrong;
    for (std::uint64_t k = 0; k < n; ++k)
      if (!(std::abs(decode(at + (i + k) * element, type) - expected[k]) <= slack[k])) ++wrong;  // a NaN is wrong
    is_before_right = wrong == before;
  }
  return wrong;
}

}  // namespace peal::cli
