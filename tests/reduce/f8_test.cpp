// The 8-bit floats against their definition: every pattern, every rounding, every pair. The reference here works in double and shares no
// code with the library.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <reduce/combine.hpp>
#include <reduce/convert.hpp>
#include <reduce/f8_float.hpp>

#include "elements.hpp"

namespace peal::reduce {
namespace {

/// A format by its definition: `fraction` bits below the point, exponent bias as given.
struct Definition {
  DataType type;
  int fraction;
  int bias;
  bool has_infinity;
};
constexpr Definition kE4m3fn{DataType::f8_e4m3fn, 3, 7, false};
constexpr Definition kE5m2{DataType::f8_e5m2, 2, 15, true};

/// Of a pattern as a number, whether or not the format gives it another meaning.
double number_of(const Definition& format, int bits) {
  const int exponent = (bits & 0x7f) >> format.fraction;
  const int fraction = bits & ((1 << format.fraction) - 1);
  const double sign = bits & 0x80 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - format.bias - format.fraction);
  return sign * std::ldexp((1 << format.fraction) + fraction, exponent - format.bias - format.fraction);
}

/// The first pattern above zero that is no number: infinity where the highest exponent is taken for it, else the NaN of all ones.
int first_special(const Definition& format) { return format.has_infinity ? 0x7f >> format.fraction << format.fraction : 0x7f; }

double value_of_f8(const Definition& format, int bits) {
  const int magnitude = bits & 0x7f;
  if (magnitude < first_special(format)) return number_of(format, bits);
  if (format.has_infinity && magnitude == first_special(format)) return std::copysign(HUGE_VAL, number_of(format, bits));
  return std::nan("");
}

/// Nearest even among all patterns in order, as if the exponents went on; from the first special one on it is overflow. Not for NaN.
class Rounding {
 public:
  explicit Rounding(const Definition& format) {
    for (int bits = 0; bits <= first_special(format); ++bits) numbers_.push_back(number_of(format, bits));
  }
  int nearest(double value) const {
    const double magnitude = std::fabs(value);
    const auto above = std::lower_bound(numbers_.begin(), numbers_.end(), magnitude);
    int bits = static_cast<int>(above - numbers_.begin());
    if (above == numbers_.end()) {
      --bits;
    } else if (bits > 0) {
      const double down = magnitude - numbers_[static_cast<std::size_t>(bits - 1)], up = *above - magnitude;
      if (down < up || (down == up && bits % 2 == 1)) --bits;
    }
    return bits | (std::signbit(value) ? 0x80 : 0);
  }

 private:
  std::vector<double> numbers_;
};

float single_widened(const Definition& format, std::uint8_t bits) {
  return format.has_infinity ? f32_of_f8<E5m2>(bits) : f32_of_f8<E4m3fn>(bits);
}
int single_rounded(const Definition& format, float value) {
  return format.has_infinity ? f8_of_f32<E5m2>(value) : f8_of_f32<E4m3fn>(value);
}

std::uint32_t bits_of_float(float value) { return std::bit_cast<std::uint32_t>(value); }

class F8Test : public testing::TestWithParam<Definition> {};

TEST_P(F8Test, all_256_patterns_widen_to_their_definition_and_come_back) {
  const Definition format = GetParam();
  std::array<std::uint8_t, 256> all{}, back{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i);
  on_every_instruction_set([&] {
    std::array<float, 256> wide{};
    ASSERT_TRUE(convert(DataType::f32, wide.data(), format.type, all.data(), all.size()));
    ASSERT_TRUE(convert(format.type, back.data(), DataType::f32, wide.data(), all.size()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double defined = value_of_f8(format, all[i]);
      ASSERT_EQ(is_nan(format.type, all[i]), std::isnan(defined)) << std::hex << i;
      if (std::isnan(defined)) {
        ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(single_widened(format, all[i]))) << std::hex << i;
        ASSERT_TRUE(is_nan(format.type, back[i])) << std::hex << i;
      } else {
        ASSERT_EQ(bits_of_float(wide[i]), bits_of_float(single_widened(format, all[i]))) << std::hex << i;
        ASSERT_EQ(bits_of_float(wide[i]), bits_of_float(static_cast<float>(defined))) << std::hex << i;
        ASSERT_EQ(back[i], all[i]) << std::hex << i;
      }
    }
  });
}

/// Every upper half of an f32 with lower halves around both ends and the middle; every number and midpoint of the format, its neighbours.
std::vector<float> f32_to_round(const Definition& format) {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  }
  for (int bits = 0; bits < first_special(format); ++bits) {
    const double number = number_of(format, bits), next = number_of(format, bits + 1);
    for (const double at : {number, (number + next) / 2}) {
      for (const std::uint32_t step : {0u, 1u, ~0u}) {
        for (const std::uint32_t sign : {0u, 0x80000000u})
          values.push_back(std::bit_cast<float>((bits_of_float(static_cast<float>(at)) + step) ^ sign));
      }
    }
  }
  Random random(17);
  for (int i = 0; i < 100000; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  return values;
}

TEST_P(F8Test, rounds_every_kind_of_f32_to_nearest_even) {
  const Definition format = GetParam();
  const Rounding rounding(format);
  const std::vector<float> values = f32_to_round(format);
  on_every_instruction_set([&] {
    std::vector<std::uint8_t> rounded(values.size());
    ASSERT_TRUE(convert(format.type, rounded.data(), DataType::f32, values.data(), values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int single = single_rounded(format, values[i]);
      if (std::isnan(values[i])) {
        ASSERT_TRUE(is_nan(format.type, rounded[i]) && is_nan(format.type, static_cast<std::uint64_t>(single)))
            << std::hex << bits_of_float(values[i]);
      } else {
        ASSERT_EQ(rounded[i], rounding.nearest(values[i])) << std::hex << bits_of_float(values[i]);
        ASSERT_EQ(rounded[i], single) << std::hex << bits_of_float(values[i]);
      }
    }
  });
}

double lower(double a, double b) { return a < b || (a == b && std::signbit(a)) ? a : b; }
double higher(double a, double b) { return a > b || (a == b && std::signbit(b)) ? a : b; }

TEST_P(F8Test, every_pair_of_patterns_combines_as_defined) {
  const Definition format = GetParam();
  const Rounding rounding(format);
  const std::pair<ReduceOp, double (*)(double, double)> ops[] = {
      {ReduceOp::sum, [](double a, double b) { return a + b; }},
      {ReduceOp::prod, [](double a, double b) { return a * b; }},
      {ReduceOp::min, lower},
      {ReduceOp::max, higher},
  };
  std::vector<std::uint8_t> a(65536), b(65536), out(65536);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::uint8_t>(i >> 8);
    b[i] = static_cast<std::uint8_t>(i);
  }
  on_every_instruction_set([&] {
    for (const auto& [op, plain] : ops) {
      combine_for(format.type, op)(out.data(), a.data(), b.data(), out.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        const double x = value_of_f8(format, a[i]), y = value_of_f8(format, b[i]);
        const double exact = std::isnan(x) || std::isnan(y) ? std::nan("") : plain(x, y);
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(value_of_f8(format, out[i]))) << name_of(op) << std::hex << ' ' << int{a[i]} << ' ' << int{b[i]};
        } else {
          ASSERT_EQ(out[i], rounding.nearest(exact)) << name_of(op) << std::hex << ' ' << int{a[i]} << ' ' << int{b[i]};
        }
      }
    }
  });
}

