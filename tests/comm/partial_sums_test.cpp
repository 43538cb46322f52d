// Sums of narrow floats whose partial sums travel as f32: by every algorithm the bits of the f32 sum in its order, rounded once.
#include <algorithm>
#include <base/names.hpp>
#include <cmath>
#include <cstring>
#include <reduce/convert.hpp>
#include <reduce/scale.hpp>
#include <schedule/registry.hpp>
#include <set>

#include "core_ranks.hpp"

namespace peal::comm {
namespace {

constexpr DataType kNarrow[] = {DataType::bf16, DataType::f16, DataType::f8_e4m3fn, DataType::f8_e5m2};
constexpr ReduceOp kRounding[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum, ReduceOp::prod};
constexpr Collective kSums[] = {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter, Collective::reduce_scatter_v};

// Between 1/2 and 2 in magnitude, of either sign: neither sums nor products of eight overflow.
float element(int rank, std::size_t i) {
  std::uint64_t h = (static_cast<std::uint64_t>(rank) * 1'000'003 + i) * 0x9e3779b97f4a7c15ull;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9ull;
  h ^= h >> 32;
  const float magnitude = std::ldexp(1.0f + static_cast<float>(h & 0x7fffff) / 8388608.0f, static_cast<int>(h >> 30 & 1) - 1);
  return (h >> 40 & 1) != 0 ? magnitude : -magnitude;
}

struct Case {
  Collective collective;
  DataType type;
  ReduceOp op;
  std::size_t count;
  bool in_place;
};

std::size_t inputs_of(const Case& c, int ranks) { return has_blocks(c.collective) ? c.count * static_cast<std::size_t>(ranks) : c.count; }

/// The call over `input`, of `type`; answers what this rank got (nothing where only the root gets it).
Status sum(Core& core, const Case& c, DataType type, ReduceOp op, double factor, std::vector<std::byte> input,
           std::vector<std::byte>& got) {
  const auto rank = static_cast<std::size_t>(core.rank());
  const std::size_t block = c.count * size_of(type);
  std::vector<std::byte> output(block);
  const std::vector<std::uint64_t> counts(static_cast<std::size_t>(core.size()), c.count);
  std::vector<std::uint64_t> displs;
  for (std::size_t r = 0; r < counts.size(); ++r) displs.push_back(r * c.count);
  Call call{c.collective};
  call.type = type;
  call.op = op;
  call.premul = factor;
  call.root = c.collective == Collective::reduce ? core.size() - 1 : -1;
  const bool varied = c.collective == Collective::reduce_scatter_v;
  call.count = varied ? 0 : c.count;
  if (varied) {
    call.send_counts = counts;
    call.send_displs = displs;
  }
  call.send = input.data();
  std::byte* const own = input.data() + (has_blocks(c.collective) ? rank * block : 0);
  call.receive = c.in_place ? own : output.data();
  PEAL_TRY(core.run(call));
  got.clear();
  if (c.collective == Collective::reduce && core.rank() != call.root) return {};
  got.assign(static_cast<std::byte*>(call.receive), static_cast<std::byte*>(call.receive) + block);
  return {};
}

/// A rank's inputs; those of fewer are their beginning.
std::vector<float> elements(int rank, std::size_t n) {
  std::vector<float> numbers(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = element(rank, i);
  return numbers;
}

/// Runs the case with wide partial sums and again in f32: the second, rounded, is what the first must be.
Status check(Core& core, const Case& c, const std::vector<float>& numbers) {
  const std::size_t n = inputs_of(c, core.size());
  std::vector<std::byte> narrow(n * size_of(c.type)), scaled(narrow.size()), wide(n * 4);
  reduce::convert(c.type, narrow.data(), DataType::f32, numbers.data(), n);
  const double factor = c.op == ReduceOp::premul_sum ? 1 + 0.37 * core.rank() : 1;
  reduce::scale(c.type, scaled.data(), narrow.data(), n, factor);
  reduce::convert(DataType::f32, wide.data(), c.type, scaled.data(), n);
  std::vector<std::byte> got, in_f32;
  PEAL_TRY(sum(core, c, c.type, c.op, factor, narrow, got));
  PEAL_TRY(sum(core, c, DataType::f32, c.op == ReduceOp::premul_sum ? ReduceOp::sum : c.op, 1, wide, in_f32));
  std::vector<std::byte> right(got.size());
  reduce::convert(c.type, right.data(), DataType::f32, in_f32.data(), right.size() / size_of(c.type));
  EXPECT_TRUE(got == right) << name_of(c.collective) << " " << name_of(c.type) << " " << name_of(c.op) << " of " << c.count << " on "
                            << core.size() << " ranks" << (c.in_place ? ", in place" : "") << ", rank " << core.rank() << ", by "
                            << core.last_plan()->algorithm;
  return {};
}

int check_all(const std::string& name, const std::string& protocol, int ranks, TransportChoice transport, bool deterministic,
              const Counts& counts) {
  CoreOptions options = core_options(transport);
  options.wishes = {deterministic, name, protocol, true};
  std::vector<int> served(static_cast<std::size_t>(ranks));
  const std::size_t most = *std::max_element(counts.begin(), counts.end());
  on_cores(ranks, options, [&](Core& core) -> Status {
    const std::vector<float> numbers = elements(core.rank(), most * static_cast<std::size_t>(ranks));
    for (const Collective collective : kSums) {
      if (!schedule::find_algorithm(collective, name)) continue;
      for (const std::size_t count : counts) {
        for (const DataType type : kNarrow) {
          for (const ReduceOp op : kRounding) {
            if (count > 5 && type != DataType::bf16 && op != ReduceOp::sum) continue;
            const Case c{collective, type, op, count, (static_cast<int>(type) + static_cast<int>(op) + (count > 5 ? 1 : 0)) % 2 == 0};
            if (Status status = check(core, c, numbers); !status) {
              // Refused alike on all ranks, before anything is sent.
              if (status.error().code != ErrorCode::unsupported) return status;
              continue;
            }
            ++served[static_cast<std::size_t>(core.rank())];
          }
        }
      }
    }
    return {};
  });
  for (const int s : served) EXPECT_EQ(s, served[0]) << name;
  return served[0];
}

std::set<std::string> names_of_sums() {
  std::set<std::string> names;
  for (const schedule::Algorithm& algorithm : schedule::registry())
    if (has_reduction(algorithm.collective) && algorithm.switches == 0) names.insert(std::string(algorithm.name));
  return names;
}

TEST(PartialSums, AsF32AreRoundedOnceByEveryAlgorithm) {
  const Counts counts = unless_sanitized({5, 3001, 90'001}, {5}), counts_of_three = unless_sanitized(counts, {5, 3001});
  for (const std::string& name : names_of_sums()) {
    int served = 0;
    for (const int ranks : {2, 3, 4, 5, 8})
      served += check_all(name, "", ranks, TransportChoice::shm, false, ranks == 3 ? counts_of_three : counts);
    // These need groups, which one host has not.
    if (name != "hierarchical" && name != "leader_chain" && name != "grid" && name != "bidirectional_ring") {
      EXPECT_GT(served, 50) << name;
    }
  }
}

TEST(PartialSums, AsF32OverSockets) {
  const Counts counts = unless_sanitized({5, 30'001}, {3001});
  for (const std::string& name : names_of_sums()) check_all(name, "", 4, TransportChoice::tcp, false, counts);
}

TEST(PartialSums, AsF32ByLinesAndInSlots) {
  for (const char* protocol : {"line", "staged"})
    for (const char* name : {"ring", "tree", "recursive_doubling"})
      EXPECT_GT(check_all(name, protocol, 3, TransportChoice::shm, false, {1, 61}), 0) << name << " " << protocol;
}

// The canonical order in f32, rounded once: the same bits by an owner that holds all inputs and by a tree of partial sums.
TEST(PartialSums, AsF32GiveDeterministicSumsOneResultByEveryCanonicalAlgorithm) {
  constexpr std::size_t kCount = 5001;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum}) {
    std::vector<std::byte> first;
    for (const char* name : {"one_shot", "two_shot", "tree", "recursive_doubling", "rabenseifner"}) {
      CoreOptions options = core_options(TransportChoice::shm);
      options.wishes = {true, name, "", true};
      std::vector<std::byte> got;
      on_cores(8, options, [&](Core& core) -> Status {
        const std::vector<float> numbers = elements(core.rank(), kCount);
        std::vector<std::byte> narrow(kCount * 2), mine;
        reduce::convert(DataType::bf16, narrow.data(), DataType::f32, numbers.data(), kCount);
        const Case c{Collective::all_reduce, DataType::bf16, op, kCount, false};
        PEAL_TRY(sum(core, c, DataType::bf16, op, 1 + 0.37 * core.rank(), narrow, mine));
        if (core.rank() == 3) got = mine;
        return {};
      });
      ASSERT_EQ(got.size(), kCount * 2) << name;
      if (first.empty()) first = got;
      EXPECT_TRUE(got == first) << name << " gives other bits for " << name_of(op);
    }
  }
}

TEST(PartialSums, RanksThatDifferInTheirWishGetTheMismatch) {
  on_cores(3, core_options(TransportChoice::shm), [](Core& core) -> Status {
    PEAL_ASSIGN(const auto part, core.split(0, core.rank(), {false, "ring", "", core.rank() == 1}));
    std::vector<std::byte> in(2048), out(2048);
    Call call{Collective::all_reduce};
    call.type = DataType::bf16;
    call.count = 1024;
    call.send = in.data();
    call.receive = out.data();
    Status status = part->run(call);
    for (int i = 0; i < 3 && status; ++i) status = part->run(Call{Collective::barrier});
    EXPECT_FALSE(status);
    if (status) return {};
    EXPECT_EQ(status.error().code, ErrorCode::mismatch);
    EXPECT_NE(status.error().message.find("partial sums in f32"), std::string::npos) << status.error().message;
    EXPECT_NE(status.error().message.find("PEAL_PARTIAL_SUMS"), std::string::npos) << status.error().message;
    return {};
  });
}

// The wish is no part of calls that round nothing.
TEST(PartialSums, AWishForF32ChangesNothingElse) {
  on_cores(3, core_options(TransportChoice::shm), [](Core& core) -> Status {
    PEAL_ASSIGN(const auto part, core.split(0, core.rank(), {false, "ring", "", core.rank() == 1}));
    for (const DataType type : {DataType::f32, DataType::i32, DataType::bf16}) {
      std::vector<std::byte> in(4096), out(4096);
      Call call{Collective::all_reduce};
      call.type = type;
      call.op = ReduceOp::max;
      call.count = 1024;
      call.send = in.data();
      call.receive = out.data();
      PEAL_TRY(part->run(call));
    }
    return {};
  });
}

}  // namespace
}  // namespace peal::comm
