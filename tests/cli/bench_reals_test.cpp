// Inputs whose sums depend on the order, and the error of results against a reference that must be better than any of them.
#include <gtest/gtest.h>

#include <base/names.hpp>
#include <bit>
#include <cli/bench_reals.hpp>
#include <cli/bench_values.hpp>
#include <cli/elements.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

namespace peal::cli {
namespace {

constexpr DataType kFloats[] = {DataType::f64, DataType::f32, DataType::f16, DataType::bf16, DataType::f8_e4m3fn, DataType::f8_e5m2};
constexpr std::uint64_t kCount = 2000;

ErrorFigures reference_errors(const void* data, int ranks, DataType type, ReduceOp op = ReduceOp::sum) {
  ErrorFigures figures;
  measure_errors(data, kCount, 1, ranks, 0, type, op, figures);
  return figures;
}

TEST(BenchReals, WhatIsWrittenIsWhatWasSaid) {
  for (const DataType type : kFloats)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max}) {
      std::vector<std::byte> data(kCount * size_of(type));
      fill_reals(data.data(), kCount, 3, 7, type, op);
      for (std::uint64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(decode(data.data() + i * size_of(type), type), real_contribution(3, 7 + i, type, op)) << name_of(type) << " " << i;
    }
}

TEST(BenchReals, MagnitudesAndSignsAreMixedAsPromised) {
  for (const DataType type : kFloats) {
    std::set<int> exponents;
    int negative = 0, whole = 0;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const double x = real_contribution(1, i, type, ReduceOp::sum);
      EXPECT_TRUE(std::abs(x) >= 0x1p-6 && std::abs(x) < 4) << name_of(type) << " " << x;
      exponents.insert(std::ilogb(x));
      negative += x < 0 ? 1 : 0;
      whole += x == std::floor(x) ? 1 : 0;
      const double factor = std::abs(real_contribution(1, i, type, ReduceOp::prod));
      EXPECT_TRUE(factor >= 0.75 && factor < 1.25) << name_of(type) << " " << factor;
    }
    EXPECT_EQ(exponents.size(), 8u) << name_of(type);
    EXPECT_NEAR(negative, kCount / 2, kCount / 10) << name_of(type);
    EXPECT_LT(whole, static_cast<int>(kCount / 4)) << name_of(type);
  }
}

TEST(BenchReals, RanksAndElementsDiffer) {
  for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
    std::set<double> seen;
    for (int rank = 0; rank < 64; ++rank)
      for (std::uint64_t i = 0; i < 100; ++i) seen.insert(real_contribution(rank, index + i, DataType::f64, ReduceOp::sum));
    EXPECT_EQ(seen.size(), 6400u);
  }
}

TEST(BenchReals, SumsDependOnTheOrder) {
  int differs = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    float x[4];
    for (int r = 0; r < 4; ++r) x[r] = static_cast<float>(real_contribution(r, i, DataType::f32, ReduceOp::sum));
    differs += ((x[0] + x[1]) + x[2]) + x[3] != (x[0] + x[1]) + (x[2] + x[3]) ? 1 : 0;
  }
  EXPECT_GT(differs, static_cast<int>(kCount / 5));
}

TEST(BenchReals, TheReferenceLosesNothing) {
  for (const int ranks : {1, 2, 3, 64, 1000})
    for (std::uint64_t i = 0; i < 200; ++i) {
      // In two whole numbers, of 2^-20 and of 2^-58: no addition rounds.
      std::int64_t high = 0, low = 0;
      for (int r = 0; r < ranks; ++r) {
        const double x = real_contribution(r, i, DataType::f64, ReduceOp::sum);
        const double above = std::floor(x * 0x1p20);
        high += static_cast<std::int64_t>(above);
        low += static_cast<std::int64_t>((x * 0x1p20 - above) * 0x1p38);
      }
      const long double exact = static_cast<long double>(high) * 0x1p-20L + static_cast<long double>(low) * 0x1p-58L;
      const long double sum = reference_reduction(ranks, i, DataType::f64, ReduceOp::sum).value;
      ASSERT_NEAR(static_cast<double>(sum - exact), 0, 1e-17) << ranks << " ranks, element " << i;  // a tenth of the last place of 1
    }
}

TEST(BenchReals, TheReferenceOfEveryOperator) {
  const double x[] = {real_contribution(0, 5, DataType::bf16, ReduceOp::sum), real_contribution(1, 5, DataType::bf16, ReduceOp::sum),
                      real_contribution(2, 5, DataType::bf16, ReduceOp::sum)};
  const auto value = [](ReduceOp op) { return static_cast<double>(reference_reduction(3, 5, DataType::bf16, op).value); };
  EXPECT_EQ(value(ReduceOp::sum), x[0] + x[1] + x[2]);
  EXPECT_NEAR(value(ReduceOp::avg), (x[0] + x[1] + x[2]) / 3, 1e-15);
  EXPECT_EQ(value(ReduceOp::premul_sum), premul_factor(0) * x[0] + premul_factor(1) * x[1] + premul_factor(2) * x[2]);
  EXPECT_EQ(value(ReduceOp::min), std::min({x[0], x[1], x[2]}));
  EXPECT_EQ(value(ReduceOp::max), std::max({x[0], x[1], x[2]}));
  double product = 1;
  for (int r = 0; r < 3; ++r) product *= real_contribution(r, 5, DataType::bf16, ReduceOp::prod);
  EXPECT_EQ(value(ReduceOp::prod), product);
}

