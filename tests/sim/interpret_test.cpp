#include <gtest/gtest.h>

#include <sim/simulate.hpp>
#include <topology/machine.hpp>

#include "sizes.hpp"

namespace peal::sim {
namespace {

Result<Scene> dgx(const char* name, int nodes, int ranks = 0) {
  PEAL_ASSIGN(topology::Cluster cluster, topology::build_cluster(name, nodes));
  return make_scene(std::move(cluster), ranks);
}

tuning::Question all_reduce(std::uint64_t bytes, const char* algorithm = "", const char* protocol = "") {
  tuning::Question q;
  q.call.bytes = {bytes};
  q.algorithm = algorithm;
  q.protocol = protocol;
  return q;
}

TEST(Interpret, DgxH100RingReachesItsEffectiveLinkRate) {
  auto scene = dgx("dgx-h100", 1);
  ASSERT_TRUE(scene) << scene.error().message;
  auto row = simulate(*scene, all_reduce(kGibi, "ring", "staged"));
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_GT(row->out_of_place->busbw, 355);
  EXPECT_LT(row->out_of_place->busbw, 371);
}

TEST(Interpret, DgxA100RingReachesItsEffectiveLinkRate) {
  auto scene = dgx("dgx-a100", 1);
  ASSERT_TRUE(scene) << scene.error().message;
  auto row = simulate(*scene, all_reduce(kGibi, "ring", "staged"));
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_GT(row->out_of_place->busbw, 225);
  EXPECT_LT(row->out_of_place->busbw, 240.01);
}

TEST(Interpret, SmallMessagesOnADgxTakeTensOfMicroseconds) {
  auto scene = dgx("dgx-h100", 1);
  ASSERT_TRUE(scene) << scene.error().message;
  auto row = simulate(*scene, all_reduce(8, "ring", "line"));
  ASSERT_TRUE(row) << row.error().message;
  // NCCL's own model: 6.6 us and 14 hops of 0.6 us.
  EXPECT_NEAR(row->out_of_place->time_us, 6.6 + 14 * 0.6, 0.2 * (6.6 + 14 * 0.6));
}

TEST(Interpret, SeveralNodesGoThroughTheirNics) {
  auto scene = dgx("dgx-h100", 4);
  ASSERT_TRUE(scene) << scene.error().message;
  EXPECT_EQ(scene->environment.ranks, 32);
  EXPECT_EQ(scene->environment.nodes, 4);
  auto row = simulate(*scene, all_reduce(kGibi, "ring", "staged"));
  ASSERT_TRUE(row) << row.error().message;
  // One ring crosses nodes through one NIC in each direction: no more than its usable rate.
  EXPECT_LT(row->out_of_place->busbw, 50);
  EXPECT_GT(row->out_of_place->busbw, 35);
  // The NIC, or the PCIe wire of the same rate before it, is busy all the time.
  EXPECT_GT(row->utilisation, 0.9) << row->bottleneck;
}

TEST(Interpret, TheSameInputGivesTheSameOutcome) {
  auto scene = dgx("dgx-a100", 2);
  ASSERT_TRUE(scene) << scene.error().message;
  auto a = simulate(*scene, all_reduce(1 << 20));
  auto b = simulate(*scene, all_reduce(1 << 20));
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_TRUE(b) << b.error().message;
  EXPECT_EQ(a->out_of_place->time_us, b->out_of_place->time_us);
  EXPECT_EQ(a->algorithm, b->algorithm);
}

TEST(Interpret, OneRankTakesOnlyItsCopy) {
  auto scene = dgx("dgx-h100", 1, 1);
  ASSERT_TRUE(scene) << scene.error().message;
  auto row = simulate(*scene, all_reduce(1 << 20));
  ASSERT_TRUE(row) << row.error().message;
  EXPECT_LT(row->out_of_place->time_us, 100);
  EXPECT_EQ(row->out_of_place->busbw, 0);
}

TEST(Interpret, MoreRanksThanGpusAreRefused) {
  auto scene = dgx("dgx-h100", 1, 9);
  ASSERT_FALSE(scene);
  EXPECT_NE(scene.error().message.find("8 GPUs"), std::string::npos) << scene.error().message;
}

TEST(Interpret, AForcedChoiceThatIsNotPossibleIsAnError) {
  auto scene = dgx("dgx-h100", 1);
  ASSERT_TRUE(scene) << scene.error().message;
  EXPECT_FALSE(simulate(*scene, all_reduce(1024, "ring", "fused")));
  EXPECT_FALSE(simulate(*scene, all_reduce(1024, "rign")));
}

TEST(Interpret, ATraceHoldsEveryOp) {
  auto scene = dgx("dgx-h100", 1);
  ASSERT_TRUE(scene) << scene.error().message;
  Trace trace;
  ASSERT_TRUE(simulate(*scene, all_reduce(1 << 20, "ring", "staged"), &trace));
  EXPECT_GT(trace.events().size(), 8u * 7u);
}

}  // namespace
}  // namespace peal::sim
