// Groups of all ranks: areas of batches, agreed on in the exchange of a split.
#include <sys/stat.h>
#include <unistd.h>

#include <comm/area.hpp>

#include "core_ranks.hpp"

namespace peal::comm {
namespace {

std::size_t pages_behind(const transport::SharedSegment& segment) {
  struct stat info {};
  return ::fstat(segment.descriptor(), &info) == 0 ? static_cast<std::size_t>(info.st_blocks) * 512 / 4096 : 0;
}

/// One segment of areas of 8 KiB, as its two ranks map it.
struct TwoViews {
  std::shared_ptr<AreaBatch> zero, one;
  explicit TwoViews(int areas) {
    const std::size_t bytes = AreaBatch::bytes_for(areas, 8192);
    auto memory = std::move(*transport::SharedSegment::create(bytes, "test"));
    EXPECT_TRUE(memory.allocate(0, AreaBatch::kHeadBytes));
    auto again = std::move(*transport::SharedSegment::map(FileDescriptor(::dup(memory.descriptor())), bytes));
    zero = std::make_shared<AreaBatch>(std::move(memory), areas, 8192, 2);
    one = std::make_shared<AreaBatch>(std::move(again), areas, 8192, 2);
  }
};

TEST(AreaBatches, TheLowestAreaThatNobodyUsesIsTaken) {
  const AreaClaim claims[] = {{3, 0b1110}, {3, 0b0110}, {3, 0b1100}};
  const auto choice = AreaBatches::choose(claims);
  EXPECT_EQ(choice.area, 2);
  EXPECT_EQ(choice.batch, 3u);
}

TEST(AreaBatches, ABatchIsMadeWhereNoneIsFreeOrNotAllHaveIt) {
  const AreaClaim none[] = {{0, 0}, {0, 0}};
  EXPECT_EQ(AreaBatches::choose(none).area, -1);
  EXPECT_EQ(AreaBatches::choose(none).batch, 1u);
  const AreaClaim full[] = {{2, 0b01}, {2, 0b10}};
  EXPECT_EQ(AreaBatches::choose(full).area, -1);
  EXPECT_EQ(AreaBatches::choose(full).batch, 3u);
  const AreaClaim behind[] = {{2, 0b11}, {1, 0b11}};
  EXPECT_EQ(AreaBatches::choose(behind).area, -1);
  EXPECT_EQ(AreaBatches::choose(behind).batch, 3u);
}

TEST(AreaBatches, BatchesGrowWithinBounds) {
  EXPECT_EQ(AreaBatches::areas_of(1, 4096), 4);
  EXPECT_EQ(AreaBatches::areas_of(2, 4096), 8);
  EXPECT_EQ(AreaBatches::areas_of(50, 4096), AreaBatch::kMostAreas);
  EXPECT_EQ(AreaBatches::areas_of(50, std::size_t{1} << 40), 1);
}

TEST(AreaBatch, TheLastRankGivesTheMemoryBackAndThenItIsZeroes) {
  const auto [zero, one] = TwoViews(2);
  for (int round = 0; round < 3; ++round) {
    auto mine = std::make_unique<Area>(zero, 1);
    auto theirs = std::make_unique<Area>(one, 1);
    EXPECT_EQ(zero->idle(), 0b01u);
    ASSERT_TRUE(mine->segment().allocate(mine->offset(), 8192));
    EXPECT_EQ(mine->data()[5000], std::byte{0});
    mine->data()[5000] = std::byte{7};
    EXPECT_EQ(theirs->data()[5000], std::byte{7});
    mine.reset();
    EXPECT_EQ(zero->idle(), 0b11u);
    EXPECT_EQ(theirs->data()[5000], std::byte{7}) << "others may still need it";
    EXPECT_EQ(one->idle(), 0b01u);
    EXPECT_EQ(pages_behind(zero->segment()), 3u);
    theirs.reset();
    EXPECT_EQ(one->idle(), 0b11u);
    EXPECT_EQ(pages_behind(zero->segment()), 1u);
  }
}

TEST(AreaBatch, PreparesAreasThatNobodyUsesAndNoOthers) {
  const auto [zero, one] = TwoViews(8);
  auto mine = std::make_unique<Area>(zero, 1);
  auto theirs = std::make_unique<Area>(one, 1);
  EXPECT_EQ(zero->prepare(4096), 0b11101u);
  EXPECT_EQ(pages_behind(zero->segment()), 1u + 4u);
  mine.reset();
  EXPECT_EQ(zero->prepare(4096), 0b11101u) << "the other rank still has area 1";
  theirs.reset();
  EXPECT_EQ(zero->prepare(4096), 0b01111u);
  EXPECT_EQ(pages_behind(zero->segment()), 1u + 5u);
}

class Areas : public ::testing::TestWithParam<int> {};

Status expect_sum(Core& core, int rank, std::size_t count) {
  const std::vector<int> mine(count, rank);
  std::vector<int> sum(count);
  PEAL_TRY(core.run({Collective::all_reduce, mine.data(), sum.data(), count, DataType::i32}));
  EXPECT_EQ(sum, std::vector<int>(count, core.size() * (core.size() - 1) / 2));
  return {};
}

TEST_P(Areas, GroupsThatComeAndGoAtDifferentTimesOnDifferentRanksAddUp) {
  on_cores(GetParam(), core_options(), [](Core& world) -> Status {
    std::vector<std::shared_ptr<Core>> groups, kept;
    for (int round = 0; round < 60; ++round) {
      PEAL_ASSIGN(auto group, world.split(0, round % 2 == 0 ? world.rank() : -world.rank()));
      groups.push_back(std::move(group));
      for (const auto& each : groups) PEAL_TRY(expect_sum(*each, world.rank(), round % 5 == 0 ? 20000 : 3));
      // Some ranks keep for a while what others have let go.
      const std::size_t many = 1 + static_cast<std::size_t>(round * 7 % 6);
      while (groups.size() > many) {
        const auto gone = groups.begin() + (round + static_cast<int>(groups.size())) % 2;
        if ((round + world.rank()) % 3 == 0) kept.push_back(*gone);
        groups.erase(gone);
      }
      if (round % 8 == world.rank() % 8) kept.clear();
    }
    return world.run(Call{Collective::barrier});
  });
}

TEST_P(Areas, GroupsOfGroupsAndPartsBesideThemAddUp) {
  on_cores(GetParam(), core_options(), [](Core& world) -> Status {
    PEAL_ASSIGN(const auto all, world.split(0, 0));
    PEAL_ASSIGN(const auto again, all->split(5, 0));
    PEAL_ASSIGN(const auto mine, again->split(world.rank() % 2, 0));
    PEAL_ASSIGN(const auto last, again->split(0, world.rank()));
    PEAL_TRY(expect_sum(*last, world.rank(), 5000));
    PEAL_TRY(expect_sum(*again, world.rank(), 5));
    PEAL_TRY(expect_sum(*mine, mine->rank(), 5000));
    return world.run(Call{Collective::barrier});
  });
}

// Rings have fewer lines in later groups.
TEST_P(Areas, TheFirstGroupAndTheThirtiethDoAllThatAGroupDoes) {
  on_cores(GetParam(), core_options(), [](Core& world) -> Status {
    std::vector<std::shared_ptr<Core>> groups;
    for (int g = 0; g < 30; ++g) {
      PEAL_ASSIGN(auto group, world.split(0, world.rank()));
      groups.push_back(std::move(group));
    }
    const auto ranks = static_cast<std::size_t>(world.size());
    const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
    for (const std::size_t g : {0, 6, 29}) {
      Core& group = *groups[g];
      for (const std::size_t count : {2, 300, 60000}) {
        PEAL_TRY(expect_sum(group, world.rank(), count));
        std::vector<int> mine(count * ranks, world.rank()), all(count * ranks, -1);
        PEAL_TRY(group.run({Collective::all_to_all, mine.data(), all.data(), count, DataType::i32}));
        for (std::size_t r = 0; r < ranks; ++r) EXPECT_EQ(all[r * count + count / 2], static_cast<int>(r));
        for (int round = 0; round < 20; ++round) {  // the root runs ahead
          std::vector<int> told(count, group.rank() == 0 ? round : -1);
          PEAL_TRY(group.run({Collective::broadcast, told.data(), told.data(), count, DataType::i32, ReduceOp::sum, 0}));
          EXPECT_EQ(told, std::vector<int>(count, round));
        }
        std::vector<PairTransfer> transfers;
        for (std::size_t i = 0; i < ranks && ranks > 1; ++i) {
          transfers.push_back({mine.data() + i * count, nullptr, true, count, DataType::i32, next});
          transfers.push_back({nullptr, all.data() + i * count, false, count, DataType::i32, before});
        }
        PEAL_TRY(group.run_group(transfers));
        if (ranks > 1) {
          EXPECT_EQ(all, std::vector<int>(count * ranks, before));
        }
      }
    }
    return world.run(Call{Collective::barrier});
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Areas, ::testing::Values(1, 2, 3, 4, 5, 7, 8, 17));

TEST(Areas, AsynchronousCallsOfManyGroupsAtTheSameTimeAddUp) {
  on_cores(4, core_options(), [](Core& world) -> Status {
    constexpr std::size_t kGroups = 6, kCount = 3000;
    std::vector<std::shared_ptr<Core>> groups;
    for (std::size_t g = 0; g < kGroups; ++g) {
      PEAL_ASSIGN(auto group, world.split(0, world.rank()));
      groups.push_back(std::move(group));
    }
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<int>> mine(kGroups, std::vector<int>(kCount, world.rank())), sum(kGroups, std::vector<int>(kCount));
      std::vector<std::shared_ptr<WorkState>> works(kGroups);
      for (std::size_t i = 0; i < kGroups; ++i) {
        const std::size_t g = (i + static_cast<std::size_t>(world.rank())) % kGroups;  // every rank in another order
        const std::size_t count = g % 2 == 0 ? 2 : kCount;
        PEAL_ASSIGN(works[g], groups[g]->start({Collective::all_reduce, mine[g].data(), sum[g].data(), count, DataType::i32}));
      }
      for (std::size_t g = 0; g < kGroups; ++g) {
        EXPECT_TRUE(groups[g]->wait(*works[g], 0));
        EXPECT_EQ(works[g]->state.load(), WorkState::kDone);
        EXPECT_EQ(sum[g][1], 6) << "group " << g;
      }
    }
    return world.run(Call{Collective::barrier});
  });
}

}  // namespace
}  // namespace peal::comm
