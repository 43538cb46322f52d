#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cli/tune.hpp>
#include <set>
#include <topology/machine.hpp>

namespace peal::cli {
namespace {

using schedule::Protocol;
using testing::HasSubstr;
using testing::Not;

using tuning::CoreDistance;

std::vector<TunedSample> near(std::vector<double> us) {
  std::vector<TunedSample> samples;
  for (const double t : us) samples.push_back({t, 64, CoreDistance::near});
  return samples;
}

// A choice serves calls in place, too, so each of its ways is measured there; also one that goes through slots there, because it must not
// be read (one_shot sums over its input): ways without a time in place come behind all others.
TEST(Tune, EveryWayIsMeasuredInPlaceToo) {
  auto cluster = topology::read_cluster_text(
      "devices:\n  - {id: \"core[0-1]\", kind: core}\n  - {id: mem0, kind: memory}\n"
      "links:\n  - {a: \"core[0-1]\", b: mem0, kind: shm, GBps: 100, latency_ns: 30}\n",
      "test host");
  ASSERT_TRUE(cluster);
  const topology::Resources resources(std::move(*cluster));
  const std::vector<int> devices = {0, 1};
  for (const bool may_read : {true, false}) {
    tuning::EnvironmentOptions options;
    options.protocols = {Protocol::line, Protocol::staged};
    if (may_read) options.protocols.push_back(Protocol::direct_read);
    const auto environment = tuning::environment_of(resources, devices, options);
    ASSERT_TRUE(environment);
    const auto points = points_of(*environment, {Collective::all_reduce}, {1u << 20});
    ASSERT_TRUE(points);
    std::set<std::pair<std::string, Protocol>> ways, in_place;
    for (const TunedPoint& p : *points) (p.is_in_place ? in_place : ways).insert({p.algorithm, p.protocol});
    EXPECT_EQ(ways.count({"one_shot", Protocol::direct_read}), may_read ? 1U : 0U);
    if (may_read)
      EXPECT_EQ(in_place, ways);
    else
      EXPECT_TRUE(in_place.empty()) << "slots alone: one measurement serves both";
  }
}

TEST(Tune, OthersWorkOnlyMakesARoundLonger) {
  const TunedPoint point{Collective::all_reduce, 8, "ring", Protocol::staged, near({500, 10, 400, 11, 12, 300}), false};
  const auto typical = point.typical(CoreDistance::near);
  ASSERT_TRUE(typical);
  EXPECT_DOUBLE_EQ(typical->us, 11);
  EXPECT_DOUBLE_EQ(typical->spread, (300.0 - 11) / 11);
  EXPECT_DOUBLE_EQ(typical->exchange_ns, 64);
  EXPECT_FALSE(point.typical(CoreDistance::far));
  EXPECT_FALSE(TunedPoint{}.typical(CoreDistance::near));
}

TEST(Tune, RoundsDuringWhichANeighbourSlowedACoreDoNotCount) {
  TunedPoint point{Collective::all_reduce, 8, "ring", Protocol::staged, near({20, 10, 30, 31, 32, 33, 34}), false};
  for (std::size_t i = 0; i < point.samples.size(); ++i) point.samples[i].work_ns = i == 1 ? 500 : 700;
  EXPECT_DOUBLE_EQ(point.typical(CoreDistance::near)->us, 10);
  EXPECT_EQ(point.typical(CoreDistance::near)->repeats, 1);
  EXPECT_DOUBLE_EQ(point.typical(CoreDistance::near)->spread, 3.0 / 30) << "of 10, 30 to 34: one round has none";
  for (std::size_t i = 2; i < 5; ++i) point.samples[i].work_ns = 520;
  EXPECT_DOUBLE_EQ(point.typical(CoreDistance::near)->spread, 2.0 / 30) << "of 10, 30, 31, 32";
}

TEST(Tune, TheFirstRoundAndThatAfterAMoveCountOnlyWhereThereIsNoOther) {
  TunedPoint point{Collective::all_reduce, 8, "ring", Protocol::staged, near({5}), false};
  EXPECT_DOUBLE_EQ(point.typical(CoreDistance::near)->us, 5);
  point.samples = near({5, 10, 11});
  point.samples.push_back({40, 260, CoreDistance::far});
  point.samples.push_back({6, 64, CoreDistance::near});
  EXPECT_DOUBLE_EQ(point.typical(CoreDistance::near)->us, 10);
  EXPECT_EQ(point.typical(CoreDistance::near)->repeats, 2);
  EXPECT_DOUBLE_EQ(point.typical(CoreDistance::far)->us, 40);
}

TEST(Tune, ARoundDuringWhichTheCoresWereMovedIsThrownAway) {
  BenchHalf half;
  half.middle_us = 0.25;
  half.line_ns = 64;
  half.line_after_ns = 72;
  auto sample = sample_of(half);
  ASSERT_TRUE(sample && *sample);
  EXPECT_EQ((*sample)->cores, CoreDistance::near);
  EXPECT_DOUBLE_EQ((*sample)->exchange_ns, 64);
  half.line_after_ns = 260;
  sample = sample_of(half);
  ASSERT_TRUE(sample);
  EXPECT_FALSE(*sample);
  half.line_ns = half.line_after_ns = 0;  // ranks share cores: there is no distance, and nothing to move
  sample = sample_of(half);
  ASSERT_TRUE(sample && *sample);
  EXPECT_EQ((*sample)->cores, CoreDistance::unknown);
}

TEST(Tune, EveryWayOfACaseIsTheFirstOfItInSomeRound) {
  std::vector<TunedPoint> points;
  for (const char* algorithm : {"ring", "tree", "direct", "bruck"})
    for (const std::uint64_t bytes : {8, 64}) points.push_back({Collective::all_gather, bytes, algorithm, Protocol::staged, {}, false});
  points.back().is_dropped = true;
  std::set<std::string> first[2];
  for (int round = 1; round <= 4; ++round) {
    const std::vector<std::size_t> order = order_of_round(points, round);
    ASSERT_EQ(order.size(), 7U);
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), 7U);
    for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(points[order[i]].bytes, i < 4 ? 8U : 64U);
    EXPECT_FALSE(std::find(order.begin(), order.end(), 7U) != order.end());
    first[0].insert(points[order[0]].algorithm);
    first[1].insert(points[order[4]].algorithm);
  }
  EXPECT_EQ(first[0], (std::set<std::string>{"ring", "tree", "direct", "bruck"}));
  EXPECT_EQ(first[1], (std::set<std::string>{"ring", "tree", "direct"}));
}

