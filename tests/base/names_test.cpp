#include <gtest/gtest.h>

#include <base/names.hpp>
#include <set>
#include <string>

namespace peal {
namespace {

TEST(Names, every_data_type_reads_back) {
  std::set<std::string_view> seen;
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    const auto parsed = parse_data_type(name_of(type));
    ASSERT_TRUE(parsed.has_value()) << name_of(type);
    EXPECT_EQ(*parsed, type);
    EXPECT_TRUE(seen.insert(name_of(type)).second);
    EXPECT_GT(size_of(type), 0u);
  }
}

TEST(Names, every_reduce_op_reads_back) {
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    const auto parsed = parse_reduce_op(name_of(op));
    ASSERT_TRUE(parsed.has_value()) << name_of(op);
    EXPECT_EQ(*parsed, op);
  }
}

TEST(Names, every_collective_reads_back) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto kind = static_cast<Collective>(i);
    const auto parsed = parse_collective(name_of(kind));
    ASSERT_TRUE(parsed.has_value()) << name_of(kind);
    EXPECT_EQ(*parsed, kind);
  }
}

TEST(Names, values_outside_the_enumerations_are_unknown) {
  EXPECT_EQ(name_of(static_cast<DataType>(200)), "unknown");
  EXPECT_EQ(name_of(static_cast<ReduceOp>(200)), "unknown");
  EXPECT_EQ(name_of(static_cast<Collective>(200)), "unknown");
  EXPECT_STREQ(name_of(static_cast<ErrorCode>(200)), "unknown");
}

TEST(Names, spellings_of_others_are_understood) {
  EXPECT_EQ(parse_data_type("float").value(), DataType::f32);
  EXPECT_EQ(parse_data_type("half").value(), DataType::f16);
  EXPECT_EQ(parse_data_type("bfloat16").value(), DataType::bf16);
  EXPECT_EQ(parse_data_type("float8_e4m3fn").value(), DataType::f8_e4m3fn);
  EXPECT_EQ(parse_data_type("f8e5m2").value(), DataType::f8_e5m2);
  EXPECT_EQ(parse_data_type("Int64").value(), DataType::i64);
  EXPECT_EQ(parse_collective("AllReduce").value(), Collective::all_reduce);
  EXPECT_EQ(parse_collective("allreduce").value(), Collective::all_reduce);
  EXPECT_EQ(parse_collective("reduce-scatter").value(), Collective::reduce_scatter);
  EXPECT_EQ(parse_collective("alltoallv").value(), Collective::all_to_all_v);
  EXPECT_EQ(parse_collective("Gatherv").value(), Collective::gather_v);
  EXPECT_EQ(parse_collective("scatter-v").value(), Collective::scatter_v);
  EXPECT_EQ(parse_collective("bcast").value(), Collective::broadcast);
  EXPECT_EQ(parse_reduce_op("SUM").value(), ReduceOp::sum);
  EXPECT_EQ(parse_reduce_op("mean").value(), ReduceOp::avg);
}

TEST(Names, a_wrong_word_names_the_nearest_and_all_choices) {
  const auto kind = parse_collective("all_redcue");
  ASSERT_FALSE(kind.has_value());
  EXPECT_EQ(kind.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(kind.error().message.find("Did you mean 'all_reduce'?"), std::string::npos) << kind.error().message;
  EXPECT_NE(kind.error().message.find("barrier"), std::string::npos) << kind.error().message;
  const auto type = parse_data_type("complex_banana");
  ASSERT_FALSE(type.has_value());
  EXPECT_EQ(type.error().message.find("Did you mean"), std::string::npos) << type.error().message;
  EXPECT_NE(type.error().message.find("bf16"), std::string::npos) << type.error().message;
}

TEST(Names, empty_and_huge_words_are_refused) {
  EXPECT_FALSE(parse_data_type("").has_value());
  const auto huge = parse_reduce_op(std::string(1'000'000, 's'));
  ASSERT_FALSE(huge.has_value());
  EXPECT_LT(huge.error().message.size(), 400u);
}

TEST(Nearest, needs_a_close_neighbour) {
  const std::string_view choices[] = {"ring", "direct", "tree"};
  EXPECT_EQ(nearest("rign", choices, 3), "");
  EXPECT_EQ(nearest("rin", choices, 3), "ring");
  EXPECT_EQ(nearest("driect", choices, 3), "direct");
  EXPECT_EQ(nearest("xyz", choices, 3), "");
  EXPECT_EQ(nearest("", choices, 3), "");
  EXPECT_EQ(nearest("ring", choices, 0), "");
}

TEST(Supported, bit_operators_take_no_floats_and_booleans_no_average) {
  EXPECT_FALSE(is_supported(DataType::f32, ReduceOp::band));
  EXPECT_FALSE(is_supported(DataType::bf16, ReduceOp::bxor));
  EXPECT_FALSE(is_supported(DataType::f8_e4m3fn, ReduceOp::bor));
  EXPECT_TRUE(is_supported(DataType::f8_e5m2, ReduceOp::premul_sum));
  EXPECT_TRUE(is_supported(DataType::u8, ReduceOp::bor));
  EXPECT_TRUE(is_supported(DataType::boolean, ReduceOp::bxor));
  EXPECT_FALSE(is_supported(DataType::boolean, ReduceOp::avg));
  EXPECT_FALSE(is_supported(DataType::boolean, ReduceOp::premul_sum));
  EXPECT_TRUE(is_supported(DataType::i32, ReduceOp::avg));
}

}  // namespace
}  // namespace peal
