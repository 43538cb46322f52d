#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <topology/machine.hpp>
#include <tuning/explain.hpp>
#include <tuning/fit_constants.hpp>
#include <tuning/measured.hpp>

namespace peal::tuning {
namespace {

using schedule::Protocol;
using testing::HasSubstr;

MeasuredWay way(std::string algorithm, Protocol protocol, std::vector<MeasuredPoint> points, int ranks = 4) {
  return {Collective::all_reduce, ranks, "shm", std::move(algorithm), protocol, std::move(points)};
}

Environment four_ranks() {
  auto cluster = topology::read_cluster_text(
      "devices:\n  - {id: \"core[0-3]\", kind: core}\n  - {id: mem0, kind: memory}\n"
      "links:\n  - {a: \"core[0-3]\", b: mem0, kind: shm, GBps: 100, latency_ns: 30}\n",
      "test host");
  EXPECT_TRUE(cluster);
  const topology::Resources resources(std::move(*cluster));
  auto environment = environment_of(resources, std::vector<int>{0, 1, 2, 3}, {});
  EXPECT_TRUE(environment) << (environment ? "" : environment.error().message);
  environment->measured_by = "peal tune on a test host, 2026-11-22";
  return std::move(*environment);
}

Question measured_question(std::uint64_t bytes) {
  Question q;
  q.call.bytes = {bytes};
  return q;
}

TEST(Measured, ATextIsReadAsItWasWritten) {
  const MeasuredTable table{
      "host \"with\" quotes",
      "2026-11-22",
      {way("ring", Protocol::staged, {{8, 1.25, 0.5}, {32, 2.5, 0, 61, 7}}), way("tree", Protocol::line, {{8, 0.5, 0}}, 8)}};
  const auto read = measured_table_from_text(to_text(table), "t.json");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, table);
  MeasuredTable fitted = table;
  fitted.ways[0].cores = CoreDistance::far;
  fitted.ways[0].is_in_place = true;
  MeasuredConstants set{"shm", 4, CoreDistance::far, Protocol::staged, 60, 250, 240, 10, 5, 20, 75, 90, 0.5, 0.75};
  set.rates = {{64, 2, 1, 1.5, 0.5, 1.75}, {256, 4, 3, 2, 1, 3.5}};
  set.cells = 12;
  set.median_error = 0.05;
  set.worst_error = 0.25;
  fitted.constants = {set};
  const auto again = measured_table_from_text(to_text(fitted), "t.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, fitted);
}

TEST(Measured, ATableOfBeforeReceivesHadAPriceIsRead) {
  const auto read = measured_table_from_text(
      R"({"schema": "peal.tuning/3", "host": "h", "date": "d", "ways": [], "constants": [{"scope": "shm", "ranks": 4, "cores": "far", "protocol": "staged",
          "cells": 1, "median_error": 0, "worst_error": 0, "launch_ns": 60, "meeting_ns": 250, "hop_ns": 240, "op_ns": 10,
          "bytes_copy_reduce_and_among_all_GBps": [[64, 2, 1, 1.5, 0.5]]}]})",
      "t.json");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->constants.size(), 1U);
  EXPECT_EQ(read->constants[0].receive_ns, 10) << "as what sends";
  EXPECT_EQ(read->constants[0].touch_ns, 0);
  EXPECT_EQ(read->constants[0].rates[0].copy_to_root, 2) << "as from a root";
}

TEST(Measured, ATableGrowsInParts) {
  MeasuredTable table{"h", "d", {way("ring", Protocol::staged, {{8, 1, 0, 60}, {32, 2, 0, 60}})}};
  MeasuredWay far = way("ring", Protocol::staged, {{8, 4, 0, 260}});
  far.cores = CoreDistance::far;
  merge(table, {way("ring", Protocol::staged, {{32, 3, 0, 61}, {128, 5, 0, 61}}), far});
  ASSERT_EQ(table.ways.size(), 2u);
  EXPECT_EQ(table.ways[0].points, (std::vector<MeasuredPoint>{{8, 1, 0, 60}, {32, 3, 0, 61}, {128, 5, 0, 61}}));
  EXPECT_EQ(table.ways[1], far);
}

