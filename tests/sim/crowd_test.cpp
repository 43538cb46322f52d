#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sim/crowd.hpp>
#include <vector>

namespace peal::sim {
namespace {

using Ids = std::vector<std::uint32_t>;

// The first has a link of 10 for itself until rates are worked out again; those that come get most of an equal share of what they cross.
TEST(Crowd, WhoComesBetweenTwoSolutionsTakesAShare) {
  Crowd crowd;
  const auto link = crowd.add_constraint(10);
  const auto spare = crowd.add_constraint(8);
  const auto first = crowd.add_variable(Ids{link}, FairShare::kUnbounded);
  EXPECT_DOUBLE_EQ(crowd.rate(first), 10);
  const auto second = crowd.add_variable(Ids{link, spare}, FairShare::kUnbounded);
  EXPECT_DOUBLE_EQ(crowd.rate(second), 3.5);
  const auto third = crowd.add_variable(Ids{spare}, FairShare::kUnbounded);
  EXPECT_DOUBLE_EQ(crowd.rate(third), 4.5);
  const auto bound = crowd.add_variable(Ids{link}, 1);
  EXPECT_DOUBLE_EQ(crowd.rate(bound), 1);
  EXPECT_DOUBLE_EQ(crowd.rate(first), 10);
  crowd.remove_variable(third, 7);
  crowd.solve();
  EXPECT_DOUBLE_EQ(crowd.rate(first), 4.5);
  EXPECT_DOUBLE_EQ(crowd.rate(second), 4.5);
  EXPECT_DOUBLE_EQ(crowd.rate(bound), 1);
  EXPECT_DOUBLE_EQ(crowd.carried(spare), 7);
  EXPECT_DOUBLE_EQ(crowd.carried(link), 0);
  // What is alone where it is leaves the rest to who comes.
  EXPECT_DOUBLE_EQ(crowd.rate(crowd.add_variable(Ids{spare}, FairShare::kUnbounded)), 3.5);
}

// Many come and go, each over some of 60 constraints; begun by a FairShare, gone on with by a crowd: whenever rates are worked out they are
// those of a FairShare that knows all of them from the start.
TEST(Crowd, RatesAreThoseOfFairShare) {
  std::mt19937_64 random(7);
  constexpr std::size_t kConstraints = 60;
  struct Known {
    std::uint32_t id;
    Ids uses;
    std::vector<double> counts;
    double bound;
  };
  std::vector<double> capacity;
  FairShare share;
  for (std::size_t i = 0; i < kConstraints; ++i) {
    capacity.push_back(i % 9 == 0 ? FairShare::kUnbounded : 1 + static_cast<double>(random() % 50));
    share.add_constraint(capacity.back());
  }
  std::vector<Known> known;
  const auto draw = [&] {
    Known k{0, {}, {}, random() % 8 == 0 ? 1 + static_cast<double>(random() % 8) : FairShare::kUnbounded};
    for (std::size_t hops = 1 + random() % 17; k.uses.size() < hops;) {
      const auto c = static_cast<std::uint32_t>(random() % kConstraints);
      if (c % 9 == 0 && k.uses.empty()) continue;  // something must limit it
      if (std::find(k.uses.begin(), k.uses.end(), c) != k.uses.end()) continue;
      k.uses.push_back(c);
      k.counts.push_back(random() % 5 == 0 ? 2 : 1);
    }
    return k;
  };
  for (int i = 0; i < 80; ++i) {
    Known k = draw();
    k.id = share.add_variable(k.uses, k.bound, 1, k.counts);
    known.push_back(k);
  }
  share.solve();
  const auto leave = [&](auto& from) {
    const std::size_t i = random() % known.size();
    from.remove_variable(known[i].id, 1);
    known.erase(known.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (int i = 0; i < 20; ++i) leave(share);
  Crowd crowd(share);
  ASSERT_EQ(crowd.variables_in_use(), known.size());
  for (const Known& k : known) ASSERT_EQ(crowd.rate(k.id), share.rate(k.id));
  for (int step = 0; step < 50; ++step) {
    for (std::size_t changes = 1 + random() % 20; changes > 0; --changes) {
      if (known.size() > 1 && random() % 2 == 0) {
        leave(crowd);
        continue;
      }
      Known k = draw();
      k.id = crowd.add_variable(k.uses, k.bound, k.counts);
      EXPECT_GT(crowd.rate(k.id), 0);
      known.push_back(k);
    }
    crowd.solve();
    FairShare whole;
    for (const double c : capacity) whole.add_constraint(c);
    for (const Known& k : known) whole.add_variable(k.uses, k.bound, 1, k.counts);
    whole.solve();
    for (std::uint32_t i = 0; i < known.size(); ++i)
      ASSERT_NEAR(crowd.rate(known[i].id), whole.rate(i), 1e-11 * whole.rate(i)) << "step " << step;
    std::size_t in_use = 0;
    crowd.each_variable([&](std::uint32_t) { ++in_use; });
    EXPECT_EQ(in_use, known.size());
  }
}

}  // namespace
}  // namespace peal::sim
