#include <gtest/gtest.h>

#include <reduce/convert.hpp>
#include <reduce/partial_sum.hpp>
#include <reduce/reference.hpp>
#include <reduce/scale.hpp>

#include "elements.hpp"
#include "guarded_buffer.hpp"

namespace peal::reduce {
namespace {

constexpr DataType kNarrow[] = {DataType::f16, DataType::bf16, DataType::f8_e4m3fn, DataType::f8_e5m2};
constexpr ReduceOp kRounding[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum, ReduceOp::prod};

/// The same by whole buffers: widened, combined, divided and rounded one after the other, by the plain rules.
std::vector<std::byte> expected_of(DataType type, ReduceOp op, bool is_finished, Addend own, const std::byte* partial, std::size_t count,
                                   int divisor) {
  std::vector<std::byte> wide(count * 4 + 1), narrow(count * size_of(type) + 1), sum(count * 4 + 1);
  if (own.is_wide) {
    std::memcpy(wide.data(), own.data, count * 4);
  } else {
    std::memcpy(narrow.data(), own.data, count * size_of(type));
    if (own.factor != nullptr) scale(type, narrow.data(), narrow.data(), count, *own.factor);
    convert(DataType::f32, wide.data(), type, narrow.data(), count);
  }
  const void* sources[] = {wide.data(), partial};
  EXPECT_TRUE(combine_many_reference(DataType::f32, op, sum.data(), sources, 2, count, Order::left_to_right, divisor));
  if (!is_finished) return sum;
  convert(type, narrow.data(), DataType::f32, sum.data(), count);
  return narrow;
}

TEST(PartialSum, isF32UntilItsOneRounding) {
  Random random(11);
  const double factor = 0.7;
  on_every_instruction_set([&] {
    for (const DataType type : kNarrow) {
      for (const ReduceOp op : kRounding) {
        for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{1024}, std::size_t{2500}}) {
          for (const bool is_wide : {false, true}) {
            for (const bool is_finished : {false, true}) {
              const DataType own_type = is_wide ? DataType::f32 : type;
              const DataType result = is_finished ? type : DataType::f32;
              GuardedBuffer own(count * size_of(own_type), size_of(own_type)), partial(count * 4, 4), dst(count * size_of(result), 0);
              fill(own_type, own.data(), count, random);
              fill(DataType::f32, partial.data(), count, random);
              const int divisor = op == ReduceOp::avg && is_finished ? 7 : 1;
              const Addend addend{own.data(), is_wide, op == ReduceOp::premul_sum && !is_wide ? &factor : nullptr};
              const auto right = expected_of(type, op, is_finished, addend, partial.data(), count, divisor);
              add_partial(type, op, dst.data(), is_finished, addend, partial.data(), count, divisor);
              ASSERT_EQ(first_difference(result, dst.data(), right.data(), count), count)
                  << name_of(type) << " " << name_of(op) << " of " << count << (is_wide ? ", own is wide" : "")
                  << (is_finished ? ", finished" : "");
              ASSERT_TRUE(dst.is_intact() && own.is_intact() && partial.is_intact());
              if (is_wide == is_finished) continue;
              add_partial(type, op, own.data(), is_finished, addend, partial.data(), count, divisor);  // onto its own addend
              ASSERT_EQ(first_difference(result, own.data(), right.data(), count), count) << name_of(type) << " in place";
            }
          }
        }
      }
    }
  });
}

TEST(PartialSum, keepsWhatTheNarrowTypeWouldLose) {
  const std::uint16_t big = bf16_of_f32(256), one = bf16_of_f32(1);
  float sum = 0;
  widen(DataType::bf16, &sum, {&big}, 1);
  for (int i = 0; i < 2; ++i) add_partial(DataType::bf16, ReduceOp::sum, &sum, false, {&one}, &sum, 1);
  EXPECT_EQ(sum, 258.0f);
  std::uint16_t out = 0;
  add_partial(DataType::bf16, ReduceOp::sum, &out, true, {&one}, &sum, 1);
  EXPECT_EQ(f32_of_bf16(out), 260.0f) << "259 lies between 258 and 260, and rounds to even";
}

TEST(PartialSum, aScaledContributionIsRoundedToItsTypeFirst) {
  const std::uint16_t one = bf16_of_f32(1);
  const double factor = 1 + 1.0 / 1024;  // 1 in bf16
  float wide = 0;
  widen(DataType::bf16, &wide, {&one, false, &factor}, 1);
  EXPECT_EQ(wide, 1.0f);
}

}  // namespace
}  // namespace peal::reduce
