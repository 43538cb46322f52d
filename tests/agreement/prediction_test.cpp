// The predicted time of a call is tuning's; it and the simulator agree within 10 % where nothing is congested.
#include <cmath>

#include "scenes.hpp"

namespace peal::agreement {
namespace {

constexpr double kTolerance = 0.10;

/// By how much the prediction of a candidate may be below the simulator.
using Below = std::function<double(const tuning::Candidate&)>;
double plainly(const tuning::Candidate&) { return kTolerance; }

int compare(const sim::Scene& scene, std::initializer_list<std::uint64_t> sizes, const Below& below = plainly, bool wide_partials = false) {
  return for_each_candidate(
      scene, sizes,
      [&](const tuning::Question& q, const tuning::Candidate& c, const tuning::Plan& plan) {
        auto predicted = tuning::predict_walked(scene.environment, plan);
        auto simulated = sim::interpret(plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires);
        const std::string name = name_of_case(q, c, scene.environment.ranks);
        ASSERT_TRUE(predicted) << name << ": " << predicted.error().message;
        ASSERT_TRUE(simulated) << name << ": " << simulated.error().message;
        EXPECT_LE(predicted->time.value, (1 + kTolerance) * simulated->time.value) << name;
        EXPECT_GE(predicted->time.value, (1 - below(c)) * simulated->time.value) << name;
        EXPECT_NEAR(predicted->breakdown.total(), predicted->time.value, 1e-3 * predicted->time.value + 0.01) << name;
      },
      wide_partials);
}

TEST(Prediction, AgreesWithTheSimulatorOnOneHost) {
  for (const int ranks : {1, 2, 3, 4, 8}) EXPECT_GT(compare(host_scene(ranks), {8, 4096, 1 << 17, 1 << 20, 1 << 24}), 50) << ranks;
}

// What `peal tune` fitted is faster than the memory that the graph of a host assumes; both readers take it from the plan.
TEST(Prediction, AgreesWithTheSimulatorWithConstantsOfThisHost) {
  sim::Scene scene = host_scene(2);
  tuning::Environment& environment = scene.environment;
  environment.cores = tuning::CoreDistance::near;
  for (const tuning::Offer& offer : environment.offers) {
    tuning::MeasuredConstants c{environment.level[0].scope, 2, environment.cores, offer.protocol, 60, 40, 50, 10, 7, 20};
    c.rates = {{64, 12, 6, 10, 5, 9}, {4096, 60, 40, 50, 30, 45}, {1 << 26, 30, 20, 15, 10, 25}};
    environment.measured_constants.push_back(c);
  }
  EXPECT_GT(compare(scene, {8, 4096, 1 << 17, 1 << 20, 1 << 24}), 50);
}

TEST(Prediction, AgreesWithTheSimulatorWherePartialSumsTravelAsF32) {
  for (const int ranks : {3, 4, 8}) EXPECT_GT(compare(host_scene(ranks), {8, 1 << 17, 1 << 20}, plainly, true), 20) << ranks;
  EXPECT_GT(compare(machine_scene("dgx-h100", 1, 8), {1 << 16, 1 << 20, 1 << 26}, plainly, true), 20);
}

// In rings half of the messages are partial sums; the closed form counts their bytes as the walk does.
TEST(Prediction, TheBytesOfPartialSumsAsF32AreCounted) {
  const sim::Scene scene = host_scene(8);
  for (const auto& [type, times] : {std::pair{DataType::bf16, 1.5}, {DataType::f8_e5m2, 2.5}}) {
    tuning::Question q;
    q.call.type = type;
    q.call.bytes = {1 << 20};
    q.algorithm = "ring";
    q.protocol = "staged";
    tuning::Prediction walked[2], closed[2];
    for (const bool wide : {false, true}) {
      q.call.wide_partials = wide;
      auto selection = tuning::select(scene.environment, q);
      ASSERT_TRUE(selection) << selection.error().message;
      auto plan = tuning::make_plan(scene.environment, *selection->chosen().algorithm, selection->chosen().protocol, q.call);
      ASSERT_TRUE(plan);
      walked[wide] = *tuning::predict_walked(scene.environment, *plan);
      closed[wide] = tuning::predict_closed(scene.environment, *plan);
    }
    EXPECT_NEAR(walked[1].bytes[0], times * walked[0].bytes[0], 0.01 * walked[0].bytes[0]);
    EXPECT_NEAR(closed[1].bytes[0], times * closed[0].bytes[0], 0.01 * closed[0].bytes[0]);
    EXPECT_GT(walked[1].time.value, 1.2 * walked[0].time.value);
  }
}

// A core that ranks share is congested. One message that comes a nanosecond later can cost a turn more, so single cases may differ.
TEST(Prediction, AgreesWithTheSimulatorWhereRanksShareCores) {
  for (const auto& [cores, ranks] : {std::pair{1, 2}, {2, 4}, {2, 8}, {3, 8}}) {
    const sim::Scene scene = host_scene(cores, tuning::Wires::shared_memory, ranks);
    int near = 0;
    const int all = for_each_candidate(
        scene, {8, 4096, 1 << 17, 1 << 20}, [&](const tuning::Question& q, const tuning::Candidate& c, const tuning::Plan& plan) {
          auto predicted = tuning::predict_walked(scene.environment, plan);
          auto simulated = sim::interpret(plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires);
          ASSERT_TRUE(predicted && simulated);
          const double ratio = predicted->time.value / simulated->time.value;
          EXPECT_TRUE(ratio > 1 / 1.75 && ratio < 1.75) << name_of_case(q, c, ranks) << ": " << ratio;
          near += ratio > 1 - kTolerance && ratio < 1 + kTolerance ? 1 : 0;
        });
    EXPECT_GT(near, 0.9 * all) << near << " of " << all << " on " << cores << " cores";
  }
}

TEST(Prediction, AgreesWithTheSimulatorOverLoopback) {
  EXPECT_GT(compare(host_scene(2, tuning::Wires::socket), {8, 4096, 1 << 20, 1 << 24}, [](const tuning::Candidate&) { return 0.01; }), 30);
  // Among four, several senders meet in the way into one rank: that is congestion, which only the simulator has in full.
  EXPECT_GT(compare(host_scene(4, tuning::Wires::socket), {8, 4096, 1 << 20, 1 << 24}, [](const tuning::Candidate&) { return 0.3; }), 30);
  // Here most messages have left the caches when they are received.
  EXPECT_GT(compare(host_scene(8, tuning::Wires::socket), {1 << 24}, [](const tuning::Candidate&) { return 0.3; }), 20);
}

TEST(Prediction, AgreesWithTheSimulatorOnADgxH100) {
  for (const int ranks : {2, 4, 8})
    EXPECT_GT(compare(machine_scene("dgx-h100", 1, ranks), {8, 1 << 16, 1 << 20, 1 << 26, 1 << 30}), 50) << ranks;
}

TEST(Prediction, AgreesWithTheSimulatorWhereEveryPairHasAWireOfItsOwn) {
  // Where both trees cross a wire, their messages share it: that is congestion.
  const auto below = [](const tuning::Candidate& c) { return c.algorithm->name == "double_binary_tree" ? 0.3 : kTolerance; };
  for (const int ranks : {3, 4, 8})
    EXPECT_GT(compare(machine_scene("mi300x-8", 1, ranks), {8, 1 << 16, 1 << 20, 1 << 26, 1 << 30}, below), 50) << ranks;
}

// The other algorithms also cross PCIe there, where they congest.
TEST(Prediction, AgreesWithTheSimulatorOnTheRingsOfACubeMesh) {
  const sim::Scene scene = machine_scene("dgx-1-v100", 1, 8);
  int rings = 0;
  for_each_candidate(
      scene, {1 << 16, 1 << 20, 1 << 26, 1 << 30}, [&](const tuning::Question& q, const tuning::Candidate& c, const tuning::Plan& plan) {
        if (c.algorithm->name != "ring" && c.algorithm->name != "multi_ring") return;
        auto predicted = tuning::predict_walked(scene.environment, plan);
        auto simulated = sim::interpret(plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires);
        ASSERT_TRUE(predicted && simulated);
        EXPECT_NEAR(predicted->time.value, simulated->time.value, kTolerance * simulated->time.value)
            << name_of_case(q, c, scene.environment.ranks);
        ++rings;
      });
  EXPECT_GT(rings, 50);
}

// Larger than the walk takes: the closed form must still be near for the algorithms that large jobs use.
void expect_closed_form_is_near(const sim::Scene& scene, Collective collective, const char* algorithm, std::uint64_t bytes) {
  tuning::Question q;
  q.call.collective = collective;
  q.call.bytes = {bytes};
  q.algorithm = algorithm;
  q.protocol = "staged";
  auto selection = tuning::select(scene.environment, q);
  ASSERT_TRUE(selection) << selection.error().message;
  auto plan = tuning::make_plan(scene.environment, *selection->chosen().algorithm, selection->chosen().protocol, q.call);
  ASSERT_TRUE(plan);
  const tuning::Prediction closed = tuning::predict_closed(scene.environment, *plan);
  auto simulated = sim::interpret(*plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires);
  ASSERT_TRUE(simulated) << simulated.error().message;
  EXPECT_NEAR(closed.time.value, simulated->time.value, 0.25 * simulated->time.value)
      << name_of_case(q, selection->chosen(), scene.environment.ranks);
}

TEST(Prediction, TheClosedFormOfRingsIsNearOnSeveralNodes) {
  const sim::Scene scene = machine_scene("dgx-h100", 4, 32);
  expect_closed_form_is_near(scene, Collective::all_reduce, "ring", 1 << 20);
  expect_closed_form_is_near(scene, Collective::all_reduce, "ring", 1 << 30);
  expect_closed_form_is_near(scene, Collective::all_reduce, "multi_ring", 1 << 28);
  expect_closed_form_is_near(scene, Collective::all_reduce, "multi_ring", 1 << 30);
}

TEST(Prediction, TheClosedFormOfTwoLevelsKnowsThatRingsAlongRailsTakeUpAPieceAfterTheOther) {
  for (const int nodes : {4, 16})
    for (const std::uint64_t bytes : {1 << 20, 1 << 26, 1 << 30})
      expect_closed_form_is_near(machine_scene("dgx-h100", nodes, nodes * 8), Collective::all_reduce, "hierarchical", bytes);
}

TEST(Prediction, TheClosedFormOfChainsIsNearOnSeveralNodes) {
  const sim::Scene scene = machine_scene("dgx-h100", 4, 32);
  for (const Collective collective : {Collective::broadcast, Collective::reduce})
    for (const char* const algorithm : {"ring", "leader_chain", "multi_ring"})
      for (const std::uint64_t bytes : {1 << 20, 1 << 24, 1 << 28, 1 << 30})
        expect_closed_form_is_near(scene, collective, algorithm, bytes);
}

}  // namespace
}  // namespace peal::agreement
