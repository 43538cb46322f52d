#include <gtest/gtest.h>

#include <memory>

#include <reduce/combine.hpp>
#include <reduce/reference.hpp>

#include "elements.hpp"
#include "guarded_buffer.hpp"

namespace peal::reduce {
namespace {

/// `onto`: the source that dst equals, or -1.
void check_many(DataType type, ReduceOp op, int k, std::size_t count, Order order, int onto, int divisor, Random& random) {
  const std::size_t bytes = count * size_of(type);
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  std::vector<const void*> sources;
  for (int i = 0; i < k; ++i) {
    buffers.push_back(std::make_unique<GuardedBuffer>(bytes, static_cast<std::size_t>(i % 3) * size_of(type)));
    fill(type, buffers.back()->data(), count, random);
    sources.push_back(buffers.back()->data());
  }
  std::vector<std::byte> expected(bytes + 1);
  ASSERT_TRUE(combine_many_reference(type, op, expected.data(), sources.data(), k, count, order, divisor));
  GuardedBuffer apart(bytes, size_of(type));
  GuardedBuffer& dst = onto < 0 ? apart : *buffers[static_cast<std::size_t>(onto)];
  const Stores stores = random() % 2 ? Stores::streaming : Stores::cached;
  ASSERT_TRUE(combine_many(type, op, dst.data(), sources.data(), k, count, order, stores, divisor));
  const std::size_t wrong = first_difference(type, dst.data(), expected.data(), count);
  ASSERT_EQ(wrong, count) << std::hex << load_bits(type, dst.data(), wrong) << " is not " << load_bits(type, expected.data(), wrong);
  for (auto& buffer : buffers) ASSERT_TRUE(buffer->is_intact());
  ASSERT_TRUE(apart.is_intact());
}

class CombineManyTest : public testing::TestWithParam<DataType> {};

TEST_P(CombineManyTest, matches_the_reference_for_every_operator_order_and_place) {
  Random random(7);
  const DataType type = GetParam();
  on_every_instruction_set([&] {
    for (const ReduceOp op : all_ops()) {
      if (!is_supported(type, op)) continue;
      for (const int k : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 33}) {
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{17}, 4096 / size_of(type) + 3}) {
          const auto order = random() % 2 ? Order::canonical : Order::left_to_right;
          const int onto = static_cast<int>(random() % static_cast<unsigned>(k + 1)) - 1;
          const int divisor = op == ReduceOp::avg && random() % 2 ? k : 1;
          SCOPED_TRACE(testing::Message() << name_of(type) << ' ' << name_of(op) << " k " << k << " count " << count << " onto " << onto
                                          << " divisor " << divisor << (order == Order::canonical ? " canonical" : ""));
          check_many(type, op, k, count, order, onto, divisor, random);
          if (HasFatalFailure()) return;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, CombineManyTest, testing::ValuesIn(all_types()),
                         [](const auto& type) { return std::string(name_of(type.param)); });

TEST(CombineMany, canonical_tree_gives_the_left_part_the_largest_power_of_two_below_k) {
  const int expected[] = {1, 2, 2, 4, 4, 4, 4, 8};
  for (int k = 2; k <= 9; ++k) EXPECT_EQ(canonical_left(k), expected[k - 2]) << k;
  // 2^24 absorbs a lone 1, but not the 2 that the right pair makes first: the order is visible in the result.
  const float big = 0x1p24f, one = 1.0f;
  const void* sources[] = {&big, &one, &one, &one};
  float left = 0, tree = 0;
  ASSERT_TRUE(combine_many(DataType::f32, ReduceOp::sum, &left, sources, 4, 1, Order::left_to_right));
  ASSERT_TRUE(combine_many(DataType::f32, ReduceOp::sum, &tree, sources, 4, 1, Order::canonical));
  EXPECT_EQ(left, 0x1p24f);
  EXPECT_EQ(tree, 0x1p24f + 2);
}

TEST(CombineMany, rounds_halves_once) {
  // 256 + 1 + 1 + 1 in bf16: a rounding at every step would stay at 256 (ties to even), one rounding at the end gives 260.
  const std::uint16_t big = bf16_of_f32(256), one = bf16_of_f32(1);
  const void* sources[] = {&big, &one, &one, &one};
  for (const Order order : {Order::left_to_right, Order::canonical}) {
    std::uint16_t out = 0;
    ASSERT_TRUE(combine_many(DataType::bf16, ReduceOp::sum, &out, sources, 4, 1, order));
    EXPECT_EQ(f32_of_bf16(out), 260.0f);
  }
}

TEST(CombineMany, average_of_halves_does_not_overflow_in_between) {
  const std::uint16_t large = 0x7bff;  // 65504, the largest f16
  const void* sources[] = {&large, &large, &large};
  std::uint16_t out = 0;
  ASSERT_TRUE(combine_many(DataType::f16, ReduceOp::avg, &out, sources, 3, 1, Order::canonical, Stores::cached, 3));
  EXPECT_EQ(out, large);
}

TEST(CombineMany, refuses_what_it_cannot_do) {
  float value = 3;
  const void* sources[] = {&value};
  EXPECT_FALSE(combine_many(DataType::f32, ReduceOp::bxor, &value, sources, 1, 1, Order::canonical));
  EXPECT_FALSE(combine_many(DataType::f32, ReduceOp::sum, &value, sources, 0, 1, Order::canonical));
  EXPECT_FALSE(combine_many(DataType::f32, ReduceOp::sum, &value, sources, 65537, 1, Order::canonical));
  EXPECT_FALSE(combine_many(DataType::f32, ReduceOp::sum, &value, sources, 1, 1, Order::canonical, Stores::cached, 0));
  EXPECT_EQ(value, 3);
}

TEST(CombineMany, folds_as_many_sources_as_it_promises) {
  const std::int32_t one = 1;
  const std::vector<const void*> sources(65536, &one);
  for (const int k : {65536, 65535}) {
    std::int32_t out = 0;
    ASSERT_TRUE(combine_many(DataType::i32, ReduceOp::sum, &out, sources.data(), k, 1, Order::canonical));
    EXPECT_EQ(out, k);
  }
}

}  // namespace
}  // namespace peal::reduce