TEST(BenchReals, OneRoundingIsHalfAnUlpAndAStepIsOneMore) {
  std::vector<float> data(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(reference_reduction(8, i, DataType::f32, ReduceOp::sum).value);
  const ErrorFigures rounded = reference_errors(data.data(), 8, DataType::f32);
  EXPECT_EQ(rounded.elements, kCount);
  EXPECT_EQ(rounded.not_finite, 0u);
  EXPECT_GT(rounded.max_ulps, 0.4);
  EXPECT_LE(rounded.max_ulps, 0.5);
  EXPECT_NEAR(rounded.mean_ulps(), 0.25, 0.1);
  EXPECT_LT(rounded.max_relative, 0x1p-23);
  data[1234] = std::nextafter(data[1234], std::numeric_limits<float>::infinity());
  const ErrorFigures wrong = reference_errors(data.data(), 8, DataType::f32);
  EXPECT_GT(wrong.max_ulps, 0.5);
  EXPECT_LE(wrong.max_ulps, 1.5);
}

// bf16 rounded at every addition, as ranks in a chain do, and once at the end.
TEST(BenchReals, RoundingAtEveryHopCostsMoreThanOnce) {
  const auto round = [](float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
  };
  std::vector<std::uint16_t> once(kCount), often(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    float sum = 0, hops = 0;
    for (int r = 0; r < 64; ++r) {
      const auto x = static_cast<float>(real_contribution(r, i, DataType::bf16, ReduceOp::sum));
      sum += x;
      hops = round(hops + x);
    }
    once[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(round(sum)) >> 16);
    often[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(hops) >> 16);
  }
  const ErrorFigures least = reference_errors(once.data(), 64, DataType::bf16), most = reference_errors(often.data(), 64, DataType::bf16);
  EXPECT_LE(least.max_ulps, 0.5);
  EXPECT_GT(most.mean_ulps(), 5 * least.mean_ulps());
  EXPECT_GT(most.max_backward, least.max_backward);
}

TEST(BenchReals, WholeNumbersAreExactAndOneIsOneUlp) {
  std::vector<std::int32_t> data(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) data[i] = static_cast<std::int32_t>(expected_reduction(64, i, DataType::i32, ReduceOp::sum));
  EXPECT_EQ(reference_errors(data.data(), 64, DataType::i32).max_ulps, 0);
  EXPECT_EQ(reference_errors(data.data(), 64, DataType::i32).max_relative, 0);
  data[kCount - 1] += 1;
  EXPECT_EQ(reference_errors(data.data(), 64, DataType::i32).max_ulps, 1);
}

TEST(BenchReals, WhatIsNotFiniteIsCountedAndHidesNothing) {
  std::vector<float> data(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(reference_reduction(4, i, DataType::f32, ReduceOp::sum).value);
  data[3] = std::nanf("");
  data[4] = -std::numeric_limits<float>::infinity();
  data[5] += 1;
  const ErrorFigures figures = reference_errors(data.data(), 4, DataType::f32);
  EXPECT_EQ(figures.not_finite, 2u);
  EXPECT_GT(figures.max_ulps, 1e5);
  EXPECT_TRUE(std::isfinite(figures.mean_ulps()));
}

TEST(BenchReals, AStrideLooksAtTheRightElements) {
  std::vector<float> data(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i)
    data[i] = static_cast<float>(reference_reduction(4, 9 + i, DataType::f32, ReduceOp::sum).value);
  data[1] = 1e6f;  // not looked at
  ErrorFigures figures;
  measure_errors(data.data(), kCount, 7, 4, 9, DataType::f32, ReduceOp::sum, figures);
  EXPECT_EQ(figures.elements, (kCount + 6) / 7);
  EXPECT_LE(figures.max_ulps, 0.5);
}

TEST(BenchReals, NoResultsHaveNoMean) {
  EXPECT_EQ(ErrorFigures{}.mean_ulps(), 0);
  ErrorFigures figures;
  measure_errors(nullptr, 0, 1, 4, 0, DataType::f32, ReduceOp::sum, figures);
  EXPECT_EQ(figures.elements, 0u);
}

TEST(Elements, TheLastPlaceOfEveryType) {
  EXPECT_EQ(last_place(1, DataType::f64), 0x1p-52);
  EXPECT_EQ(last_place(1.5, DataType::f32), 0x1p-23);
  EXPECT_EQ(last_place(-3, DataType::bf16), 0x1p-6);
  EXPECT_EQ(last_place(1, DataType::f16), 0x1p-10);
  EXPECT_EQ(last_place(448, DataType::f8_e4m3fn), 32);
  EXPECT_EQ(last_place(1, DataType::f8_e5m2), 0.25);
  EXPECT_EQ(last_place(0, DataType::f8_e4m3fn), 0x1p-9) << "the smallest number above zero";
  EXPECT_EQ(last_place(0x1p-8, DataType::f8_e4m3fn), 0x1p-9) << "below the normal numbers the distance is the same";
  EXPECT_EQ(last_place(0, DataType::f32), 0x1p-149);
  EXPECT_EQ(last_place(12345, DataType::i16), 1);
}

}  // namespace
}  // namespace peal::cli
