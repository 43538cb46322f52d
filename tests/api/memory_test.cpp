// peal::allocate: memory that calls move without copying it first.
#include <cstring>
#include <numeric>
#include <optional>

#include "rank_threads.hpp"

namespace peal::test {
namespace {

float* floats(const Memory& memory, std::size_t at = 0) { return reinterpret_cast<float*>(memory.data()) + at; }

void fill(float* data, std::size_t count, int rank) {
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(static_cast<int>(i % 100) + rank);
}

float sum_at(std::size_t i, int ranks) { return static_cast<float>(static_cast<int>(i % 100) * ranks + ranks * (ranks - 1) / 2); }

TEST(Memory, SumsAreRightWhateverLiesInIt) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const int ranks : {1, 2, 3}) {
      on_ranks(ranks, with_transport(transport), [&](Communicator& world) {
        for (const std::size_t count : {std::size_t{3}, std::size_t{5'000}, std::size_t{300'000}}) {
          Memory memory = allocate(world, 2 * count * sizeof(float));
          ASSERT_EQ(memory.bytes(), 2 * count * sizeof(float));
          ASSERT_EQ(memory.data()[memory.bytes() - 1], std::byte{0});
          std::vector<float> own_in(count), own_out(count);
          for (int kind = 0; kind < 5; ++kind) {  // 4: one rank takes its own memory
            const bool is_private = kind == 4 && world.rank() == 0;
            float* in = kind == 1 || is_private ? own_in.data() : floats(memory);
            float* out = kind == 2 ? own_out.data() : kind == 3 ? in : floats(memory, count);
            fill(in, count, world.rank());
            world.all_reduce(in, out, count, DataType::f32);
            fill(in == out ? own_in.data() : in, count, 99);  // it may be written again at once
            for (std::size_t i = 0; i < count; i += 7) ASSERT_EQ(out[i], sum_at(i, ranks)) << transport << ' ' << kind << ' ' << i;
          }
        }
      });
    }
  }
}

TEST(Memory, RanksMayAskForDifferentSizesAndForNothing) {
  on_ranks(3, with_transport("shm"), [](Communicator& world) {
    const auto bytes = static_cast<std::size_t>(world.rank()) * 100'000;
    Memory memory = allocate(world, bytes);
    ASSERT_EQ(memory.bytes(), bytes);
    std::memset(memory.data(), world.rank() + 1, bytes);
    std::vector<std::uint8_t> got(100'000);
    void* buffer = world.rank() == 2 ? static_cast<void*>(memory.data()) : got.data();
    world.broadcast(buffer, buffer, got.size(), DataType::u8, 2);
    if (world.rank() != 2) {
      EXPECT_EQ(got, std::vector<std::uint8_t>(got.size(), 3));
    }
  });
}

TEST(Memory, SubgroupsAndGroupsOfOthersUseItOrCopy) {
  on_ranks(4, with_transport("shm"), [](Communicator& world) {
    constexpr std::size_t kCount = 100'000;
    Communicator half = world.split(world.rank() % 2);
    Memory of_world = allocate(world, kCount * sizeof(float));
    Memory of_half = allocate(half, kCount * sizeof(float));
    for (int round = 0; round < 3; ++round) {
      for (Memory* memory : {&of_world, &of_half}) {
        fill(floats(*memory), kCount, half.rank());
        half.all_reduce(floats(*memory), floats(*memory), kCount, DataType::f32);
        for (std::size_t i = 0; i < kCount; i += 11) ASSERT_EQ(floats(*memory)[i], sum_at(i, 2));
        fill(floats(*memory), kCount, world.rank());
        std::vector<float> out(kCount);
        world.all_reduce(floats(*memory), out.data(), kCount, DataType::f32);
        for (std::size_t i = 0; i < kCount; i += 11) ASSERT_EQ(out[i], sum_at(i, 4));
      }
    }
  });
}

TEST(Memory, PointToPointFromIt) {
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    constexpr std::size_t kLarge = 3 << 20, kSmall = 50'000;
    Memory memory = allocate(world, kLarge);
    const int other = 1 - world.rank();
    std::vector<std::uint8_t> got(kLarge);
    for (int round = 0; round < 3; ++round) {
      std::memset(memory.data(), world.rank() + 1 + round, kLarge);
      // What slots hold may be on its way before the other side receives.
      world.send(memory.data(), kSmall, DataType::u8, other);
      world.receive(got.data(), kSmall, DataType::u8, other);
      EXPECT_EQ(got[kSmall - 1], other + 1 + round);
      world.group_start();
      world.send(memory.data(), kLarge, DataType::u8, other);
      world.receive(got.data(), kLarge, DataType::u8, other);
      world.group_end();
      EXPECT_EQ(got, std::vector<std::uint8_t>(kLarge, static_cast<std::uint8_t>(other + 1 + round)));
    }
  });
}

TEST(Memory, AsynchronousCallsFromIt) {
  on_ranks(3, with_transport("shm"), [](Communicator& world) {
    constexpr std::size_t kCount = 60'000;
    Memory memory = allocate(world, 4 * kCount * sizeof(float));
    std::vector<Work> works;
    for (std::size_t k = 0; k < 4; ++k) {
      fill(floats(memory, k * kCount), kCount, world.rank());
      works.push_back(world.all_reduce_async(floats(memory, k * kCount), floats(memory, k * kCount), kCount, DataType::f32));
    }
    for (Work& work : works) work.wait();
    for (std::size_t i = 0; i < 4 * kCount; i += 13) ASSERT_EQ(floats(memory)[i], sum_at(i % kCount, 3));
  });
}

TEST(Memory, MayBeFreedInAnyOrderAndAllocatedAgain) {
  on_ranks(3, with_transport("shm"), [](Communicator& world) {
    std::vector<Memory> kept;
    std::vector<float> out(20'000);
    for (int round = 0; round < 20; ++round) {
      kept.push_back(allocate(world, out.size() * sizeof(float)));
      float* in = floats(kept.back());
      fill(in, out.size(), world.rank());
      world.all_reduce(in, out.data(), out.size(), DataType::f32);
      ASSERT_EQ(out[5], sum_at(5, 3));
      if (round % 3 == world.rank()) kept.erase(kept.begin());  // each rank another one, at another time
    }
    Memory moved = std::move(kept.back());
    EXPECT_EQ(kept.back().data(), nullptr);
    EXPECT_EQ(kept.back().bytes(), 0u);
  });
}

TEST(Memory, TooMuchIsAnErrorOnEveryRankAndTheCommunicatorGoesOn) {
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    for (const std::size_t bytes : {std::size_t{1} << 47, SIZE_MAX}) {
      try {
        allocate(world, world.rank() == 0 ? 100 : bytes);
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("rank 1 asks for"), std::string::npos) << error.what();
      }
    }
    world.barrier();
    Communicator none;
    EXPECT_THROW(allocate(none, 1), Error);
  });
}

}  // namespace
}  // namespace peal::test
