// The choice of how slots are filled, against channels whose speed is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <executor/fill_choice.hpp>

namespace peal::executor {
namespace {

constexpr std::uint64_t kMessage = 128 * 1024;

/// What a byte costs, in nanoseconds: the sender to fill, and the receiver to take out.
struct Way {
  double filling;
  double draining;
};

struct Traffic {
  std::uint64_t bytes = kMessage;
  int in_call = 64;
  bool is_timed = true;
  std::int64_t between_ns = 0;
};

class Stream : private Traffic {
 public:
  explicit Stream(const Traffic& traffic = {}) : Traffic(traffic) {}
  int clocks = 0;  // how often the clock was read

  // Fills `messages` messages in calls of `in_call`, of which the receiver times one in four, if `is_timed`. In long calls the sender waits
  // for the receiver. Returns the share of the messages that went past the caches.
  double run(FillChoice& choice, int messages, Way cached, Way past) {
    int gone_past = 0;
    for (int i = 0; i < messages; ++i) {
      const bool is_past = choice.stores() == reduce::Stores::streaming;
      gone_past += is_past ? 1 : 0;
      const Way& way = is_past ? past : cached;
      if (i % in_call == 0) now_ += 1'000'000'000;  // between two calls the caller computes: that is nobody's cost
      const double waiting = in_call > 4 ? std::max(0.0, way.draining - way.filling) : 0;
      now_ += ns(waiting);
      const bool counts = choice.is_to_be_timed(bytes, i % in_call == 0);
      if (counts) choice.begin(now_);
      now_ += ns(way.filling);
      if (is_timed && i % 4 == 0) drained_ = {drained_.ns + static_cast<std::uint64_t>(ns(way.draining)), drained_.bytes + bytes};
      EXPECT_EQ(choice.is_timing(), counts);
      if (counts && choice.end(bytes, now_)) choice.take_sample(drained_);
      clocks += counts ? 2 : 0;
      now_ += between_ns;
    }
    return static_cast<double>(gone_past) / messages;
  }

 private:
  std::int64_t ns(double of_a_byte) const { return static_cast<std::int64_t>(of_a_byte * static_cast<double>(bytes)); }

