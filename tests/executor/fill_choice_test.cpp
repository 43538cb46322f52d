// The choice of how slots are filled, against channels whose speed is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <executor/fill_choice.hpp>
#include <vector>

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
  int timed_of = 4;
  std::int64_t between_ns = 0;
  transport::Drained* drained = nullptr;  // what the receiver has taken out of several streams; null: of this one
};

class Stream : private Traffic {
 public:
  explicit Stream(const Traffic& traffic = {}) : Traffic(traffic) {}
  int clocks = 0;  // how often the clock was read

  // Fills `messages` messages in calls of `in_call`, of which the receiver times one in `timed_of`, if `is_timed`. In long calls the sender
  // waits for the receiver. Returns the share of the messages that went past the caches.
  double run(FillChoice& choice, int messages, Way cached, Way past) {
    int gone_past = 0;
    for (int i = 0; i < messages; ++i) {
      if (i % in_call == 0) now_ += 1'000'000'000;  // between two calls the caller computes: that is nobody's cost
      now_ += ns(waiting_);
      const bool counts = choice.is_to_be_timed(bytes, i % in_call == 0);
      const bool is_past = choice.stores() == reduce::Stores::streaming;
      gone_past += is_past ? 1 : 0;
      const Way& way = is_past ? past : cached;
      waiting_ = in_call > 4 ? std::max(0.0, way.draining - way.filling) : 0;
      if (counts) choice.begin(now_);
      now_ += ns(way.filling);
      transport::Drained& taken = drained != nullptr ? *drained : drained_;
      if (is_timed && i % timed_of == 0) taken = {taken.ns + static_cast<std::uint64_t>(ns(way.draining)), taken.bytes + bytes};
      EXPECT_EQ(choice.is_timing(), counts);
      if (counts && choice.end(bytes, now_)) choice.take_sample(taken);
      clocks += counts ? 2 : 0;
      now_ += between_ns;
    }
    return static_cast<double>(gone_past) / messages;
  }

 private:
  std::int64_t ns(double of_a_byte) const { return static_cast<std::int64_t>(of_a_byte * static_cast<double>(bytes)); }