TEST(Tune, LongCallsAreMeasuredInTheFirstRoundsAndThenRarely) {
  std::vector<TunedPoint> points;
  for (const std::uint64_t bytes : {std::uint64_t{8}, kTunedFinely, 8 * kTunedFinely})
    points.push_back({Collective::all_gather, bytes, "ring", Protocol::staged, {}, false});
  EXPECT_EQ(order_of_round(points, 1).size(), 3U);
  EXPECT_EQ(order_of_round(points, 2).size(), 3U) << "one that counts: the first waits for pages";
  EXPECT_EQ(order_of_round(points, 3), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(order_of_round(points, 6).size(), 3U) << "and then one in six";

  points.push_back({Collective::all_gather, 8, "tree", Protocol::staged, near({20}), false});
  points.push_back({Collective::all_gather, 8 * kTunedFinely, "tree", Protocol::staged, near({20}), false});
  for (std::size_t i = 0; i < 3; ++i) points[i].samples = near({10});
  drop_hopeless(points, 4, 1.5);
  EXPECT_FALSE(points[3].is_dropped);
  EXPECT_TRUE(points[4].is_dropped) << "long calls vary little";
}

TEST(Tune, AWayIsDroppedThatIsTooSlowAtEveryDistance) {
  const auto both = [](std::vector<double> near_us, double far_us) {
    std::vector<TunedSample> samples = near(std::move(near_us));
    if (far_us > 0) samples.push_back({far_us, 260, CoreDistance::far});
    return samples;
  };
  std::vector<TunedPoint> points = {
      {Collective::all_gather, 8, "best near", Protocol::staged, both({30, 10}, 90), false},
      {Collective::all_gather, 8, "best far", Protocol::staged, both({60, 70}, 40), false},
      {Collective::all_gather, 8, "slow", Protocol::staged, both({21}, 81), false},
      {Collective::all_gather, 8, "not met far", Protocol::staged, both({50}, 0), false},
      {Collective::all_gather, 64, "of another case", Protocol::staged, both({500}, 0), false},
      {Collective::all_gather, 8, "not met at all", Protocol::staged, {}, false},
  };
  drop_hopeless(points, 2, 1.5);
  for (const TunedPoint& p : points) EXPECT_EQ(p.is_dropped, p.algorithm == "slow") << p.algorithm;
}

TEST(Tune, WhatAJudgementRestsOnIsMeasuredAgainWhereItWasMeasuredTooRarely) {
  const auto point = [](const char* algorithm, std::uint64_t bytes, bool is_dropped = false) {
    return TunedPoint{Collective::all_gather, bytes, algorithm, Protocol::staged, {}, is_dropped};
  };
  const std::vector<TunedPoint> points = {point("ring", 48),        point("tree", 48),  point("direct", 48, true),
                                          point("bruck", 48, true), point("ring", 96),  point("tree", 96),
                                          point("ring", 192),       point("tree", 192), point("ring", 384)};
  const auto judged = [](std::uint64_t bytes, double tuned_us, int rounds) {
    return Judgement{Collective::all_gather, bytes, 2, "tree staged", "ring staged", "direct staged", 100, tuned_us, 100, 0, false, rounds};
  };
  const Judgement rarely = judged(48, 100, 2), enough = judged(96, 100, 3), missed = judged(192, 110, 8), settled = judged(384, 110, 9);
  EXPECT_TRUE(rarely.is_in_doubt());
  EXPECT_FALSE(enough.is_in_doubt());
  EXPECT_TRUE(missed.is_in_doubt()) << "several ways, one of which was lucky";
  EXPECT_FALSE(settled.is_in_doubt());
  EXPECT_EQ(order_of_doubts(points, {rarely, enough, missed, settled}, 3), (std::vector<std::size_t>{0, 1, 2, 7, 6}))
      << "with what was chosen though it was dropped, and each round begins with another";
  EXPECT_TRUE(order_of_doubts(points, {enough, settled}, 1).empty());
  EXPECT_TRUE(order_of_doubts(points, {}, 1).empty());
}

TEST(Tune, PointsOfOneWayMakeALineOfTheTableForEachDistanceOfCores) {
  std::vector<TunedSample> moved = near({30});
  moved.push_back({90, 260, CoreDistance::far});
  const std::vector<TunedPoint> points = {{Collective::all_reduce, 128, "ring", Protocol::staged, moved, false},
                                          {Collective::all_reduce, 8, "ring", Protocol::staged, near({10}), false},
                                          {Collective::all_reduce, 8, "ring", Protocol::line, near({5}), true},
                                          {Collective::broadcast, 8, "ring", Protocol::staged, near({7}), false},
                                          {Collective::broadcast, 8, "ring", Protocol::staged, near({6}), false, true}};
  const auto ways = ways_of(points, 8, "shm");
  ASSERT_EQ(ways.size(), 5u);
  EXPECT_TRUE(ways[4].is_in_place);
  EXPECT_EQ(ways[0],
            (tuning::MeasuredWay{
                Collective::all_reduce, 8, "shm", "ring", Protocol::staged, {{8, 10, 0, 64}, {128, 30, 0, 64}}, CoreDistance::near}));
  EXPECT_EQ(ways[1],
            (tuning::MeasuredWay{Collective::all_reduce, 8, "shm", "ring", Protocol::staged, {{128, 90, 0, 260}}, CoreDistance::far}));
  EXPECT_EQ(ways[2].protocol, Protocol::line);
  EXPECT_EQ(ways[3].collective, Collective::broadcast);
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
  EXPECT_THAT(report, Not(HasSubstr("in place")));
  EXPECT_THAT(report, HasSubstr("3 of them were measured in fewer than 3 rounds"));
  Judgement often = j;
  often.rounds = 3;
  EXPECT_THAT(tune_report({often}), Not(HasSubstr("fewer than")));
  EXPECT_THAT(tune_report({j, often, {Collective::barrier, 0, 8, "a", "a", "a", 1, 1, 1, 0, false, 3}}),
              HasSubstr("1 of them were measured in fewer than 3 rounds, of the others 1 (50 %) and 1 (50 %)"));
  j.is_in_place = true;
  EXPECT_THAT(tune_report({j}), HasSubstr("in place"));
}

TEST(Tune, JudgementsTravelAsJson) {
  const Judgement j{Collective::gather, 64, 8, "ring staged", "tree staged", "direct line", 100.5, 104, 121, 0.25, true, 7};
  const auto read = judgements_from_json(judgements_json({j}));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(judgements_json(*read), judgements_json({j}));
  EXPECT_TRUE(read->front().is_in_place);
  EXPECT_EQ(read->front().rounds, 7);
  EXPECT_FALSE(judgements_from_json("[{}]"));
}

}  // namespace
}  // namespace peal::cli
