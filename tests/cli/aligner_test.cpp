#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cli/aligner.hpp>

#include "../comm/core_ranks.hpp"

namespace peal::cli {
namespace {

// Whoever is early waits, by the spin barrier and by the clock, and what is shown before the other looks is not missed.
TEST(Aligner, NobodyStartsBeforeAllHaveCome) {
  constexpr int kTimes = 20;
  for (const int ranks : {1, 2, 3}) {
    std::array<std::atomic<int>, 2 * kTimes> come{};
    comm::on_cores(ranks, comm::core_options(), [&](comm::Core& core) -> Status {
      Aligner aligner(core);
      PEAL_TRY(aligner.open());
      for (int i = 0; i < 2; ++i) {
        PEAL_TRY(aligner.compare_clocks());
        PEAL_ASSIGN(const double exchange_ns, aligner.exchange_flags());
        EXPECT_GE(exchange_ns, 0);
      }
      for (int i = 0; i < kTimes; ++i) {
        for (const bool is_by_clock : {false, true}) {
          std::atomic<int>& here = come[static_cast<std::size_t>(2 * i + (is_by_clock ? 1 : 0))];
          ++here;
          PEAL_TRY(is_by_clock ? aligner.start_by_clock() : aligner.meet());
          EXPECT_EQ(here, ranks);
        }
      }
      return {};
    });
  }
}

}  // namespace
}  // namespace peal::cli
