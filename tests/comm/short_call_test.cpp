// Calls of few short messages, made again and again: the same bytes, and the same errors, as the call that was made first.
#include <atomic>
#include <base/names.hpp>
#include <chrono>
#include <comm/shared_buffer.hpp>

#include "core_ranks.hpp"

namespace peal::comm {
namespace {

/// A rank is late now and then, by more than the others look for.
void come_late(int round, int rank) {
  if (round % 7 == rank) std::this_thread::sleep_for(std::chrono::microseconds(30 + 40 * (round % 11)));
}

/// Element i of what rank r gives in a round.
std::int64_t given(int round, int r, std::size_t i) { return 1000 * round + 10 * r + static_cast<std::int64_t>(i) + 1; }

struct Buffers {
  std::vector<std::int64_t> send, receive;
};

Call call_of(Collective collective, Buffers& buffers, std::size_t count, bool in_place, int root) {
  Call call;
  call.collective = collective;
  call.send = buffers.send.data();
  call.receive = in_place ? buffers.send.data() : buffers.receive.data();
  call.count = count;
  call.type = DataType::i64;
  call.root = root;
  return call;
}

std::string what_of(const Status& status) { return status ? std::string() : status.error().message; }

// Sums, copies to all and exchanges of 1 to 900 elements (messages in lines and in slots), in turn, with barriers between.
TEST(ShortCall, GivesTheSameBytesHoweverOftenItIsMade) {
  const int rounds = kIsSanitized ? 60 : 300;
  for (const int ranks : {2, 3, 4}) {
    on_cores(ranks, core_options(TransportChoice::shm), [&](Core& core) -> Status {
      const int n = core.size();
      const int me = core.rank();
      for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{200}, std::size_t{900}}) {
        Buffers buffers{std::vector<std::int64_t>(count * static_cast<std::size_t>(n)),
                        std::vector<std::int64_t>(count * static_cast<std::size_t>(n))};
        for (int round = 0; round < rounds; ++round) {
          come_late(round, me);
          for (std::size_t i = 0; i < buffers.send.size(); ++i) buffers.send[i] = given(round, me, i);
          const bool in_place = round % 5 == 4;
          switch (round % 3) {
            case 0: {
              PEAL_TRY(core.run(call_of(Collective::all_reduce, buffers, count, in_place, -1)));
              const std::vector<std::int64_t>& got = in_place ? buffers.send : buffers.receive;
              for (std::size_t i = 0; i < count; ++i) {
                std::int64_t sum = 0;
                for (int r = 0; r < n; ++r) sum += given(round, r, i);
                EXPECT_EQ(got[i], sum) << "element " << i << " of " << count << ", round " << round << ", rank " << me << " of " << n;
              }
              break;
            }
            case 1: {
              PEAL_TRY(core.run(call_of(Collective::broadcast, buffers, count, true, 1)));
              for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(buffers.send[i], given(round, 1, i)) << "round " << round;
              break;
            }
            default: {
              PEAL_TRY(core.run(call_of(Collective::all_to_all, buffers, count, false, -1)));
              for (std::size_t i = 0; i < buffers.receive.size(); ++i) {
                const auto from = static_cast<int>(i / count);
                EXPECT_EQ(buffers.receive[i], given(round, from, static_cast<std::size_t>(me) * count + i % count)) << "round " << round;
              }
            }
          }
          PEAL_TRY(core.barrier());
        }
      }
      return {};
    });
  }
}

// Sums and copies of 8 B to 512 KiB out of and in place, in memory that ranks share, in their own, and in one of each: messages in lines
// and in slots, shown ones whole and in pieces, and the same ones answered.
TEST(ShortCall, GivesTheSameBytesFromMemoryThatRanksShare) {
  const int rounds = kIsSanitized ? 12 : 60;
  constexpr std::size_t kMost = 64 * 1024;
  for (const int ranks : {2, 3}) {
    on_cores(ranks, core_options(TransportChoice::shm), [&](Core& core) -> Status {
      const int n = core.size();
      const int me = core.rank();
      PEAL_ASSIGN(auto memory, SharedBuffer::create(core, 2 * kMost * sizeof(std::int64_t)));
      std::vector<std::int64_t> own(2 * kMost);
      for (const std::size_t count : {std::size_t{1}, std::size_t{700}, std::size_t{8 * 1024}, std::size_t{32 * 1024}, kMost}) {
        if (kIsSanitized && count == kMost) continue;
        for (int round = 0; round < rounds; ++round) {
          come_late(round, me);
          auto* const shared = reinterpret_cast<std::int64_t*>(memory->data());
          const int where = round / 8 % 4;
          std::int64_t* const send = where < 2 ? shared : own.data();
          std::int64_t* const receive = (where % 2 == 0 ? shared : own.data()) + kMost;
          const bool in_place = round % 3 == 2;
          if (round == rounds / 2) {
            PEAL_ASSIGN(memory, SharedBuffer::create(core, 2 * kMost * sizeof(std::int64_t)));
            continue;
          }
          for (std::size_t i = 0; i < count; ++i) send[i] = given(round, me, i);
          Call call;
          call.collective = round % 16 < 12 ? Collective::all_reduce : Collective::broadcast;
          call.root = 0;
          call.send = send;
          call.receive = in_place ? send : receive;
          call.count = count;
          call.type = DataType::i64;
          PEAL_TRY(core.run(call));
          const auto* const got = static_cast<const std::int64_t*>(call.receive);
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < count; ++i) {
            std::int64_t sum = 0;
            for (int r = 0; r < n; ++r) sum += given(round, r, i);
            wrong += got[i] != (call.collective == Collective::all_reduce ? sum : given(round, 0, i)) ? 1 : 0;
          }
          EXPECT_EQ(wrong, 0u) << count << " elements, round " << round << ", rank " << me << " of " << n;
        }
      }
      return {};
    });
  }
}