TEST(Measured, WhatDoesNotParseSaysWhyAndWhatToType) {
  const std::string head = R"({"schema": "peal.tuning/3", "host": "h", "date": "d", "ways": [)";
  const std::string start =
      R"({"collective": "all_reduce", "ranks": 4, "scope": "shm", "algorithm": "ring", "protocol": "staged", "cores": "near", "bytes_us_spread_exchange_repeats": )";
  for (
      const auto& [text, why] : std::initializer_list<std::pair<std::string, const char*>>{
          {"", "parse error"},
          {"[]", "cannot use"},
          {R"({"schema": "peal.tuning/7", "host": "h", "date": "d", "ways": []})", "this version"},
          {head + start + "[[8, 1, 0, 60, 3], [8, 2, 0, 60, 3]]}]}", "do not ascend"},
          {head + start + "[]}]}", "without points"},
          {head + start + "[[8, -1, 0, 60, 3]]}]}", "a time is -1"},
          {head + start + "[[-8, 1, 0, 60, 3]]}]}", "a size is -8"},
          {head + start + "[[8, \"1\", 0, 60, 3]]}]}", "must be number"},
          {head + start + "[[8, 1, 0, 60, 0]]}]}", "a number of repeats is 0"},
          {head + start + "[[8, 1, 0, 60]]}]}", "out of range"},
          {head +
               R"({"collective": "all_reduced", "ranks": 4, "scope": "shm", "algorithm": "ring", "protocol": "staged", "cores": "near", "bytes_us_spread_exchange_repeats": []}]})",
           "all_reduced"}}) {
    const auto read = measured_table_from_text(text, "mine.json");
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr(why)) << text;
    EXPECT_THAT(read.error().message, HasSubstr("mine.json")) << text;
    EXPECT_THAT(read.error().message, HasSubstr("peal tune")) << text;
  }
}

TEST(Measured, BetweenSizesTheTimeIsOnALineInLogLogWhereNoModelSpeaks) {
  const MeasuredWay::Shape none = [](std::uint64_t) { return std::optional<double>(); };
  const MeasuredWay w = way("ring", Protocol::staged, {{64, 10, 0}, {1024, 40, 0}});
  EXPECT_DOUBLE_EQ(*w.time_us(64, none), 10);
  EXPECT_DOUBLE_EQ(*w.time_us(8, none), 10);
  EXPECT_NEAR(*w.time_us(256, none), 20, 1e-9);
  EXPECT_DOUBLE_EQ(*w.time_us(1024, none), 40);
  EXPECT_DOUBLE_EQ(*w.time_us(4096, none), 160);
  EXPECT_FALSE(way("ring", Protocol::staged, {}).time_us(8, none));
  EXPECT_DOUBLE_EQ(*way("direct", Protocol::line, {{0, 7, 0}}).time_us(0, none), 7) << "a barrier has no bytes";
}

TEST(Measured, BetweenSizesTheTimeHasTheStepsOfTheModel) {
  // Lines of 64 bytes, each 3 us: 1 up to 64 bytes, 2 up to 128, and so on.
  const auto lines = [](std::uint64_t bytes) { return std::optional(3.0 * static_cast<double>((bytes + 63) / 64)); };
  const MeasuredWay w = way("ring", Protocol::line, {{32, 4, 0}, {128, 8, 0}, {512, 48, 0}});
  EXPECT_DOUBLE_EQ(*w.time_us(128, lines), 8);
  EXPECT_NEAR(*w.time_us(64, lines), 4, 1e-9) << "as long as it should";
  EXPECT_NEAR(*w.time_us(256, lines), 4 * 4 * std::sqrt(1.5), 1e-9) << "half way from right to half as long again";
  EXPECT_NEAR(*w.time_us(8, lines), 4, 1e-9);
  EXPECT_NEAR(*way("ring", Protocol::line, {{512, 48, 0}}).time_us(128, lines), 12, 1e-9) << "below the first point by the model alone";
  EXPECT_DOUBLE_EQ(*w.time_us(1024, lines), 96);
}

