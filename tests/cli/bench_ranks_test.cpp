// What a benchmark tells its ranks: `peal tune` drops ways by it, and ranks that dropped different ones would wait for one another for
// ever.
#include <cli/bench.hpp>
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

}  // namespace
}  // namespace peal::cli
