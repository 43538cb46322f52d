#include <gtest/gtest.h>

#include <random>
#include <sim/solver.hpp>

namespace peal::sim {
namespace {

using Ids = std::vector<std::uint32_t>;

TEST(FairShare, OneConstraintIsSharedEqually) {
  FairShare share;
  const Ids link = {share.add_constraint(12)};
  const auto a = share.add_variable(link);
  const auto b = share.add_variable(link);
  const auto c = share.add_variable(link);
  share.solve();
  EXPECT_DOUBLE_EQ(share.rate(a), 4);
  EXPECT_DOUBLE_EQ(share.rate(b), 4);
  EXPECT_DOUBLE_EQ(share.rate(c), 4);
}

TEST(FairShare, WeightsAndBoundsAreKept) {
  FairShare share;
  const Ids link = {share.add_constraint(12)};
  const auto bounded = share.add_variable(link, 1);
  const auto light = share.add_variable(link, FairShare::kUnbounded, 1);
  const auto heavy = share.add_variable(link, FairShare::kUnbounded, 3);
  share.solve();
  EXPECT_DOUBLE_EQ(share.rate(bounded), 1);
  EXPECT_DOUBLE_EQ(share.rate(light), 11.0 / 4);
  EXPECT_DOUBLE_EQ(share.rate(heavy), 33.0 / 4);
}

// A long flow over k links of capacity 1, and one short flow on each: every flow gets one half.
TEST(FairShare, ParkingLotGivesHalfToEverybody) {
  FairShare share;
  Ids links;
  for (int i = 0; i < 7; ++i) links.push_back(share.add_constraint(1));
  const auto through = share.add_variable(links);
  Ids shorts;
  for (std::uint32_t link : links) shorts.push_back(share.add_variable(Ids{link}));
  share.solve();
  EXPECT_DOUBLE_EQ(share.rate(through), 0.5);
  for (auto s : shorts) EXPECT_DOUBLE_EQ(share.rate(s), 0.5);
}

// Two flows of three cross the waist; the third has the wide arm for itself.
TEST(FairShare, DumbbellIsLimitedByItsWaist) {
  FairShare share;
  const auto waist = share.add_constraint(2);
  const auto left = share.add_constraint(10);
  const auto right = share.add_constraint(10);
  const auto a = share.add_variable(Ids{left, waist, right});
  const auto b = share.add_variable(Ids{left, waist, right});
  const auto local = share.add_variable(Ids{left});
  share.solve();
  EXPECT_DOUBLE_EQ(share.rate(a), 1);
  EXPECT_DOUBLE_EQ(share.rate(b), 1);
  EXPECT_DOUBLE_EQ(share.rate(local), 8);
}

// n leaves behind one switch, everybody to leaf 0: its way in is shared by n - 1.
TEST(FairShare, StarIsLimitedByTheBusyLeaf) {
  FairShare share;
  const int n = 9;
  Ids out, in, flows;
  for (int i = 0; i < n; ++i) {
    out.push_back(share.add_constraint(4));
    in.push_back(share.add_constraint(4));
  }
  for (std::size_t i = 1; i < n; ++i) flows.push_back(share.add_variable(Ids{out[i], in[0]}));
  const auto aside = share.add_variable(Ids{out[3], in[5]});
  share.solve();
  for (auto f : flows) EXPECT_DOUBLE_EQ(share.rate(f), 0.5);
  EXPECT_DOUBLE_EQ(share.rate(aside), 3.5);
}

TEST(FairShare, OnlyTheTouchedComponentIsSolvedAgain) {
  FairShare share;
  const Ids one = {share.add_constraint(1)};
  const Ids two = {share.add_constraint(1)};
  const auto a = share.add_variable(one);
  const auto b = share.add_variable(two);
  share.solve();
  const auto c = share.add_variable(two);
  share.solve();
  EXPECT_EQ(std::vector<std::uint32_t>(share.touched().begin(), share.touched().end()), (Ids{b, c}));
  EXPECT_DOUBLE_EQ(share.rate(a), 1);
  EXPECT_DOUBLE_EQ(share.rate(b), 0.5);
  share.remove_variable(c);
  share.solve();
  EXPECT_DOUBLE_EQ(share.rate(b), 1);
  share.set_capacity(one[0], 5);
  share.solve();
  EXPECT_DOUBLE_EQ(share.rate(a), 5);
}

TEST(FairShare, NothingLimitsAVariableWithoutConstraintsAndBound) {
  FairShare share;
  const auto free = share.add_variable({});
  const auto bounded = share.add_variable({}, 3);
  share.solve();
  EXPECT_EQ(share.rate(free), FairShare::kUnbounded);
  EXPECT_DOUBLE_EQ(share.rate(bounded), 3);
}

// Max-min fairness: nothing is over full, and every variable is at its bound or crosses a full constraint in which nobody has more (by
// weight).
TEST(FairShare, RandomNetworksAreMaxMinFairAfterEveryChange) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    FairShare share;
    std::vector<double> capacity;
    const std::size_t constraints = 1 + random() % 12;
    for (std::size_t i = 0; i < constraints; ++i) {
      capacity.push_back(1 + static_cast<double>(random() % 100));
      share.add_constraint(capacity.back());
    }
    struct Known {
      Ids uses;
      double bound, weight;
    };
    std::vector<std::pair<std::uint32_t, Known>> known;
    for (int change = 0; change < 40; ++change) {
      if (!known.empty() && random() % 3 == 0) {
        const std::size_t i = random() % known.size();
        share.remove_variable(known[i].first);
        known.erase(known.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        Known k{{},
                random() % 4 == 0 ? 1 + static_cast<double>(random() % 20) : FairShare::kUnbounded,
                1.0 + static_cast<double>(random() % 3)};
        for (std::uint32_t c = 0; c < constraints; ++c)
          if (random() % 3 == 0) k.uses.push_back(c);
        if (k.uses.empty()) k.uses.push_back(static_cast<std::uint32_t>(random() % constraints));
        const auto id = share.add_variable(k.uses, k.bound, k.weight);
        known.emplace_back(id, k);
      }
      share.solve();
      std::vector<double> used(constraints, 0), highest(constraints, 0);
      for (const auto& [id, k] : known)
        for (auto c : k.uses) {
          used[c] += share.rate(id);
          highest[c] = std::max(highest[c], share.rate(id) / k.weight);
        }
      for (std::size_t c = 0; c < constraints; ++c) ASSERT_LE(used[c], capacity[c] * (1 + 1e-9));
      for (const auto& [id, k] : known) {
        bool is_held = share.rate(id) >= k.bound * (1 - 1e-9);
        for (auto c : k.uses) is_held |= used[c] >= capacity[c] * (1 - 1e-9) && share.rate(id) / k.weight >= highest[c] * (1 - 1e-9);
        ASSERT_TRUE(is_held) << "round " << round << ", change " << change << ", variable " << id;
      }
    }
  }
}

// Networks of cables that many cross: what is kept, and what is solved anew, must together be what a solver comes to that sees the whole
// for the first time.
TEST(FairShare, SolvingAFewAnewIsSolvingAllAnew) {
  std::mt19937 random(11);
  std::size_t touched = 0, in_use = 0;
  for (int round = 0; round < 6; ++round) {
    const std::size_t constraints = round < 3 ? 60 : 400;
    std::vector<double> capacity;
    FairShare share;
    for (std::size_t i = 0; i < constraints; ++i) {
      capacity.push_back(random() % 3 == 0 ? 20 : 10 + static_cast<double>(random() % 1000) / 100);
      share.add_constraint(capacity.back());
    }
    struct Known {
      std::uint32_t id;
      Ids uses;
      std::vector<double> counts;
      double bound, weight;
    };
    std::vector<Known> known;
    for (int step = 0; step < 100; ++step) {
      for (std::size_t changes = step == 0 ? 200 : 1 + random() % 2; changes > 0; --changes) {
        if (step > 0 && random() % 2 == 0) {
          const std::size_t i = random() % known.size();
          share.remove_variable(known[i].id);
          known.erase(known.begin() + static_cast<std::ptrdiff_t>(i));
          continue;
        }
        Known k{0, {}, {}, random() % 8 == 0 ? static_cast<double>(random() % 8) : FairShare::kUnbounded, random() % 4 == 0 ? 0.3 : 1.0};
        for (std::size_t hops = 1 + random() % 6; k.uses.size() < hops;)
          if (const auto c = static_cast<std::uint32_t>(random() % constraints);
              std::find(k.uses.begin(), k.uses.end(), c) == k.uses.end()) {
            k.uses.push_back(c);
            k.counts.push_back(random() % 5 == 0 ? 1.0 / 3 : 1);
          }
        k.id = share.add_variable(k.uses, k.bound, k.weight, k.counts);
        known.push_back(k);
      }
      share.solve();
      touched += round < 3 || step == 0 ? 0 : share.touched().size();
      in_use += round < 3 || step == 0 ? 0 : known.size();
      FairShare whole;
      for (const double c : capacity) whole.add_constraint(c);
      for (const Known& k : known) whole.add_variable(k.uses, k.bound, k.weight, k.counts);
      whole.solve();
      for (std::uint32_t i = 0; i < known.size(); ++i)
        ASSERT_NEAR(share.rate(known[i].id), whole.rate(i), 1e-11 * whole.rate(i)) << "round " << round << ", step " << step;
    }
  }
  EXPECT_LT(touched, in_use / 4);
}

}  // namespace
}  // namespace peal::sim