TEST(Measured, WhatWasMeasuredChoosesAndTheModelElsewhere) {
  Environment environment = four_ranks();
  const auto model = select(environment, measured_question(1 << 16));
  ASSERT_TRUE(model);
  EXPECT_FALSE(model->chosen().measured_us);
  const std::string other = model->chosen().algorithm->name == "tree" ? "ring" : "tree";
  environment.measured = {
      way(other, Protocol::staged, {{1 << 14, 10, 0}, {1 << 18, 40, 0}}),
      way(std::string(model->chosen().algorithm->name), model->chosen().protocol, {{1 << 14, 20, 0}, {1 << 18, 80, 0}})};
  const auto measured = select(environment, measured_question(1 << 16));
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->chosen().algorithm->name, other);
  const auto predicted = [&](std::uint64_t bytes) {
    Question named = measured_question(bytes);
    named.algorithm = other;
    named.protocol = "staged";
    return select(four_ranks(), named)->chosen().prediction.time.value;
  };
  const double expected = std::sqrt(10 / predicted(1 << 14) * (40 / predicted(1 << 18))) * predicted(1 << 16);
  EXPECT_NEAR(measured->chosen().measured_us.value_or(0), expected, 1e-9) << "with the steps of the model";
  EXPECT_EQ(measured->candidates[1].algorithm->name, model->chosen().algorithm->name) << "what was measured stands before the rest";
  EXPECT_THAT(explain_text(environment, *measured), HasSubstr("chosen by measurement: peal tune on a test host, 2026-11-22"));
  EXPECT_THAT(explain_json(environment, *measured), HasSubstr("\"chosen_by\": \"measurement\""));
  // Another collective, another number of ranks, other wires: the model.
  Question broadcast = measured_question(1 << 16);
  broadcast.call.collective = Collective::broadcast;
  const auto not_there = select(environment, broadcast);
  ASSERT_TRUE(not_there);
  EXPECT_FALSE(not_there->chosen().measured_us);
  EXPECT_THAT(explain_text(environment, *not_there), HasSubstr("chosen by the cost model: the table of `peal tune` has nothing"));
  for (MeasuredWay& w : environment.measured) w.scope = "tcp-loopback";
  EXPECT_EQ(select(environment, measured_question(1 << 16))->chosen().algorithm->name, model->chosen().algorithm->name);
}

MeasuredWay at(CoreDistance cores, MeasuredWay way, int repeats) {
  way.cores = cores;
  for (MeasuredPoint& p : way.points) p.repeats = repeats;
  return way;
}

TEST(Measured, DistancesCountByHowOftenTheyWereMet) {
  const std::vector<MeasuredWay> ways = {at(CoreDistance::near, way("ring", Protocol::staged, {{8, 1, 0}, {64, 1, 0}}), 5),
                                         at(CoreDistance::far, way("ring", Protocol::staged, {{8, 1, 0}, {64, 1, 0}}), 15),
                                         at(CoreDistance::siblings, way("ring", Protocol::staged, {{8, 1, 0}}), 2),
                                         at(CoreDistance::siblings, way("ring", Protocol::staged, {{8, 1, 0}}, 8), 99)};
  const auto shares = distance_shares(ways, 4, "shm");
  ASSERT_EQ(shares.size(), 2U) << "2 of 42 repeats are too few";
  EXPECT_EQ(shares[0].cores, CoreDistance::far);
  EXPECT_DOUBLE_EQ(shares[0].share, 0.75);
  EXPECT_EQ(shares[1].cores, CoreDistance::near);
  EXPECT_DOUBLE_EQ(shares[1].share, 0.25);
  EXPECT_TRUE(distance_shares(ways, 4, "tcp-loopback").empty());
}

TEST(Measured, AWayIsItsMeanOverWhereTheCoresWere) {
  const std::vector<DistanceShare> shares = {{CoreDistance::far, 0.75}, {CoreDistance::near, 0.25}};
  const auto means = mean_over_distances({{0, 0, 2, 8}, {0, 0, 6, 0}, {0, 1, 0, 0}, {0, 0, 0, 10}}, shares);
  ASSERT_EQ(means.size(), 4U);
  EXPECT_DOUBLE_EQ(means[0], 0.75 * 8 + 0.25 * 2);
  EXPECT_DOUBLE_EQ(means[1], 3 * means[0]) << "three times the best where it was measured, and so elsewhere";
  EXPECT_DOUBLE_EQ(means[2], 0) << "measured where nobody will be";
  EXPECT_DOUBLE_EQ(means[3], 0.75 * 10 + 0.25 * 2 * 10 / 8);
  EXPECT_DOUBLE_EQ(mean_over_distances({{0, 0, 3, 0}}, shares)[0], 3) << "no way was measured with the cores far";
}

