// The most that rings and trees can carry: proved by prices that hold for every ring and every tree, all of which are tried here, and by
// maximum flows.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <tuning/mixture.hpp>
#include <tuning/ring_set.hpp>

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

TEST(MixRings, NoOrderOfUpToSixRanksCouldAddAnything) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::int32_t ranks = 3 + round % 4;
    const Wiring wiring = random_wiring(ranks, random);
    const Mixture mixture = mix_rings(wiring);
    expect_rings(mixture.shapes, ranks);
    ASSERT_TRUE(mixture.is_proved()) << mixture.total << " of " << mixture.bound;
    const std::vector<double> load = load_of(wiring, mixture.shapes, mixture.rates);
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

TEST(FindRings, WholeSharesReachTheMost) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    const Wiring wiring = random_wiring(3 + round % 4, random);
    std::vector<std::int32_t> alone(at(wiring.ranks));
    std::iota(alone.begin(), alone.end(), 0);
    RingSet set = find_rings(wiring, {});
    if (set.rings.empty()) set.rings.push_back(alone);
    expect_rings(set.rings, wiring.ranks);
    EXPECT_LE(set.all_shares() * wiring.ranks, kMostChunks);
    const Mixture mixture = mix_rings(wiring);
    EXPECT_LE(rate_of(wiring, set), mixture.bound * (1 + 1e-6));
    EXPECT_GE(rate_of(wiring, set), 0.99 * mixture.bound) << "round " << round << ", " << set.all_shares() << " shares";
  }
}

/// From `root` to `sink`, where each pair has a wire of its own.
double most_flow(const Wiring& wiring, std::int32_t root, std::int32_t sink) {
  const auto n = wiring.ranks;
  std::vector<double> left(at(n * n), 0);
  for (std::int32_t a = 0; a < n; ++a)
    for (std::int32_t b = 0; b < n; ++b)
      if (a != b) left[at(a * n + b)] = wiring.capacity[wiring.way(a, b)->wires.front()];
  for (double flow = 0;;) {
    std::vector<std::int32_t> came(at(n), -1), reached{root};
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (std::int32_t b = 0; b < n; ++b) {
        if (b == root || came[at(b)] >= 0 || left[at(reached[i] * n + b)] <= 0) continue;
        came[at(b)] = reached[i];
        reached.push_back(b);
      }
    }
    if (came[at(sink)] < 0) return flow;
    double more = left[at(came[at(sink)] * n + sink)];
    for (std::int32_t b = sink; b != root; b = came[at(b)]) more = std::min(more, left[at(came[at(b)] * n + b)]);
    for (std::int32_t b = sink; b != root; b = came[at(b)]) {
      left[at(came[at(b)] * n + b)] -= more;
      left[at(b * n + came[at(b)])] += more;
    }
    flow += more;
  }
}

/// Calls body(parents) for every tree from `root`.
template <class Body>
void each_tree(std::int32_t ranks, std::int32_t root, Body&& body) {
  Shape parents(at(ranks), 0);
  for (;;) {
    parents[at(root)] = -1;
    bool is_tree = true;
    for (std::int32_t rank = 0; rank < ranks && is_tree; ++rank) {
      std::int32_t up = rank, steps = 0;
      while (up != root && steps++ < ranks) up = parents[at(up)];
      is_tree = up == root;
    }
    if (is_tree) body(parents);
    std::int32_t place = 0;
    while (place < ranks && (place == root || ++parents[at(place)] == ranks)) {
      if (place != root) parents[at(place)] = 0;
      ++place;
    }
    if (place == ranks) return;
  }
}

std::vector<std::uint16_t> wires_of_tree(const Wiring& wiring, const Shape& tree) {
  std::vector<std::uint16_t> wires;
  for (std::int32_t rank = 0; rank < wiring.ranks; ++rank) {
    if (tree[at(rank)] < 0) continue;
    const auto& way = wiring.way(tree[at(rank)], rank)->wires;
    wires.insert(wires.end(), way.begin(), way.end());
  }
  return wires;
}

TEST(MixTrees, NoTreeOfUpToFiveRanksCouldAddAnything) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    const std::int32_t ranks = 2 + round % 4, root = static_cast<std::int32_t>(random()) & 1;
    const Wiring wiring = random_wiring(ranks, random);
    const Mixture mixture = mix_trees(wiring, root);
    ASSERT_TRUE(mixture.is_proved()) << mixture.total << " of " << mixture.bound;
    std::vector<double> load(wiring.capacity.size(), 0);
    for (std::size_t t = 0; t < mixture.shapes.size(); ++t)
      for (const std::uint16_t wire : wires_of_tree(wiring, mixture.shapes[t])) load[wire] += mixture.rates[t];
    double worth = 0;
    for (std::size_t w = 0; w < load.size(); ++w) {
      EXPECT_LE(load[w], wiring.capacity[w] * (1 + 1e-9));
      EXPECT_GE(mixture.price[w], 0);
      worth += mixture.price[w] * wiring.capacity[w];
    }
    EXPECT_NEAR(worth, mixture.total, 1e-5 * worth);
    int trees = 0;
    each_tree(ranks, root, [&](const Shape& tree) {
      double cost = 0;
      for (const std::uint16_t wire : wires_of_tree(wiring, tree)) cost += mixture.price[wire];
      EXPECT_GE(cost, 1 - 1e-6);
      ++trees;
    });
    EXPECT_EQ(trees, std::vector<int>({1, 3, 16, 125})[at(ranks - 2)]) << "Cayley";
  }
}

TEST(MixTrees, CarryTheLeastMaximumFlowWhereEachPairHasItsWire) {
  std::mt19937 random(23);
  for (int round = 0; round < 60; ++round) {
    Wiring wiring;
    wiring.ranks = 2 + round % 8;
    for (std::int32_t i = 0; i < wiring.ranks * wiring.ranks; ++i) {
      Wiring::Way& way = wiring.ways.emplace_back();
      if (i % (wiring.ranks + 1) == 0) continue;
      way.wires.push_back(static_cast<std::uint16_t>(wiring.capacity.size()));
      wiring.capacity.push_back(static_cast<double>(1 + random() % 9));
    }
    double least = std::numeric_limits<double>::infinity();
    for (std::int32_t sink = 1; sink < wiring.ranks; ++sink) least = std::min(least, most_flow(wiring, 0, sink));
    const Mixture mixture = mix_trees(wiring, 0);
    EXPECT_NEAR(mixture.total, least, 1e-5 * least);
  }
}

TEST(MixRings, IsNothingWhereARankHasNoWay) {
  std::mt19937 random(3);
  Wiring wiring = random_wiring(4, random);
  wiring.ways[1].wires.clear();
  EXPECT_TRUE(mix_rings(wiring).shapes.empty());
  EXPECT_EQ(mix_rings(wiring).bound, 0);
  EXPECT_TRUE(mix_rings(Wiring{}).shapes.empty());
}

TEST(MixRings, SixteenRanksEndWithAMeshFullOrABound) {
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
  const Mixture mixture = mix_rings(wiring);
  expect_rings(mixture.shapes, 16);
  EXPECT_LE(mixture.total, 15 * 48 * (1 + 1e-9));
  EXPECT_GE(mixture.bound, 15 * 48 * (1 - 1e-6));
  EXPECT_LE(mixture.bound, 15 * 48 * (1 + 1e-6));
}

}  // namespace
}  // namespace peal::tuning
