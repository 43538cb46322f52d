// Which wires the ways of ranks take, and the rings that are packed into them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <topology/machine.hpp>
#include <tuning/environment.hpp>
#include <tuning/placement.hpp>
#include <tuning/ring_set.hpp>
#include <tuning/select.hpp>
#include <tuning/wiring.hpp>

namespace peal::tuning {
namespace {

Environment environment_on(const char* machine, int nodes, int ranks) {
  auto cluster = topology::build_cluster(machine, nodes);
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  const std::vector<int> devices = spread(*cluster, ranks);
  const topology::Resources resources(std::move(*cluster));
  auto environment = environment_of(resources, devices, {});
  EXPECT_TRUE(environment) << (environment ? "" : environment.error().message);
  return std::move(*environment);
}

/// GPUs of which every two have a wire.
Wiring all_to_all(std::int32_t ranks, double width) {
  Wiring wiring;
  wiring.ranks = ranks;
  for (std::int32_t a = 0; a < ranks; ++a) {
    for (std::int32_t b = 0; b < ranks; ++b) {
      Wiring::Way& way = wiring.ways.emplace_back();
      if (a == b) continue;
      way.wires.push_back(static_cast<std::uint16_t>(wiring.capacity.size()));
      wiring.capacity.push_back(width);
    }
  }
  return wiring;
}

void expect_round_trips(const Rings& rings, std::int32_t ranks) {
  for (std::vector<std::int32_t> ring : rings) {
    ASSERT_EQ(ring.size(), static_cast<std::size_t>(ranks));
    std::sort(ring.begin(), ring.end());
    for (std::int32_t r = 0; r < ranks; ++r) EXPECT_EQ(ring[static_cast<std::size_t>(r)], r);
  }
}

TEST(FindRings, TakesEveryWireOfAnAllToAllMesh) {
  for (const std::int32_t n : {3, 4, 5, 6, 7, 8}) {
    const Wiring wiring = all_to_all(n, 48);
    const RingSet set = find_rings(wiring, {});
    const Rings& rings = set.rings;
    expect_round_trips(rings, n);
    EXPECT_TRUE(set.shares.empty());
    // No rings that share no edge cover the mesh of 4 or of 6 (Bermond and Faber, 1976): there twice as many take half a wire each.
    EXPECT_EQ(rings.size(), static_cast<std::size_t>(n == 4 || n == 6 ? 2 * (n - 1) : n - 1)) << n;
    EXPECT_DOUBLE_EQ(rate_of(wiring, set), 48.0 * (n - 1)) << n;
  }
}

TEST(FindRings, TakesAllSixWiresOfACubeMesh) {
  const Environment environment = environment_on("dgx-1-v100", 1, 8);
  const Rings& rings = environment.placement.rings;
  expect_round_trips(rings, 8);
  EXPECT_EQ(rings.size(), 6u);
  EXPECT_TRUE(environment.placement.shares.empty());
  EXPECT_NEAR(rate_of(environment.wiring, {rings, {}}), 6 * 23.95, 1e-6);
  // One ring takes the double edges.
  EXPECT_NEAR(rate_of(environment.wiring, {{environment.placement.ring}, {}}), 2 * 23.95, 1e-6);
}

TEST(FindRings, OneRingTakesAllOfASwitch) {
  for (const char* machine : {"dgx-a100", "dgx-h100"}) {
    const Environment environment = environment_on(machine, 1, 8);
    EXPECT_FALSE(environment.wiring.is_known()) << machine;
    EXPECT_TRUE(environment.placement.rings.empty()) << machine;
  }
}

TEST(FindRings, SubsetsOfAMachineHaveTheirOwn) {
  for (const int ranks : {2, 3, 4, 5, 6, 7}) expect_round_trips(environment_on("dgx-1-v100", 1, ranks).placement.rings, ranks);
  EXPECT_TRUE(environment_on("mi300x-8", 1, 2).placement.rings.empty());
  EXPECT_EQ(environment_on("mi300x-8", 1, 5).placement.rings.size(), 4u);
}

TEST(RailRings, EachLeavesItsGroupsByAnotherRank) {
  schedule::Placement placement;
  placement.group = {0, 0, 0, 0, 1, 1, 1, 1};
  const Rings rings = rail_rings(placement, 1);
  expect_round_trips(rings, 8);
  ASSERT_EQ(rings.size(), 4u);
  std::set<std::int32_t> exits, entries;
  for (const auto& ring : rings) {
    for (std::size_t p = 0; p < 8; ++p) {
      const std::int32_t a = ring[p], b = ring[(p + 1) % 8];
      if (placement.group[static_cast<std::size_t>(a)] == placement.group[static_cast<std::size_t>(b)]) continue;
      exits.insert(a);
      entries.insert(b);
    }
  }
  EXPECT_EQ(exits.size(), 8u);
  EXPECT_EQ(entries.size(), 8u);
  EXPECT_EQ(rail_rings(placement, 2).size(), 2u);
  EXPECT_TRUE(rail_rings(placement, 4).empty());
  placement.group = {0, 0, 0, 1, 1, 1, 1, 1};
  EXPECT_TRUE(rail_rings(placement, 1).empty());
  EXPECT_TRUE(rail_rings({}, 1).empty());
}

TEST(HostRings, ShareNoEdge) {
  for (std::int32_t n = 3; n <= 64; ++n) {
    std::set<std::pair<std::int32_t, std::int32_t>> edges;
    const Rings rings = host_rings({}, n);
    expect_round_trips(rings, n);
    EXPECT_GE(rings.size(), 2u) << n;
    for (const auto& ring : rings)
      for (std::size_t p = 0; p < ring.size(); ++p) edges.insert({ring[p], ring[(p + 1) % ring.size()]});
    EXPECT_EQ(edges.size(), rings.size() * static_cast<std::size_t>(n)) << n;
  }
  EXPECT_EQ(host_rings({}, 2).size(), 2u);
  EXPECT_TRUE(host_rings({}, 65).empty());
}

TEST(Wiring, TravelsWithItsEnvironment) {
  const Environment environment = environment_on("mi250x-8gcd", 1, 8);
  ASSERT_TRUE(environment.wiring.is_known());
  ASSERT_FALSE(environment.placement.shares.empty()) << "rings of one machine with unlike shares";
  const auto back = environment_from_json(to_json(environment));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->wiring, environment.wiring);
  EXPECT_EQ(back->placement, environment.placement);
}

TEST(Select, TakesSeveralRingsWhereTheyHaveWiresOfTheirOwn) {
  for (const char* const machine : {"dgx-1-v100", "mi300x-8"}) {
    const Environment environment = environment_on(machine, 1, 8);
    for (const Collective collective : {Collective::all_reduce, Collective::broadcast, Collective::reduce}) {
      Question question;
      question.call.collective = collective;
      question.call.bytes = {std::uint64_t{1} << 30};
      const auto large = select(environment, question);
      ASSERT_TRUE(large) << large.error().message;
      EXPECT_EQ(large->chosen().algorithm->name, "multi_ring") << name_of(collective) << ", " << machine;
      question.call.bytes = {8};
      const auto small = select(environment, question);
      ASSERT_TRUE(small) << small.error().message;
      EXPECT_NE(small->chosen().algorithm->name, "multi_ring") << name_of(collective) << ", " << machine;
    }
  }
}

// A root that reduces takes in as many parts at once as it has wires: K rings take a K-th of the time of one.
TEST(Select, AReductionBySeveralRingsTakesItsShareOfTheTimeOfOne) {
  for (const char* const machine : {"dgx-1-v100", "mi300x-8"}) {
    const Environment environment = environment_on(machine, 1, 8);
    double time[2] = {0, 0};
    for (const bool several : {false, true}) {
      Question question;
      question.call.collective = Collective::reduce;
      question.call.bytes = {std::uint64_t{1} << 30};
      question.algorithm = several ? "multi_ring" : "ring";
      const auto selection = select(environment, question);
      ASSERT_TRUE(selection) << selection.error().message;
      time[several] = selection->chosen().prediction.time.value;
    }
    const double more = rate_of(environment.wiring, {environment.placement.rings, environment.placement.shares}) /
                        rate_of(environment.wiring, {{environment.placement.ring}, {}});
    EXPECT_NEAR(time[0] / time[1], more, 0.15 * more) << machine;
  }
}

}  // namespace
}  // namespace peal::tuning
