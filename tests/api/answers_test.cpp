// Sums of two ranks in memory from peal::allocate: who finishes a block writes it where its peer wants it, and receiving it moves nothing
// (docs/decisions/messages-that-stay-where-they-lie.md). Every rank writes through a mapping of its own, so each protects the block that
// its peer finishes in its own mapping: who copies that block instead of finding it there is caught at the first store.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <random>
#include <vector>

#include "rank_threads.hpp"

namespace peal::test {
namespace {

/// Memory of one rank that may only be read through its mapping, until somebody stores there all the same.
struct Watched {
  std::atomic<std::byte*> begin{nullptr};
  std::atomic<std::size_t> bytes{0};
  std::atomic<int> stores{0};

  void protect(std::byte* data, std::size_t size) {
    begin = data;
    bytes = size;
    stores = 0;
    ASSERT_EQ(::mprotect(data, size, PROT_READ), 0);
  }
  /// How many stores were caught: none or one.
  int release() {
    ::mprotect(begin, bytes, PROT_READ | PROT_WRITE);
    begin = nullptr;
    return stores;
  }
};

std::array<Watched, 2> watched;  // by rank; global for the signal handler

void on_store(int, siginfo_t* info, void*) {
  const auto* const at = static_cast<std::byte*>(info->si_addr);
  for (Watched& each : watched) {
    std::byte* const begin = each.begin;
    if (begin == nullptr || at < begin || at >= begin + each.bytes) continue;
    each.stores.fetch_add(1);
    ::mprotect(begin, each.bytes, PROT_READ | PROT_WRITE);  // let it through: the test goes on and says so
    return;
  }
  std::signal(SIGSEGV, SIG_DFL);  // no store of ours: it comes again, and ends the test
}

class StoreHandler {
 public:
  StoreHandler() {
    struct sigaction wanted {};
    wanted.sa_sigaction = on_store;
    wanted.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &wanted, &before_);
  }
  ~StoreHandler() { ::sigaction(SIGSEGV, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

/// How often one of the two ranks stored into the block that their peer finishes, in three all-reduces of `bytes`, the first `not_counted`
/// not counted.
int stores_into_answered_blocks(std::size_t bytes, bool in_place, const char* algorithm = "two_shot", int not_counted = 0) {
  Options options = with_transport("shm");
  options.algorithm = algorithm;
  const StoreHandler handler;
  std::atomic<int> stores{0};
  on_ranks(2, options, [&](Communicator& world) {
    const std::size_t count = bytes / sizeof(int);
    Memory memory = allocate(world, 2 * bytes);
    int* const in = reinterpret_cast<int*>(memory.data());
    int* const out = in_place ? in : in + count;
    const int rank = world.rank();
    // Rank r finishes half r, which is whole pages.
    std::byte* const given = reinterpret_cast<std::byte*>(out) + static_cast<std::size_t>(1 - rank) * bytes / 2;
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<int>(i) + rank + round;
      watched[static_cast<std::size_t>(rank)].protect(given, bytes / 2);
      world.all_reduce(in, out, count, DataType::i32);
      const int caught = watched[static_cast<std::size_t>(rank)].release();
      if (round >= not_counted) stores += caught;
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], 2 * static_cast<int>(i) + 1 + 2 * round) << i;
    }
  });
  return stores;
}

constexpr std::size_t kOneMessage = 128 * 1024, kManyMessages = 8 << 20;

TEST(Answers, ASumInPlaceIsWrittenByThePeer) {
  for (const std::size_t bytes : {kOneMessage, kManyMessages})
    EXPECT_EQ(stores_into_answered_blocks(bytes, true), 0) << "ranks copied their sums, of " << bytes << " bytes";
}

TEST(Answers, ASumOutOfPlaceIsWrittenByThePeer) {
  for (const std::size_t bytes : {kOneMessage, kManyMessages})
    EXPECT_EQ(stores_into_answered_blocks(bytes, false), 0) << "ranks copied their sums, of " << bytes << " bytes";
}

bool have_two_cores() { return std::thread::hardware_concurrency() >= 2; }

// The choice, which knows nothing of buffers, is not asked after the first call.
TEST(Answers, BothHavingSharedMemorySumByHalvesFromTheSecondCallOn) {
  if (!have_two_cores()) GTEST_SKIP() << "two ranks share one core";
  for (const std::size_t bytes : {std::size_t{16} << 10, std::size_t{64} << 10, std::size_t{512} << 10, std::size_t{32} << 20})
    EXPECT_EQ(stores_into_answered_blocks(bytes, true, "", 1), 0) << bytes;
  EXPECT_EQ(stores_into_answered_blocks(512 << 10, false, "", 1), 0);
}

// Each rank takes what memory it likes in every call: what the other has differs, and so does what both know of the last call.
TEST(Answers, SumsAreRightWhoeverHasSharedMemory) {
  for (const bool is_asynchronous : {false, true}) {
    on_ranks(2, with_transport("shm"), [&](Communicator& world) {
      constexpr std::size_t kMost = 40'000;
      constexpr int kCalls = 300;
      Memory memory = allocate(world, 2 * kMost * sizeof(double));
      std::vector<double> own(2 * kMost);
      std::mt19937 alike(7), apart(static_cast<unsigned>(world.rank()));
      std::array<int, 4> kinds{};
      int kind = 0;
      for (int call = 0; call < kCalls; ++call) {
        if (apart() % 4 == 0) kind = static_cast<int>(apart() % 4);  // else as before: then both may have what they had
        ++kinds[static_cast<std::size_t>(kind)];
        const bool is_double = alike() % 2 == 0;
        const std::size_t count = alike() % 3 == 0 ? kMost : kMost / 2;
        std::byte* const base = kind < 2 ? memory.data() : reinterpret_cast<std::byte*>(own.data());
        const auto sum = [&](auto zero) {
          auto* const in = reinterpret_cast<decltype(zero)*>(base);
          auto* const out = kind % 2 == 0 ? in : in + kMost;
          for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<decltype(zero)>(static_cast<int>(i % 1000) + world.rank() + call);
          const DataType type = sizeof(zero) == sizeof(double) ? DataType::f64 : DataType::f32;
          if (is_asynchronous)
            world.all_reduce_async(in, out, count, type).wait();
          else
            world.all_reduce(in, out, count, type);
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(out[i], static_cast<decltype(zero)>(2 * static_cast<int>(i % 1000) + 1 + 2 * call)) << call << ' ' << i;
        };
        is_double ? sum(0.0) : sum(0.0f);
      }
      for (const int taken : kinds) EXPECT_GT(taken, 0);
    });
  }
}

// Scaling, dividing and converting on the way, and blocks that are no multiple of a vector or a tile.
TEST(Answers, ResultsOfEveryKindAreThoseOfPrivateMemory) {
  Options options = with_transport("shm");
  options.algorithm = "two_shot";
  on_ranks(2, options, [](Communicator& world) {
    constexpr std::size_t kMost = 600'000;
    Memory memory = allocate(world, 2 * kMost);
    std::vector<std::byte> in(kMost), out(kMost);
    for (std::size_t i = 0; i < kMost; ++i) in[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(world.rank()) * 13) % 63);
    for (const DataType type : {DataType::f64, DataType::f32, DataType::bf16, DataType::f8_e5m2, DataType::i32, DataType::u8}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::avg, ReduceOp::premul_sum}) {
        for (const std::size_t bytes : {std::size_t{40'008}, kMost}) {
          const std::size_t count = bytes / size_of(type);
          world.all_reduce(in.data(), out.data(), count, type, op, 3.0);
          for (const bool in_place : {true, false}) {
            std::byte* const result = memory.data() + (in_place ? 0 : kMost);
            std::memcpy(memory.data(), in.data(), bytes);
            world.all_reduce(memory.data(), result, count, type, op, 3.0);
            EXPECT_EQ(std::memcmp(result, out.data(), bytes), 0)
                << "type " << static_cast<int>(type) << ", op " << static_cast<int>(op) << ", " << bytes << " bytes, in place " << in_place;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace peal::test