// What a rank finds that makes another call than it did again and again, of shown messages.
TEST(ShortCall, ACallThatIsAnotherRanksOtherCallIsAMismatchWhereMessagesAreShown) {
  on_cores(2, core_options(TransportChoice::shm), [&](Core& core) -> Status {
    constexpr std::size_t kCount = 16 * 1024;
    PEAL_ASSIGN(const auto memory, SharedBuffer::create(core, kCount * sizeof(std::int64_t)));
    Call call;
    call.collective = Collective::all_reduce;
    call.send = call.receive = memory->data();
    call.count = kCount;
    call.type = DataType::i64;
    for (int round = 0; round < 5; ++round) PEAL_TRY(core.run(call));
    if (core.rank() == 1) call.op = ReduceOp::max;
    const Status status = core.run(call);
    EXPECT_FALSE(status);
    EXPECT_EQ(status ? ErrorCode::internal : status.error().code, ErrorCode::mismatch) << what_of(status);
    return {};
  });
}

// Nobody leaves before everybody has come.
TEST(ShortCall, ABarrierHoldsUntilTheLastRankHasCome) {
  const int rounds = kIsSanitized ? 50 : 400;
  for (const int ranks : {2, 5}) {
    std::vector<std::atomic<int>> come(static_cast<std::size_t>(ranks));
    on_cores(ranks, core_options(TransportChoice::shm), [&](Core& core) -> Status {
      for (int round = 1; round <= rounds; ++round) {
        come_late(round, core.rank());
        come[static_cast<std::size_t>(core.rank())].store(round);
        PEAL_TRY(core.barrier());
        for (int r = 0; r < core.size(); ++r) EXPECT_GE(come[static_cast<std::size_t>(r)].load(), round) << "rank " << r;
        PEAL_TRY(core.barrier());
      }
      return {};
    });
  }
}

// After many calls that were alike one rank makes another one.
TEST(ShortCall, ACallThatIsAnotherRanksOtherCallIsAMismatch) {
  for (const int odd_round : {1, 3, 20}) {
    on_cores(2, core_options(TransportChoice::shm), [&](Core& core) -> Status {
      Buffers buffers{std::vector<std::int64_t>(4), std::vector<std::int64_t>(4)};
      Status status;
      for (int round = 0; status && round <= odd_round; ++round) {
        if (round == odd_round && core.rank() == 1)
          status = core.run(call_of(Collective::all_reduce, buffers, 3, false, -1));
        else
          status = core.run(call_of(Collective::all_reduce, buffers, 2, false, -1));
      }
      EXPECT_FALSE(status);
      EXPECT_EQ(status ? ErrorCode::internal : status.error().code, ErrorCode::mismatch) << what_of(status);
      EXPECT_NE(what_of(status).find("all_reduce of 3 i64"), std::string::npos) << what_of(status);
      EXPECT_FALSE(core.barrier()) << "a communicator with a fault makes no more calls";
      return {};
    });
  }
}

TEST(ShortCall, EndsWithTheFaultThatAnotherRankReports) {
  on_cores(2, core_options(TransportChoice::shm), [&](Core& core) -> Status {
    for (int round = 0; round < 10; ++round) PEAL_TRY(core.barrier());
    if (core.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      core.abort("enough");
      return {};
    }
    const Status status = core.barrier();
    EXPECT_FALSE(status);
    EXPECT_NE(what_of(status).find("enough"), std::string::npos) << what_of(status);
    return {};
  });
}

// A rank that stands in a call of its own kind for long is found there: the calls before it were counted.
TEST(ShortCall, IsCountedWhereRanksLookForWhoHasNotCalled) {
  CoreOptions options = core_options(TransportChoice::shm);
  options.timeout_ns = 700'000'000;
  on_cores(2, options, [&](Core& core) -> Status {
    for (int round = 0; round < 6; ++round) PEAL_TRY(core.barrier());
    if (core.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      return {};
    }
    const Status status = core.barrier();
    EXPECT_FALSE(status);
    EXPECT_NE(what_of(status).find("barrier, call 7 did not finish within 0.7 s: rank 1"), std::string::npos) << what_of(status);
    return {};
  });
}

}  // namespace
}  // namespace peal::comm
