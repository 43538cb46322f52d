// The check of `peal bench --check` is only worth something if it finds what is wrong: one element, anywhere, in every type and operator.
#include <gtest/gtest.h>

#include <base/names.hpp>
#include <cli/bench_values.hpp>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

namespace peal::cli {
namespace {

constexpr DataType kTypes[] = {DataType::f64, DataType::f32, DataType::f16,     DataType::bf16,      DataType::i8,
                               DataType::u8,  DataType::i16, DataType::u16,     DataType::i32,       DataType::u32,
                               DataType::i64, DataType::u64, DataType::boolean, DataType::f8_e4m3fn, DataType::f8_e5m2};
constexpr ReduceOp kOps[] = {ReduceOp::sum,        ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg,
                             ReduceOp::premul_sum, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};
constexpr std::uint64_t kElements = 1009;  // several periods of the pattern and a rest
// First, inside, around the end of the first period (251), the end of a whole number of periods, the rest, the last.
constexpr std::uint64_t kPositions[] = {0, 1, 100, 250, 251, 252, 753, 1003, 1004, 1007, 1008};

std::string word(DataType type, ReduceOp op) { return std::string(name_of(type)) + " " + std::string(name_of(op)); }

// The reduction in plain integers, for types in which every intermediate result is exact.
std::int64_t expected(int ranks, std::uint64_t index, DataType type, ReduceOp op) {
  std::int64_t result = 0;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t v = contribution(r, index, type, op);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg: result += v; break;
      case ReduceOp::premul_sum: result += static_cast<std::int64_t>(premul_factor(r)) * v; break;
      case ReduceOp::prod: result = r == 0 ? v : result * v; break;
      case ReduceOp::min: result = r == 0 ? v : std::min(result, v); break;
      case ReduceOp::max: result = r == 0 ? v : std::max(result, v); break;
      case ReduceOp::band: result = r == 0 ? v : result & v; break;
      case ReduceOp::bor: result |= v; break;
      case ReduceOp::bxor: result ^= v; break;
    }
  }
  return op == ReduceOp::avg ? result / ranks : result;
}

template <class T>
std::vector<T> reduced_vector(int ranks, std::uint64_t index, DataType type, ReduceOp op) {
  std::vector<T> values(kElements);
  for (std::uint64_t i = 0; i < kElements; ++i) values[i] = static_cast<T>(expected(ranks, index + i, type, op));
  return values;
}

TEST(BenchValues, RightCopiesAreRight) {
  for (const DataType type : kTypes)
    for (const int rank : {0, 1, 6})
      for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{17}, std::uint64_t{1} << 33}) {
        std::vector<std::byte> data(kElements * size_of(type));
        fill_contributions(data.data(), kElements, rank, index, type, ReduceOp::sum);
        EXPECT_EQ(count_wrong_copies(data.data(), kElements, rank, index, type, ReduceOp::sum), 0) << name_of(type);
      }
}

TEST(BenchValues, EveryByteOfAnElementCounts) {
  for (const DataType type : kTypes) {
    const std::size_t element = size_of(type);
    std::vector<std::byte> data(kElements * element);
    fill_contributions(data.data(), kElements, 1, 5, type, ReduceOp::sum);
    for (const std::uint64_t position : kPositions)
      for (std::size_t b = 0; b < element; ++b) {
        data[position * element + b] ^= std::byte{1};
        EXPECT_EQ(count_wrong_copies(data.data(), kElements, 1, 5, type, ReduceOp::sum), 1)
            << name_of(type) << " element " << position << " byte " << b;
        data[position * element + b] ^= std::byte{1};
      }
  }
}

TEST(BenchValues, CopiesOfAnotherRankOrPlaceAreWrong) {
  std::vector<float> data(kElements);
  fill_contributions(data.data(), kElements, 2, 0, DataType::f32, ReduceOp::sum);
  for (int other = 0; other < 64; ++other) {
    if (other == 2) continue;
    EXPECT_GT(count_wrong_copies(data.data(), kElements, other, 0, DataType::f32, ReduceOp::sum), 500) << "rank " << other;
  }
  for (const std::uint64_t shift : {1, 2, 4, 8, 16, 64, 128, 250, 256, 1024, 16384})
    EXPECT_GT(count_wrong_copies(data.data(), kElements, 2, shift, DataType::f32, ReduceOp::sum), 500) << "shifted by " << shift;
}

TEST(BenchValues, RightReductionsAreRightAndOneWrongElementIsFound) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const ReduceOp op : kOps) {
      auto values = reduced_vector<std::int32_t>(ranks, 9, DataType::i32, op);
      ASSERT_EQ(count_wrong_reductions(values.data(), kElements, ranks, 9, DataType::i32, op), 0) << ranks << " " << name_of(op);
      for (const std::uint64_t position : kPositions) {
        values[position] += 1;
        EXPECT_EQ(count_wrong_reductions(values.data(), kElements, ranks, 9, DataType::i32, op), 1)
            << name_of(op) << " element " << position;
        values[position] -= 1;
      }
    }
}

