// Windows: put, get, signal, wait and plain pointers between ranks of one host.
#include <atomic>
#include <cstring>
#include <optional>

#include "rank_threads.hpp"

namespace peal::test {
namespace {

TEST(Windows, PutSignalWaitAroundTheRing) {
  for (const char* transport : {"shm", "tcp"}) {
    on_ranks(4, with_transport(transport), [](Communicator& world) {
      constexpr std::size_t kBytes = 100'000;
      Window window = world.create_window(kBytes);
      ASSERT_EQ(window.bytes(), kBytes);
      ASSERT_EQ(window.data(), window.data(world.rank()));
      const int right = (world.rank() + 1) % 4, left = (world.rank() + 3) % 4;
      for (int round = 0; round < 50; ++round) {
        const std::vector<std::uint8_t> mine(kBytes, static_cast<std::uint8_t>(world.rank() + round));
        window.put(right, 0, mine.data(), kBytes);
        window.signal(right, 5);
        window.wait(left, 5);
        const std::vector<std::byte> expected(kBytes, static_cast<std::byte>(left + round));
        ASSERT_EQ(std::memcmp(window.data(), expected.data(), kBytes), 0) << round;
        window.signal(left, 6);  // the part may be written again
        window.wait(right, 6);
      }
    });
  }
}

TEST(Windows, GetAndDirectLoadsSeeWhatWasSignalled) {
  on_ranks(3, with_transport("shm"), [](Communicator& world) {
    Window window = world.create_window(3 * sizeof(std::uint64_t));
    const std::uint64_t mine = 1000u + static_cast<unsigned>(world.rank());
    std::memcpy(window.data(), &mine, sizeof mine);
    for (int r = 0; r < 3; ++r) window.signal(r);
    for (int r = 0; r < 3; ++r) window.wait(r);
    for (int r = 0; r < 3; ++r) {
      std::uint64_t got = 0, direct = 0;
      window.get(r, 0, &got, sizeof got);
      std::memcpy(&direct, window.data(r), sizeof direct);
      EXPECT_EQ(got, 1000u + static_cast<unsigned>(r));
      EXPECT_EQ(direct, got);
    }
    world.barrier();
  });
}

TEST(Windows, SignalsAreCountedBySenderAndNumber) {
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    Window window = world.create_window(0);
    const int other = 1 - world.rank();
    for (int i = 0; i < 7; ++i) window.signal(other, 63);
    window.signal(other, 0);
    window.wait(other, 63, 3);
    window.wait(other, 0);
    window.wait(other, 63, 4);
    window.wait(other, 63, 0);
    window.signal(world.rank(), 1);
    window.wait(world.rank(), 1);
    world.barrier();
  });
}

TEST(Windows, WrongArgumentsAreRefused) {
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    Window window = world.create_window(16);
    char bytes[32] = {};
    const auto refused = [&](const std::function<void()>& call, const char* word) {
      const auto error = error_of(call);
      ASSERT_TRUE(error) << word;
      EXPECT_EQ(error->code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error->what()).find(word), std::string::npos) << error->what();
    };
    refused([&] { window.put(1, 0, bytes, 17); }, "beyond the window");
    refused([&] { window.put(1, 17, bytes, 0); }, "beyond the window");
    refused([&] { window.get(1, ~std::size_t{0}, bytes, 2); }, "beyond the window");
    refused([&] { window.put(2, 0, bytes, 1); }, "rank 2");
    refused([&] { window.get(-1, 0, bytes, 1); }, "rank -1");
    refused([&] { window.signal(0, 64); }, "signal number 64");
    refused([&] { window.wait(0, -1); }, "signal number -1");
    refused([&] { window.data(2); }, "rank 2");
    Window none;
    refused([&] { none.signal(0); }, "empty");
    window.put(1 - world.rank(), 15, bytes, 1);
    world.barrier();
  });
}

TEST(Windows, TooLargeIsAnErrorOnEveryRankAndTheCommunicatorGoesOn) {
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    const auto error = error_of([&] { world.create_window(std::size_t{1} << 60); });
    ASSERT_TRUE(error);
    std::int32_t one = 1, sum = 0;
    world.all_reduce(&one, &sum, 1, DataType::i32);
    EXPECT_EQ(sum, 2);
  });
}

TEST(Windows, AfterAFaultEveryVerbSaysSo) {
  std::atomic<bool> aborted{false};
  on_ranks(2, with_transport("shm"), [&](Communicator& world) {
    Window window = world.create_window(64);
    world.barrier();
    char byte = 0;
    if (world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      world.abort("no more");
      aborted = true;
    } else {
      const auto waiting = error_of([&] { window.wait(1); });  // ends a wait under way, too
      ASSERT_TRUE(waiting);
      EXPECT_EQ(waiting->code(), ErrorCode::aborted);
      EXPECT_NE(std::string(waiting->what()).find("no more"), std::string::npos);
    }
    while (!aborted.load()) std::this_thread::yield();
    for (const auto& verb : std::vector<std::function<void()>>{[&] { window.put(0, 0, &byte, 1); }, [&] { window.get(0, 0, &byte, 1); },
                                                               [&] { window.signal(0); }, [&] { window.wait(0); }}) {
      const auto error = error_of(verb);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::aborted);
    }
    EXPECT_NE(window.data(0), nullptr);  // the memory itself stays mapped
  });
}

TEST(Windows, AWaitThatLastsTooLongNamesWhoDidNotSignal) {
  Options options = with_transport("shm");
  options.timeout = std::chrono::milliseconds(300);
  std::atomic<bool> told{false};
  on_ranks(2, options, [&](Communicator& world) {
    Window window = world.create_window(64);
    if (world.rank() == 0) {
      const auto error = error_of([&] { window.wait(1, 3); });
      told = true;
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code(), ErrorCode::timeout);
      EXPECT_NE(std::string(error->what()).find("rank 1"), std::string::npos) << error->what();
      EXPECT_NE(std::string(error->what()).find("signal 3"), std::string::npos) << error->what();
    }
    while (!told.load()) std::this_thread::yield();
  });
}

TEST(Windows, AWaitForARankThatHasLeftEnds) {
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    Window window = world.create_window(64);
    world.barrier();
    if (world.rank() == 1) return;  // window and communicator go
    const auto error = error_of([&] { window.wait(1); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code(), ErrorCode::rank_dead) << error->what();
    EXPECT_EQ(error->rank(), 1);
    EXPECT_EQ(error->operation(), "wait");
  });
}

TEST(Windows, OutliveTheirCommunicator) {
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    Window window;
    {
      Communicator part = world.split(0);
      window = part.create_window(8);
    }
    window.signal(1 - world.rank());
    window.wait(1 - world.rank());
    world.barrier();
  });
}

}  // namespace
}  // namespace peal::test
