// The choice of how slots are filled, against channels whose speed is known.
#include <gtest/gtest.h>

#include <executor/fill_choice.hpp>

namespace peal::executor {
namespace {

constexpr std::uint64_t kMessage = 128 * 1024;

// Fills `messages` messages in calls of `in_call` over a channel where a byte costs `cached_ns` or `past_ns`. Returns the share of them
// that went past the caches.
double stream(FillChoice& choice, std::int64_t& now, int messages, double cached_ns, double past_ns, int in_call = 64,
              std::int64_t between_ns = 0) {
  int past = 0;
  for (int i = 0; i < messages; ++i) {
    const bool is_past = choice.stores() == reduce::Stores::streaming;
    past += is_past ? 1 : 0;
    if (i % in_call == 0) now += 1'000'000'000;  // between two calls the caller computes: that is nobody's cost
    choice.begin(i % in_call == 0, now);
    now += static_cast<std::int64_t>((is_past ? past_ns : cached_ns) * kMessage);
    choice.sent(kMessage, now);
    now += between_ns;
  }
  return static_cast<double>(past) / messages;
}

TEST(FillChoice, BeginsThroughTheCaches) { EXPECT_EQ(FillChoice().stores(), reduce::Stores::cached); }

TEST(FillChoice, GoesPastTheCachesWhereThatIsFaster) {
  FillChoice choice;
  std::int64_t now = 0;
  stream(choice, now, 100, 0.5, 0.1);
  EXPECT_GT(stream(choice, now, 20'000, 0.5, 0.1), 0.97);
}

TEST(FillChoice, StaysWithTheCachesWhereTheyAreFaster) {
  FillChoice choice;
  std::int64_t now = 0;
  stream(choice, now, 1000, 0.1, 0.13);
  EXPECT_LT(stream(choice, now, 20'000, 0.1, 0.13), 0.03);
}

TEST(FillChoice, CountsInShortCallsWhatTheReceiverFetches) {
  for (const int in_call : {1, 2, 4}) {
    FillChoice near, far;
    std::int64_t now = 0;
    stream(near, now, 1000, 0.09, 0.06, in_call);
    EXPECT_LT(stream(near, now, 20'000, 0.09, 0.06, in_call), 0.03) << in_call;
    stream(far, now, 1000, 0.24, 0.08, in_call);
    EXPECT_GT(stream(far, now, 20'000, 0.24, 0.08, in_call), 0.97) << in_call;
  }
}

TEST(FillChoice, CountsInShortCallsNothingButFilling) {
  FillChoice choice;
  std::int64_t now = 0;
  stream(choice, now, 1000, 0.24, 0.08, 4, 100'000);
  EXPECT_GT(stream(choice, now, 20'000, 0.24, 0.08, 4, 100'000), 0.97);
}

TEST(FillChoice, NoticesSoonThatTheCoresHaveMoved) {
  FillChoice choice;
  std::int64_t now = 0;
  stream(choice, now, 10'000, 0.1, 0.13);
  stream(choice, now, 400, 0.6, 0.12);  // 50 MiB
  EXPECT_GT(stream(choice, now, 1000, 0.6, 0.12), 0.9);
  stream(choice, now, 4000, 0.07, 0.12);
  EXPECT_LT(stream(choice, now, 1000, 0.07, 0.12), 0.1);
}

TEST(FillChoice, ChangesForNothingWhereBothCostTheSame) {
  FillChoice choice;
  std::int64_t now = 0;
  EXPECT_LT(stream(choice, now, 20'000, 0.2, 0.2), 0.05);
}

}  // namespace
}  // namespace peal::executor
