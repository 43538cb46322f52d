// Many communicators at once: overlapping sub-groups in different threads, splits of splits.
#include <numeric>

#include "rank_threads.hpp"

namespace peal::test {
namespace {

class Groups : public ::testing::TestWithParam<const char*> {};

/// Sums of `rounds` different vectors over `group`; `world_ranks` are its members.
void exercise(Communicator& group, const std::vector<int>& world_ranks, int world_rank, int rounds) {
  ASSERT_EQ(group.size(), static_cast<int>(world_ranks.size()));
  const int all = std::accumulate(world_ranks.begin(), world_ranks.end(), 0);
  for (int i = 0; i < rounds; ++i) {
    const std::size_t count = i % 5 == 4 ? 20000 : 1 + static_cast<std::size_t>(i % 40);
    std::vector<std::int32_t> in(count, world_rank * 10 + i), out(count);
    group.all_reduce(in.data(), out.data(), count, DataType::i32);
    const std::int32_t expected = all * 10 + i * group.size();
    for (const std::int32_t x : out) ASSERT_EQ(x, expected) << "round " << i;
    std::int32_t from_last = group.rank() == group.size() - 1 ? 7000 + i : -1;
    group.broadcast(&from_last, &from_last, 1, DataType::i32, group.size() - 1);
    ASSERT_EQ(from_last, 7000 + i);
  }
}

TEST_P(Groups, RowsColumnsAndAllAtOnceInThreeThreads) {
  on_ranks(6, with_transport(GetParam()), [](Communicator& world) {
    const int me = world.rank();
    std::vector<int> in_row, in_column, in_all(6);
    std::iota(in_all.begin(), in_all.end(), 0);
    for (int r = 0; r < 6; ++r) {
      if (r / 3 == me / 3) in_row.push_back(r);
      if (r % 3 == me % 3) in_column.push_back(r);
    }
    Communicator row = world.split(me / 3);
    Communicator column = world.split(me % 3);
    Communicator again = world.split(0, -me);
    ASSERT_EQ(again.rank(), 5 - me);
    std::vector<std::string> errors(3);
    const auto guarded = [&](int t, Communicator& group, const std::vector<int>& members) {
      try {
        exercise(group, members, me, 60);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(t)] = error.what();
      }
    };
    std::thread a([&] { guarded(0, row, in_row); });
    std::thread b([&] { guarded(1, column, in_column); });
    guarded(2, again, in_all);
    a.join();
    b.join();
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    world.barrier();
  });
}

TEST_P(Groups, SplitsOfSplitsDownToOneRank) {
  on_ranks(5, with_transport(GetParam()), [](Communicator& world) {
    std::vector<Communicator> chain;
    Communicator* at = &world;
    while (at->size() > 1) {
      chain.reserve(8);
      chain.push_back(at->split(at->rank() % 2, at->rank()));
      at = &chain.back();
      std::int32_t one = 1, sum = 0;
      at->all_reduce(&one, &sum, 1, DataType::i32);
      ASSERT_EQ(sum, at->size());
    }
    EXPECT_EQ(at->rank(), 0);
    chain.clear();
    world.barrier();
  });
}

TEST_P(Groups, ManySplitsLeaveNothingBehindThatHarmsTheNext) {
  on_ranks(3, with_transport(GetParam()), [](Communicator& world) {
    for (int i = 0; i < 15; ++i) {
      Communicator part = world.split(world.rank() == i % 3 ? -1 : 4);
      if (!part) continue;
      std::int32_t one = 1, sum = 0;
      part.all_reduce(&one, &sum, 1, DataType::i32);
      ASSERT_EQ(sum, 2);
    }
  });
}

TEST_P(Groups, NestedGroupsStartAtTheOutermostEnd) {
  on_ranks(3, with_transport(GetParam()), [](Communicator& world) {
    const int right = (world.rank() + 1) % 3, left = (world.rank() + 2) % 3;
    std::int32_t from_left[2] = {}, from_right = 0;
    const std::int32_t mine[2] = {world.rank(), world.rank() + 100};
    world.group_start();
    world.group_start();
    world.send(&mine[0], 1, DataType::i32, right);
    world.send(&mine[1], 1, DataType::i32, right);
    world.group_end();
    world.receive(&from_left[0], 1, DataType::i32, left);
    world.receive(&from_left[1], 1, DataType::i32, left);
    world.send(&mine[1], 1, DataType::i32, left);
    world.receive(&from_right, 1, DataType::i32, right);
    world.group_end();
    EXPECT_EQ(from_left[0], left);
    EXPECT_EQ(from_left[1], left + 100);
    EXPECT_EQ(from_right, right + 100);
  });
}

TEST_P(Groups, GroupsWithTheSamePeersDifferInCountsTypesAndBuffers) {
  on_ranks(3, with_transport(GetParam()), [](Communicator& world) {
    const int right = (world.rank() + 1) % 3, left = (world.rank() + 2) % 3;
    for (int round = 0; round < 12; ++round) {
      // Every fourth group has other peers; one message is longer than a slot.
      const int to = round % 4 == 3 ? left : right;
      const int from = round % 4 == 3 ? right : left;
      const std::size_t count = round == 5 ? 300'000 : static_cast<std::size_t>(round) * 7;
      const std::vector<double> out(count, world.rank() + round * 10);
      const std::vector<std::uint8_t> out_bytes(count + 3, static_cast<std::uint8_t>(world.rank() + round));
      std::vector<double> in(count, -1);
      std::vector<std::uint8_t> in_bytes(count + 3);
      const std::uint8_t mine = 7;
      std::uint8_t own = 0;
      world.group_start();
      world.receive(in.data(), count, DataType::f64, from);
      world.send(&mine, 1, DataType::u8, world.rank());
      world.send(out.data(), count, DataType::f64, to);
      world.receive(&own, 1, DataType::u8, world.rank());
      world.receive(in_bytes.data(), count + 3, DataType::u8, from);
      world.send(out_bytes.data(), count + 3, DataType::u8, to);
      world.group_end();
      EXPECT_EQ(own, 7);
      EXPECT_EQ(in, std::vector<double>(count, from + round * 10)) << round;
      EXPECT_EQ(in_bytes, std::vector<std::uint8_t>(count + 3, static_cast<std::uint8_t>(from + round))) << round;
    }
  });
}

TEST_P(Groups, AGroupThatComesAgainTakesItsNewBuffersAndRefusesNone) {
  on_ranks(2, with_transport(GetParam()), [](Communicator& world) {
    const int other = 1 - world.rank();
    const auto exchange = [&](const std::int32_t* out, std::int32_t* in, std::size_t count, DataType type) {
      world.group_start();
      world.send(out, count, type, other);
      world.receive(in, count, type, other);
      world.group_end();
    };
    for (int round = 0; round < 6; ++round) {
      const std::int32_t out[2] = {world.rank() + 10 * round, -round};
      std::int32_t in[2] = {-1, -1};
      if (round == 3) {
        EXPECT_THROW(exchange(out, nullptr, 2, DataType::i32), Error);  // before anything is sent
      }
      exchange(out, in, round < 4 ? 2 : 1, round == 2 ? DataType::f32 : DataType::i32);
      EXPECT_EQ(in[0], other + 10 * round);
      EXPECT_EQ(in[1], round < 4 ? -round : -1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Groups, ::testing::Values("shm", "tcp"), [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace peal::test
