// What switches compute, in virtual time: closed forms, limits, and what is said where none computes.
#include <gmock/gmock.h>

#include <sim/simulate.hpp>
#include <topology/machine.hpp>
#include <tuning/explain.hpp>

#include "sizes.hpp"

namespace peal::sim {
namespace {

using ::testing::HasSubstr;

Scene switch_scene(std::string_view machine, int nodes = 1, int ranks = 0, std::string_view fabric = "") {
  auto cluster = topology::build_cluster(std::string(machine), nodes, std::string(fabric));
  EXPECT_TRUE(cluster) << cluster.error().message;
  auto scene = make_scene(*std::move(cluster), ranks);
  EXPECT_TRUE(scene) << scene.error().message;
  return *std::move(scene);
}

tuning::Question switch_question(Collective collective, std::uint64_t bytes, std::string algorithm) {
  tuning::Question q;
  q.call.collective = collective;
  q.call.bytes = {bytes};
  q.algorithm = std::move(algorithm);
  return q;
}

double busbw(const Scene& scene, std::uint64_t bytes, std::string algorithm) {
  auto row = simulate_call(scene, switch_question(Collective::all_reduce, bytes, std::move(algorithm)));
  EXPECT_TRUE(row) << row.error().message;
  return row ? row->out_of_place->busbw : 0;
}

std::string switch_refusal(const Scene& scene, std::string algorithm) {
  auto row = simulate_call(scene, switch_question(Collective::all_reduce, kMebi, std::move(algorithm)));
  EXPECT_FALSE(row);
  return row ? "" : row.error().message;
}

// One op: a launch, the bytes over the busiest wire, a latency. n ranks, S bytes, R the rate of a rank's wires.
TEST(Switches, OneOpTakesItsBytesOverTheBusiestWireAndALatency) {
  const Scene scene = switch_scene("dgx-h100");
  const tuning::SwitchOffer& offer = scene.environment.switches[0];
  ASSERT_TRUE(offer.computes) << offer.why_not;
  EXPECT_NEAR(offer.rate(), 0.85 * 370.8, 1e-6);
  const double launch = scene.environment.offer(schedule::Protocol::staged)->constants[0].launch.value;
  const double bytes = 64.0 * kMebi;
  for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather, Collective::broadcast, Collective::reduce}) {
    auto row = simulate_call(scene, switch_question(collective, 64 * kMebi, "nvls"));
    ASSERT_TRUE(row) << row.error().message;
    EXPECT_NEAR(row->out_of_place->time_us * 1e3, launch + bytes / offer.rate() + offer.hop(), 1) << static_cast<int>(collective);
  }
}

// In a pipeline, wires carry each byte once and a rank's own part once more: bus bandwidth tends to 2 (n - 1) / (n + 1) of their rate.
TEST(Switches, AnAllReduceTendsToTwoTimesTheWiresForManyRanks) {
  for (const int ranks : {2, 3, 5, 8}) {
    const Scene scene = switch_scene("dgx-h100", 1, ranks);
    const double limit = 2.0 * (ranks - 1) / (ranks + 1) * scene.environment.switches[0].rate();
    const double reached = busbw(scene, 16384 * kMebi, "nvls");
    EXPECT_LE(reached, limit) << ranks;
    EXPECT_GE(reached, 0.97 * limit) << ranks;
  }
}

TEST(Switches, H100ReachesAbout480WithNvlsAnd368WithRings) {
  const Scene scene = switch_scene("dgx-h100");
  EXPECT_NEAR(busbw(scene, 16384 * kMebi, "nvls"), 480, 0.03 * 480);
  EXPECT_NEAR(busbw(scene, 16384 * kMebi, "ring"), 368, 0.03 * 368);
  // Published nccl-tests tables of two H100 machines with NVLS; nothing was fitted to them.
  EXPECT_NEAR(busbw(scene, 64 * kMebi, "nvls"), 361, 0.1 * 361);
  EXPECT_NEAR(busbw(scene, 1024 * kMebi, "nvls"), 454, 0.1 * 454);
}

