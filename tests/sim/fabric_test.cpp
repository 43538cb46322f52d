// What a fabric costs: rates of flows that share its cables, and collectives over it.
#include <gtest/gtest.h>

#include <sim/simulate.hpp>
#include <topology/machine.hpp>

#include "half_to_half.hpp"

namespace peal::sim {
namespace {

topology::Cluster dgx_cluster(int nodes, const char* fabric) {
  auto cluster = topology::build_cluster("dgx-h100", nodes, fabric);
  EXPECT_TRUE(cluster) << cluster.error().message;
  return *std::move(cluster);
}

TEST(Fabric, OversubscriptionDividesTheRateBetweenLeaves) {
  for (const double rate : half_to_half(dgx_cluster(8, "ideal"))) EXPECT_NEAR(rate, 48, 1e-6);
  for (const double rate : half_to_half(dgx_cluster(8, "fat-tree,levels=2,radix=64,adaptive=true"))) EXPECT_NEAR(rate, 48, 1e-6);
  // 48 ports down, 16 up: 6 nodes on a leaf; halves of 6.
  for (const double rate : half_to_half(dgx_cluster(12, "fat-tree,levels=2,radix=64,oversubscription=3,adaptive=true")))
    EXPECT_NEAR(rate, 16, 1e-6);
}

TEST(Fabric, HashCollisionsHalveTheRateOfTheirPairs) {
  const std::vector<double> rates = half_to_half(dgx_cluster(8, "fat-tree,levels=2,radix=64"));
  EXPECT_LE(*std::min_element(rates.begin(), rates.end()), 24 + 1e-6);
  EXPECT_NEAR(*std::max_element(rates.begin(), rates.end()), 48, 1e-6);
}

TEST(Fabric, AllToAllOverAnOversubscribedFabricTakesLonger) {
  tuning::Question question;
  question.call.collective = Collective::all_to_all;
  question.call.bytes = {std::uint64_t{64} << 20};
  const auto busbw = [&](const char* fabric) {
    auto scene = make_scene(dgx_cluster(14, fabric), 0);
    EXPECT_TRUE(scene) << scene.error().message;
    auto row = simulate(*scene, question);
    EXPECT_TRUE(row) << row.error().message;
    return row->out_of_place->busbw;
  };
  const double ideal = busbw("ideal");
  const double full = busbw("fat-tree,levels=2,radix=64,adaptive=true");
  EXPECT_NEAR(full, ideal, 0.02 * ideal);
  // Seven nodes on a leaf with four cables up; of 111 messages of a GPU 56 leave its leaf. All 56 GPUs share 4 x 48 GB/s.
  const double bound = 4 * 48.0 / 56 * 111 / 56;
  const double tapered = busbw("fat-tree,levels=2,radix=64,oversubscription=15,adaptive=true");
  ASSERT_GT(ideal, 1.5 * bound);
  EXPECT_LE(tapered, 1.001 * bound);
  EXPECT_GT(tapered, 0.7 * bound);
}

TEST(Fabric, SeedsOfTheHashGiveTheTimesOfTheFabricsThatNameThem) {
  tuning::Question question;
  question.call.collective = Collective::all_to_all;
  question.call.bytes = {std::uint64_t{4} << 20};
  const auto scene_of = [](const char* fabric) {
    auto scene = make_scene(dgx_cluster(8, fabric), 0);
    EXPECT_TRUE(scene) << scene.error().message;
    return *std::move(scene);
  };
  int told = 0;
  const auto study = study_hashes(scene_of("fat-tree,levels=2,radix=64,seed=7"), question, {}, {5, [&](int done, double) { told = done; }});
  ASSERT_TRUE(study) << study.error().message;
  EXPECT_EQ(told, 5);
  const OfHashes& hashes = *study->row.hashes;
  EXPECT_EQ(hashes.first_seed, 7U);
  ASSERT_EQ(hashes.out_of_place.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_EQ(hashes.out_of_place[i],
              simulate(scene_of(fmt::format("fat-tree,levels=2,radix=64,seed={}", 7 + i).c_str()), question)->out_of_place->time_us);
  const Timing& timing = *study->row.out_of_place;
  const auto [least, most] = std::minmax_element(hashes.out_of_place.begin(), hashes.out_of_place.end());
  EXPECT_LT(*least, *most);
  EXPECT_EQ(timing.spread->runs, 5);
  EXPECT_EQ(timing.spread->least, *least);
  EXPECT_EQ(timing.spread->p10, *least);
  EXPECT_EQ(timing.spread->most, *most);
  for (const char* fabric : {"ideal", "fat-tree,levels=2,radix=64,adaptive=true"}) {
    const auto none = study_hashes(scene_of(fabric), question, {}, {5});
    ASSERT_FALSE(none) << fabric;
    EXPECT_NE(none.error().message.find("--fabric fat-tree"), std::string::npos) << none.error().message;
  }
}

}  // namespace
}  // namespace peal::sim
