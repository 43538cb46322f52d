// Groups: areas of batches, agreed on in the exchange of a split.
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
    zero = std::make_shared<AreaBatch>(std::move(memory), areas, 8192);
    one = std::make_shared<AreaBatch>(std::move(again), areas, 8192);
  }
  /// A group of one rank or both gets an area.
  void take(int area) const {
    zero->take(area);
    one->take(area);
  }
};

TEST(AreaBatches, TheLowestAreasThatNobodyUsesAreTaken) {
  const AreaClaim claims[] = {{3, 0b101110}, {3, 0b100110}, {3, 0b101100}};
  const auto one = AreaBatches::choose(claims, 1);
  EXPECT_EQ(one.areas, 0b100u);
  EXPECT_EQ(one.batch, 3u);
  const auto two = AreaBatches::choose(claims, 2);
  EXPECT_EQ(two.areas, 0b100100u);
  EXPECT_EQ(two.batch, 3u);
}

TEST(AreaBatches, ABatchIsMadeWhereTooFewAreFreeOrNotAllHaveIt) {
  const auto expect_new = [](std::span<const AreaClaim> claims, int groups, std::uint32_t batch) {
    const auto choice = AreaBatches::choose(claims, groups);
    EXPECT_EQ(choice.areas, (1u << groups) - 1);
    EXPECT_EQ(choice.batch, batch);
  };
  const AreaClaim none[] = {{0, 0}, {0, 0}};
  expect_new(none, 1, 1);
  expect_new(none, 4, 1);
  const AreaClaim full[] = {{2, 0b01}, {2, 0b10}};
  expect_new(full, 1, 3);
  const AreaClaim few[] = {{2, 0b1101}, {2, 0b1110}};
  expect_new(few, 3, 3);
  const AreaClaim behind[] = {{2, 0b11}, {1, 0b11}};
  expect_new(behind, 1, 3);
}

TEST(AreaBatches, ManyGroupsOfASplitHaveSegmentsOfTheirOwn) {
  const AreaClaim claims[] = {{1, 0b11111111}, {1, 0b11111111}};
  for (const int groups : {0, AreaBatches::kMostOfASplit + 1}) {
    EXPECT_EQ(AreaBatches::choose(claims, groups).areas, 0u);
    EXPECT_EQ(AreaBatches::choose(claims, groups).batch, 0u);
  }
}

TEST(AreaBatches, BatchesGrowWithinBounds) {
  EXPECT_EQ(AreaBatches::areas_of(1, 4096), 4);
  EXPECT_EQ(AreaBatches::areas_of(2, 4096), 8);
  EXPECT_EQ(AreaBatches::areas_of(50, 4096), AreaBatch::kMostAreas);
  EXPECT_EQ(AreaBatches::areas_of(50, std::size_t{1} << 40), AreaBatches::kMostOfASplit);
}

TEST(AreaBatch, TheLastRankGivesTheMemoryBackAndThenItIsZeroes) {
  const TwoViews views(2);
  const auto& [zero, one] = views;
  for (int round = 0; round < 3; ++round) {
    views.take(1);
    auto mine = std::make_unique<Area>(zero, 1, 2);
    auto theirs = std::make_unique<Area>(one, 1, 2);
    EXPECT_EQ(zero->idle(), 0b01u);
    ASSERT_TRUE(mine->segment().allocate(mine->offset(), 8192));
    EXPECT_EQ(mine->data()[5000], std::byte{0});
    mine->data()[5000] = std::byte{7};
    EXPECT_EQ(theirs->data()[5000], std::byte{7});
    mine.reset();
    EXPECT_EQ(zero->idle(), 0b01u);
    EXPECT_EQ(theirs->data()[5000], std::byte{7}) << "others may still need it";
    EXPECT_EQ(one->idle(), 0b01u);
    EXPECT_EQ(pages_behind(zero->segment()), 3u);
    theirs.reset();
    EXPECT_EQ(zero->idle(), 0b11u);
    EXPECT_EQ(one->idle(), 0b11u);
    EXPECT_EQ(pages_behind(zero->segment()), 1u);
  }
}

TEST(AreaBatch, PreparesAreasThatNobodyUsesAndNoOthers) {
  const TwoViews views(8);
  const auto& [zero, one] = views;
  views.take(1);
  auto mine = std::make_unique<Area>(zero, 1, 2);
  auto theirs = std::make_unique<Area>(one, 1, 2);
  EXPECT_EQ(zero->prepare(4096), 0b11101u);
  EXPECT_EQ(pages_behind(zero->segment()), 1u + 4u);
  mine.reset();
  EXPECT_EQ(zero->prepare(4096), 0b11101u) << "the other rank still has area 1";
  theirs.reset();
  EXPECT_EQ(zero->prepare(4096), 0b01111u);
  EXPECT_EQ(pages_behind(zero->segment()), 1u + 5u);
}

// The leader, who prepares areas, need not be in the group that has one.
TEST(AreaBatch, AGroupOfSomeRanksKeepsItsAreaFromAllOthers) {
  const TwoViews views(4);
  const auto& [zero, one] = views;
  EXPECT_EQ(zero->prepare(4096), 0b1111u);
  views.take(0);
  auto theirs = std::make_unique<Area>(one, 0, 1);
  theirs->data()[10] = std::byte{7};
  EXPECT_EQ(zero->idle(), 0b1110u);
  EXPECT_EQ(zero->prepare(4096), 0b1110u);
  EXPECT_EQ(pages_behind(zero->segment()), 1u + 4u) << "nothing new";
  theirs.reset();
  EXPECT_EQ(zero->idle(), 0b1111u);
  EXPECT_EQ(pages_behind(zero->segment()), 1u + 3u);
  EXPECT_EQ(zero->prepare(4096), 0b1111u);
  EXPECT_EQ(pages_behind(zero->segment()), 1u + 4u) << "its memory had gone back";
  EXPECT_EQ(zero->segment().data()[zero->offset_of(0) + 10], std::byte{0});
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

// Two, three and four parts, also unequal ones and ranks in none; some ranks keep for a while what others have let go.
TEST_P(Areas, PartsThatComeAndGoAtDifferentTimesAddUp) {
  on_cores(GetParam(), core_options(), [](Core& world) -> Status {
    std::vector<std::shared_ptr<Core>> parts;
    for (int round = 0; round < 60; ++round) {
      const int colors = 1 + round % 6;
      const int color = (world.rank() + round) % 7 == 6 ? -1 : (world.rank() * (1 + round % 2) + round / 5) % colors;
      PEAL_ASSIGN(auto part, world.split(color, round % 3 == 0 ? -world.rank() : world.rank()));
      EXPECT_EQ(part == nullptr, color < 0);
      if (part != nullptr) {
        for (const std::size_t count : {3, 20000}) PEAL_TRY(expect_sum(*part, part->rank(), count));
        parts.push_back(std::move(part));
      }
      while (parts.size() > 1 + static_cast<std::size_t>((round + world.rank()) % 3)) parts.erase(parts.begin() + round % 2);
      PEAL_TRY(world.run(Call{Collective::barrier}));
    }
    return {};
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
