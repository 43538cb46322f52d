// Slow and dead links, stragglers, noise, a rank that fails; and the words that ask for them.
#include <gtest/gtest.h>

#include <sim/call_report.hpp>
#include <sim/fault_words.hpp>
#include <sim/simulate.hpp>
#include <topology/degrade.hpp>
#include <topology/machine.hpp>

#include "sizes.hpp"

namespace peal::sim {
namespace {

Scene dgx_h100(int nodes = 1) {
  auto scene = make_scene(*topology::build_cluster("dgx-h100", nodes), 0);
  EXPECT_TRUE(scene) << scene.error().message;
  return *std::move(scene);
}

tuning::Question question(Collective collective, std::uint64_t bytes, const char* algorithm, const char* protocol = "staged") {
  tuning::Question q;
  q.call.collective = collective;
  q.call.bytes = {bytes};
  q.algorithm = algorithm;
  q.protocol = protocol;
  return q;
}

Study run(const Scene& scene, const tuning::Question& q, const InterpretOptions& options, int runs = 1) {
  auto done = study(scene, q, options, runs);
  EXPECT_TRUE(done) << done.error().message;
  return *std::move(done);
}

TEST(Faults, ALinkAtHalfItsRateHalvesTheRing) {
  const Scene scene = dgx_h100();
  const tuning::Question q = question(Collective::all_reduce, kGibi, "ring");
  const auto id = topology::find_resource(*scene.resources, "gpu3 > nvswitch0");
  ASSERT_TRUE(id) << id.error().message;
  InterpretOptions slow;
  slow.perturbation.scaled_resources = {{*id, 0.5}};
  const double healthy = run(scene, q, {}).row.out_of_place->busbw;
  const Study hurt = run(scene, q, slow);
  EXPECT_NEAR(hurt.row.out_of_place->busbw, healthy / 2, 0.02 * healthy);
  EXPECT_EQ(hurt.row.bottleneck, scene.resources->name(*id));
  EXPECT_GT(hurt.row.utilisation, 0.95);
}

TEST(Faults, ARankThatIsTwiceAsSlowHalvesTheRing) {
  const Scene scene = dgx_h100();
  const tuning::Question q = question(Collective::all_reduce, kGibi, "ring");
  InterpretOptions slow;
  slow.perturbation.slow_ranks = {{5, 2.0}};
  EXPECT_NEAR(run(scene, q, slow).row.out_of_place->time_us / run(scene, q, {}).row.out_of_place->time_us, 2, 0.05);
}

// All its sends together, also where they go out side by side.
TEST(Faults, ASlowRankIsSlowWithManySendsAtATimeToo) {
  const Scene scene = dgx_h100();
  const tuning::Question q = question(Collective::all_to_all, 256 << 20, "all_pairs");
  InterpretOptions slow;
  slow.perturbation.slow_ranks = {{5, 2.0}};
  EXPECT_NEAR(run(scene, q, slow).row.out_of_place->time_us / run(scene, q, {}).row.out_of_place->time_us, 2, 0.1);
}

// Everybody waits for the last in an all-reduce; in a broadcast nobody waits for the last but itself.
TEST(Faults, ALateRankDelaysThoseThatNeedIt) {
  const Scene scene = dgx_h100();
  InterpretOptions late;
  late.late_ranks = {{7, 500e3}};
  const tuning::Question reduce = question(Collective::all_reduce, 1 << 20, "ring");
  const double added = run(scene, reduce, late).outcome.time.value - run(scene, reduce, {}).outcome.time.value;
  EXPECT_GT(added, 400e3);
  EXPECT_LE(added, 500e3 * (1 + 1e-9));
  const Study broadcast = run(scene, question(Collective::broadcast, 1 << 20, "ring"), late);
  int early = 0;
  for (const double done : broadcast.outcome.rank_done) early += done < 500e3 ? 1 : 0;
  EXPECT_GE(early, 6);
}

TEST(Faults, JitterIsSeededAndOnlyDelays) {
  const Scene scene = dgx_h100();
  const tuning::Question q = question(Collective::all_reduce, 16 << 20, "ring");
  InterpretOptions noisy;
  noisy.jitter = {0.05, 1};
  const Timing quiet = *run(scene, q, {}).row.out_of_place;
  const Timing once = *run(scene, q, noisy, 40).row.out_of_place;
  const Timing again = *run(scene, q, noisy, 40).row.out_of_place;
  EXPECT_FALSE(quiet.spread);
  ASSERT_TRUE(once.spread);
  EXPECT_EQ(once.time_us, again.time_us);
  EXPECT_EQ(once.spread->p99, again.spread->p99);
  EXPECT_GT(once.spread->least, quiet.time_us);
  EXPECT_LT(once.spread->least, once.p50_us);
  EXPECT_LE(once.p50_us, once.spread->p90);
  EXPECT_LE(once.spread->p90, once.spread->p99);
  EXPECT_LT(once.spread->p99, 2 * quiet.time_us);
  noisy.jitter.seed = 1000;
  EXPECT_NE(run(scene, q, noisy).row.out_of_place->time_us, once.time_us);
}

TEST(Faults, AfterARankHasFailedItsSuccessorWaitsForItAndTheOthersForOneAnother) {
  const Scene scene = dgx_h100();
  InterpretOptions options;
  options.failure = RankFailure{3, 10e3};
  const Study study = run(scene, question(Collective::all_reduce, kGibi, "ring"), options);
  ASSERT_EQ(study.outcome.stuck.size(), 7u);
  EXPECT_FALSE(study.row.in_place);
  std::map<int, int> waits;
  for (const StuckRank& s : study.outcome.stuck) waits[s.rank] = s.waits_for;
  std::set<int> dead_ends;
  for (const auto& [rank, whom] : waits) {
    // Whoever one waits for stands too, up to the one that has failed.
    int at = rank;
    for (int hops = 0; at != 3 && hops < 8; ++hops) at = waits.at(at);
    EXPECT_EQ(at, 3) << rank;
    if (whom == 3) dead_ends.insert(rank);
  }
  EXPECT_GE(dead_ends.size(), 1u);
  for (std::size_t i = 1; i < study.outcome.stuck.size(); ++i) EXPECT_LE(study.outcome.stuck[i - 1].since, study.outcome.stuck[i].since);
  const std::string text = failure_text(study.outcome, *options.failure);
  EXPECT_NE(text.find("Rank 3 fails at 10.00 us. 7 of 7 others never end"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 3, dead"), std::string::npos) << text;
}

TEST(Faults, NobodyWaitsForARankThatHasDoneItsPart) {
  const Scene scene = dgx_h100();
  const tuning::Question q = question(Collective::broadcast, 1 << 20, "ring");
  const double whole = run(scene, q, {}).outcome.time.value;
  InterpretOptions options;
  options.failure = RankFailure{0, 0.999 * whole};
  EXPECT_TRUE(run(scene, q, options).outcome.stuck.empty());
  options.failure = RankFailure{0, 0};
  EXPECT_EQ(run(scene, q, options).outcome.stuck.size(), 7u);
}

// Four ranks on one core: whoever dies while it has the core leaves it to the others.
TEST(Faults, ADeadRankLeavesItsCore) {
  auto cluster = topology::read_cluster_text(
      "devices:\n  - {id: core0, kind: core}\n  - {id: memory, kind: memory}\nlinks:\n"
      "  - {a: core0, b: memory, kind: shm, GBps: 10, source: test}\n",
      "one core");
  auto scene = make_scene(*std::move(cluster), 4);
  ASSERT_TRUE(scene) << scene.error().message;
  const tuning::Question q = question(Collective::scatter, 256 << 10, "direct");
  const double whole = run(*scene, q, {}).outcome.time.value;
  for (int i = 1; i < 20; ++i) {
    InterpretOptions options;
    options.failure = RankFailure{1, whole * i / 20};
    for (const StuckRank& s : run(*scene, q, options).outcome.stuck) EXPECT_EQ(s.waits_for, 1) << i << ": rank " << s.rank << ", " << s.op;
  }
}

TEST(Faults, WithoutItsNvlinkAGpuIsReachedOverPcie) {
  const topology::Resources whole{*topology::build_cluster("dgx-h100", 1)};
  const auto id = topology::find_resource(whole, "gpu0 > nvswitch0");
  ASSERT_TRUE(id) << id.error().message;
  auto rest = topology::without_link(whole, *id);
  ASSERT_TRUE(rest) << rest.error().message;
  auto scene = make_scene(*std::move(rest), 0);
  ASSERT_TRUE(scene) << scene.error().message;
  const auto way = scene->resources->route(scene->device_of_rank[0], scene->device_of_rank[1]);
  EXPECT_TRUE(way.exists());
  EXPECT_NE(way.path_class, topology::PathClass::nvl);
  const auto other = scene->resources->route(scene->device_of_rank[2], scene->device_of_rank[1]);
  EXPECT_EQ(other.path_class, topology::PathClass::nvl);
  const Study hurt = run(*scene, question(Collective::all_reduce, 64 << 20, "ring"), {});
  EXPECT_LT(hurt.row.out_of_place->busbw, 60);
}

TEST(Faults, WithoutItsNicAGpuGoesByAnother) {
  const topology::Resources whole{*topology::build_cluster("dgx-h100", 2)};
  const auto out = topology::find_resource(whole, "n1: nic0 port out");
  ASSERT_TRUE(out) << out.error().message;
  auto rest = topology::without_link(whole, *out);
  ASSERT_TRUE(rest) << rest.error().message;
  auto scene = make_scene(*std::move(rest), 0);
  ASSERT_TRUE(scene) << scene.error().message;
  EXPECT_EQ(scene->environment.ranks, 16);
  EXPECT_EQ(scene->environment.nodes, 2);
  EXPECT_TRUE(scene->resources->route(scene->device_of_rank[8], scene->device_of_rank[0]).exists());
}

TEST(Faults, WithoutItsOnlyLinkARankIsNotConnected) {
  auto cluster = topology::read_cluster_text(
      "devices:\n  - {id: \"gpu[0-1]\", kind: gpu}\nlinks:\n  - {a: gpu0, b: gpu1, kind: nvlink, GBps: 25, source: test}\n", "pair");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const topology::Resources whole{*std::move(cluster)};
  auto rest = topology::without_link(whole, *topology::find_resource(whole, "gpu0 > gpu1"));
  ASSERT_TRUE(rest) << rest.error().message;
  const auto scene = make_scene(*std::move(rest), 0);
  ASSERT_FALSE(scene);
  EXPECT_NE(scene.error().message.find("ranks 0 (gpu0) and 1 (gpu1) have no way to each other"), std::string::npos)
      << scene.error().message;
}

// Three switches in a circle: two ways between the nodes, and none goes round twice.
TEST(Faults, ACircleOfSwitchesIsGoneRoundTheShortWay) {
  auto cluster = topology::read_cluster_text(
      "devices:\n  - {id: \"gpu[0-1]\", kind: gpu}\n  - {id: \"nic[0-1]\", kind: nic}\n  - {id: \"sw[0-2]\", kind: net_switch}\nlinks:\n"
      "  - {a: \"gpu[0-1]\", b: \"nic[0-1]\", join: pair, kind: pcie, GBps: 25, source: test}\n"
      "  - {a: nic0, b: sw0, kind: infiniband, GBps: 25, source: test}\n  - {a: nic1, b: sw1, kind: infiniband, GBps: 25, source: test}\n"
      "  - {a: sw0, b: sw1, kind: infiniband, GBps: 25, source: test}\n  - {a: sw1, b: sw2, kind: infiniband, GBps: 25, source: test}\n"
      "  - {a: sw2, b: sw0, kind: infiniband, GBps: 25, source: test}\n",
      "circle");
  ASSERT_TRUE(cluster) << cluster.error().message;
  const topology::Resources whole{topology::Cluster(*cluster)};
  EXPECT_EQ(whole.route(0, 1).resources.size(), 5u);
  // Without the short way it is the long one.
  auto rest = topology::without_link(whole, *topology::find_resource(whole, "sw0 > sw1"));
  ASSERT_TRUE(rest) << rest.error().message;
  const topology::Resources detour{*std::move(rest)};
  EXPECT_EQ(detour.route(0, 1).resources.size(), 6u);
}

TEST(Faults, AWrongNameGetsTheNearestOne) {
  const topology::Resources resources{*topology::build_cluster("dgx-h100", 1)};
  const auto id = topology::find_resource(resources, "gpu3 > nvswitch9");
  ASSERT_FALSE(id);
  EXPECT_NE(id.error().message.find("gpu3 > nvswitch0"), std::string::npos) << id.error().message;
}

TEST(FaultWords, SayWhatTheyMean) {
  EXPECT_EQ(parse_time("40us")->value, 40e3);
  EXPECT_EQ(parse_time("1.5ms")->value, 1.5e6);
  EXPECT_EQ(parse_slow_link("a = b (pcie x16)=1/4")->name, "a = b (pcie x16)");
  EXPECT_EQ(parse_slow_link("a > b=1/4")->factor, 0.25);
  EXPECT_EQ(parse_straggler("3=1.5")->factor, 1.5);
  EXPECT_EQ(parse_straggler("3=100us")->delay, 100e3);
  EXPECT_EQ(parse_failure("3@40us")->rank, 3);
  EXPECT_EQ(parse_failure("3@40us")->time, 40e3);
  const auto beside = parse_beside("reduce_scatter:64M%8@100us");
  ASSERT_TRUE(beside) << beside.error().message;
  EXPECT_EQ(beside->call.collective, Collective::reduce_scatter);
  EXPECT_EQ(beside->call.bytes.value, 64u << 20);
  EXPECT_EQ(beside->stride, 8);
  EXPECT_EQ(beside->start.value, 100e3);
  EXPECT_EQ(parse_beside("all_reduce:8/4")->group_ranks, 4);
  const auto job = parse_beside("all_to_all:1M:8-10,3%2@1us");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->places, (std::vector<int>{8, 9, 10, 3}));
  EXPECT_EQ(job->call.bytes.value, 1u << 20);
  EXPECT_EQ(job->stride, 2);
  EXPECT_EQ(*parse_message("3:4"), (MessageAsked{3, 4, 0}));
  EXPECT_EQ(*parse_message("3:4:17"), (MessageAsked{3, 4, 17}));
}

TEST(FaultWords, ThatMeanNothingAreRefused) {
  for (const char* text : {"", "40", "us", "-1us", "40 us", "1e999s", "4.4.4us", "nanus"}) EXPECT_FALSE(parse_time(text)) << text;
  for (const char* text : {"", "gpu0", "=0.5", "gpu0=", "gpu0=0", "gpu0=-1", "gpu0=1/0", "gpu0=nan", "gpu0=inf", "gpu0=x"})
    EXPECT_FALSE(parse_slow_link(text)) << text;
  for (const char* text : {"", "3", "3=", "=2", "-1=2", "3=0", "3=fast", "3=1/0", "99999999999=2"})
    EXPECT_FALSE(parse_straggler(text)) << text;
  for (const char* text : {"", "3", "@40us", "3@", "3@40", "x@40us"}) EXPECT_FALSE(parse_failure(text)) << text;
  for (const char* text :
       {"", "all_reduce", "all_reduce:", "all_reduce:8/", "all_reduce:8%0", "all_reduce:8@4", "reduce:8/4%2", ":8",
        "reduce:8:", "reduce:8:3-1", "reduce:8:1,1", "reduce:8:0-4,2", "reduce:8:-1", "reduce:8:0-9999999", "reduce::0-1"})
    EXPECT_FALSE(parse_beside(text)) << text;
  for (const char* text : {"", ":", "3", "3:", ":4", "3:3", "3:4:", "3:4:-1", "-1:4", "3:4:5:6"}) EXPECT_FALSE(parse_message(text)) << text;
}

TEST(Faults, OfRanksThatAreNotThereAreRefused) {
  const Scene scene = dgx_h100();
  const tuning::Question q = question(Collective::all_reduce, 1024, "ring", "line");
  InterpretOptions options;
  options.perturbation.slow_ranks = {{8, 2.0}};
  EXPECT_FALSE(study(scene, q, options));
  options = {};
  options.failure = RankFailure{-1, 0};
  EXPECT_FALSE(study(scene, q, options));
}

}  // namespace
}  // namespace peal::sim