TEST(Switches, TheSelectorTakesThemWhereTheyArePredictedFaster) {
  const Scene scene = switch_scene("dgx-h100");
  auto large = tuning::select(scene.environment, switch_question(Collective::all_reduce, 1024 * kMebi, ""));
  auto small = tuning::select(scene.environment, switch_question(Collective::all_reduce, 8, ""));
  ASSERT_TRUE(large && small);
  EXPECT_EQ(large->chosen().algorithm->name, "nvls");
  EXPECT_NE(small->chosen().algorithm->name, "nvls");
  EXPECT_THAT(tuning::explain_text(scene.environment, *large), HasSubstr("switches inside a node (nvswitch-3) compute: 315 GB/s a rank"));
  auto copy = tuning::environment_from_json(tuning::to_json(scene.environment));
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(copy->placement.switches, schedule::kSwitchesInside);
  EXPECT_EQ(
      tuning::predict(*copy, *tuning::make_plan(*copy, *large->chosen().algorithm, large->chosen().protocol, large->question.call)).time,
      large->chosen().prediction.time);
}

// Walked up to 256 ranks, in closed form beyond.
TEST(Switches, ThePredictedTimeIsThatOfTheSimulator) {
  for (const int nodes : {2, 4, 64}) {
    const Scene scene = switch_scene("dgx-h100", nodes, 0, "rail-optimised,switch=quantum-2,sharp=true");
    for (const std::string algorithm : {"nvls_tree", "sharp"}) {
      if (nodes > 4 && algorithm == "nvls_tree") continue;
      for (const std::uint64_t mebi : {1, 16, 256}) {
        auto row = simulate_call(scene, switch_question(Collective::all_reduce, mebi * kMebi, algorithm));
        ASSERT_TRUE(row) << row.error().message;
        EXPECT_NEAR(row->predicted_us / row->out_of_place->time_us, 1, 0.1) << algorithm << ", " << nodes << " nodes, " << mebi << " MiB";
      }
    }
  }
}

// The network's switches halve what a NIC carries: a rail's share goes out once and comes in once. Then NVLink is the limit, which carries
// every byte and an eighth of it once more.
TEST(Switches, SharpSendsEveryByteOnceOverANic) {
  const std::string_view fabric = "rail-optimised,switch=quantum-2,sharp=true,adaptive=true";
  const Scene scene = switch_scene("dgx-h100", 8, 0, fabric);
  auto done = study(scene, switch_question(Collective::all_reduce, 4096 * kMebi, "sharp"), {});
  ASSERT_TRUE(done) << done.error().message;
  const double limit = std::min(8 * 48.0, scene.environment.switches[0].rate() / (1 + 1.0 / 8));
  EXPECT_GE(done->row.out_of_place->algbw, 0.9 * limit);
  EXPECT_LE(done->row.out_of_place->algbw, limit);
  const auto bytes_out = [](const Study& study) {
    for (const ResourceUse& use : study.outcome.resources)
      if (use.name == "n0: nic0 port out") return use.bytes;
    return 0.0;
  };
  EXPECT_NEAR(bytes_out(*done), 4096.0 * kMebi / 8, 1);
  auto by_rings = study(scene, switch_question(Collective::all_reduce, 4096 * kMebi, "hierarchical"), {});
  ASSERT_TRUE(by_rings) << by_rings.error().message;
  EXPECT_NEAR(bytes_out(*by_rings) / bytes_out(*done), 2 * 7.0 / 8, 1e-4) << "a ring of eight machines along each rail";
  EXPECT_GT(busbw(scene, 4096 * kMebi, "sharp"), 1.3 * busbw(scene, 4096 * kMebi, "hierarchical"));
}