TEST(Measured, WhatIsALittleFasterAtOneDistanceAndSlowAtTheOtherIsNotTaken) {
  Environment environment = four_ranks();
  environment.measured = {at(CoreDistance::far, way("ring", Protocol::staged, {{4096, 20, 0}}), 6),
                          at(CoreDistance::far, way("tree", Protocol::staged, {{4096, 21, 0}}), 6),
                          at(CoreDistance::near, way("ring", Protocol::staged, {{4096, 15, 0}}), 4),
                          at(CoreDistance::near, way("tree", Protocol::staged, {{4096, 8, 0}}), 4)};
  const auto both = select(environment, measured_question(4096));
  EXPECT_EQ(both->chosen().algorithm->name, "tree");
  EXPECT_DOUBLE_EQ(both->chosen().measured_us.value_or(0), 0.6 * 21 + 0.4 * 8);
  EXPECT_THAT(explain_text(environment, *both), HasSubstr("the mean over where the cores were (far 60 %, near 40 %)"));
  environment.stay_at(CoreDistance::far);
  const auto there = select(environment, measured_question(4096));
  EXPECT_EQ(there->chosen().algorithm->name, "ring");
  EXPECT_DOUBLE_EQ(there->chosen().measured_us.value_or(0), 20);
}

TEST(Measured, AForcedNameAndDeterminismStandAboveTheTable) {
  Environment environment = four_ranks();
  environment.measured = {way("ring", Protocol::staged, {{8, 1, 0}, {1 << 20, 1, 0}}),
                          way("tree", Protocol::staged, {{8, 9, 0}, {1 << 20, 9, 0}})};
  EXPECT_EQ(select(environment, measured_question(4096))->chosen().algorithm->name, "ring");
  Question canonical = measured_question(4096);
  canonical.is_deterministic = true;
  EXPECT_TRUE(select(environment, canonical)->chosen().is_canonical);
  Question forced = measured_question(4096);
  forced.algorithm = "two_shot";
  EXPECT_EQ(select(environment, forced)->chosen().algorithm->name, "two_shot");
}

TEST(Measured, WhatHostsTakeByNameOnlyIsTakenWhereItWasMeasured) {
  Environment environment = four_ranks();
  environment.measured = {way("double_binary_tree", Protocol::staged, {{8, 1, 0}, {1 << 20, 1, 0}})};
  EXPECT_EQ(select(environment, measured_question(4096))->chosen().algorithm->name, "double_binary_tree");
}

TEST(Measured, FittedCollectivesArePredictedByTheTableAndOthersByTheModelAlone) {
  const auto predicted = [](const Environment& environment, Collective collective, std::uint64_t bytes) {
    Question question = measured_question(bytes);
    question.call.collective = collective;
    question.algorithm = "direct";
    question.protocol = "staged";
    const auto selection = select(environment, question);
    EXPECT_TRUE(selection) << (selection ? "" : selection.error().message);
    return predicted_time(*selection);
  };
  for (const Collective collective : {Collective::broadcast, Collective::scatter}) {
    Environment environment = four_ranks();
    const PredictedTime untuned = predicted(environment, collective, 3000);
    EXPECT_GT(untuned.us, 0);
    EXPECT_EQ(untuned.us, untuned.model_us);
    const double below = predicted(environment, collective, 2048).us, above = predicted(environment, collective, 4096).us;
    environment.measured = {way("direct", Protocol::staged, {{2048, 3 * below, 0}, {4096, 3 * above, 0}})};
    environment.measured[0].collective = collective;
    const PredictedTime tuned = predicted(environment, collective, 3000);
    EXPECT_DOUBLE_EQ(tuned.model_us, untuned.model_us);
    EXPECT_NEAR(tuned.us / tuned.model_us, is_fitted(collective) ? 3 : 1, 1e-6);
  }
}

