#include <gtest/gtest.h>

#include <deque>
#include <tuning/core_turns.hpp>

namespace peal::tuning {
namespace {

Environment on_cores(std::vector<std::int32_t> core_of) {
  Environment environment;
  environment.ranks = static_cast<int>(core_of.size());
  environment.core_of = std::move(core_of);
  environment.core_switch = {2000};
  return environment;
}

TEST(CoreTurns, ACoreGoesRoundItsRanksInOrder) {
  const CoreTurns turns(on_cores({0, 1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(turns.sharing(0), 4);
  EXPECT_EQ(turns.sharing(1), 3);
  EXPECT_EQ(turns.steps(0, 2), 1);
  EXPECT_EQ(turns.steps(2, 0), 3);
  EXPECT_EQ(turns.steps(4, 4), 0);
  EXPECT_EQ(turns.steps(5, 1), 1);
  EXPECT_EQ(turns.steps(-1, 6), 3) << "a core begins with the first of its ranks";
  EXPECT_EQ(turns.cost(2, 0), 6000);
}

TEST(CoreTurns, TheRankThatComesRoundFirstIsNext) {
  const CoreTurns turns(on_cores({0, 0, 0, 0}));
  const std::deque<int> line = {3, 1, 2};
  const auto self = [](int rank) { return rank; };
  EXPECT_EQ(*turns.next(line, 0, self), 1);
  EXPECT_EQ(*turns.next(line, 1, self), 1) << "who has the core keeps it";
  EXPECT_EQ(*turns.next(line, 2, self), 2);
  const std::deque<int> strands = {10, 11, 12};
  EXPECT_EQ(*turns.next(strands, 0, [](int strand) { return strand == 10 ? 3 : 2; }), 11) << "of one rank, the strand that came first";
}

TEST(CoreTurns, RanksWithCoresOfTheirOwnAndGpusNeverWaitForATurn) {
  EXPECT_EQ(CoreTurns(on_cores({0, 1, 2})).cost(-1, 2), 0);
  EXPECT_EQ(CoreTurns(on_cores({0, 1, 2})).sharing(2), 1);
  Environment gpus = on_cores({});
  gpus.is_host = false;
  gpus.ranks = 8;
  EXPECT_EQ(CoreTurns(gpus).cost(0, 5), 0);
  EXPECT_EQ(CoreTurns(gpus).sharing(5), 1);
}

}  // namespace
}  // namespace peal::tuning
