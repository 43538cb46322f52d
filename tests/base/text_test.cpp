// Numbers as people read them.
#include <gtest/gtest.h>

#include <base/percentile.hpp>
#include <base/text.hpp>

namespace peal {
namespace {

TEST(Text, ThousandsAreSetApart) {
  EXPECT_EQ(with_commas("0"), "0");
  EXPECT_EQ(with_commas("999"), "999");
  EXPECT_EQ(with_commas("1000"), "1,000");
  EXPECT_EQ(with_commas("8030261248"), "8,030,261,248");
  EXPECT_EQ(with_commas("-123"), "-123");
  EXPECT_EQ(with_commas("-123456"), "-123,456");
}

TEST(Percentile, OneOfTheValuesOrBetweenTwo) {
  EXPECT_EQ(percentile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_EQ(value_at({4, 1, 3, 2}, 0.5), 3);
  EXPECT_EQ(value_at({5, 4, 1, 3, 2}, 0.5), 3);
  EXPECT_EQ(value_at({4, 1, 3, 2}, 0.25), 2);
  EXPECT_EQ(mean_of_middle_half({7}), 7);
  EXPECT_EQ(mean_of_middle_half({7, 8}), 7.5);
  EXPECT_EQ(mean_of_middle_half({100, 1, 3}), 3);
  EXPECT_EQ(mean_of_middle_half({100, 1, 3, 5}), 4);
  EXPECT_EQ(mean_of_middle_half({100, 90, 1, 3, 5, 7, 2, 4}), 4.75);
  EXPECT_EQ(value_at({7}, 0.9), 7);
  EXPECT_EQ(value_at({}, 0.5), 0);
}

}  // namespace
}  // namespace peal
