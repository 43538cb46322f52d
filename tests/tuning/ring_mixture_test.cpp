// The most that rings can carry: proved by prices that hold for every order of the ranks, all of which are tried here.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuning/ring_mixture.hpp>

namespace peal::tuning {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

/// Ranks joined by wires of their own and by wires that several pairs share; every way exists.
Wiring random_wiring(std::int32_t ranks, std::mt19937& random) {
  Wiring wiring;
  wiring.ranks = ranks;
  const int shared = static_cast<int>(random() % 3);
  for (int i = 0; i < shared; ++i) wiring.capacity.push_back(static_cast<double>(1 + random() % 4) * 12);
  for (std::int32_t a = 0; a < ranks; ++a) {
    for (std::int32_t b = 0; b < ranks; ++b) {
      Wiring::Way& way = wiring.ways.emplace_back();
      if (a == b) continue;
      if (shared == 0 || random() % 4 != 0) {
        way.wires.push_back(static_cast<std::uint16_t>(wiring.capacity.size()));
        wiring.capacity.push_back(static_cast<double>(1 + random() % 6) * 10);
      }
      if (way.wires.empty() || (shared > 0 && random() % 5 == 0))
        way.wires.push_back(static_cast<std::uint16_t>(random() % static_cast<unsigned>(shared)));
    }
  }
  return wiring;
}

std::vector<double> load_of(const Wiring& wiring, const Rings& rings, const std::vector<double>& rates) {
  std::vector<double> load(wiring.capacity.size(), 0);
  for (std::size_t i = 0; i < rings.size(); ++i)
    for (std::size_t p = 0; p < rings[i].size(); ++p)
      for (const std::uint16_t wire : wiring.way(rings[i][p], rings[i][(p + 1) % rings[i].size()])->wires) load[wire] += rates[i];
  return load;
}

double price_of(const Wiring& wiring, const std::vector<std::int32_t>& ring, const std::vector<double>& price) {
  double sum = 0;
  for (std::size_t p = 0; p < ring.size(); ++p)
    for (const std::uint16_t wire : wiring.way(ring[p], ring[(p + 1) % ring.size()])->wires) sum += price[wire];
  return sum;
}

void expect_rings(const Rings& rings, std::int32_t ranks) {
  for (std::vector<std::int32_t> ring : rings) {
    ASSERT_EQ(ring.size(), at(ranks));
    std::sort(ring.begin(), ring.end());
    for (std::int32_t r = 0; r < ranks; ++r) EXPECT_EQ(ring[at(r)], r);
  }
}

TEST(RingMixture, NoOrderOfUpToSixRanksCouldAddAnything) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::int32_t ranks = 3 + round % 4;
    const Wiring wiring = random_wiring(ranks, random);
    const RingMixture mixture = mix_rings(wiring);
    expect_rings(mixture.rings, ranks);
    ASSERT_TRUE(mixture.is_proved()) << mixture.total << " of " << mixture.bound;
    const std::vector<double> load = load_of(wiring, mixture.rings, mixture.rates);
    for (std::size_t w = 0; w < load.size(); ++w) EXPECT_LE(load[w], wiring.capacity[w] * (1 + 1e-9));
    EXPECT_NEAR(std::accumulate(mixture.rates.begin(), mixture.rates.end(), 0.0), mixture.total, 1e-9);
    // Prices under which every order costs 1 or more prove that no mixture carries more than what the wires are worth.
    std::vector<std::int32_t> order(at(ranks));
    std::iota(order.begin(), order.end(), 0);
    do {
      EXPECT_GE(price_of(wiring, order, mixture.price), 1 - 1e-6);
    } while (std::next_permutation(order.begin() + 1, order.end()));
    double worth = 0;
    for (std::size_t w = 0; w < mixture.price.size(); ++w) {
      EXPECT_GE(mixture.price[w], 0);
      worth += mixture.price[w] * wiring.capacity[w];
    }
    EXPECT_NEAR(worth, mixture.total, 1e-5 * worth);
  }
}

TEST(RingMixture, EqualRingsComeNearTheMost) {
  std::mt19937 random(11);
  double worst = 1;
  for (int round = 0; round < 60; ++round) {
    const Wiring wiring = random_wiring(3 + round % 4, random);
    const RingMixture mixture = mix_rings(wiring);
    std::vector<std::int32_t> alone(at(wiring.ranks));
    std::iota(alone.begin(), alone.end(), 0);
    const Rings rings = find_rings(wiring, {});
    const double rate = rings.empty() ? 1.1 * rate_of(wiring, {alone}) : rate_of(wiring, rings);
    EXPECT_LE(rings.empty() ? 0 : rate, mixture.bound * (1 + 1e-6));
    worst = std::min(worst, rate / mixture.bound);
  }
  EXPECT_GE(worst, 0.9);
}

TEST(RingMixture, IsNothingWhereARankHasNoWay) {
  std::mt19937 random(3);
  Wiring wiring = random_wiring(4, random);
  wiring.ways[1].wires.clear();
  EXPECT_TRUE(mix_rings(wiring).rings.empty());
  EXPECT_EQ(mix_rings(wiring).bound, 0);
  EXPECT_TRUE(mix_rings(Wiring{}).rings.empty());
}

TEST(RingMixture, SixteenRanksEndWithAMeshFullOrABound) {
  Wiring wiring;
  wiring.ranks = 16;
  for (std::int32_t a = 0; a < 16; ++a) {
    for (std::int32_t b = 0; b < 16; ++b) {
      Wiring::Way& way = wiring.ways.emplace_back();
      if (a == b) continue;
      way.wires.push_back(static_cast<std::uint16_t>(wiring.capacity.size()));
      wiring.capacity.push_back(48);
    }
  }
  const RingMixture mixture = mix_rings(wiring);
  expect_rings(mixture.rings, 16);
  EXPECT_LE(mixture.total, 15 * 48 * (1 + 1e-9));
  EXPECT_GE(mixture.bound, 15 * 48 * (1 - 1e-6));
}

}  // namespace
}  // namespace peal::tuning