  std::int64_t now_ = 1;
  transport::Drained drained_;
};

TEST(FillChoice, BeginsThroughTheCaches) { EXPECT_EQ(FillChoice().stores(), reduce::Stores::cached); }

TEST(FillChoice, OfRanksThatShareCoresBeginsPastThem) {
  EXPECT_EQ(FillChoice(FillChoice::Of::all_to_other_cores).stores(), reduce::Stores::streaming);
}

TEST(FillChoice, OfRanksThatShareCoresCountsFillingAlone) {
  // From message to message others have their turns, 20 times as long as it takes to fill one.
  for (const int in_call : {2, 64}) {
    FillChoice near(FillChoice::Of::all_to_other_cores), far(FillChoice::Of::all_to_other_cores);
    Stream stream({.in_call = in_call, .is_timed = false, .between_ns = 200'000});
    stream.run(near, 1000, {0.09, 0}, {0.06, 0});
    EXPECT_LT(stream.run(near, 20'000, {0.09, 0}, {0.06, 0}), 0.03) << in_call;
    stream.run(far, 1000, {0.24, 0}, {0.08, 0});
    EXPECT_GT(stream.run(far, 20'000, {0.24, 0}, {0.08, 0}), 0.97) << in_call;
  }
}

TEST(FillChoice, OfRanksThatShareCoresIsNotMisledByWhatReceiversSay) {
  FillChoice near(FillChoice::Of::all_to_other_cores);
  Stream stream({.in_call = 2, .is_timed = true});  // each end counts for itself: differences between two ends mean nothing
  stream.run(near, 1000, {0.09, 5}, {0.06, 0});
  EXPECT_LT(stream.run(near, 20'000, {0.09, 5}, {0.06, 0}), 0.03);
}

TEST(FillChoices, AreOneForEachEndUnlessRanksShareCores) {
  FillChoices choices;
  choices.resize(8);
  EXPECT_NE(choices.find(1), nullptr);
  EXPECT_NE(choices.find(1), choices.find(2));
  EXPECT_EQ(choices.find(1), choices.find_shared(1));
  FillChoices on_shared_cores;  // rank 0 of 4, two channels
  on_shared_cores.share_core({true, true, false, false});
  on_shared_cores.resize(8);
  EXPECT_EQ(on_shared_cores.find(1), nullptr) << "the same core: through its caches";
  EXPECT_EQ(on_shared_cores.find(5), nullptr);
  ASSERT_NE(on_shared_cores.find(2), nullptr);
  for (const std::size_t end : {3U, 6U, 7U}) EXPECT_EQ(on_shared_cores.find(end), on_shared_cores.find(2));
  EXPECT_EQ(on_shared_cores.find_shared(1), on_shared_cores.find(2)) << "what several read, on other cores too";
}

TEST(FillChoice, GoesPastTheCachesWhereThatIsFaster) {
  FillChoice choice;
  Stream stream;
  stream.run(choice, 100, {0.2, 0.5}, {0.1, 0.1});
  EXPECT_GT(stream.run(choice, 20'000, {0.2, 0.5}, {0.1, 0.1}), 0.97);
}

TEST(FillChoice, StaysWithTheCachesWhereTheyAreFaster) {
  FillChoice choice;
  Stream stream;
  stream.run(choice, 1000, {0.1, 0.1}, {0.05, 0.13});
  EXPECT_LT(stream.run(choice, 20'000, {0.1, 0.1}, {0.05, 0.13}), 0.03);
}

TEST(FillChoice, CountsInShortCallsWhatTheReceiverTakes) {
  for (const int in_call : {1, 2, 4}) {
    for (const std::uint64_t bytes : {std::uint64_t{8 * 1024}, std::uint64_t{16 * 1024}, kMessage}) {
      FillChoice near, far;
      Stream stream({.bytes = bytes, .in_call = in_call});
      const int messages = static_cast<int>(3'000 * (kMessage / bytes));
      const Way near_cached{0.05, 0.04}, near_past{0.03, 0.16}, far_cached{0.2, 0.4}, far_past{0.06, 0.2};
      stream.run(near, messages, near_cached, near_past);
      EXPECT_LT(stream.run(near, messages, near_cached, near_past), 0.03) << in_call << " of " << bytes;
      stream.run(far, messages / 3, far_cached, far_past);
      EXPECT_GT(stream.run(far, messages, far_cached, far_past), 0.97) << in_call << " of " << bytes;
    }
  }
}

TEST(FillChoice, TakesFetchingForAsLongAsFillingFromAReceiverThatTimesNothing) {
  FillChoice near, far;
  Stream stream({.in_call = 2, .is_timed = false});
  stream.run(near, 1000, {0.09, 1}, {0.06, 1});
  EXPECT_LT(stream.run(near, 20'000, {0.09, 1}, {0.06, 1}), 0.03);
  stream.run(far, 1000, {0.24, 1}, {0.08, 1});
  EXPECT_GT(stream.run(far, 20'000, {0.24, 1}, {0.08, 1}), 0.97);
}

TEST(FillChoice, CountsInShortCallsNothingButFillingAndTaking) {
  FillChoice choice;
  Stream stream({.in_call = 4, .between_ns = 100'000});
  stream.run(choice, 1000, {0.24, 0.2}, {0.08, 0.1});
  EXPECT_GT(stream.run(choice, 20'000, {0.24, 0.2}, {0.08, 0.1}), 0.97);
}

TEST(FillChoice, ReadsTheClockSeldomForShortMessagesOfShortCalls) {
  FillChoice choice;
  Stream stream({.bytes = 16 * 1024, .in_call = 1});
  stream.run(choice, 10'000, {0.1, 0.1}, {0.1, 0.2});
  EXPECT_EQ(stream.clocks, 2 * 10'000 / 4);
}

TEST(FillChoice, NoticesSoonThatTheCoresHaveMoved) {
  FillChoice choice;
  Stream stream;
  const Way near_cached{0.1, 0.1}, far_cached{0.2, 0.6}, past{0.08, 0.13};
  stream.run(choice, 10'000, near_cached, past);
  stream.run(choice, 400, far_cached, past);  // 50 MiB
  EXPECT_GT(stream.run(choice, 1000, far_cached, past), 0.9);
  stream.run(choice, 4000, {0.05, 0.07}, past);
  EXPECT_LT(stream.run(choice, 1000, {0.05, 0.07}, past), 0.1);
}

TEST(FillChoice, ChangesForNothingWhereBothCostTheSame) {
  FillChoice choice;
  Stream stream;
  EXPECT_LT(stream.run(choice, 20'000, {0.2, 0.2}, {0.2, 0.2}), 0.05);
}

}  // namespace
}  // namespace peal::executor
