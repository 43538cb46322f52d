// What goes to several ranks is copied once; a rank that comes late must not keep the others waiting.
#include <atomic>
#include <numeric>

#include "core_ranks.hpp"

namespace peal::comm {
namespace {

Call broadcast_of(std::vector<std::int32_t>& data, int root) {
  Call call;
  call.collective = Collective::broadcast;
  call.send = data.data();
  call.receive = data.data();
  call.count = data.size();
  call.type = DataType::i32;
  call.root = root;
  return call;
}

CoreOptions directly() {
  CoreOptions options = core_options();
  options.wishes.algorithm = "direct";
  return options;
}

// More messages than there are shared slots, and fewer than a ring has lines: rank 2 comes only when rank 1 has them all.
TEST(OneCopy, ARankThatComesLateDoesNotKeepTheOthersWaiting) {
  constexpr int kMessages = 6;
  std::atomic<bool> has_all{false};
  on_cores(3, directly(), [&](Core& core) -> Status {
    if (core.rank() == 2)
      while (!has_all.load()) std::this_thread::yield();
    for (int i = 0; i < kMessages; ++i) {
      std::vector<std::int32_t> data(3000, core.rank() == 0 ? 100 + i : -1);
      PEAL_TRY(core.run(broadcast_of(data, 0)));
      EXPECT_EQ(data, std::vector<std::int32_t>(3000, 100 + i)) << "rank " << core.rank();
    }
    if (core.rank() == 1) has_all.store(true);
    return {};
  });
}

TEST(OneCopy, EveryRankGetsTheRightBytesFromEveryRoot) {
  for (const int ranks : {2, 3, 4, 5, 7, 8}) {
    on_cores(ranks, directly(), [&](Core& core) -> Status {
      // Below and above where messages are stored once, in one piece and in several, the last of them shorter.
      for (const std::uint64_t count : unless_sanitized({2047, 2048, 5000, 70'001, 300'003}, {2048, 5000, 70'001})) {
        for (int root = 0; root < core.size(); ++root) {
          std::vector<std::int32_t> expected(count);
          std::iota(expected.begin(), expected.end(), root);
          std::vector<std::int32_t> data = core.rank() == root ? expected : std::vector<std::int32_t>(count, -1);
          PEAL_TRY(core.run(broadcast_of(data, root)));
          EXPECT_EQ(data, expected) << count << " elements from " << root << " at " << core.rank() << " of " << core.size();
        }
      }
      return {};
    });
  }
}

}  // namespace
}  // namespace peal::comm