// Quantum has one tree at work in a switch: where all NICs of a machine hang on one leaf, rails take turns.
TEST(Switches, OneTreeAtATimeIsALimit) {
  const auto time_on = [](std::string_view fabric) {
    const Scene scene = switch_scene("dgx-a100", 4, 0, fabric);
    return 1 / busbw(scene, 1024 * kMebi, "sharp");
  };
  const double on_rails = time_on("rail-optimised,switch=quantum,sharp=true");
  const double on_one_leaf = time_on("fat-tree,levels=1,switch=quantum,radix=40,sharp=true");
  EXPECT_GT(on_one_leaf, 4 * on_rails);
}

TEST(Switches, ASlowWireOrGpuSlowsAllOfThem) {
  const Scene scene = switch_scene("dgx-h100");
  InterpretOptions options;
  auto plain = study(scene, switch_question(Collective::all_reduce, 256 * kMebi, "nvls"), options);
  options.perturbation.slow_ranks = {{3, 2.0}};
  auto slow = study(scene, switch_question(Collective::all_reduce, 256 * kMebi, "nvls"), options);
  ASSERT_TRUE(plain && slow);
  EXPECT_NEAR(slow->row.out_of_place->time_us / plain->row.out_of_place->time_us, 2, 0.2);
}

TEST(Switches, ThePathSaysWhatTheTimeWentInto) {
  const Scene scene = switch_scene("dgx-h100");
  InterpretOptions options;
  options.keeps_path = options.keeps_trace = true;
  auto done = study(scene, switch_question(Collective::all_reduce, 64 * kMebi, "nvls"), options);
  ASSERT_TRUE(done) << done.error().message;
  double wire = 0, latency = 0, end = 0;
  for (const PathPart& part : done->outcome.path) {
    EXPECT_DOUBLE_EQ(part.start, end);
    end = part.end;
    if (part.what == PathShare::wire) wire += part.end - part.start;
    if (part.what == PathShare::latency) latency += part.end - part.start;
  }
  EXPECT_DOUBLE_EQ(end, done->outcome.time.value);
  EXPECT_GT(wire, 0.4 * end);
  EXPECT_GE(latency, 2 * scene.environment.switches[0].hop());
  EXPECT_FALSE(done->outcome.trace.events().empty());
}

TEST(Switches, ARankThatFailsIsWhoTheOthersWaitFor) {
  const Scene scene = switch_scene("dgx-h100");
  InterpretOptions options;
  options.failure = RankFailure{5, 0};
  auto done = study(scene, switch_question(Collective::all_reduce, kMebi, "nvls"), options);
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_EQ(done->outcome.stuck.size(), 7u);
  EXPECT_EQ(done->outcome.stuck.front().waits_for, 5);
}

TEST(Switches, WhereNoneComputesOneSentenceSaysWhatToType) {
  EXPECT_THAT(switch_refusal(switch_scene("dgx-a100"), "nvls"), HasSubstr("NVSwitch 2 passes on what GPUs send"));
  EXPECT_THAT(switch_refusal(switch_scene("dgx-1-v100"), "nvls"), HasSubstr("no NVLink switch joins these GPUs; type --algorithm ring"));
  EXPECT_THAT(switch_refusal(switch_scene("dgx-h100", 2), "nvls"), HasSubstr("type --algorithm nvls_tree"));
  EXPECT_THAT(switch_refusal(switch_scene("dgx-h100"), "sharp"), HasSubstr("type --algorithm nvls"));
  EXPECT_THAT(switch_refusal(switch_scene("dgx-h100", 2), "sharp"), HasSubstr("sharp=true"));
  EXPECT_THAT(switch_refusal(switch_scene("dgx-h100", 2, 0, "rail-optimised"), "sharp"), HasSubstr("sharp=true"));
  EXPECT_THAT(switch_refusal(switch_scene("dgx-h100", 2, 0, "rail-optimised,sharp=true"), "nvls"), HasSubstr("nvls_tree"));
}

}  // namespace
}  // namespace peal::sim
