#include <gtest/gtest.h>

#include <reduce/convert.hpp>

#include "elements.hpp"
#include "guarded_buffer.hpp"

namespace peal::reduce {
namespace {

/// A half by its definition: `fraction` bits below the point, exponent bias as given.
struct HalfFormat {
  DataType type;
  int fraction;
  int bias;
  std::uint16_t infinity() const { return static_cast<std::uint16_t>(0x7fffu >> fraction << fraction); }
};
constexpr HalfFormat kF16{DataType::f16, 10, 15};
constexpr HalfFormat kBf16{DataType::bf16, 7, 127};

double value_of(HalfFormat format, std::uint16_t bits) {
  const int exponent = (bits & 0x7fff) >> format.fraction;
  const int fraction = bits & ((1 << format.fraction) - 1);
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if ((bits & 0x7fff) > format.infinity()) return std::numeric_limits<double>::quiet_NaN();
  if ((bits & 0x7fff) == format.infinity()) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - format.bias - format.fraction);
  return sign * std::ldexp((1 << format.fraction) + fraction, exponent - format.bias - format.fraction);
}

/// Nearest even, by scaling to units and nearbyint in double. Not for NaN.
std::uint16_t nearest_half(HalfFormat format, float value) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | format.infinity();
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias);
  const double units = std::nearbyint(std::ldexp(magnitude, format.fraction - exponent));
  const auto bits = static_cast<std::uint32_t>((exponent - 1 + format.bias) << format.fraction) + static_cast<std::uint32_t>(units);
  return static_cast<std::uint16_t>(sign | std::min<std::uint32_t>(bits, format.infinity()));
}

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

class HalfTest : public testing::TestWithParam<HalfFormat> {};

TEST_P(HalfTest, all_65536_patterns_widen_to_their_definition_and_come_back) {
  const HalfFormat format = GetParam();
  std::vector<std::uint16_t> all(65536), back(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  on_every_instruction_set([&] {
    std::vector<float> wide(all.size());
    ASSERT_TRUE(convert(DataType::f32, wide.data(), format.type, all.data(), all.size()));
    ASSERT_TRUE(convert(format.type, back.data(), DataType::f32, wide.data(), all.size()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto half = static_cast<std::uint16_t>(i);
      const float single = format.type == DataType::f16 ? f32_of_f16(half) : f32_of_bf16(half);
      ASSERT_EQ(bits_of(wide[i]), bits_of(single)) << std::hex << i;
      const double defined = value_of(format, half);
      if (std::isnan(defined)) {
        ASSERT_TRUE(std::isnan(wide[i])) << std::hex << i;
        ASSERT_EQ(back[i], half | 1 << (format.fraction - 1)) << std::hex << i;  // quiet, sign and payload kept
      } else {
        ASSERT_EQ(bits_of(wide[i]), bits_of(static_cast<float>(defined))) << std::hex << i;
        ASSERT_EQ(back[i], half) << std::hex << i;
      }
    }
  });
}

TEST_P(HalfTest, rounds_to_nearest_even_around_every_half_and_every_midpoint) {
  const HalfFormat format = GetParam();
  std::vector<float> values;
  const std::uint32_t half_unit = 1u << (23 - format.fraction - 1);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = bits_of(static_cast<float>(value_of(format, static_cast<std::uint16_t>(i))));
    for (const std::uint32_t near : {bits, bits + half_unit, bits - half_unit}) {
      for (const std::uint32_t step : {0u, 1u, ~0u}) values.push_back(std::bit_cast<float>(near + step));
    }
  }
  for (int i = 0; i < 2047; ++i) {  // f16: midpoints of the denormals, which lie elsewhere in f32
    const auto middle = static_cast<float>(std::ldexp(2 * i + 1, -format.bias - format.fraction));
    for (const std::uint32_t step : {0u, 1u, ~0u}) values.push_back(std::bit_cast<float>(bits_of(middle) + step));
  }
  Random random(3);
  for (int i = 0; i < 400000; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  on_every_instruction_set([&] {
    std::vector<std::uint16_t> halves(values.size());
    ASSERT_TRUE(convert(format.type, halves.data(), DataType::f32, values.data(), values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t single = format.type == DataType::f16 ? f16_of_f32(values[i]) : bf16_of_f32(values[i]);
      ASSERT_EQ(halves[i], single) << std::hex << bits_of(values[i]);
      if (std::isnan(values[i])) {
        ASSERT_TRUE(is_nan(format.type, halves[i])) << std::hex << bits_of(values[i]);
      } else {
        ASSERT_EQ(halves[i], nearest_half(format, values[i])) << std::hex << bits_of(values[i]);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfTest, testing::Values(kF16, kBf16),
                         [](const auto& format) { return std::string(name_of(format.param.type)); });

TEST(Convert, f64_narrows_to_f32_with_infinity_and_nan_and_widens_exactly) {
  Random random(5);
  std::vector<double> wide(5000);
  fill(DataType::f64, reinterpret_cast<std::byte*>(wide.data()), wide.size(), random);
  for (std::size_t i = 0; i < wide.size(); i += 3) wide[i] = std::ldexp(wide[i], static_cast<int>(random() % 200) - 100);
  on_every_instruction_set([&] {
    for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{7}, std::size_t{20}, wide.size()}) {
      std::vector<float> narrow(count);
      std::vector<double> back(count);
      ASSERT_TRUE(convert(DataType::f32, narrow.data(), DataType::f64, wide.data(), count));
      ASSERT_TRUE(convert(DataType::f64, back.data(), DataType::f32, narrow.data(), count));
      for (std::size_t i = 0; i < count; ++i) {
        const auto expected = static_cast<float>(wide[i]);
        ASSERT_TRUE(is_same(DataType::f32, bits_of(narrow[i]), bits_of(expected))) << wide[i];
        ASSERT_TRUE(std::isnan(expected) ? std::isnan(back[i]) : back[i] == static_cast<double>(expected)) << wide[i];
      }
    }
  });
}

TEST(Convert, touches_nothing_outside_at_any_size_and_alignment) {
  Random random(11);
  on_every_instruction_set([&] {
    for (const DataType from : all_types()) {
      for (const DataType to : all_types()) {
        if (!is_convertible(from, to)) continue;
        for (std::size_t count = 0; count < 150; ++count) {
          GuardedBuffer src(count * size_of(from), count % 9), dst(count * size_of(to), count % 5);
          fill(from, src.data(), count, random);
          ASSERT_TRUE(convert(to, dst.data(), from, src.data(), count));
          ASSERT_TRUE(src.is_intact() && dst.is_intact());
          if (from == to) {
            ASSERT_EQ(std::memcmp(dst.data(), src.data(), src.size()), 0);
          }
        }
      }
    }
  });
}

TEST(Convert, refuses_other_pairs) {
  std::uint64_t value = 1;
  EXPECT_FALSE(convert(DataType::f16, &value, DataType::f64, &value, 1));
  EXPECT_FALSE(convert(DataType::f16, &value, DataType::bf16, &value, 1));
  EXPECT_FALSE(convert(DataType::f8_e5m2, &value, DataType::f8_e4m3fn, &value, 1));
  EXPECT_FALSE(convert(DataType::f32, &value, DataType::i32, &value, 1));
  EXPECT_EQ(value, 1u);
}

}  // namespace
}  // namespace peal::reduce
