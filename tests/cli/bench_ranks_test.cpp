// What a benchmark tells its ranks: `peal tune` drops ways by it, and ranks that dropped different ones would wait for one another for
// ever.
#include <base/names.hpp>
#include <cli/bench.hpp>
#include <cli/bench_buffers.hpp>
#include <mutex>
#include <thread>

#include "../comm/core_ranks.hpp"

namespace peal::cli {
namespace {

TEST(BenchRanks, EveryRankGetsTheSameRow) {
  constexpr int kRanks = 2;
  if (std::thread::hardware_concurrency() < kRanks) GTEST_SKIP() << "two ranks need two cores here";
  std::mutex mutex;
  std::vector<BenchHalf> halves;
  comm::on_cores(kRanks, comm::core_options(), [&](comm::Core& core) {
    BenchOptions options;
    options.last = options.first;
    options.iterations = 5;
    options.in_place = false;
    return run_bench(core, core, options, [&](const BenchRow& row) {
      const std::lock_guard lock(mutex);
      halves.push_back(row.half[0]);
    });
  });
  ASSERT_EQ(halves.size(), std::size_t{kRanks});
  EXPECT_EQ(halves[0].p50_us, halves[1].p50_us);
  EXPECT_EQ(halves[0].line_ns, halves[1].line_ns) << "each measures an exchange of flags by its own clock";
  EXPECT_EQ(halves[0].line_after_ns, halves[1].line_after_ns);
}

TEST(BenchRanks, WhatIsReservedHoldsEveryCallUpToThatSize) {
  comm::on_cores(3, comm::core_options(), [](comm::Core& core) -> Status {
    for (int c = 0; c < kCollectiveCount; ++c) {
      BenchOptions options;
      options.collective = static_cast<Collective>(c);
      BenchBuffers buffers(options, core);
      PEAL_TRY(buffers.reserve(Bytes{3 << 20}));
      for (const std::uint64_t bytes : {std::uint64_t{3} << 20, std::uint64_t{8}, std::uint64_t{2500} << 10}) {
        PEAL_TRY(buffers.shape(Bytes{bytes}));
        buffers.fill(false);
      }
      if (options.collective == Collective::barrier) continue;  // it has no size
      EXPECT_FALSE(buffers.shape(Bytes{6 << 20})) << name_of(options.collective) << ": more than was reserved";
    }
    return {};
  });
}

}  // namespace
}  // namespace peal::cli
