// What a call is predicted to take: by the table where constants are fitted to its collective, by the model alone elsewhere.
#include <gtest/gtest.h>

#include <comm/plans.hpp>
#include <topology/machine.hpp>

namespace peal::comm {
namespace {

constexpr const char* kAlgorithm = "direct";

tuning::MeasuredWay measured(Collective collective, std::vector<tuning::MeasuredPoint> points) {
  return {collective, 2, "shm", kAlgorithm, schedule::Protocol::staged, std::move(points)};
}

tuning::Environment pair_of_cores() {
  auto cluster = topology::read_cluster_text(
      "devices:\n  - {id: \"core[0-1]\", kind: core}\n  - {id: mem0, kind: memory}\n"
      "links:\n  - {a: \"core[0-1]\", b: mem0, kind: shm, GBps: 100, latency_ns: 30}\n",
      "test host");
  EXPECT_TRUE(cluster);
  const topology::Resources resources(std::move(*cluster));
  auto environment = tuning::environment_of(resources, std::vector<int>{0, 1}, {});
  EXPECT_TRUE(environment) << (environment ? "" : environment.error().message);
  return std::move(*environment);
}

PredictedTime predicted(const tuning::Environment& environment, Collective collective, std::uint64_t bytes) {
  PlanWishes wishes;
  wishes.algorithm = kAlgorithm;
  wishes.protocol = "staged";
  Plans plans(std::make_shared<const tuning::Environment>(environment), 0, 1 << 18, wishes);
  const auto time = plans.predicted_time(collective, {bytes}, DataType::f32, has_root(collective) ? 0 : -1);
  EXPECT_TRUE(time) << (time ? "" : time.error().message);
  return time.value_or(PredictedTime{});
}

TEST(PredictedTime, IsWhatATableSaysOfCollectivesThatAreFitted) {
  tuning::Environment environment = pair_of_cores();
  const PredictedTime untuned = predicted(environment, Collective::broadcast, 3000);
  EXPECT_GT(untuned.us, 0);
  EXPECT_EQ(untuned.us, untuned.model_us);
  const PredictedTime below = predicted(environment, Collective::broadcast, 2048),
                      above = predicted(environment, Collective::broadcast, 4096);
  environment.measured = {measured(Collective::broadcast, {{2048, 3 * below.model_us, 0}, {4096, 3 * above.model_us, 0}})};
  const PredictedTime tuned = predicted(environment, Collective::broadcast, 3000);
  EXPECT_DOUBLE_EQ(tuned.model_us, untuned.model_us);
  EXPECT_NEAR(tuned.us / tuned.model_us, 3, 1e-6);
}

TEST(PredictedTime, IsTheModelsOfCollectivesThatAreNot) {
  tuning::Environment environment = pair_of_cores();
  const PredictedTime untuned = predicted(environment, Collective::scatter, 3000);
  environment.measured = {measured(Collective::scatter, {{2048, 1000, 0}, {4096, 1000, 0}})};
  const PredictedTime tuned = predicted(environment, Collective::scatter, 3000);
  EXPECT_GT(untuned.us, 0);
  EXPECT_DOUBLE_EQ(tuned.model_us, untuned.model_us);
  EXPECT_EQ(tuned.us, tuned.model_us);
}

}  // namespace
}  // namespace peal::comm
