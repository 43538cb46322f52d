// Asynchronous work: waiting, looking, deadlines, order, and what happens to work that nobody waits for.
#include <atomic>

#include "rank_threads.hpp"

namespace peal::test {
namespace {

struct WorkCase {
  const char* transport;
  bool progress_thread;
};

class Works : public ::testing::TestWithParam<WorkCase> {
 protected:
  void each(int ranks, const std::function<void(Communicator&)>& body) {
    Options options = with_transport(GetParam().transport);
    options.progress_thread = GetParam().progress_thread;
    on_ranks(ranks, options, body);
  }
};

constexpr std::size_t kCount = 30000;

struct Sum {
  explicit Sum(int value) : in(kCount, value), out(kCount) {}
  Work start(Communicator& world) { return world.all_reduce_async(in.data(), out.data(), kCount, DataType::i32); }
  void expect(std::int32_t value) const {
    for (std::size_t i = 0; i < kCount; i += 101) ASSERT_EQ(out[i], value);
    ASSERT_EQ(out.back(), value);
  }
  std::vector<std::int32_t> in, out;
};

TEST_P(Works, TestBecomesTrue) {
  each(3, [](Communicator& world) {
    Sum sum(world.rank());
    Work work = sum.start(world);
    while (!work.test()) std::this_thread::yield();
    EXPECT_TRUE(work.test());
    work.wait();
    EXPECT_TRUE(work.wait_for(std::chrono::nanoseconds(0)));
    sum.expect(3);
  });
}

TEST_P(Works, ADeadlineThatPassesIsNoFault) {
  each(2, [](Communicator& world) {
    world.barrier();
    Sum sum(1);
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    Work work = sum.start(world);
    if (world.rank() == 0) {
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_FALSE(work.wait_for(std::chrono::milliseconds(20)));
      EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
    }
    EXPECT_TRUE(work.wait_for(std::chrono::seconds(30)));
    sum.expect(2);
  });
}

TEST_P(Works, DestroyingOrReplacingUnfinishedWorkWaitsForIt) {
  each(2, [](Communicator& world) {
    Sum dropped(1), replaced(2), last(3);
    { Work work = dropped.start(world); }
    dropped.expect(2);
    Work work = replaced.start(world);
    work = last.start(world);
    replaced.expect(4);
    work.wait();
    last.expect(6);
    Work nothing;
    EXPECT_TRUE(nothing.test());
    nothing.wait();
    work = Work();
  });
}

TEST_P(Works, BlockingAndAsynchronousCallsKeepOneOrder) {
  each(3, [](Communicator& world) {
    std::int32_t x = world.rank() + 1, y = 0, z = 0;
    // The second call reads what the first writes.
    Work first = world.all_reduce_async(&x, &y, 1, DataType::i32);
    world.all_reduce(&y, &z, 1, DataType::i32);
    EXPECT_TRUE(first.test());
    EXPECT_EQ(y, 6);
    EXPECT_EQ(z, 18);
    // Waiting for the last ends the earlier ones, too.
    std::vector<Sum> sums;
    for (int i = 0; i < 5; ++i) sums.emplace_back(i);
    std::vector<Work> works;
    for (Sum& sum : sums) works.push_back(sum.start(world));
    works.back().wait();
    for (int i = 0; i < 5; ++i) sums[static_cast<std::size_t>(i)].expect(3 * i);
  });
}

TEST_P(Works, GroupsGoAsynchronouslyToo) {
  each(3, [](Communicator& world) {
    const int right = (world.rank() + 1) % 3, left = (world.rank() + 2) % 3;
    std::vector<std::int32_t> mine(kCount, world.rank()), got(kCount, -1);
    world.group_start();
    world.receive(got.data(), kCount, DataType::i32, left);
    world.send(mine.data(), kCount, DataType::i32, right);
    Work work = world.group_end_async();
    work.wait();
    for (const std::int32_t x : got) ASSERT_EQ(x, left);
    // An empty group is done at once.
    world.group_start();
    EXPECT_TRUE(world.group_end_async().test());
    world.barrier();
  });
}

TEST_P(Works, EveryCollectiveHasAnAsynchronousForm) {
  each(3, [](Communicator& world) {
    const int n = world.size();
    const std::int32_t me = world.rank();
    std::vector<std::int32_t> three{me, me + 10, me + 20}, all(3), block(1), one{me + 1}, sum(1), gathered(3), scattered(1), crossed(3);
    world.all_gather_async(&one[0], all.data(), 1, DataType::i32).wait();
    EXPECT_EQ(all, (std::vector<std::int32_t>{1, 2, 3}));
    world.reduce_scatter_async(three.data(), block.data(), 1, DataType::i32).wait();
    EXPECT_EQ(block[0], 3 + 10 * n * me);
    world.reduce_async(&one[0], sum.data(), 1, DataType::i32, ReduceOp::max, 1).wait();
    if (me == 1) {
      EXPECT_EQ(sum[0], 3);
    }
    world.gather_async(&one[0], gathered.data(), 1, DataType::i32, 2).wait();
    if (me == 2) {
      EXPECT_EQ(gathered, (std::vector<std::int32_t>{1, 2, 3}));
    }
    world.scatter_async(three.data(), scattered.data(), 1, DataType::i32, 0).wait();
    EXPECT_EQ(scattered[0], 10 * me);
    world.all_to_all_async(three.data(), crossed.data(), 1, DataType::i32).wait();
    EXPECT_EQ(crossed, (std::vector<std::int32_t>{10 * me, 10 * me + 1, 10 * me + 2}));
    world.broadcast_async(&one[0], &sum[0], 1, DataType::i32, 2).wait();
    EXPECT_EQ(sum[0], 3);
    world.barrier_async().wait();
  });
}

TEST_P(Works, TwoCommunicatorsAtOnce) {
  each(3, [](Communicator& world) {
    Communicator other = world.split(0);
    Sum a(1), b(2);
    Work of_other = b.start(other);
    Work of_world = a.start(world);
    // With a progress thread ranks may wait in any order; without one they wait in the same.
    const bool turned = GetParam().progress_thread && world.rank() == 1;
    (turned ? of_other : of_world).wait();
    (turned ? of_world : of_other).wait();
    a.expect(3);
    b.expect(6);
  });
}

TEST_P(Works, TwoCommunicatorsAreLookedAtInTurnInAnyOrder) {
  each(2, [](Communicator& world) {
    Communicator other = world.split(0);
    Sum a(1), b(2);
    Work of_other = b.start(other);
    Work of_world = a.start(world);
    bool a_done = false, b_done = false;
    while (!a_done || !b_done) {
      if (world.rank() == 0) a_done = of_world.test();
      b_done = of_other.test();
      if (world.rank() == 1) a_done = of_world.test();
    }
    a.expect(2);
    b.expect(4);
  });
}

TEST_P(Works, AFaultReachesEveryWaitingWork) {
  std::atomic<int> told{0};
  each(2, [&](Communicator& world) {
    world.barrier();
    if (world.rank() == 1) {
      while (told.load() == 0) std::this_thread::yield();
      world.abort("enough");
      while (told.load() == 1) std::this_thread::yield();
      return;
    }
    Sum a(1), b(2);
    Work first = a.start(world), second = b.start(world);
    told = 1;
    for (Work* work : {&first, &second}) {
      try {
        work->wait();
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::aborted) << error.what();
      }
    }
    told = 2;
  });
}

INSTANTIATE_TEST_SUITE_P(All, Works,
                         ::testing::Values(WorkCase{"shm", true}, WorkCase{"shm", false}, WorkCase{"tcp", true}, WorkCase{"tcp", false}),
                         [](const auto& test) {
                           return std::string(test.param.transport) + (test.param.progress_thread ? "WithThread" : "WithoutThread");
                         });

}  // namespace
}  // namespace peal::test
