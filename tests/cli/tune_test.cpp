#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cli/tune.hpp>

namespace peal::cli {
namespace {

using schedule::Protocol;
using testing::HasSubstr;

TEST(Tune, OthersWorkOnlyMakesARoundLonger) {
  const TunedPoint point{Collective::all_reduce, 8, "ring", Protocol::staged, {10, 400, 11, 12, 300}, false};
  EXPECT_DOUBLE_EQ(point.typical_us(), 11);
  EXPECT_DOUBLE_EQ(point.spread(), (300.0 - 11) / 11);
  EXPECT_DOUBLE_EQ(TunedPoint{}.typical_us(), 0);
}

TEST(Tune, PointsOfOneWayMakeALineOfTheTable) {
  const std::vector<TunedPoint> points = {{Collective::all_reduce, 128, "ring", Protocol::staged, {30}, false},
                                          {Collective::all_reduce, 8, "ring", Protocol::staged, {10}, false},
                                          {Collective::all_reduce, 8, "ring", Protocol::line, {5}, true},
                                          {Collective::broadcast, 8, "ring", Protocol::staged, {7}, false}};
  const auto ways = ways_of(points, 8, "shm");
  ASSERT_EQ(ways.size(), 3u);
  EXPECT_EQ(ways[0], (tuning::MeasuredWay{Collective::all_reduce, 8, "shm", "ring", Protocol::staged, {{8, 10, 0}, {128, 30, 0}}}));
  EXPECT_EQ(ways[1].protocol, Protocol::line);
  EXPECT_EQ(ways[2].collective, Collective::broadcast);
}

TEST(Tune, AChoiceIsGoodWithinFivePercentOrTheNoise) {
  Judgement j{Collective::all_reduce, 64, 8, "ring staged", "tree staged", "direct line", 100, 104, 121, 0};
  EXPECT_TRUE(j.is_tuned_good());
  EXPECT_FALSE(j.is_untuned_good());
  j.tuned_us = 106;
  EXPECT_FALSE(j.is_tuned_good());
  j.noise = 0.1;
  EXPECT_TRUE(j.is_tuned_good());
  j.noise = 0;
  const std::string report = tune_report({j, j, {Collective::barrier, 0, 8, "a", "a", "a", 1, 1, 1, 0}});
  EXPECT_THAT(report, HasSubstr("in 1 (33 %)"));
  EXPECT_THAT(report, HasSubstr("tree staged"));
  EXPECT_THAT(report, HasSubstr("1.06"));
}

TEST(Tune, JudgementsTravelAsJson) {
  const Judgement j{Collective::gather, 64, 8, "ring staged", "tree staged", "direct line", 100.5, 104, 121, 0.25};
  const auto read = judgements_from_json(judgements_json({j}));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(judgements_json(*read), judgements_json({j}));
  EXPECT_FALSE(judgements_from_json("[{}]"));
}

}  // namespace
}  // namespace peal::cli