TEST(BenchValues, FloatsAndDoublesToo) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::premul_sum}) {
    auto doubles = reduced_vector<double>(4, 3, DataType::f64, op);
    auto floats = reduced_vector<float>(4, 3, DataType::f32, op);
    ASSERT_EQ(count_wrong_reductions(doubles.data(), kElements, 4, 3, DataType::f64, op), 0) << name_of(op);
    ASSERT_EQ(count_wrong_reductions(floats.data(), kElements, 4, 3, DataType::f32, op), 0) << name_of(op);
    for (const std::uint64_t position : kPositions) {
      const float before = floats[position];
      floats[position] = std::nextafter(before, 100.0f);
      EXPECT_EQ(count_wrong_reductions(floats.data(), kElements, 4, 3, DataType::f32, op), 1)
          << "exact operators allow no slack: " << name_of(op);
      floats[position] = std::nanf("");
      EXPECT_EQ(count_wrong_reductions(floats.data(), kElements, 4, 3, DataType::f32, op), 1) << "a NaN is wrong";
      floats[position] = before;
    }
  }
}

TEST(BenchValues, AveragesMayBeOffByOnePlaceAndNoMore) {
  std::vector<float> values(kElements);
  for (std::uint64_t i = 0; i < kElements; ++i)
    values[i] = static_cast<float>(static_cast<double>(expected(3, i, DataType::f32, ReduceOp::sum)) / 3);
  EXPECT_EQ(count_wrong_reductions(values.data(), kElements, 3, 0, DataType::f32, ReduceOp::avg), 0);
  values[251] = values[251] * (1 + 3e-7f);
  EXPECT_EQ(count_wrong_reductions(values.data(), kElements, 3, 0, DataType::f32, ReduceOp::avg), 1);
}

TEST(BenchValues, SmallIntegersWrap) {
  for (const int ranks : {8, 40, 200}) {
    auto values = reduced_vector<std::int8_t>(ranks, 0, DataType::i8, ReduceOp::sum);
    EXPECT_EQ(count_wrong_reductions(values.data(), kElements, ranks, 0, DataType::i8, ReduceOp::sum), 0) << ranks;
    auto plain = reduced_vector<std::uint8_t>(ranks, 0, DataType::u8, ReduceOp::sum);
    EXPECT_EQ(count_wrong_reductions(plain.data(), kElements, ranks, 0, DataType::u8, ReduceOp::sum), 0) << ranks;
  }
}

TEST(BenchValues, AMissingAndADoubledRankAreFound) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::premul_sum}) {
    for (int missing = 0; missing < 4; ++missing) {
      auto values = reduced_vector<std::int64_t>(4, 0, DataType::i64, op);
      const std::int64_t sign = missing % 2 == 0 ? -1 : 1;  // left out, or there twice
      for (std::uint64_t i = 0; i < kElements; ++i)
        values[i] += sign * contribution(missing, i, DataType::i64, op) *
                     (op == ReduceOp::premul_sum ? static_cast<std::int64_t>(premul_factor(missing)) : 1);
      EXPECT_EQ(count_wrong_reductions(values.data(), kElements, 4, 0, DataType::i64, op), static_cast<std::int64_t>(kElements))
          << name_of(op);
    }
  }
}

TEST(BenchValues, WhatNobodyWroteIsWrong) {
  for (const DataType type : kTypes)
    for (const ReduceOp op : kOps) {
      if (!is_supported(type, op) || type == DataType::boolean) continue;
      const std::vector<std::byte> untouched(kElements * size_of(type), std::byte{0x5b});  // what peal bench fills outputs with
      EXPECT_EQ(count_wrong_reductions(untouched.data(), kElements, 2, 0, type, op), static_cast<std::int64_t>(kElements))
          << word(type, op);
      EXPECT_EQ(count_wrong_copies(untouched.data(), kElements, 0, 0, type, op), static_cast<std::int64_t>(kElements)) << word(type, op);
    }
}

