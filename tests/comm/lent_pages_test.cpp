// Calls whose messages are pages that are lent to sockets: their memory is the caller's again as soon as a call is over.
#include <numeric>

#include "core_ranks.hpp"

namespace peal::comm {
namespace {

constexpr std::uint64_t kCount = 300'000;
constexpr int kCalls = 12;  // the first of them copy

CoreOptions lending(std::string algorithm = {}) {
  CoreOptions options = core_options(TransportChoice::tcp);
  options.lending = transport::Lending::always;
  options.wishes.algorithm = std::move(algorithm);
  return options;
}

std::vector<std::int32_t> numbers(int rank, int call) {
  std::vector<std::int32_t> made(kCount);
  std::iota(made.begin(), made.end(), 1000 * rank + 77 * call);
  return made;
}

Call call_of(Collective collective, std::vector<std::int32_t>& send, std::vector<std::int32_t>& receive, std::uint64_t count) {
  Call call;
  call.collective = collective;
  call.send = send.data();
  call.receive = receive.data();
  call.count = count;
  if (has_root(collective)) call.root = 0;
  call.type = DataType::i32;
  return call;
}

TEST(LentPages, WhatIsOverwrittenAtOnceHasArrivedBefore) {
  for (const char* algorithm : {"direct", "ring", "tree"}) {
    for (const int ranks : {2, 3}) {
      on_cores(ranks, lending(algorithm), [&](Core& core) -> Status {
        for (int i = 0; i < kCalls; ++i) {
          std::vector<std::int32_t> data = core.rank() == 0 ? numbers(0, i) : std::vector<std::int32_t>(kCount, -1);
          PEAL_TRY(core.run(call_of(Collective::broadcast, data, data, kCount)));
          const std::vector<std::int32_t> got = core.rank() == 0 ? numbers(0, i) : data;
          std::fill(data.begin(), data.end(), -7);
          EXPECT_TRUE(got == numbers(0, i)) << algorithm << ", call " << i << " at " << core.rank() << " of " << ranks;
        }
        return {};
      });
    }
  }
}

TEST(LentPages, EveryRankLendsToEveryOther) {
  for (const int ranks : {2, 4}) {
    on_cores(ranks, lending(), [&](Core& core) -> Status {
      const auto size = static_cast<std::uint64_t>(ranks);
      for (int i = 0; i < kCalls; ++i) {
        std::vector<std::int32_t> own = numbers(core.rank(), i), all(kCount * size), sum(kCount);
        PEAL_TRY(core.run(call_of(Collective::all_gather, own, all, kCount)));
        std::fill(own.begin(), own.end(), -7);
        for (int r = 0; r < ranks; ++r)
          EXPECT_TRUE(std::equal(all.begin() + r * static_cast<std::ptrdiff_t>(kCount),
                                 all.begin() + (r + 1) * static_cast<std::ptrdiff_t>(kCount), numbers(r, i).begin()))
              << "block " << r << " of call " << i << " at " << core.rank() << " of " << ranks;
        own = numbers(core.rank(), i);
        PEAL_TRY(core.run(call_of(Collective::all_reduce, own, sum, kCount)));
        std::fill(own.begin(), own.end(), -7);
        std::vector<std::int32_t> expected(kCount);
        for (int r = 0; r < ranks; ++r)
          std::transform(expected.begin(), expected.end(), numbers(r, i).begin(), expected.begin(), std::plus<>());
        EXPECT_TRUE(sum == expected) << "call " << i << " at " << core.rank() << " of " << ranks;
        own = numbers(core.rank(), i);
        PEAL_TRY(core.run(call_of(Collective::all_reduce, own, own, kCount)));
        EXPECT_TRUE(own == expected) << "in place, call " << i << " at " << core.rank() << " of " << ranks;
      }
      return {};
    });
  }
}

}  // namespace
}  // namespace peal::comm