  std::int64_t now_ = 1;
  double waiting_ = 0;  // of a byte, for the place that the message before took
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

// Of a sample of long messages the receiver may have timed none, and of the next one it has.
TEST(FillChoice, IsRightHoweverOftenTheReceiverTimesOne) {
  constexpr Way far_cached{0.05, 0.4}, far_past{0.06, 0.1}, near_cached{0.05, 0.05}, near_past{0.08, 0.1};
  for (const std::uint64_t bytes : {std::uint64_t{128 * 1024}, std::uint64_t{256 * 1024}}) {
    for (const int in_call : {4, 64}) {
      for (const int timed_of : {4, 5, 7, 16}) {
        FillChoice far, near;
        Stream stream({.bytes = bytes, .in_call = in_call, .timed_of = timed_of});
        stream.run(far, 400, far_cached, far_past);
        EXPECT_GT(stream.run(far, 20'000, far_cached, far_past), 0.9)
            << bytes << " bytes, " << in_call << " a call, one timed of " << timed_of;
        stream.run(near, 400, near_cached, near_past);
        EXPECT_LT(stream.run(near, 20'000, near_cached, near_past), 0.1)
            << bytes << " bytes, " << in_call << " a call, one timed of " << timed_of;
      }
    }
  }
}

// Two ranks that fill a message and take one out, by turns, and wait for each other: each one's choice is the other's time.
TEST(FillChoice, OfRanksThatExchangeCountsWhatItCostsTheOther) {
  const auto far_share = [](Way cached, Way past) {
    FillChoice choices[2];
    transport::Drained drained[2];
    std::int64_t now = 1;
    int gone_past = 0;
    const int kCalls = 1000, kInCall = 64;
    // One of them knows the slots already, so that they do not try at the same time.
    Stream({.in_call = kInCall}).run(choices[0], 5 * kInCall, {0.1, 0.1}, {0.1, 0.1});
    drained[0] = {1000, 1000};
    for (int i = 0; i < kCalls * kInCall; ++i) {
      const Way* ways[2];
      std::int64_t filled_ns[2];
      bool is_timed[2];
      for (int r = 0; r < 2; ++r) {
        choices[r].set_receives(true);
        is_timed[r] = choices[r].is_to_be_timed(kMessage, i % kInCall == 0);
        ways[r] = choices[r].stores() == reduce::Stores::streaming ? &past : &cached;
        filled_ns[r] = now + static_cast<std::int64_t>(ways[r]->filling * kMessage);
        if (i >= kCalls * kInCall / 2 && ways[r] == &past) ++gone_past;
        if (is_timed[r]) choices[r].begin(now);
      }
      for (int r = 0; r < 2; ++r) {
        const auto taken = static_cast<std::int64_t>(ways[r]->draining * kMessage);
        if (i % 4 == 0) drained[r] = {drained[r].ns + static_cast<std::uint64_t>(taken), drained[r].bytes + kMessage};
        if (is_timed[r] && choices[r].end(kMessage, filled_ns[r])) choices[r].take_sample(drained[r]);
        now = std::max(now, filled_ns[1 - r] + taken);
      }
    }
    return gone_past / (1.0 * kCalls * kInCall);  // of both ranks' messages of the second half
  };
  EXPECT_GT(far_share({0.08, 0.5}, {0.1, 0.12}), 0.97);
  EXPECT_LT(far_share({0.1, 0.05}, {0.06, 0.16}), 0.03);
}

TEST(FillChoice, CountsInShortCallsNothingButFillingAndTaking) {
  FillChoice choice;
  Stream stream({.in_call = 4, .between_ns = 100'000});
  stream.run(choice, 1000, {0.24, 0.2}, {0.08, 0.1});
  EXPECT_GT(stream.run(choice, 20'000, {0.24, 0.2}, {0.08, 0.1}), 0.97);
}

TEST(FillChoice, ReadsTheClockSeldomForShortMessagesOfShortCalls) {
  FillChoice choice;
  constexpr std::uint64_t kBytes = 16 * 1024;
  Stream stream({.bytes = kBytes, .in_call = 1});
  stream.run(choice, 10'000, {0.1, 0.1}, {0.1, 0.2});
  EXPECT_EQ(stream.clocks, 2 * 10'000 / (transport::TimingTurns::kEach / kBytes));
}

TEST(FillChoice, NoticesSoonThatTheCoresHaveMoved) {
  FillChoice choice;
  Stream stream;
  const Way near_cached{0.1, 0.1}, far_cached{0.2, 0.6}, past{0.08, 0.13};
  stream.run(choice, 10'000, near_cached, past);
  stream.run(choice, 32, far_cached, past);  // 4 MiB
  EXPECT_GT(stream.run(choice, 1000, far_cached, past), 0.97);
  stream.run(choice, 4000, {0.05, 0.07}, past);
  EXPECT_LT(stream.run(choice, 1000, {0.05, 0.07}, past), 0.1);
}

// Where the other way takes seven times as long, a trial of a mebibyte would take as long as all that lies between two trials at first.
TEST(FillChoice, GivesUpSoonWhatIsFarSlower) {
  constexpr Way cached{0.6, 0.1}, past{0.04, 0.06};
  for (const int in_call : {2, 64}) {
    for (const std::uint64_t bytes : {std::uint64_t{16 * 1024}, kMessage}) {
      FillChoice choice;
      Stream stream({.bytes = bytes, .in_call = in_call});
      const int mebibyte = static_cast<int>((1 << 20) / bytes);
      stream.run(choice, 50 * mebibyte, cached, past);
      EXPECT_GT(stream.run(choice, 2048 * mebibyte, cached, past), 0.996) << in_call << " of " << bytes;
    }
  }
}

// Both ways fill alike, and what was filled past the caches takes the receiver far longer: he says so before a trial has gone on for long.
TEST(FillChoice, GivesUpSoonWhatIsFarSlowerToTakeOut) {
  constexpr Way cached{0.011, 0.02}, past{0.012, 0.07};
  for (const std::uint64_t bytes : {std::uint64_t{4 * 1024}, std::uint64_t{16 * 1024}}) {
    FillChoice choice;
    Stream stream({.bytes = bytes, .in_call = 2});
    const int mebibyte = static_cast<int>((1 << 20) / bytes);
    EXPECT_EQ(stream.run(choice, 5 * mebibyte, cached, past), 0) << bytes;
    const double on_trial = stream.run(choice, 2 * mebibyte, cached, past);
    EXPECT_GT(on_trial, 0) << bytes;
    EXPECT_LT(on_trial, 0.2) << bytes;
    EXPECT_LT(stream.run(choice, 256 * mebibyte, cached, past), 0.01) << bytes;
  }
}

// One communicator of a process has found out where the cores lie.
TEST(FillChoice, OfAnotherCommunicatorBeginsWithWhatWasFound) {
  constexpr Way cached{0.6, 0.1}, past{0.04, 0.06};
  WaysFound found;
  FillChoice first(FillChoice::Of::one_end, &found.to(3)), second(FillChoice::Of::one_end, &found.to(3)),
      elsewhere(FillChoice::Of::one_end, &found.to(4));
  Stream first_stream({.in_call = 2}), second_stream({.in_call = 2}), stream_elsewhere({.in_call = 2});
  EXPECT_LT(first_stream.run(first, 8, cached, past), 0.1) << "nobody knows yet";
  first_stream.run(first, 1000, cached, past);
  EXPECT_EQ(second_stream.run(second, 8, cached, past), 1);
  EXPECT_EQ(stream_elsewhere.run(elsewhere, 8, cached, past), 0);
}

TEST(FillChoice, ShortMessagesStayInTheCachesUntilOthersHaveFoundTheOtherWayBetter) {
  WaysFound found;
  FillChoice choice(FillChoice::Of::one_end, &found.to(0)), alone;
  for (const bool is_past : {false, true, false}) {
    found.to(0).note(is_past, false);
    for (const bool receives : {false, true}) {
      choice.set_receives(receives);
      alone.set_receives(receives);
      for (FillChoice* each : {&choice, &alone}) EXPECT_FALSE(each->is_to_be_timed(3 * 1024, true));
      EXPECT_EQ(choice.stores() == reduce::Stores::streaming, is_past && receives);
      EXPECT_EQ(alone.stores(), reduce::Stores::cached) << "nobody tells it";
    }
  }
}

// Short messages of a rank that receives as well, after longer ones have found the way past the caches better.
class ShortMessages {
 public:
  ShortMessages() {
    choice_.set_receives(true);
    found_.to(0).note(true, false);
  }
  double run(int messages, Way cached, Way past) { return stream_.run(choice_, messages, cached, past); }
  int clocks() const { return stream_.clocks; }

 private:
  WaysFound found_;
  FillChoice choice_{FillChoice::Of::one_end, &found_.to(0)};
  Stream stream_{{.bytes = 3 * 1024, .in_call = 1, .is_timed = false}};
};

TEST(FillChoice, ShortMessagesLearnThatWhatOthersFoundIsWrongForThem) {
  constexpr Way cached{0.08, 0.1}, past{0.2, 0.1};
  ShortMessages messages;
  EXPECT_EQ(messages.run(100, cached, past), 1);
  messages.run(3000, cached, past);
  const int clocks = messages.clocks();
  EXPECT_EQ(messages.run(100'000, cached, past), 0);
  EXPECT_EQ(messages.clocks(), clocks) << "they stay there from then on, and are not timed";
}

TEST(FillChoice, ShortMessagesGoPastTheCachesWhereThatIsFaster) { EXPECT_GT(ShortMessages().run(100'000, {0.5, 0.1}, {0.1, 0.1}), 0.95); }

TEST(FillChoice, OfAnotherCommunicatorHearsSoonThatTheCoresHaveMoved) {
  constexpr Way far_cached{0.6, 0.1}, far_past{0.04, 0.06}, near_cached{0.04, 0.03}, near_past{0.05, 0.12};
  for (const bool is_told : {false, true}) {
    WaysFound found;
    FillChoice first(FillChoice::Of::one_end, &found.to(1)), second(FillChoice::Of::one_end, is_told ? &found.to(1) : nullptr);
    Stream first_stream({.in_call = 2}), second_stream({.in_call = 2});
    // Long enough for the trials of each to have become rare.
    first_stream.run(first, 8 * 2000, far_cached, far_past);
    second_stream.run(second, 8 * 2000, far_cached, far_past);
    first_stream.run(first, 8 * 1000, near_cached, near_past);
    const double gone_past = second_stream.run(second, 8 * 12, near_cached, near_past);
    EXPECT_EQ(gone_past < 0.5, is_told) << gone_past;
  }
}

TEST(FillChoice, IsNotMisledByAReceiverThatIsSlowForAWhile) {
  constexpr Way cached{0.6, 0.1}, past{0.04, 0.06}, held_up{0.04, 0.45};
  FillChoice choice;
  Stream stream({.in_call = 2});
  stream.run(choice, 1000, cached, past);
  double gone = 0;
  for (int i = 0; i < 200; ++i) gone += stream.run(choice, 40, cached, past) + stream.run(choice, 40, cached, held_up);
  EXPECT_GT(gone / 400, 0.97);
}

// Bytes of short messages cost more, whichever way, than the two ways differ in.
TEST(FillChoice, IsRightForEveryLengthWhereMessagesOfAllLengthsComeInTurn) {
  const Traffic kinds[] = {{.bytes = 4 * 1024, .in_call = 1}, {.bytes = 32 * 1024, .in_call = 2}, {.bytes = 128 * 1024, .in_call = 64}};
  const Way far_cached[] = {{2.4, 1.8}, {0.6, 0.6}, {0.2, 0.6}}, far_past[] = {{0.8, 1.2}, {0.2, 0.3}, {0.06, 0.2}};
  const Way near_cached[] = {{0.5, 0.6}, {0.1, 0.1}, {0.05, 0.06}}, near_past[] = {{0.6, 0.8}, {0.08, 0.25}, {0.04, 0.16}};
  // Blocks of 16 MiB, of about 1 MiB, and one call of each.
  for (const int block : {128, 8, 1}) {
    FillChoice far, near;
    transport::Drained far_drained, near_drained;
    std::vector<Stream> far_streams, near_streams;
    for (Traffic kind : kinds) {
      kind.drained = &far_drained;
      far_streams.emplace_back(kind);
      kind.drained = &near_drained;
      near_streams.emplace_back(kind);
    }
    double far_gone[3] = {}, near_gone[3] = {};
    const int rounds = 40'000 / block;
    for (int i = 0; i < rounds; ++i) {
      for (std::size_t k = 0; k < 3; ++k) {
        const int messages = k == 2 && block == 1 ? 64 : block * static_cast<int>(128 * 1024 / kinds[k].bytes) / 4;
        const double far_share = far_streams[k].run(far, messages, far_cached[k], far_past[k]);
        const double near_share = near_streams[k].run(near, messages, near_cached[k], near_past[k]);
        if (i < rounds / 2) continue;
        far_gone[k] += far_share;
        near_gone[k] += near_share;
      }
    }
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_GT(far_gone[k] / (rounds - rounds / 2), 0.95) << kinds[k].bytes << " in blocks of " << block;
      EXPECT_LT(near_gone[k] / (rounds - rounds / 2), 0.05) << kinds[k].bytes << " in blocks of " << block;
    }
  }
}

TEST(FillChoice, IsRightForBothWhereMessagesOfTwoLengthsAlternate) {
  const Way far_cached{0.24, 0.4}, far_past{0.12, 0.2}, near_cached{0.05, 0.04}, near_past{0.03, 0.16};
  FillChoice far, near;
  transport::Drained far_drained, near_drained;
  Stream far_long({.in_call = 1, .drained = &far_drained}), far_short({.bytes = 48 * 1024, .in_call = 1, .drained = &far_drained});
  Stream near_long({.in_call = 1, .drained = &near_drained}), near_short({.bytes = 48 * 1024, .in_call = 1, .drained = &near_drained});
  double gone[4] = {};
  for (int i = 0; i < 20'000; ++i) {
    const double shares[] = {far_long.run(far, 1, far_cached, far_past), far_short.run(far, 1, far_cached, far_past),
                             near_long.run(near, 1, near_cached, near_past), near_short.run(near, 1, near_cached, near_past)};
    for (int k = 0; k < 4; ++k) gone[k] += i < 10'000 ? 0 : shares[k] / 10'000;
  }
  EXPECT_GT(gone[0], 0.95);
  EXPECT_GT(gone[1], 0.95);
  EXPECT_LT(gone[2], 0.05);
  EXPECT_LT(gone[3], 0.1);
}

TEST(FillChoice, ChangesForNothingWhereBothCostTheSame) {
  FillChoice choice;
  Stream stream;
  EXPECT_LT(stream.run(choice, 20'000, {0.2, 0.2}, {0.2, 0.2}), 0.05);
}

}  // namespace
}  // namespace peal::executor