TEST(BenchValues, HalfPrecisionIsWrittenAsTheStandardSays) {
  // 1, 2, 3, 4 in binary16 and bfloat16.
  const std::uint16_t f16[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
  const std::uint16_t bf16[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080};
  for (std::uint64_t i = 0; i < 251; ++i) {
    std::uint16_t half = 0, brain = 0;
    fill_contributions(&half, 1, 0, i, DataType::f16, ReduceOp::sum);
    fill_contributions(&brain, 1, 0, i, DataType::bf16, ReduceOp::sum);
    EXPECT_EQ(half, f16[contribution(0, i, DataType::f16, ReduceOp::sum)]);
    EXPECT_EQ(brain, bf16[contribution(0, i, DataType::bf16, ReduceOp::sum)]);
  }
}

/// As a pattern, where the type has the number.
std::optional<std::uint8_t> eight_bits(double value, DataType type) {
  const int fraction_bits = type == DataType::f8_e4m3fn ? 3 : 2, bias = type == DataType::f8_e4m3fn ? 7 : 15;
  if (value == 0) return std::uint8_t{0};
  const int exponent = std::ilogb(value);
  const double units = std::ldexp(value, fraction_bits - exponent);
  if (units != std::floor(units) || exponent > 7) return std::nullopt;
  return static_cast<std::uint8_t>((exponent + bias - 1) * (1 << fraction_bits) + static_cast<int>(units));
}

TEST(BenchValues, SumsOfEightBitsAreExactInWhateverOrderAndOneWrongElementIsFound) {
  for (const DataType type : {DataType::f8_e4m3fn, DataType::f8_e5m2})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::premul_sum, ReduceOp::min, ReduceOp::max, ReduceOp::prod})
      for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 12, 32}) {
        if (ranks > (op == ReduceOp::sum ? 32 : op == ReduceOp::prod ? 8 : 12)) continue;
        std::vector<std::uint8_t> values(kElements);
        for (std::uint64_t i = 0; i < kElements; ++i) {
          const auto result = eight_bits(static_cast<double>(expected(ranks, 4 + i, type, op)), type);
          ASSERT_TRUE(result) << word(type, op) << " of " << ranks;
          values[i] = *result;
        }
        ASSERT_EQ(count_wrong_reductions(values.data(), kElements, ranks, 4, type, op), 0) << word(type, op) << " of " << ranks;
        for (const std::uint64_t position : kPositions) {
          values[position] ^= 1;
          EXPECT_EQ(count_wrong_reductions(values.data(), kElements, ranks, 4, type, op), 1) << word(type, op) << " element " << position;
          values[position] ^= 1;
        }
      }
}

TEST(BenchValues, EveryPartialSumOfEightBitsIsANumberOfTheType) {
  for (std::uint64_t i = 0; i < 251; ++i)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::premul_sum})
      for (int first = 0; first < 12; ++first) {
        std::int64_t sum = 0;
        for (int r = first; r < 12; ++r) {
          const double factor = op == ReduceOp::sum ? 1 : premul_factor(r);
          sum += static_cast<std::int64_t>(factor) * contribution(r, i, DataType::f8_e5m2, op);
          ASSERT_TRUE(eight_bits(static_cast<double>(sum), DataType::f8_e5m2)) << i << " ranks " << first << " to " << r;
        }
      }
}

TEST(BenchValues, AMissingRankOfEightBitsIsFound) {
  for (int missing = 0; missing < 4; ++missing) {
    std::vector<std::uint8_t> values(kElements);
    for (std::uint64_t i = 0; i < kElements; ++i) {
      const std::int64_t rest =
          expected(4, i, DataType::f8_e5m2, ReduceOp::sum) - contribution(missing, i, DataType::f8_e5m2, ReduceOp::sum);
      values[i] = *eight_bits(static_cast<double>(rest), DataType::f8_e5m2);
    }
    EXPECT_GT(count_wrong_reductions(values.data(), kElements, 4, 0, DataType::f8_e5m2, ReduceOp::sum), 150) << missing;
  }
}

TEST(BenchValues, NothingIsNeverWrong) {
  EXPECT_EQ(count_wrong_copies(nullptr, 0, 0, 0, DataType::f32, ReduceOp::sum), 0);
  EXPECT_EQ(count_wrong_reductions(nullptr, 0, 4, 0, DataType::f32, ReduceOp::sum), 0);
}

TEST(BenchValues, WrongElementsAreCountedInEveryPeriodWhateverLiesInThoseBefore) {
  constexpr std::size_t kPeriod = 251, kLength = 4 * kPeriod + 10;
  std::vector<std::int32_t> values(kLength);
  for (std::size_t i = 0; i < kLength; ++i) values[i] = static_cast<std::int32_t>(expected_reduction(3, i, DataType::i32, ReduceOp::sum));
  const auto wrong = [&] { return count_wrong_reductions(values.data(), kLength, 3, 0, DataType::i32, ReduceOp::sum); };
  EXPECT_EQ(wrong(), 0);
  values[2 * kPeriod + 5] += 1;
  EXPECT_EQ(wrong(), 1);
  for (std::size_t period : {0, 1, 3, 4}) values[period * kPeriod + 5] += 1;  // all periods alike again, and wrong
  EXPECT_EQ(wrong(), 5);
  values[kLength - 1] += 1;
  EXPECT_EQ(wrong(), 6);
}

}  // namespace
}  // namespace peal::cli
