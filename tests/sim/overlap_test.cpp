// Calls beside computing: held against arithmetic.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sim/fault_words.hpp>
#include <sim/overlap.hpp>
#include <topology/library_constants.hpp>
#include <topology/machine.hpp>

namespace peal::sim {
namespace {

Scene scene_on(const char* machine, int nodes = 1, int group_ranks = 0) {
  auto scene = make_scene(*topology::build_cluster(machine, nodes), 0, {}, group_ranks);
  EXPECT_TRUE(scene) << scene.error().message;
  return *std::move(scene);
}

tuning::Question ring(std::uint64_t bytes) {
  tuning::Question q;
  q.call.bytes = {bytes};
  q.algorithm = "ring";
  q.protocol = "staged";
  return q;
}

OverlapStudy overlap_of(const Scene& scene, const tuning::Question& question, const Overlapping& asked,
                        const InterpretOptions& options = {}) {
  auto done = overlap(scene, question, options, asked);
  EXPECT_TRUE(done) << done.error().message;
  return *std::move(done);
}

double alone_us(const Scene& scene, const tuning::Question& question) { return simulate_call(scene, question)->out_of_place->time_us; }

// All calls but the last lie under what is computed after them, where they are shorter than a part.
TEST(Overlap, OfShortCallsOnlyTheLastIsExposed) {
  const Scene scene = scene_on("dgx-h100");
  const double call = alone_us(scene, ring(1 << 20));
  const OverlapRow row = overlap_of(scene, ring(1 << 20), {{8e6}, 4}).row;
  EXPECT_NEAR(row.calls_us, 4 * call, 1e-6 * call);
  EXPECT_NEAR(row.exposed_us(), call, 1e-6 * call);
  EXPECT_NEAR(row.hidden(), 0.75, 1e-6);
  EXPECT_EQ(row.slowed_us, 0);
}

// Where calls take longer than parts, the first part is what is exposed of computing.
TEST(Overlap, OfLongCallsAllButTheFirstPartIsHidden) {
  const Scene scene = scene_on("dgx-h100");
  const double call = alone_us(scene, ring(64 << 20));
  const OverlapRow row = overlap_of(scene, ring(64 << 20), {{400e3}, 4}).row;
  ASSERT_GT(call, 100);
  EXPECT_NEAR(row.together_us, 100 + 4 * call, 1e-6 * call);
}

// While a call holds h of P processors, computing goes on at (P - h) / P of its rate.
TEST(Overlap, HeldProcessorsSlowComputingByTheirShare) {
  const Scene scene = scene_on("dgx-h100");
  const tuning::Question question = ring(64 << 20);
  const double launch = 8.4;  // before a call holds anything
  const double holding = alone_us(scene, question) - launch;
  const OverlapRow row = overlap_of(scene, question, {{40e6}, 4, 128, 32}).row;
  EXPECT_NEAR(row.slowed_us, 3 * holding * 32 / 128, 1e-3 * holding);
  EXPECT_NEAR(row.together_us, 40e3 + row.slowed_us + holding + launch, 1e-3 * holding);
  // Who holds all stops it.
  EXPECT_NEAR(overlap_of(scene, question, {{40e6}, 4, 128, 128}).row.slowed_us, 3 * holding, 1e-3 * holding);
}

// A rank that computes more slowly is waited for by all calls; what it computes is no communication.
TEST(Overlap, SlowAndLateRanksComputeSlowlyAndLate) {
  const Scene scene = scene_on("dgx-h100");
  InterpretOptions slow;
  slow.perturbation.slow_ranks = {{3, 1.5}};
  EXPECT_NEAR(overlap_of(scene, ring(1 << 20), {{8e6}, 4}, slow).row.compute_us, 12e3, 1e-6);
  InterpretOptions late;
  late.late_ranks = {{2, 5e6}};
  const OverlapRow row = overlap_of(scene, ring(1 << 20), {{8e6}, 4}, late).row;
  EXPECT_NEAR(row.compute_us, 13e3, 1e-6);
  EXPECT_NEAR(row.exposed_us(), alone_us(scene, ring(1 << 20)), 1e-3);
  InterpretOptions noisy;
  noisy.jitter = {0.05, 7};
  const OverlapRow first = overlap_of(scene, ring(1 << 20), {{8e6}, 4}, noisy).row;
  EXPECT_GT(first.compute_us, 8e3);
  EXPECT_EQ(first.together_us, overlap_of(scene, ring(1 << 20), {{8e6}, 4}, noisy).row.together_us);
}

TEST(Overlap, OfGroupsEachFollowsItsOwnCalls) {
  const Scene scene = scene_on("mi300x-8", 1, 4);
  const double call = alone_us(scene, ring(16 << 20));
  const OverlapStudy both = overlap_of(scene, ring(16 << 20), {{8e6}, 2});
  EXPECT_EQ(both.outcome.job_times.size(), 4u);
  EXPECT_NEAR(both.row.exposed_us(), call, 1e-6 * call);
}

TEST(Overlap, ShowsComputingInTheTrace) {
  const Scene scene = scene_on("dgx-h100");
  InterpretOptions options;
  options.keeps_trace = true;
  const Trace& trace = overlap_of(scene, ring(1 << 20), {{1e6}, 2}, options).outcome.trace;
  int parts = 0;
  for (const TraceEvent& event : trace.events()) {
    EXPECT_LT(event.process, 8);
    if (event.category != "compute") continue;
    ++parts;
    EXPECT_NEAR(event.duration_us, 500, 1e-6);
  }
  EXPECT_EQ(parts, 2 * 8);
}

TEST(Step, RefusesWhatWaitsForItself) {
  const Scene scene = scene_on("dgx-h100");
  const std::vector<int>& devices = scene.device_of_rank;
  auto selection = tuning::select(scene.environment, ring(1 << 20));
  ASSERT_TRUE(selection);
  auto plan = tuning::make_plan(scene.environment, *selection->chosen().algorithm, selection->chosen().protocol, ring(1 << 20).call);
  ASSERT_TRUE(plan);
  std::vector<Job> jobs(1, Job{&*plan, devices, &scene.environment});
  std::vector<Computation> computations(1, Computation{devices, 1000, {0}});
  jobs[0].after = {1};
  const auto circle = interpret(Step{jobs, computations}, *scene.resources);
  ASSERT_FALSE(circle);
  EXPECT_NE(circle.error().message.find("waits for itself"), std::string::npos) << circle.error().message;
  jobs[0].after = {7};
  EXPECT_FALSE(interpret(Step{jobs, computations}, *scene.resources));
  // What is computed after a call begins when the call has ended on that device.
  jobs[0].after.clear();
  const auto row = interpret(Step{jobs, computations}, *scene.resources);
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_NEAR(row->time.value, row->job_times[0].value + 1000, 1e-6);
}

TEST(Step, RefusesCores) {
  auto host = topology::read_cluster_text(
      "devices:\n  - {id: core0, kind: core}\n  - {id: memory, kind: memory}\nlinks:\n"
      "  - {a: core0, b: memory, kind: shm, GBps: 10, source: test}\n",
      "one core");
  ASSERT_TRUE(host) << host.error().message;
  const auto scene = make_scene(*std::move(host), 2);
  ASSERT_TRUE(scene) << scene.error().message;
  const auto refused = overlap(*scene, ring(1 << 20), {}, {{1e6}, 2});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("same core"), std::string::npos) << refused.error().message;
}

TEST(ComputeWords, AreATimeAndParts) {
  EXPECT_EQ(parse_compute("20ms")->parts, 1);
  EXPECT_EQ(parse_compute("20ms/8")->parts, 8);
  EXPECT_EQ(parse_compute("20ms/8")->compute.value, 20e6);
  for (const char* wrong : {"", "20", "20ms/", "20ms/0", "20ms/-1", "ms/8", "20ms/8x", "20ms/100000"})
    EXPECT_FALSE(parse_compute(wrong)) << wrong;
}

TEST(Processors, AreThoseOfTheLongestNameThatFits) {
  EXPECT_EQ(*topology::processors_of("A100-SXM4-40GB"), 108);
  EXPECT_EQ(*topology::processors_of("MI250X"), 220);
  EXPECT_EQ(*topology::processors_of("MI250X die"), 110);
  EXPECT_EQ(*topology::processors_of("GB200"), 148);
  EXPECT_FALSE(topology::processors_of("Abacus"));
}

}  // namespace
}  // namespace peal::sim
