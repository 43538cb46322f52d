// What a fabric costs: rates of flows that share its cables, and collectives over it.
#include <gtest/gtest.h>

#include <sim/simulate.hpp>
#include <topology/machine.hpp>

#include "half_to_half.hpp"

namespace peal::sim {
namespace {

topology::Cluster dgx(int nodes, const char* fabric) {
  auto cluster = topology::build_cluster("dgx-h100", nodes, fabric);
  EXPECT_TRUE(cluster) << cluster.error().message;
  return *std::move(cluster);
}

TEST(Fabric, OversubscriptionDividesTheRateBetweenLeaves) {
  for (const double rate : half_to_half(dgx(8, "ideal"))) EXPECT_NEAR(rate, 48, 1e-6);
  for (const double rate : half_to_half(dgx(8, "fat-tree,levels=2,radix=64,adaptive=true"))) EXPECT_NEAR(rate, 48, 1e-6);
  // 48 ports down, 16 up: 6 nodes on a leaf; halves of 6.
  for (const double rate : half_to_half(dgx(12, "fat-tree,levels=2,radix=64,oversubscription=3,adaptive=true")))
    EXPECT_NEAR(rate, 16, 1e-6);
}

TEST(Fabric, HashCollisionsHalveTheRateOfTheirPairs) {
  const std::vector<double> rates = half_to_half(dgx(8, "fat-tree,levels=2,radix=64"));
  EXPECT_LE(*std::min_element(rates.begin(), rates.end()), 24 + 1e-6);
  EXPECT_NEAR(*std::max_element(rates.begin(), rates.end()), 48, 1e-6);
}

TEST(Fabric, AllToAllOverAnOversubscribedFabricTakesLonger) {
  tuning::Question question;
  question.call.collective = Collective::all_to_all;
  question.call.bytes = {std::uint64_t{64} << 20};
  const auto busbw = [&](const char* fabric) {
    auto scene = make_scene(dgx(14, fabric), 0);
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

}  // namespace
}  // namespace peal::sim
