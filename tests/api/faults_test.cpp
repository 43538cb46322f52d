// Ranks that do not call, abort or leave: those who wait get one clear error in time, and nobody hangs.
#include <atomic>
#include <optional>

#include "rank_threads.hpp"

namespace peal::test {
namespace {

using Clock = std::chrono::steady_clock;

void nap(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class Faults : public ::testing::TestWithParam<const char*> {
 protected:
  Options options(int timeout_ms = 60000) const {
    Options o = with_transport(GetParam());
    o.timeout = std::chrono::milliseconds(timeout_ms);
    return o;
  }
};

TEST_P(Faults, ATimeoutNamesWhoDidNotCall) {
  std::atomic<int> told{0};
  on_ranks(4, options(300), [&](Communicator& world) {
    world.barrier();
    const bool calls = world.rank() != 1 && world.rank() != 3;
    if (!calls)
      while (told.load() < 2) nap(2);
    float in = 1, out = 0;
    const auto begin = Clock::now();
    const auto error = error_of([&] { world.all_reduce(&in, &out, 1, DataType::f32); });
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
    ++told;
    ASSERT_TRUE(error) << "rank " << world.rank();
    EXPECT_EQ(error->code(), ErrorCode::timeout) << error->what();
    EXPECT_EQ(error->rank(), 1) << error->what();
    EXPECT_EQ(error->operation(), "all_reduce");
    const std::string text = error->what();
    for (const char* word : {"rank 1 (pid", "rank 3 (pid", "did not call", "0.3 s", "PEAL_TIMEOUT", "all_reduce of 1 f32"})
      EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
    EXPECT_EQ(text.find("rank 2 (pid"), std::string::npos) << text;
  });
}

TEST_P(Faults, ARankThatIsLateButWithinItsTimeIsNoFault) {
  on_ranks(3, options(20000), [&](Communicator& world) {
    if (world.rank() == 2) nap(300);
    float in = 1, out = 0;
    world.all_reduce(&in, &out, 1, DataType::f32);
    EXPECT_EQ(out, 3.0f);
  });
}

TEST_P(Faults, AReceiveWithoutASendTimesOut) {
  std::atomic<bool> told{false};
  on_ranks(2, options(300), [&](Communicator& world) {
    world.barrier();
    float x = 0;
    if (world.rank() == 1) {
      while (!told.load()) nap(2);
      return;
    }
    const auto error = error_of([&] { world.receive(&x, 1, DataType::f32, 1); });
    told = true;
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::timeout);
    EXPECT_EQ(error->rank(), 1) << error->what();
    EXPECT_NE(std::string(error->what()).find("rank 1 (pid"), std::string::npos) << error->what();
  });
}

TEST_P(Faults, AbortFromAnotherThreadEndsEveryBlockedRank) {
  std::atomic<bool> is_aborted = false;
  on_ranks(3, options(), [&](Communicator& world) {
    world.barrier();
    std::thread aborter;
    if (world.rank() == 1) {
      aborter = std::thread([&] {
        nap(100);
        world.abort("the user pressed the button");
        is_aborted = true;
        world.abort("a second time");
      });
    }
    const auto begin = Clock::now();
    const auto error = error_of([&] {
      if (world.rank() == 2) {
        while (!is_aborted) nap(10);  // a call that others are not in would be a mismatch
        world.barrier();
      } else {
        std::vector<float> in(100000, 1.0f), out(100000);
        world.all_reduce(in.data(), out.data(), in.size(), DataType::f32);
      }
    });
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    if (aborter.joinable()) aborter.join();
    ASSERT_TRUE(error) << "rank " << world.rank();
    EXPECT_EQ(error->code(), ErrorCode::aborted) << error->what();
    EXPECT_EQ(error->rank(), 1);
    EXPECT_NE(std::string(error->what()).find("the user pressed the button"), std::string::npos) << error->what();
  });
}

TEST_P(Faults, AbortOfASplitLeavesTheWorldAlone) {
  on_ranks(4, options(), [&](Communicator& world) {
    Communicator half = world.split(world.rank() % 2);
    if (world.rank() == 0) half.abort();
    if (world.rank() % 2 == 0) {
      const auto error = error_of([&] { half.barrier(); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::aborted);
    } else {
      half.barrier();
    }
    float in = 1, out = 0;
    world.all_reduce(&in, &out, 1, DataType::f32);
    EXPECT_EQ(out, 4.0f);
  });
}

TEST_P(Faults, ARankThatLeavesEarlyIsNamed) {
  on_ranks(3, options(), [&](Communicator& world) {
    world.barrier();
    if (world.rank() == 2) {
      Communicator gone = std::move(world);
      return;
    }
    const auto begin = Clock::now();
    const auto error = error_of([&] {
      for (int i = 0; i < 3; ++i) world.barrier();
    });
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::rank_dead) << error->what();
    // Over sockets a rank that was told by the other may have left first; whoever is named, the cause is rank 2.
    EXPECT_EQ(error->rank(), 2) << error->what();
    EXPECT_NE(std::string(error->what()).find("rank 2"), std::string::npos) << error->what();
  });
}

TEST_P(Faults, FinishedCallsStayFinishedWhenARankLeavesInOrder) {
  for (int i = 0; i < 20; ++i) {
    on_ranks(3, options(), [&](Communicator& world) {
      std::vector<float> in(5000, 1.0f), out(5000);
      world.all_reduce(in.data(), out.data(), in.size(), DataType::f32);
      for (const float x : out) ASSERT_EQ(x, 3.0f);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Faults, ::testing::Values("shm", "tcp"), [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace peal::test