TEST_P(F8Test, many_round_once_and_an_average_does_not_overflow_in_between) {
  const Definition format = GetParam();
  const auto coded = [&](double value) { return static_cast<std::uint8_t>(Rounding(format).nearest(value)); };
  // One and two halves of the distance to the next number: a rounding at every step would stay (ties to even).
  const std::uint8_t one = coded(1), part = coded(std::ldexp(1, -format.fraction - 1));
  const auto largest = static_cast<std::uint8_t>(first_special(format) - 1);
  const void* parts[] = {&one, &part, &part};
  const void* large[] = {&largest, &largest, &largest, &largest, &largest};
  on_every_instruction_set([&] {
    for (const Order order : {Order::left_to_right, Order::canonical}) {
      std::uint8_t out = 0;
      ASSERT_TRUE(combine_many(format.type, ReduceOp::sum, &out, parts, 3, 1, order));
      EXPECT_EQ(out, one + 1);
      ASSERT_TRUE(combine_many(format.type, ReduceOp::avg, &out, large, 5, 1, order, Stores::cached, 5));
      EXPECT_EQ(out, largest);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, F8Test, testing::Values(kE4m3fn, kE5m2),
                         [](const auto& format) { return std::string(name_of(format.param.type)); });

TEST(F8, overflow_is_nan_in_e4m3fn_and_infinity_in_e5m2) {
  const auto sum = [](DataType type, std::uint8_t a, std::uint8_t b) {
    std::uint8_t out = 0;
    combine_for(type, ReduceOp::sum)(&out, &a, &b, 1);
    return out;
  };
  on_every_instruction_set([&] {
    EXPECT_EQ(sum(DataType::f8_e4m3fn, 0x7e, 0x58), 0x7e);  // 448 + 16: a tie, down to the even 448
    EXPECT_EQ(sum(DataType::f8_e4m3fn, 0x7e, 0x59), 0x7f);  // 448 + 18: NaN
    EXPECT_EQ(sum(DataType::f8_e4m3fn, 0xfe, 0xfe), 0xff);  // -896: NaN
    EXPECT_EQ(sum(DataType::f8_e5m2, 0x7b, 0x6b), 0x7b);    // 57344 + 3584: down
    EXPECT_EQ(sum(DataType::f8_e5m2, 0x7b, 0x6c), 0x7c);    // 57344 + 4096: a tie, up to the even infinity
    EXPECT_EQ(sum(DataType::f8_e5m2, 0xfb, 0xfb), 0xfc);
  });
}

}  // namespace
}  // namespace peal::reduce
