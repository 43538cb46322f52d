#include <gtest/gtest.h>

#include <reduce/combine.hpp>
#include <reduce/reference.hpp>

#include "elements.hpp"
#include "guarded_buffer.hpp"

namespace peal::reduce {
namespace {

enum class Place { apart, onto_a, onto_b };

/// Random elements, `slack` bytes of misalignment for a result that lies apart, 2 x, 3 x and 4 x for a, b and a second result.
struct Case {
  std::size_t bytes;
  GuardedBuffer a, b, apart, second;
  std::vector<std::byte> expected;

  Case(DataType type, ReduceOp op, std::size_t count, std::size_t slack, Random& random)
      : bytes(count * size_of(type)),
        a(bytes, 2 * slack),
        b(bytes, 3 * slack),
        apart(bytes, slack),
        second(bytes, 4 * slack),
        expected(bytes + 1) {
    fill(type, a.data(), count, random);
    fill(type, b.data(), count, random);
    EXPECT_TRUE(combine_reference(type, op, expected.data(), a.data(), b.data(), count));
  }
  GuardedBuffer& at(Place place, GuardedBuffer& otherwise) { return place == Place::onto_a ? a : place == Place::onto_b ? b : otherwise; }
  bool is_intact() { return a.is_intact() && b.is_intact() && apart.is_intact() && second.is_intact(); }
};

/// Combines `count` elements and compares with the reference.
void check(DataType type, ReduceOp op, Stores stores, std::size_t count, std::size_t slack, Place place, Random& random,
           Reads reads = Reads::in_a_row) {
  Case now(type, op, count, slack, random);
  auto& [bytes, a, b, apart, second, expected] = now;
  const std::vector<std::byte> a_before(a.data(), a.data() + bytes), b_before(b.data(), b.data() + bytes);
  GuardedBuffer& dst = now.at(place, apart);
  combine_for(type, op, stores, reads)(dst.data(), a.data(), b.data(), count);
  const std::size_t wrong = first_difference(type, dst.data(), expected.data(), count);
  ASSERT_EQ(wrong, count) << std::hex << load_bits(type, a_before.data(), wrong) << " with " << load_bits(type, b_before.data(), wrong)
                          << " gave " << load_bits(type, dst.data(), wrong) << ", not " << load_bits(type, expected.data(), wrong);
  ASSERT_TRUE(now.is_intact());
}

/// The same into two places.
void check_twice(DataType type, ReduceOp op, std::size_t count, std::size_t slack, Place place, Place also, Random& random,
                 Reads reads = Reads::in_a_row) {
  SCOPED_TRACE(testing::Message() << name_of(type) << ' ' << name_of(op) << " twice, count " << count << " slack " << slack << " places "
                                  << static_cast<int>(place) << ' ' << static_cast<int>(also));
  Case now(type, op, count, slack, random);
  GuardedBuffer& dst = now.at(place, now.apart);
  GuardedBuffer& second = now.at(also, now.second);
  kernels_for(type, op, Stores::cached, reads).twice(dst.data(), second.data(), now.a.data(), now.b.data(), count);
  ASSERT_EQ(first_difference(type, dst.data(), now.expected.data(), count), count);
  ASSERT_EQ(first_difference(type, second.data(), now.expected.data(), count), count);
  ASSERT_TRUE(now.is_intact());
}

void check_pair(DataType type, ReduceOp op) {
  Random random(static_cast<unsigned>(type) * 16 + static_cast<unsigned>(op));
  const auto one = [&](std::size_t count, std::size_t slack, Place place, Stores stores) {
    SCOPED_TRACE(testing::Message() << name_of(type) << ' ' << name_of(op) << " count " << count << " slack " << slack << " place "
                                    << static_cast<int>(place) << (stores == Stores::streaming ? " streaming" : ""));
    check(type, op, stores, count, slack, place, random);
  };
  for (std::size_t count = 0; count <= 200; ++count) {
    const auto place = static_cast<Place>(count % 3);
    one(count, (count % 5) * size_of(type), place, Stores::cached);
    one(count, 0, Place::apart, count % 2 ? Stores::streaming : Stores::cached);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (const std::size_t count : {511, 1024, 2051}) {
    for (const Place place : {Place::apart, Place::onto_a, Place::onto_b}) {
      one(count, (count % 7) * size_of(type), place, Stores::cached);
      one(count, (count % 11) * size_of(type), place, Stores::streaming);
      one(count, 1, place, Stores::streaming);  // not even aligned for the element
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

void check_pair_twice(DataType type, ReduceOp op) {
  Random random(static_cast<unsigned>(type) * 16 + static_cast<unsigned>(op));
  const Place places[][2] = {{Place::onto_a, Place::onto_b}, {Place::onto_b, Place::onto_a}, {Place::apart, Place::apart},
                             {Place::apart, Place::onto_a},  {Place::apart, Place::onto_b},  {Place::onto_a, Place::apart}};
  for (std::size_t count = 0; count <= 200; ++count) {
    const auto& [place, also] = places[count % std::size(places)];
    check_twice(type, op, count, (count % 5) * size_of(type), place, also, random);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (const std::size_t count : {511, 1024, 2051}) {
    for (const auto& [place, also] : places) {
      check_twice(type, op, count, (count % 7) * size_of(type), place, also, random);
      check_twice(type, op, count, 1, place, also, random);  // not even aligned for the element
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// A length that is no multiple of what the lanes take by turns, nor of a vector.
void check_pair_in_lanes(DataType type, ReduceOp op) {
  Random random(static_cast<unsigned>(type) * 16 + static_cast<unsigned>(op));
  const std::size_t count = kLeastInLanes / size_of(type) + 5003;
  const auto place = static_cast<Place>(static_cast<unsigned>(op) % 3);
  SCOPED_TRACE(testing::Message() << name_of(type) << ' ' << name_of(op) << " in lanes, place " << static_cast<int>(place));
  check(type, op, Stores::cached, count, size_of(type), place, random, Reads::in_lanes);
  check(type, op, Stores::streaming, count, 0, place, random, Reads::in_lanes);
  if (op == ReduceOp::sum) check_twice(type, op, count, 1, Place::apart, Place::onto_a, random, Reads::in_lanes);
}

class CombineTest : public testing::TestWithParam<DataType> {};

TEST_P(CombineTest, every_operator_matches_the_reference_on_every_instruction_set) {
  on_every_instruction_set([&] {
    for (const ReduceOp op : all_ops()) {
      if (!is_supported(GetParam(), op)) {
        EXPECT_EQ(combine_for(GetParam(), op), nullptr);
        EXPECT_EQ(kernels_for(GetParam(), op).twice, nullptr);
        EXPECT_FALSE(combine_reference(GetParam(), op, nullptr, nullptr, nullptr, 0));
        continue;
      }
      check_pair(GetParam(), op);
      if (HasFatalFailure()) return;
    }
  });
}

TEST_P(CombineTest, results_in_two_places_match_the_reference_on_every_instruction_set) {
  on_every_instruction_set([&] {
    for (const ReduceOp op : all_ops()) {
      if (is_supported(GetParam(), op)) check_pair_twice(GetParam(), op);
      if (HasFatalFailure()) return;
    }
  });
}

TEST_P(CombineTest, long_sources_read_in_lanes_match_the_reference_on_every_instruction_set) {
  on_every_instruction_set([&] {
    for (const ReduceOp op : all_ops()) {
      if (is_supported(GetParam(), op)) check_pair_in_lanes(GetParam(), op);
      if (HasFatalFailure()) return;
    }
  });
}

class NanTest : public testing::TestWithParam<DataType> {};

TEST_P(NanTest, min_and_max_carry_nan_at_every_lane) {
  const DataType type = GetParam();
  constexpr std::size_t kCount = 70;
  const std::uint64_t nan = type == DataType::f64    ? 0x7ff8000000000000
                            : type == DataType::f32  ? 0x7fc00000
                            : type == DataType::f16  ? 0x7e00
                            : type == DataType::bf16 ? 0x7fc0
                                                     : 0x7f;
  on_every_instruction_set([&] {
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      for (std::size_t at = 0; at < kCount; ++at) {
        std::vector<std::byte> a(kCount * size_of(type)), b(a.size()), out(a.size());
        std::memcpy((at % 2 ? a : b).data() + at * size_of(type), &nan, size_of(type));
        combine_for(type, op)(out.data(), a.data(), b.data(), kCount);
        for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(is_nan(type, load_bits(type, out.data(), i)), i == at);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, CombineTest, testing::ValuesIn(all_types()),
                         [](const auto& type) { return std::string(name_of(type.param)); });

INSTANTIATE_TEST_SUITE_P(Types, NanTest,
                         testing::Values(DataType::f64, DataType::f32, DataType::f16, DataType::bf16, DataType::f8_e4m3fn,
                                         DataType::f8_e5m2),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(Combine, rounds_halves_to_nearest_even_and_overflows_to_infinity) {
  const auto sum_f16 = [](std::uint16_t a, std::uint16_t b) {
    std::uint16_t out = 0;
    combine_for(DataType::f16, ReduceOp::sum)(&out, &a, &b, 1);
    return out;
  };
  on_every_instruction_set([&] {
    EXPECT_EQ(sum_f16(0x6800, 0x3c00), 0x6800);  // 2048 + 1: a tie, down to the even 2048
    EXPECT_EQ(sum_f16(0x6801, 0x3c00), 0x6802);  // 2050 + 1: a tie, up to the even 2052
    EXPECT_EQ(sum_f16(0x7bff, 0x4c00), 0x7c00);  // 65504 + 16 = 65520: infinity
    EXPECT_EQ(sum_f16(0x7bff, 0x4bff), 0x7bff);  // and just below: the largest number
    const std::uint16_t one = 0x3f80, half_unit = 0x3b80, more = 0x3b81;
    std::uint16_t out = 0;
    combine_for(DataType::bf16, ReduceOp::sum)(&out, &one, &half_unit, 1);
    EXPECT_EQ(out, 0x3f80);  // 1 + 2^-8: a tie, down to even (truncation would agree)
    combine_for(DataType::bf16, ReduceOp::sum)(&out, &one, &more, 1);
    EXPECT_EQ(out, 0x3f81);  // just above: up (truncation would not)
  });
}

TEST(Combine, orders_negative_zero_below_positive_zero) {
  on_every_instruction_set([] {
    const float negative = -0.0f, positive = 0.0f;
    float out = 1;
    combine_for(DataType::f32, ReduceOp::min)(&out, &positive, &negative, 1);
    EXPECT_TRUE(std::signbit(out));
    combine_for(DataType::f32, ReduceOp::max)(&out, &negative, &positive, 1);
    EXPECT_FALSE(std::signbit(out));
  });
}

}  // namespace
}  // namespace peal::reduce
