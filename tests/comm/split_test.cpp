// Splitting among more ranks than there are cores: choices are shared from 9 ranks on, and the exchange goes by way of rank 0 from 17.
#include "core_ranks.hpp"

namespace peal::comm {
namespace {

class Split : public ::testing::TestWithParam<int> {};

TEST_P(Split, HalvesInReverseOrderAddUp) {
  const int ranks = GetParam();
  on_cores(ranks, core_options(), [ranks](Core& world) -> Status {
    PEAL_ASSIGN(const auto half, world.split(world.rank() % 2, -world.rank()));
    EXPECT_EQ(half->size(), (ranks + 1 - world.rank() % 2) / 2);
    EXPECT_EQ(half->rank(), half->size() - 1 - world.rank() / 2);
    int expected = 0;
    for (int rank = world.rank() % 2; rank < ranks; rank += 2) expected += rank;
    for (const std::size_t count : {1, 5000}) {
      const std::vector<int> mine(count, world.rank());
      std::vector<int> sum(count);
      PEAL_TRY(half->run({Collective::all_reduce, mine.data(), sum.data(), count, DataType::i32}));
      EXPECT_EQ(sum, std::vector<int>(count, expected));
    }
    return world.run(Call{Collective::barrier});
  });
}

TEST_P(Split, WishesThatCannotBeMetFailOnEveryRankAtOnce) {
  on_cores(GetParam(), core_options(), [](Core& world) -> Status {
    PlanWishes wishes;
    wishes.algorithm = "bruck";  // for other collectives
    PEAL_ASSIGN(const auto group, world.split(0, world.rank(), wishes));
    int value = 1;
    EXPECT_FALSE(group->run({Collective::all_reduce, &value, &value, 1, DataType::i32}));
    return world.run(Call{Collective::barrier});
  });
}

TEST_P(Split, GroupsOfTheSameRanksInTheSameOrderShareTheirPlans) {
  on_cores(GetParam(), core_options(), [](Core& world) -> Status {
    PlanWishes exact;
    exact.deterministic = true;
    PEAL_ASSIGN(const auto one, world.split(0, world.rank()));
    PEAL_ASSIGN(const auto two, one->split(0, 0));
    PEAL_ASSIGN(const auto turned, world.split(0, -world.rank()));
    PEAL_ASSIGN(const auto other, world.split(0, world.rank(), exact));
    std::vector<const executor::Plan*> plans;
    for (Core* core : {&world, one.get(), two.get(), turned.get(), other.get()}) {
      // Several shapes of one plan, back and forth: what one group has bound is not changed by another.
      for (const std::size_t count : {5, 6, 5, 8}) {
        const std::vector<int> mine(count, world.rank());
        std::vector<int> sum(count);
        PEAL_TRY(core->run({Collective::all_reduce, mine.data(), sum.data(), count, DataType::i32}));
        EXPECT_EQ(sum, std::vector<int>(count, world.size() * (world.size() - 1) / 2));
      }
      plans.push_back(core->last_plan());
    }
    EXPECT_EQ(plans[1], plans[0]);
    EXPECT_EQ(plans[2], plans[0]);
    EXPECT_EQ(plans[3] == plans[0], world.size() == 1);
    EXPECT_NE(plans[4], plans[0]);
    return world.run(Call{Collective::barrier});
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Split, ::testing::Values(1, 2, 5, 9, 17, 20));

}  // namespace
}  // namespace peal::comm
