#include <gtest/gtest.h>

#include <executor/slow_reads.hpp>

namespace peal::executor {
namespace {

constexpr double kSlowNs = 0.1;
constexpr std::uint64_t kBytes = 64 << 10;

/// A sender to its only peer: calls of kinds, read at so many nanoseconds a byte.
struct Sender {
  SlowReads reads;
  transport::Drained fetched;
  int kinds[32] = {};

  /// True: through slots.
  bool call(double ns_a_byte, int kind = 0, std::uint64_t bytes = kBytes) {
    if (reads.spares(&kinds[kind], bytes)) return true;
    fetched.ns += static_cast<std::uint64_t>(ns_a_byte * static_cast<double>(bytes));
    fetched.bytes += bytes;
    reads.end(fetched, kSlowNs);
    return false;
  }
  /// Of so many calls, those that went through slots.
  int spared_of(int calls, double ns_a_byte, int kind = 0, std::uint64_t bytes = kBytes) {
    int spared = 0;
    for (int i = 0; i < calls; ++i) spared += call(ns_a_byte, kind, bytes);
    return spared;
  }
};

TEST(SlowReads, WhatIsReadFastStaysWhereItLies) {
  Sender sender;
  EXPECT_EQ(sender.spared_of(1000, 0.05), 0);
}

TEST(SlowReads, WhatIsReadSlowlyGoesThroughSlotsEverLonger) {
  Sender sender;
  EXPECT_EQ(sender.spared_of(4, 0.2), 0) << "the first does not count, and three must be slow";
  EXPECT_EQ(sender.spared_of(16, 0.2), 16);
  EXPECT_EQ(sender.spared_of(4, 0.2), 0);
  EXPECT_EQ(sender.spared_of(32, 0.2), 32);
  EXPECT_GT(sender.spared_of(10000, 0.2), 9900);
}

TEST(SlowReads, WhatIsReadFastAgainStaysAgain) {
  Sender sender;
  sender.spared_of(4 + 16 + 4 + 32, 0.2);
  EXPECT_EQ(sender.spared_of(500, 0.05), 0);
  EXPECT_EQ(sender.spared_of(3, 0.2), 0);
  EXPECT_EQ(sender.spared_of(19, 0.2), 16) << "as at the beginning";
}

TEST(SlowReads, OneThatWasSlowAloneChangesNothing) {
  Sender sender;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(sender.call(i % 3 == 0 ? 0.05 : 0.2));
}

TEST(SlowReads, ASystemCallIsNoSlowRead) {
  Sender sender;
  EXPECT_EQ(sender.spared_of(100, kSlowNs + 400.0 / kBytes), 0);
  EXPECT_GT(sender.spared_of(100, kSlowNs + 600.0 / kBytes), 0);
}

TEST(SlowReads, LongCallsAndCallsOfWhichNothingIsSaidAreNotJudged) {
  Sender sender;
  EXPECT_EQ(sender.spared_of(100, 0.2, 0, 1 << 20), 0);
  EXPECT_EQ(sender.spared_of(100, 0.2, 1, 0), 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(sender.reads.spares(&sender.kinds[2], kBytes));
    sender.fetched.ns += kBytes;
    sender.fetched.bytes += kBytes / 2;  // the sender has copied the other half
    sender.reads.end(sender.fetched, kSlowNs);
  }
}

TEST(SlowReads, KindsOfCallsAreToldApart) {
  Sender sender;
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(sender.call(0.2, 0));
    EXPECT_FALSE(sender.call(0.05, 1));
  }
  EXPECT_TRUE(sender.call(0.2, 0));
  EXPECT_FALSE(sender.call(0.05, 1));
  for (int kind = 2; kind < 20; ++kind) sender.call(0.05, kind);
  EXPECT_FALSE(sender.call(0.2, 0)) << "of more kinds than are kept the oldest are forgotten";
}

}  // namespace
}  // namespace peal::executor
