// Tables are made by the model itself with constants that are known: what is fitted must say again what they say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <topology/machine.hpp>
#include <tuning/cost.hpp>
#include <tuning/explain.hpp>
#include <tuning/fit_constants.hpp>
#include <tuning/select.hpp>

namespace peal::tuning {
namespace {

using schedule::Protocol;
using testing::HasSubstr;

Environment ranks_on_cores(int ranks, int cores) {
  auto cluster =
      topology::read_cluster_text(fmt::format("devices:\n  - {{id: \"core[0-{0}]\", kind: core}}\n  - {{id: mem0, kind: memory}}\n"
                                              "links:\n  - {{a: \"core[0-{0}]\", b: mem0, kind: shm, GBps: 100, latency_ns: 30}}\n",
                                              cores - 1),
                                  "test host");
  EXPECT_TRUE(cluster);
  const topology::Resources resources(std::move(*cluster));
  std::vector<int> devices;
  for (int r = 0; r < ranks; ++r) devices.push_back(r % cores);
  EnvironmentOptions options;
  options.protocols = {Protocol::line, Protocol::staged};
  auto environment = environment_of(resources, devices, options);
  EXPECT_TRUE(environment) << (environment ? "" : environment.error().message);
  return std::move(*environment);
}

MeasuredConstants host_like(Protocol protocol, CoreDistance cores, double slower) {
  const double in_slots = protocol == Protocol::staged ? slower : 0;
  MeasuredConstants c{"shm", 2, cores, protocol, 60, 40 * slower, 50 * slower, 15, 8, 12 * in_slots, 45 * in_slots, 30 * slower};
  for (double bytes = 64; bytes < 64e6; bytes *= 4)
    c.rates.push_back({bytes, (bytes < 4e6 ? 24 : 12) / slower, (bytes < 4e6 ? 16 : 8) / slower, 20 / slower, 10 / slower, 18 / slower});
  return c;
}

double predicted_us(const Environment& environment, Collective collective, std::string_view algorithm, Protocol protocol,
                    std::uint64_t bytes) {
  Call call;
  call.collective = collective;
  call.bytes = {bytes};
  const auto plan = make_plan(environment, **schedule::find_algorithm(collective, algorithm), protocol, call);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  return predict(environment, *plan).time.microseconds();
}

/// What the model measures with the cores there; `wobble` times off, up and down in turn.
std::vector<MeasuredWay> measured(Environment environment, CoreDistance cores, double wobble = 1) {
  environment.cores = cores;
  std::vector<MeasuredWay> ways;
  const std::pair<Collective, const char*> asked[] = {{Collective::all_reduce, "one_shot"}, {Collective::all_reduce, "ring"},
                                                      {Collective::all_gather, "direct"},   {Collective::broadcast, "ring"},
                                                      {Collective::reduce, "ring"},         {Collective::gather, "direct"}};
  for (const auto& [collective, algorithm] : asked) {
    MeasuredWay way{collective, 2, "shm", algorithm, Protocol::staged, {}, cores};
    for (std::uint64_t bytes = 32; bytes <= 8u << 20; bytes *= 2) {  // as tables go
      const double us = predicted_us(environment, collective, algorithm, Protocol::staged, bytes);
      way.points.push_back({bytes, us * (way.points.size() % 2 == 0 ? wobble : 1 / wobble), 0, 60});
    }
    ways.push_back(std::move(way));
  }
  return ways;
}

Environment host_of_two() {
  Environment environment = ranks_on_cores(2, 2);
  environment.measured_constants = {host_like(Protocol::staged, CoreDistance::near, 1), host_like(Protocol::staged, CoreDistance::far, 4)};
  return environment;
}

std::vector<MeasuredWay> both_distances(const Environment& environment, double wobble = 1) {
  std::vector<MeasuredWay> ways = measured(environment, CoreDistance::near, wobble);
  const std::vector<MeasuredWay> far = measured(environment, CoreDistance::far, wobble);
  ways.insert(ways.end(), far.begin(), far.end());
  return ways;
}

/// Largest |a / b - 1| over collectives and sizes that the fit has not seen.
double worst_unseen(Environment a, Environment b, CoreDistance cores) {
  a.cores = b.cores = cores;
  double worst = 0;
  const std::pair<Collective, const char*> asked[] = {{Collective::reduce, "ring"},          {Collective::reduce_scatter, "ring"},
                                                      {Collective::all_to_all, "all_pairs"}, {Collective::gather, "direct"},
                                                      {Collective::scatter, "direct"},       {Collective::all_reduce, "one_shot"}};
  for (const auto& [collective, algorithm] : asked)
    for (std::uint64_t bytes = 48; bytes <= 4u << 20; bytes *= 4)
      worst = std::max(worst, std::abs(predicted_us(a, collective, algorithm, Protocol::staged, bytes) /
                                           predicted_us(b, collective, algorithm, Protocol::staged, bytes) -
                                       1));
  return worst;
}

TEST(FitConstants, WhatWasNotSeenIsPredictedAtBothDistances) {
  const Environment truth = host_of_two();
  Environment fitted = truth;
  fitted.measured_constants = fit_constants(truth, both_distances(truth));
  ASSERT_EQ(fitted.measured_constants.size(), 2u);
  EXPECT_GT(fitted.measured_constants[0].cells, 4 * 11) << "but for ways that are far from the best of their case";
  for (const MeasuredConstants& c : fitted.measured_constants) {
    EXPECT_LT(c.median_error, 0.03) << name_of(c.cores);
    EXPECT_LT(worst_unseen(fitted, truth, c.cores), 0.25) << name_of(c.cores);
  }
  // Predictions before the table are another thing: or this test would hold whatever the fit did.
  Environment untuned = truth;
  untuned.measured_constants.clear();
  EXPECT_GT(worst_unseen(untuned, truth, CoreDistance::far), 0.5);
}

TEST(FitConstants, NoiseIsAveragedAndToldInTheErrors) {
  const Environment truth = host_of_two();
  Environment fitted = truth;
  fitted.measured_constants = fit_constants(truth, both_distances(truth, 1.1));
  ASSERT_EQ(fitted.measured_constants.size(), 2u);
  EXPECT_GT(fitted.measured_constants[0].median_error, 0.01);
  EXPECT_LT(worst_unseen(fitted, truth, CoreDistance::near), 0.3);
}

TEST(FitConstants, WhatIsFastAtOneDistanceIsFittedAtTheOther) {
  Environment truth = host_of_two();
  std::vector<MeasuredWay> ways = both_distances(truth);
  const std::size_t count = ways.size();
  // all_gather by another way: far as fast as the best, near twice as slow.
  const auto add = [&](CoreDistance cores, double times) {
    const auto direct =
        std::find_if(ways.begin(), ways.end(), [&](const MeasuredWay& w) { return w.cores == cores && w.algorithm == "direct"; });
    ASSERT_NE(direct, ways.end());
    MeasuredWay other = *direct;
    other.algorithm = "ring";
    for (MeasuredPoint& p : other.points) p.us *= times;
    ways.push_back(std::move(other));
  };
  add(CoreDistance::near, 2);
  const auto without = fit_constants(truth, ways);
  add(CoreDistance::far, 1);
  const auto with = fit_constants(truth, ways);
  ASSERT_EQ(ways.size(), count + 2);
  ASSERT_TRUE(without.size() == 2 && with.size() == 2);
  EXPECT_EQ(without[0].cores, CoreDistance::near);
  EXPECT_GT(with[0].cells, without[0].cells + 5);
}

TEST(FitConstants, ADistanceThatWasMetOnceIsLeftOutWhereOthersWereMetMoreOften) {
  const Environment truth = host_of_two();
  std::vector<MeasuredWay> ways = both_distances(truth);
  EXPECT_EQ(fit_constants(truth, ways).size(), 2U) << "all were met once";
  for (MeasuredWay& way : ways)
    for (MeasuredPoint& p : way.points) p.repeats = way.cores == CoreDistance::far ? 3 : 1;
  const auto fitted = fit_constants(truth, ways);
  ASSERT_EQ(fitted.size(), 1U);
  EXPECT_EQ(fitted[0].cores, CoreDistance::far);
}

TEST(FitConstants, ADistanceOfWhichLittleIsKnownIsLeftOut) {
  const Environment truth = host_of_two();
  std::vector<MeasuredWay> ways = both_distances(truth);
  for (MeasuredWay& way : ways)
    if (way.cores == CoreDistance::far) way.points.resize(way.points.size() / 4);
  const auto fitted = fit_constants(truth, ways);
  ASSERT_EQ(fitted.size(), 1U);
  EXPECT_EQ(fitted[0].cores, CoreDistance::near);
}

// Where exchanges of flags go up and down, calls follow them more or less: how much is fitted, for all protocols together.
TEST(FitConstants, HowMuchOfALongerExchangeACallTakesIsFitted) {
  const Environment truth = host_of_two();
  for (const double power : {0.0, 0.5, 1.0}) {
    std::vector<MeasuredWay> ways = measured(truth, CoreDistance::far);
    for (MeasuredWay& way : ways)
      for (std::size_t i = 0; i < way.points.size(); ++i) {
        const double times = i % 3 == 0 ? 1.5 : 1;
        way.points[i].exchange_ns = 160 * times;
        way.points[i].us *= std::pow(times, power);
      }
    Environment fitted = truth;
    fitted.measured = ways;
    fitted.measured_constants = fit_constants(truth, ways);
    ASSERT_EQ(fitted.measured_constants.size(), 1U);
    EXPECT_NEAR(fitted.measured_constants[0].exchange_power, power, 0.1);
    EXPECT_NEAR(exchange_ratio(fitted, Protocol::staged, CoreDistance::far, 240), std::pow(1.5, power), 0.06);
    EXPECT_EQ(exchange_ratio(fitted, Protocol::line, CoreDistance::far, 240), 1) << "nothing was fitted to";
    EXPECT_LT(worst_unseen(fitted, truth, CoreDistance::far), 0.25) << power;
  }
}

TEST(FitConstants, ADistanceOfWhichOneKindIsKnownIsLeftOut) {
  const Environment truth = host_of_two();
  const auto fitted_without = [&](auto&& is_left_out) {
    std::vector<MeasuredWay> ways = both_distances(truth);
    std::erase_if(ways, [&](const MeasuredWay& way) { return way.cores == CoreDistance::far && is_left_out(way.collective); });
    return fit_constants(truth, ways);
  };
  EXPECT_EQ(fitted_without([](Collective) { return false; }).size(), 2U);
  for (const bool rooted : {true, false}) {
    const auto fitted = fitted_without([&](Collective collective) { return has_root(collective) == rooted; });
    ASSERT_EQ(fitted.size(), 1U) << rooted;
    EXPECT_EQ(fitted[0].cores, CoreDistance::near);
  }
}

TEST(FitConstants, OtherCollectivesRanksAndWiresAreLeftOut) {
  const Environment truth = host_of_two();
  std::vector<MeasuredWay> ways = measured(truth, CoreDistance::near);
  const auto alone = fit_constants(truth, ways);
  MeasuredWay other = ways[0];
  other.collective = Collective::all_to_all;
  other.algorithm = "all_pairs";
  for (MeasuredPoint& p : other.points) p.us *= 100;
  ways.push_back(other);
  other = ways[0];
  other.ranks = 4;
  ways.push_back(other);
  other = ways[0];
  other.scope = "tcp-loopback";
  ways.push_back(other);
  EXPECT_EQ(fit_constants(truth, ways), alone);
  EXPECT_TRUE(fit_constants(truth, {}).empty());
}

TEST(FitConstants, NothingIsFittedWhereRanksShareCores) {
  const Environment crowded = ranks_on_cores(2, 1);
  ASSERT_TRUE(crowded.shares_cores());
  EXPECT_TRUE(fit_constants(crowded, measured(host_of_two(), CoreDistance::near)).empty());
}

TEST(MeasuredConstants, TheyHoldOnlyWhereTheCoresLieSo) {
  Environment environment = host_of_two();
  const auto us = [&](CoreDistance cores) {
    environment.cores = cores;
    return predicted_us(environment, Collective::all_reduce, "one_shot", Protocol::staged, 8);
  };
  const double near = us(CoreDistance::near), unmeasured = us(CoreDistance::siblings);
  EXPECT_GT(us(CoreDistance::far), 2 * near);
  environment.measured_constants.clear();
  EXPECT_EQ(us(CoreDistance::near), unmeasured) << "without constants of their own those of data/ hold";
}

TEST(MeasuredConstants, ACallThatAllWaitForPaysTheMeeting) {
  const Environment environment = host_of_two();
  const MeasuredConstants& c = environment.measured_constants[0];
  const Offer& offer = *environment.offer(Protocol::staged);
  Call call;
  call.bytes = {8};
  EXPECT_DOUBLE_EQ(offer_with(environment, call, 64, 0, offer, c).constants[0].launch.value, c.launch_ns + c.meeting_ns);
  call.collective = Collective::broadcast;
  EXPECT_DOUBLE_EQ(offer_with(environment, call, 64, 0, offer, c).constants[0].launch.value, c.launch_ns);
}

TEST(MeasuredConstants, AMessageBeyondTheLineOfItsFlagPaysForTheSecondAndOneInASlotForThat) {
  const Environment environment = host_of_two();
  const MeasuredConstants& c = environment.measured_constants[0];
  const Call call;
  const auto hop = [&](Protocol protocol, std::uint64_t longest) {
    return offer_with(environment, call, longest, 0, *environment.offer(protocol), c).constants[0].per_hop.value +
           environment.level[0].latency.value;
  };
  EXPECT_DOUBLE_EQ(hop(Protocol::staged, 24), c.hop_ns);
  EXPECT_DOUBLE_EQ(hop(Protocol::staged, 25), c.hop_ns + c.second_ns);
  EXPECT_DOUBLE_EQ(hop(Protocol::staged, 88), c.hop_ns + c.second_ns);
  EXPECT_DOUBLE_EQ(hop(Protocol::staged, 89), c.hop_ns + c.slot_ns);
  EXPECT_DOUBLE_EQ(hop(Protocol::line, 24), c.hop_ns);
  EXPECT_DOUBLE_EQ(hop(Protocol::line, 1024), c.hop_ns + c.second_ns) << "cut into messages that reach into the second";
}

TEST(MeasuredConstants, RatesLieOnALineInLogLog) {
  MeasuredConstants c;
  c.rates = {{64, 2, 1, 1, 1}, {1024, 8, 16, 1, 4}};
  EXPECT_DOUBLE_EQ(c.rate_at(8).copy, 2);
  EXPECT_NEAR(c.rate_at(256).copy, 4, 1e-9);
  EXPECT_NEAR(c.rate_at(256).reduce, 4, 1e-9);
  EXPECT_NEAR(c.rate_at(256).reduce_among_all, 2, 1e-9);
  EXPECT_DOUBLE_EQ(c.rate_at(1 << 20).reduce, 16);
}

TEST(MeasuredConstants, ExplainNamesThem) {
  Environment environment = host_of_two();
  environment.cores = CoreDistance::near;
  environment.measured_constants[0].cells = 44;
  Question question;
  question.call.bytes = {4096};
  question.protocol = "staged";
  const auto selection = select(environment, question);
  ASSERT_TRUE(selection);
  EXPECT_THAT(explain_text(environment, *selection), HasSubstr("cores near: fitted to 44 measurements"));
}

TEST(CoreDistance, FlagsTellIt) {
  EXPECT_EQ(*core_distance(35), CoreDistance::siblings);
  EXPECT_EQ(*core_distance(65), CoreDistance::near);
  EXPECT_EQ(*core_distance(260), CoreDistance::far);
  EXPECT_EQ(*core_distance(0), CoreDistance::unknown);
  EXPECT_EQ(*core_distance(65, 71), CoreDistance::near);
  EXPECT_EQ(*core_distance(65, 260), CoreDistance::unknown) << "they were moved";
  for (const CoreDistance d : {CoreDistance::unknown, CoreDistance::siblings, CoreDistance::near, CoreDistance::far})
    EXPECT_EQ(*parse_core_distance(name_of(d)), d);
  EXPECT_THAT(parse_core_distance("close").error().message, HasSubstr("type siblings, near or far"));
}

}  // namespace
}  // namespace peal::tuning
