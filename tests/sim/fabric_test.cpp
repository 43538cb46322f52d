// What a fabric costs: rates of flows that share its cables, and collectives over it.
#include <gtest/gtest.h>

#include <map>
#include <sim/simulate.hpp>
#include <sim/solver.hpp>
#include <topology/machine.hpp>

namespace peal::sim {
namespace {

topology::Cluster dgx(int nodes, const char* fabric) {
  auto cluster = topology::build_cluster("dgx-h100", nodes, fabric);
  EXPECT_TRUE(cluster) << cluster.error().message;
  return *std::move(cluster);
}

/// Max-min rates, GB/s, when every GPU of the first half sends to its counterpart in the second.
std::vector<double> half_to_half(const topology::Cluster& cluster) {
  const topology::Resources resources{topology::Cluster(cluster)};
  FairShare solver;
  std::map<topology::ResourceId, FairShare::Constraint> of;
  std::vector<FairShare::Variable> flows;
  const int half = cluster.ranks() / 2;
  for (int r = 0; r < half; ++r) {
    const auto route = resources.route(cluster.device_of_rank(r), cluster.device_of_rank(r + half));
    std::vector<FairShare::Constraint> crossed;
    for (const auto id : route.resources) {
      const auto [it, is_new] = of.try_emplace(id, 0);
      if (is_new) it->second = solver.add_constraint(resources.capacity(id).gigabytes());
      crossed.push_back(it->second);
    }
    flows.push_back(solver.add_variable(crossed));
  }
  solver.solve();
  std::vector<double> rates;
  for (const auto flow : flows) rates.push_back(solver.rate(flow));
  return rates;
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
