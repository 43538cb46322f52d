#include <gtest/gtest.h>

#include <reduce/reference.hpp>
#include <reduce/scale.hpp>

#include "elements.hpp"
#include "guarded_buffer.hpp"

namespace peal::reduce {
namespace {

class ScaleTest : public testing::TestWithParam<DataType> {};

/// Calls `run` (the kernel) and `expect` (the reference) as (dst, src, count) over sizes, alignments and in place.
template <class Run, class Expect>
void compare(DataType type, Run run, Expect expect) {
  Random random(13);
  for (std::size_t count = 0; count <= 330; count += count < 140 ? 1 : 19) {
    const std::size_t bytes = count * size_of(type);
    GuardedBuffer src(bytes, count % 7), apart(bytes, count % 3);
    fill(type, src.data(), count, random);
    std::vector<std::byte> expected(bytes + 1);
    expect(expected.data(), src.data(), count);
    const std::vector<std::byte> before(src.data(), src.data() + bytes);
    GuardedBuffer& dst = count % 2 ? src : apart;
    run(dst.data(), src.data(), count);
    const std::size_t wrong = first_difference(type, dst.data(), expected.data(), count);
    ASSERT_EQ(wrong, count) << name_of(type) << std::hex << ' ' << load_bits(type, before.data(), wrong) << " gave "
                            << load_bits(type, dst.data(), wrong) << ", not " << load_bits(type, expected.data(), wrong);
    ASSERT_TRUE(src.is_intact() && apart.is_intact());
  }
}

TEST_P(ScaleTest, matches_the_reference) {
  const DataType type = GetParam();
  on_every_instruction_set([&] {
    for (const double factor : {0.0, 1.0, -1.0, 0.5, 3.0, 1e30, -2.75, 1.0 / 3.0}) {
      SCOPED_TRACE(factor);
      compare(
          type, [&](void* dst, const void* src, std::size_t count) { scale(type, dst, src, count, factor); },
          [&](void* dst, const void* src, std::size_t count) { scale_reference(type, dst, src, count, factor); });
      if (HasFatalFailure()) return;
    }
  });
}

TEST_P(ScaleTest, divides_as_the_reference) {
  const DataType type = GetParam();
  on_every_instruction_set([&] {
    for (const int n : {1, 2, 3, 7, 8, 127, 255, 257, 65536, 100003, 2147483647}) {
      SCOPED_TRACE(n);
      compare(
          type, [&](void* dst, const void* src, std::size_t count) { divide(type, dst, src, count, n); },
          [&](void* dst, const void* src, std::size_t count) { divide_reference(type, dst, src, count, n); });
      if (HasFatalFailure()) return;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, ScaleTest, testing::ValuesIn(all_types()),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(Scale, every_16_bit_integer_divides_toward_zero) {
  std::vector<std::int16_t> all(65536), out(65536);
  for (int i = 0; i < 65536; ++i) all[static_cast<std::size_t>(i)] = static_cast<std::int16_t>(i - 32768);
  on_every_instruction_set([&] {
    for (const int n : {1, 3, 5, 6, 7, 9, 11, 48, 96, 1000, 32767, 40000}) {
      divide(DataType::i16, out.data(), all.data(), all.size(), n);
      for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(out[i], all[i] / n) << all[i] << " / " << n;
    }
  });
}

TEST(Scale, integer_factors_truncate_clamp_and_wrap) {
  EXPECT_EQ(integer_factor<std::int8_t>(-2.9), -2);
  EXPECT_EQ(integer_factor<std::uint8_t>(-1.0), 255);
  EXPECT_EQ(integer_factor<std::uint8_t>(258.0), 2);
  EXPECT_EQ(integer_factor<std::int32_t>(std::numeric_limits<double>::quiet_NaN()), 0);
  EXPECT_EQ(integer_factor<std::uint64_t>(1e30), ~std::uint64_t{0});
  EXPECT_EQ(integer_factor<std::uint64_t>(0x1p63), std::uint64_t{1} << 63);
  EXPECT_EQ(integer_factor<std::int64_t>(-1e30), std::numeric_limits<std::int64_t>::min());
}

}  // namespace
}  // namespace peal::reduce