TEST(Measured, WhatIsChosenServesCallsInPlaceToo) {
  Environment environment = four_ranks();
  const auto in_place = [](MeasuredWay way) {
    way.is_in_place = true;
    return way;
  };
  environment.measured = {way("ring", Protocol::staged, {{1 << 16, 10, 0}, {1 << 18, 10, 0}}),
                          way("tree", Protocol::staged, {{1 << 16, 12, 0}, {1 << 18, 12, 0}}),
                          way("two_shot", Protocol::staged, {{1 << 16, 9, 0}, {1 << 18, 9, 0}}),
                          in_place(way("ring", Protocol::staged, {{1 << 18, 9, 0}, {1 << 20, 9, 0}})),
                          in_place(way("tree", Protocol::staged, {{1 << 18, 7, 0}, {1 << 20, 7, 0}}))};
  const auto chosen = [&](std::uint64_t bytes) {
    const auto selection = select(environment, measured_question(bytes));
    EXPECT_TRUE(selection && selection->chosen().measured_us);
    return std::string(selection->chosen().algorithm->name);
  };
  EXPECT_EQ(chosen(1 << 16), "two_shot") << "shorter ones were not measured in place";
  EXPECT_EQ(chosen(1 << 18), "tree") << "a fifth slower, in place a quarter faster; what was not measured in place comes after";
  const auto selection = select(environment, measured_question(1 << 18));
  EXPECT_NEAR(selection->chosen().measured_in_place_us.value_or(0), 7, 1e-9);
  EXPECT_THAT(explain_text(environment, *selection), HasSubstr("(in place 7.00 us, predicted"));
  EXPECT_THAT(explain_text(environment, *selection), HasSubstr("0.83 times as long, in place 1.29"));
}

TEST(Measured, BothKindsOfOneWayGrowApart) {
  MeasuredTable table;
  MeasuredWay in_place = way("ring", Protocol::staged, {{8, 2, 0}});
  in_place.is_in_place = true;
  merge(table, {way("ring", Protocol::staged, {{8, 1, 0}}), in_place});
  ASSERT_EQ(table.ways.size(), 2u);
  EXPECT_EQ(table.ways[1], in_place);
}

TEST(Measured, TheTableTravelsWithTheEnvironment) {
  Environment environment = four_ranks();
  environment.measured = {way("ring", Protocol::staged, {{8, 1.5, 0.25}})};
  const auto read = environment_from_json(to_json(environment));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->measured, environment.measured);
  EXPECT_EQ(read->measured_by, environment.measured_by);
  EXPECT_EQ(read->core_switch.value, environment.core_switch.value);
}

std::function<Result<std::string>()> says(std::string host) {
  return [host = std::move(host)]() -> Result<std::string> { return host; };
}

/// PEAL_TUNING for one test.
class MeasuredFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "peal-measured-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/table.json";
    ::setenv("PEAL_TUNING", path_.c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PEAL_TUNING", "off", 1);
    std::filesystem::remove_all(folder_);
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string folder_, path_;
};

TEST_F(MeasuredFile, OnlyOnTheHostThatItWasMeasuredOn) {
  write(to_text({"this host", "2026-11-22", {way("ring", Protocol::staged, {{8, 1, 0}}), way("ring", Protocol::staged, {{8, 1, 0}}, 16)}}));
  Environment environment = four_ranks();
  ASSERT_TRUE(add_measurements(environment, says("this host")));
  EXPECT_EQ(environment.measured.size(), 1u) << "16 ranks are more than there are";
  EXPECT_EQ(environment.measured_by, "peal tune on this host, 2026-11-22");
  environment.measured.clear();
  ASSERT_TRUE(add_measurements(environment, says("that host")));
  EXPECT_TRUE(environment.measured.empty());
  EXPECT_THAT(environment.measured_by, HasSubstr("was measured on another host"));
}

TEST_F(MeasuredFile, ANamedFileThatCannotBeUsedIsAnError) {
  Environment environment = four_ranks();
  const auto missing = add_measurements(environment, says("this host"));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("cannot be read"));
  write("not a table");
  const auto broken = add_measurements(environment, says("this host"));
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("does not parse"));
  ::setenv("PEAL_TUNING", "off", 1);
  environment.measured_by.clear();
  bool is_asked = false;
  EXPECT_TRUE(add_measurements(environment, [&]() -> Result<std::string> {
    is_asked = true;
    return std::string("this host");
  }));
  EXPECT_FALSE(is_asked) << "a job without a table must not pay for a look at the machine";
  EXPECT_TRUE(environment.measured_by.empty());
  EXPECT_EQ(measured_table_path(), "");
}

}  // namespace
}  // namespace peal::tuning
