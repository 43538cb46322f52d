#include <gtest/gtest.h>
#include <base/clock.hpp>
#include <executor/fault_board.hpp>
#include <executor/waiting.hpp>

#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace peal::executor {
namespace {

/// Zeroed memory on a cache line, as a fresh segment has it.
struct Memory {
  explicit Memory(int ranks)
      : bytes(FaultBoard::bytes_for(ranks)), at(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{128}))) {
    std::memset(at, 0, bytes);
  }
  ~Memory() { ::operator delete(at, std::align_val_t{128}); }
  std::size_t bytes;
  std::byte* at;
};

TEST(FaultBoard, KeepsWhatWasRecorded) {
  Memory memory(4);
  FaultBoard board(memory.at, 4);
  EXPECT_FALSE(board.is_set());
  EXPECT_TRUE(board.record(to_record({ErrorCode::timeout, "late", 2, 3, "all_reduce"}, 1)));
  EXPECT_FALSE(board.record(to_record({ErrorCode::aborted, "second", 0, -1, "abort"}, 0)));
  FaultBoard other(memory.at, 4);
  ASSERT_TRUE(other.is_set());
  const Failure first = to_failure(other.first());
  EXPECT_EQ(first.code, ErrorCode::timeout);
  EXPECT_EQ(first.message, "late");
  EXPECT_EQ(first.rank, 2);
  EXPECT_EQ(first.peer, 3);
  EXPECT_EQ(first.operation, "all_reduce");
  EXPECT_EQ(other.first().reporter, 1);
}

TEST(FaultBoard, AnEmptyBoardHasNoFault) { EXPECT_FALSE(FaultBoard().is_set()); }

TEST(FaultBoard, LongTextsAreCutAndTerminated) {
  const FaultRecord record = to_record({ErrorCode::internal, std::string(5000, 'x'), -1, -1, std::string(500, 'y')}, 0);
  EXPECT_EQ(to_failure(record).message, std::string(sizeof record.text - 1, 'x'));
  EXPECT_EQ(to_failure(record).operation, std::string(sizeof record.operation - 1, 'y'));
}

TEST(FaultBoard, OfManyAtOnceExactlyOneWinsAndAllReadIt) {
  for (int round = 0; round < 100; ++round) {
    Memory memory(8);
    std::vector<int> won(8), read(8, -1);
    std::vector<std::thread> threads;
    for (int r = 0; r < 8; ++r) {
      threads.emplace_back([&, r] {
        FaultBoard board(memory.at, 8);
        won[static_cast<std::size_t>(r)] = board.record(to_record({ErrorCode::aborted, std::to_string(r), r, -1, {}}, r)) ? 1 : 0;
        const FaultRecord first = board.first();
        if (std::to_string(first.rank) == first.text) read[static_cast<std::size_t>(r)] = first.rank;
      });
    }
    for (std::thread& thread : threads) thread.join();
    int winners = 0, winner = -1;
    for (int r = 0; r < 8; ++r)
      if (won[static_cast<std::size_t>(r)] == 1) {
        ++winners;
        winner = r;
      }
    ASSERT_EQ(winners, 1);
    for (const int r : read) ASSERT_EQ(r, winner);
  }
}

TEST(FaultBoard, AReporterThatDiesWhileWritingLocksNobodyOut) {
  Memory memory(2);
  const std::uint32_t being_written = 1;
  std::memcpy(memory.at, &being_written, sizeof being_written);  // the first word is the state
  FaultBoard board(memory.at, 2);
  ASSERT_TRUE(board.is_set());
  const std::int64_t begin = now_ns();
  const Failure failure = to_failure(board.first());
  EXPECT_LT(now_ns() - begin, 5'000'000'000);
  EXPECT_EQ(failure.code, ErrorCode::rank_dead);
  EXPECT_NE(failure.message, "");
}

TEST(FaultBoard, ACallThatIsReadWholeIsNoMixtureOfTwo) {
  Memory memory(1);
  FaultBoard board(memory.at, 1);
  constexpr std::uint32_t kCalls = 200'000;
  std::jthread writer([&] {
    for (std::uint32_t i = 1; i <= kCalls; ++i) {
      CallSignature call;
      call.count = call.sequence = call.plan = i;
      board.enter(0, to_tag(call));
      board.leave(0);
    }
  });
  for (CallState state; state.calls < kCalls;) {
    state = board.state_of(0);
    if (!state.is_whole) continue;
    ASSERT_EQ(state.call.count, state.calls);
    ASSERT_EQ(state.call.sequence, state.calls);
    ASSERT_EQ(state.call.plan, state.calls);
  }
}

TEST(FaultBoard, KnowsWhoCallsWhatAndWhoLeft) {
  Memory memory(3);
  FaultBoard board(memory.at, 3);
  const CallSignature call{Collective::reduce, DataType::f64, ReduceOp::min, 1, 77, 5, 9};
  EXPECT_EQ(board.state_of(1).calls, 0u);
  EXPECT_FALSE(board.state_of(1).inside);
  board.enter(1, to_tag(call));
  CallState state = FaultBoard(memory.at, 3).state_of(1);
  EXPECT_TRUE(state.inside);
  EXPECT_TRUE(state.is_whole);
  EXPECT_EQ(state.calls, 1u);
  EXPECT_EQ(describe(state.call), describe(call));
  board.leave(1);
  EXPECT_FALSE(board.state_of(1).inside);
  EXPECT_FALSE(board.has_departed(1));
  board.depart(1);
  EXPECT_TRUE(board.has_departed(1));
  EXPECT_FALSE(board.has_departed(0));
  EXPECT_EQ(board.ranks(), 3);
}

TEST(Backoff, SpinsThenYieldsThenSleepsAndLooksAroundInBetween) {
  WaitPolicy policy;
  policy.spins = 1100;
  policy.yields = 200;
  Backoff backoff(policy);
  int looks = 0;
  for (int i = 0; i < 1100; ++i) {
    const auto next = backoff.pause();
    ASSERT_NE(next, Backoff::Next::sleep) << i;
    looks += next == Backoff::Next::look_around ? 1 : 0;
  }
  EXPECT_GE(looks, 2);
  for (int i = 0; i < 200; ++i) backoff.pause();  // yields, or sleeps at once where others compete for the core
  for (int i = 0; i < 10; ++i) EXPECT_EQ(backoff.pause(), Backoff::Next::sleep);
  backoff.reset();
  EXPECT_EQ(backoff.pause(), Backoff::Next::polled);
}

TEST(Backoff, MoreRanksThanCoresYieldSoon) {
  WaitPolicy alone, crowded;
  alone.fit(false, false);
  crowded.fit(true, false);
  EXPECT_LT(crowded.spins, 100u);
  EXPECT_GT(alone.spins, 1000u);
}

TEST(Backoff, WhoPollsSocketsYieldsSoon) {
  WaitPolicy policy;
  policy.fit(false, true);
  EXPECT_LT(policy.spins, 100u) << "each is a system call, and a rank of this core may be what is waited for";
}

TEST(Backoff, SleepsWhileOthersCompeteForTheCore) {
  WaitPolicy policy;
  policy.spins = 0;
  policy.crowded_until_ns = now_ns() + 60'000'000'000;
  Backoff backoff(policy);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(backoff.pause(), Backoff::Next::sleep);
  policy.crowded_until_ns = 1;  // long ago
  EXPECT_NE(backoff.pause(), Backoff::Next::sleep);
  EXPECT_EQ(policy.crowded_until_ns.load(), 0);
}

}  // namespace
}  // namespace peal::executor
