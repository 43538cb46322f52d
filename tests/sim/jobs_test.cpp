// Several jobs at once: groups of one command, and jobs that sit on the same devices.
#include <gtest/gtest.h>

#include <sim/simulate.hpp>
#include <topology/machine.hpp>

#include "sizes.hpp"

namespace peal::sim {
namespace {

Result<Scene> groups_on(const char* machine, int group_ranks, int nodes = 1) {
  PEAL_ASSIGN(topology::Cluster cluster, topology::build_cluster(machine, nodes));
  return make_scene(std::move(cluster), 0, {}, group_ranks);
}

tuning::Question all_reduce_question(std::uint64_t bytes, const char* algorithm = "", const char* protocol = "") {
  tuning::Question q;
  q.call.bytes = {bytes};
  q.algorithm = algorithm;
  q.protocol = protocol;
  return q;
}

Study study_of_scene(const Result<Scene>& scene, const tuning::Question& question) {
  EXPECT_TRUE(scene) << scene.error().message;
  auto done = study(*scene, question, {});
  EXPECT_TRUE(done) << done.error().message;
  return *std::move(done);
}

// On a full mesh of eight each pair has a wire of its own: four GPUs have three each among themselves, eight have seven.
TEST(Groups, OnAFullMeshFourRanksUseThreeOfSevenLinks) {
  for (const char* machine : {"mi300x-8", "atlas-800-a2"}) {
    const Study four = study_of_scene(groups_on(machine, 4), all_reduce_question(kGibi));
    const Study eight = study_of_scene(groups_on(machine, 8), all_reduce_question(kGibi));
    const auto wires = [](const Study& s, const char* kind) {
      return std::count_if(s.outcome.resources.begin(), s.outcome.resources.end(),
                           [&](const ResourceUse& use) { return use.name.find(kind) != std::string::npos; });
    };
    const char* kind = machine[0] == 'm' ? "(xgmi" : "(hccs";
    EXPECT_EQ(wires(four, kind), 2 * 4 * 3) << machine;
    EXPECT_EQ(wires(eight, kind), 8 * 7) << machine;
    EXPECT_NEAR(eight.row.out_of_place->busbw / four.row.out_of_place->busbw, 7.0 / 3.0, 0.25) << machine;
    EXPECT_EQ(four.row.groups.size(), 2u);
    EXPECT_EQ(four.row.groups[0], four.row.groups[1]);
  }
}

TEST(Groups, OnASwitchFourRanksHaveAllOfTheirLinks) {
  const Study four = study_of_scene(groups_on("dgx-h100", 4), all_reduce_question(kGibi, "ring", "staged"));
  const Study eight = study_of_scene(groups_on("dgx-h100", 8), all_reduce_question(kGibi, "ring", "staged"));
  EXPECT_NEAR(four.row.out_of_place->busbw, eight.row.out_of_place->busbw, 0.01 * eight.row.out_of_place->busbw);
}

TEST(Groups, ThatShareNothingTakeWhatOneTakesAlone) {
  auto alone = make_scene(*topology::build_cluster("dgx-a100", 1), 4);
  const double one = study_of_scene(alone, all_reduce_question(1 << 20, "ring", "staged")).row.out_of_place->time_us;
  const Study both = study_of_scene(groups_on("dgx-a100", 4), all_reduce_question(1 << 20, "ring", "staged"));
  EXPECT_DOUBLE_EQ(both.row.out_of_place->time_us, one);
}

TEST(Groups, MustDivideTheRanks) {
  const auto scene = groups_on("dgx-a100", 3);
  ASSERT_FALSE(scene);
  EXPECT_NE(scene.error().message.find("8 ranks cannot be split into groups of 3"), std::string::npos) << scene.error().message;
}

Study study_beside(const Result<Scene>& scene, const tuning::Question& question, const Beside& beside) {
  EXPECT_TRUE(scene) << scene.error().message;
  auto done = study(*scene, question, {}, 1, {&beside, 1});
  EXPECT_TRUE(done) << done.error().message;
  return *std::move(done);
}

TEST(Beside, RanksEqualModuloTheStrideMakeAGroup) {
  const auto scene = groups_on("dgx-h100", 0, 2);
  ASSERT_TRUE(scene) << scene.error().message;
  const auto groups = groups_beside(*scene, {.stride = 8});
  ASSERT_TRUE(groups) << groups.error().message;
  ASSERT_EQ(groups->size(), 8u);
  for (std::size_t g = 0; g < 8; ++g) {
    EXPECT_EQ((*groups)[g].device_of_rank, (std::vector<int>{scene->device_of_rank[g], scene->device_of_rank[g + 8]}));
    EXPECT_EQ((*groups)[g].environment.nodes, 2);
  }
  EXPECT_FALSE(groups_beside(*scene, {.stride = 3}));
  EXPECT_FALSE(groups_beside(*scene, {.group_ranks = 5}));
}

// Four nodes on each of two leaves, whose way to the spine is narrow: jobs of their own leaves do not meet, jobs that lie across both do.
TEST(Beside, JobsOfOtherRanksMeetWhereTheirPlacesMakeThem) {
  const auto job = [](const std::vector<int>& nodes) {
    std::vector<int> places;
    for (const int node : nodes)
      for (int gpu = 0; gpu < 8; ++gpu) places.push_back(8 * node + gpu);
    return places;
  };
  const auto times = [&](const std::vector<int>& ours, const std::vector<int>& theirs) {
    topology::Cluster cluster = *topology::build_cluster("dgx-h100", 8, "fat-tree,levels=2,radix=40,oversubscription=4,adaptive=true");
    std::vector<int> devices = *devices_at(cluster, job(ours));
    const auto scene = make_scene(std::move(cluster), std::move(devices));
    tuning::Question question;
    question.call.collective = Collective::all_to_all;
    question.call.bytes = {16 << 20};
    Beside other;
    other.call = question.call;
    other.places = job(theirs);
    const double alone = study_of_scene(scene, question).row.out_of_place->time_us;
    const Study both = study_beside(scene, question, other);
    EXPECT_EQ(both.row.beside.at(0).ranks, 8 * static_cast<int>(theirs.size()));
    return both.row.out_of_place->time_us / alone;
  };
  EXPECT_NEAR(times({0, 1, 2, 3}, {4, 5, 6, 7}), 1, 1e-6);
  EXPECT_NEAR(times({0, 2, 4, 6}, {1, 3, 5, 7}), 2, 0.1);  // half of what they send crosses the same cables
  const auto scene = groups_on("dgx-h100", 0, 2);
  const auto none = groups_beside(*scene, {.places = {15, 16}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "there is no place 16: the cluster has 16, 0 to 15");
}

// Tensor parallelism inside the nodes has NVLink, data parallelism between them the NICs: they do not meet. Two calls between nodes do.
TEST(Beside, OnlyCallsThatMeetOnAWireSlowEachOther) {
  const auto nodes = groups_on("dgx-h100", 8, 2);
  const tuning::Question inside = all_reduce_question(64 << 20, "ring", "staged");
  Beside between;
  between.call.bytes = {64 << 20};
  between.stride = 8;
  const double alone = study_of_scene(nodes, inside).row.out_of_place->time_us;
  const Study apart = study_beside(nodes, inside, between);
  EXPECT_NEAR(apart.row.out_of_place->time_us, alone, 1e-6 * alone);
  ASSERT_EQ(apart.row.beside.size(), 1u);

  const auto all = groups_on("dgx-h100", 0, 2);
  const tuning::Question across = all_reduce_question(64 << 20, "ring", "staged");
  const double whole = study_of_scene(all, across).row.out_of_place->time_us;
  const Study together = study_beside(all, across, between);
  EXPECT_GT(together.row.out_of_place->time_us, 1.3 * whole);
  between.start = {2e3 * whole};
  EXPECT_NEAR(study_beside(all, across, between).row.out_of_place->time_us, whole, 1e-6 * whole);
}

TEST(Beside, ASlowRankIsSlowInAllThatItTakesPartIn) {
  const auto nodes = groups_on("dgx-h100", 8, 2);
  ASSERT_TRUE(nodes) << nodes.error().message;
  Beside between;
  between.call.bytes = {64 << 20};
  between.stride = 8;
  InterpretOptions slow;
  slow.perturbation.slow_ranks = {{3, 3.0}};
  const auto healthy = study(*nodes, all_reduce_question(1 << 20, "ring", "staged"), {}, 1, {&between, 1});
  const auto hurt = study(*nodes, all_reduce_question(1 << 20, "ring", "staged"), slow, 1, {&between, 1});
  ASSERT_TRUE(healthy && hurt);
  EXPECT_GT(hurt->row.beside[0].slowest.time_us, 2.5 * healthy->row.beside[0].slowest.time_us);
}

/// The same pair of GPUs in two jobs, on either side of a network.
class TwoJobs : public testing::Test {
 protected:
  TwoJobs() {
    auto cluster = topology::build_cluster("dgx-h100", 2);
    resources_ = std::make_unique<topology::Resources>(*std::move(cluster));
    devices_ = {resources_->cluster().device_of_rank(0), resources_->cluster().device_of_rank(8)};
    environment_ = *tuning::environment_of(*resources_, devices_, {});
    tuning::Call call;
    call.bytes = {256 << 20};
    plan_ = *tuning::make_plan(environment_, **schedule::find_algorithm(call.collective, "ring"), schedule::Protocol::staged, call);
  }
  Job job(double start) const { return {&plan_, devices_, &environment_, tuning::Wires::automatic, start}; }

  std::unique_ptr<topology::Resources> resources_;
  std::vector<int> devices_;
  tuning::Environment environment_;
  tuning::Plan plan_;
};

TEST_F(TwoJobs, OnTheSameWiresHalveEachOther) {
  const Job one[] = {job(0)};
  const Job two[] = {job(0), job(0)};
  const auto alone = interpret(one, *resources_);
  const auto both = interpret(two, *resources_);
  ASSERT_TRUE(alone && both);
  ASSERT_EQ(both->job_times.size(), 2u);
  for (const Nanoseconds time : both->job_times) EXPECT_NEAR(time.value / alone->time.value, 2, 0.02);
  EXPECT_EQ(both->rank_done.size(), 4u);
}

TEST_F(TwoJobs, OneAfterTheOtherDoNotMeet) {
  const Job one[] = {job(0)};
  const auto alone = interpret(one, *resources_);
  ASSERT_TRUE(alone);
  const Job later[] = {job(0), job(2 * alone->time.value)};
  const auto both = interpret(later, *resources_);
  ASSERT_TRUE(both);
  EXPECT_NEAR(both->job_times[0].value, alone->time.value, 1e-9 * alone->time.value);
  EXPECT_NEAR(both->job_times[1].value, alone->time.value, 1e-9 * alone->time.value);
  EXPECT_NEAR(both->time.value, 3 * alone->time.value, 1e-9 * alone->time.value);
}

// Two jobs of two ranks each on the cores of one host, on the same two cores: each core does twice the work.
TEST(Groups, OfSeveralJobsOnTheSameCoresTakeTurns) {
  std::string text =
      "devices:\n  - {id: \"core[0-1]\", kind: core}\n  - {id: memory, kind: memory}\nlinks:\n"
      "  - {a: \"core[0-1]\", b: memory, kind: shm, GBps: 1000, source: test}\n";
  auto cluster = topology::read_cluster_text(text, "two cores");
  ASSERT_TRUE(cluster) << cluster.error().message;
  auto scene = make_scene(*std::move(cluster), 2);
  ASSERT_TRUE(scene) << scene.error().message;
  tuning::Call call;
  call.bytes = {4 << 20};
  auto plan = tuning::make_plan(scene->environment, **schedule::find_algorithm(call.collective, "ring"), schedule::Protocol::staged, call);
  ASSERT_TRUE(plan) << plan.error().message;
  const Job job{&*plan, scene->device_of_rank, &scene->environment, tuning::Wires::automatic, 0};
  const Job one[] = {job};
  const Job two[] = {job, job};
  const auto alone = interpret(one, *scene->resources);
  const auto both = interpret(two, *scene->resources);
  ASSERT_TRUE(alone && both);
  EXPECT_GT(both->time.value, 1.6 * alone->time.value);
  EXPECT_LT(both->time.value, 3 * alone->time.value);
}

}  // namespace
}  // namespace peal::sim
