// What communicators hold: bounds that do not depend on the machine. Shared memory is counted by the blocks behind the segments of this
// process (the ranks are its threads, so by inode), heap by what malloc has handed out.
#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "core_ranks.hpp"

namespace peal::comm {
namespace {

std::uint64_t shared_bytes() {
  std::map<std::uint64_t, std::uint64_t> segments;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder)) {
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    char target[64] = {};
    struct stat info {};
    if (readlink(path.c_str(), target, sizeof target - 1) < 0 || std::strncmp(target, "/memfd:peal", 11) != 0) continue;
    if (stat(path.c_str(), &info) == 0) segments[info.st_ino] = static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  if (folder != nullptr) closedir(folder);
  std::uint64_t sum = 0;
  for (const auto& [inode, bytes] : segments) sum += bytes;
  return sum;
}

std::uint64_t heap_bytes() {
  // Sanitizers have a heap of their own, and asking the C library's, which is not set up then, from several threads breaks it.
  if (kIsSanitized) return 0;
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// A small call and a large one.
Status use(Core& core) {
  std::vector<float> data(1 << 18, 1.0F);
  for (const std::size_t count : {std::size_t{2}, data.size()}) {
    Call call{Collective::all_reduce, data.data(), data.data(), count, DataType::f32};
    call.op = ReduceOp::max;
    PEAL_TRY(core.run(call));
  }
  return {};
}

Status barrier(Core& core) { return core.run(Call{Collective::barrier}); }

// What all ranks hold, read by each in turn while the others wait (reading takes memory, too). Signed, because a later reading may be the
// smaller one: malloc counts what lies in a thread's cache as handed out until it takes it back.
Result<std::int64_t> held_bytes(Core& world) {
  std::int64_t held = 0;
  for (int turn = 0; turn < world.size(); ++turn) {
    PEAL_TRY(barrier(world));
    if (turn == world.rank()) held = static_cast<std::int64_t>(shared_bytes() + heap_bytes());
  }
  PEAL_TRY(barrier(world));
  return held;
}

TEST(Memory, AGroupOfOneHoldsLessThan64KiB) {
  on_cores(2, core_options(), [](Core& world) -> Status {
    PEAL_TRY(use(world));
    PEAL_ASSIGN(const std::int64_t before, held_bytes(world));
    PEAL_ASSIGN(const auto alone, world.split(world.rank(), 0));
    PEAL_TRY(use(*alone));
    PEAL_ASSIGN(const std::int64_t after, held_bytes(world));
    // Of both ranks together.
    EXPECT_LT(after - before, std::int64_t{2 * 64} << 10);
    return {};
  });
}

// Ranks, and by which protocol; empty: what is chosen.
class MemoryOfRanks : public ::testing::TestWithParam<std::pair<int, const char*>> {};

TEST_P(MemoryOfRanks, AHundredGroupsOverTheSameRanksHoldLessThanTwiceTheMemoryOfOne) {
  CoreOptions options = core_options();
  options.wishes.protocol = GetParam().second;
  on_cores(GetParam().first, options, [](Core& world) -> Status {
    PEAL_ASSIGN(const std::int64_t before, held_bytes(world));
    std::vector<std::shared_ptr<Core>> groups;
    std::int64_t one = 0;
    for (const std::size_t many : {1, kIsSanitized ? 20 : 100}) {  // a group takes half a second under a sanitizer
      while (groups.size() < many) {
        PEAL_ASSIGN(auto group, world.split(0, world.rank()));
        groups.push_back(std::move(group));
      }
      for (const auto& group : groups) PEAL_TRY(use(*group));
      PEAL_ASSIGN(const std::int64_t after, held_bytes(world));
      const std::int64_t held = after - before;
      if (many == 1) one = held;
      EXPECT_LT(held, 2 * one) << many << " groups, one holds " << one;
    }
    return {};
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, MemoryOfRanks, ::testing::Values(std::pair(2, ""), std::pair(8, ""), std::pair(8, "direct_read")));

TEST(Memory, GroupsInDifferentOrdersOnDifferentRanksDoNotWaitForEachOther) {
  // Rank 0 sends first in one group and then in the other, rank 1 receives the other way around: both lie in slots at the same time.
  on_cores(2, core_options(), [](Core& world) -> Status {
    PEAL_ASSIGN(const auto a, world.split(0, world.rank()));
    PEAL_ASSIGN(const auto b, world.split(0, world.rank()));
    for (int round = 0; round < 50; ++round) {
      Core* order[2] = {a.get(), b.get()};
      if (world.rank() == 1) std::swap(order[0], order[1]);
      for (Core* core : order) {
        const int mark = core == a.get() ? 1000 + round : 2000 + round;
        std::vector<int> data(10000, world.rank() == 0 ? mark : 0);
        PairTransfer transfer{data.data(), data.data(), world.rank() == 0, data.size(), DataType::i32, 1 - world.rank()};
        PEAL_TRY(core->run_group({&transfer, 1}));
        EXPECT_EQ(data, std::vector<int>(data.size(), mark));
      }
    }
    return {};
  });
}

}  // namespace
}  // namespace peal::comm
