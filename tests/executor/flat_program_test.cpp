// The short form of a program: placed anew for another shape it is what it would have been for that shape alone; and grouped send and
// receive, in short form and op by op, move the right bytes and tell wrong ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <base/names.hpp>
#include <executor/execution.hpp>
#include <numeric>
#include <random>
#include <schedule/registry.hpp>
#include <transport/fake.hpp>

#include "collective_case.hpp"

namespace peal::test {
namespace {

using executor::Binding;
using executor::FlatProgram;
using executor::Plan;
using executor::Shape;

void expect_same(const FlatProgram& got, const FlatProgram& want, const std::string& where) {
  ASSERT_EQ(got.is_flat(), want.is_flat()) << where;
  if (!want.is_flat()) return;
  EXPECT_EQ(got.ops, want.ops) << where;
  EXPECT_EQ(got.sources, want.sources) << where;
  EXPECT_TRUE(std::ranges::equal(got.begin, want.begin)) << where;
  EXPECT_TRUE(std::ranges::equal(got.first_sent, want.first_sent)) << where;
}

/// Shapes of one plan, one after the other; `base` elements a rank, which vary where the collective lets them.
struct Bound {
  Bound(Collective collective, int ranks, std::uint64_t base) {
    shape.count = base;
    shape.element_bytes = 4;
    if (!varies(collective)) return;
    for (int r = 0; r < ranks; ++r) counts.push_back((base * static_cast<std::uint64_t>(r + 3)) % (base + 5));
    displs.resize(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), displs.begin(), std::uint64_t{base % 3});
    if (collective != Collective::all_gather_v && collective != Collective::gather_v) {
      shape.input_counts = counts;
      shape.input_displs = displs;
    }
    if (collective != Collective::reduce_scatter_v && collective != Collective::scatter_v) {
      shape.output_counts = counts;
      shape.output_displs = displs;
    }
    if (collective != Collective::all_to_all_v) shape.count = counts[0];
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
  std::vector<std::uint64_t> counts, displs;
  Shape shape;
};

TEST(FlatProgram, AShapeBoundAfterOthersIsPlacedAsItWouldBeAlone) {
  int flat = 0;
  for (const schedule::Algorithm& algorithm : schedule::registry()) {
    for (const int n : {2, 3, 4, 8}) {
      schedule::Request request;
      request.collective = algorithm.collective;
      request.ranks = n;
      request.peer = n - 1;
      if (!algorithm.supports(request)) continue;
      auto made = schedule::make_schedule(algorithm, request);
      ASSERT_TRUE(made) << made.error().message;
      Plan plan;
      plan.layouts = made->layouts;
      plan.pieced = made->pieced;
      plan.chunks_a_message = plan.pieced ? schedule::widest_message(*made) : 1;
      plan.message_bytes = 4096;
      plan.program = schedule::program_for(*made, 0);
      Binding kept;
      for (const std::uint64_t base : {37, 0, 100'000, 12, 900, 12, 61, 5'000}) {
        const Bound bound(algorithm.collective, n, base);
        kept.bind(plan, bound.shape);
        Binding fresh;
        fresh.bind(plan, bound.shape);
        expect_same(kept.flat(), fresh.flat(),
                    fmt::format("{} by {}, {} ranks, {}", name_of(algorithm.collective), algorithm.name, n, base));
        EXPECT_EQ(kept.scratch_bytes(), fresh.scratch_bytes());
        flat += kept.flat().is_flat() ? 1 : 0;
      }
    }
  }
  EXPECT_GT(flat, 200);
}

/// One message between two ranks of a group call.
struct Letter {
  int from, to;
  std::uint64_t count;
  DataType type;
};

/// A group call on every rank, over the fake fabric.
class GroupRun {
 public:
  GroupRun(int ranks, const transport::FakeOptions& options) : fabric_(ranks, options), message_bytes_(options.message_bytes) {
    for (int r = 0; r < ranks; ++r) {
      ranks_.emplace_back();
      ranks_.back().execution = std::make_unique<executor::Execution>(fabric_.transport(r), r, ranks);
    }
  }

  /// Every rank sends and receives its letters at once; `received` may lie about what comes. True when the programs were in short form.
  bool start(const std::vector<Letter>& sent, const std::vector<Letter>& received) {
    bool is_flat = true;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      One& one = ranks_[r];
      one = One{std::move(one.execution), {}, {}, {}, {}, {}};
      std::vector<schedule::Transfer> to, from;
      for (const Letter& letter : sent) {
        if (letter.from != static_cast<int>(r)) continue;
        to.push_back({letter.to});
        one.memory.push_back(text_of(letter, to.size()));
        add(one, letter);
      }
      for (const Letter& letter : received) {
        if (letter.to != static_cast<int>(r)) continue;
        from.push_back({letter.from});
        one.memory.emplace_back(letter.count * size_of(letter.type) + 1, std::byte{0xee});
        add(one, letter);
      }
      for (std::size_t i = 0; i < one.memory.size(); ++i) one.operands.user[i].data = one.memory[i].data();
      one.plan.pieced = false;
      one.plan.message_bytes = message_bytes_;
      one.plan.program = schedule::group_program(static_cast<int>(r), static_cast<int>(ranks_.size()), to, from);
      one.binding.bind_user(one.plan, one.operands.user);
      is_flat = is_flat && one.binding.flat().is_flat();
      one.call.collective = Collective::send_recv;
      one.operands.resolve(Collective::send_recv);
      one.execution->start(one.plan, one.binding, one.operands, one.call, executor::to_tag(one.call));
    }
    return is_flat;
  }

  /// The first failure, or empty when all ranks ended.
  std::string finish() {
    for (int turn = 0; turn < 100'000; ++turn) {
      bool moved = false, done = true;
      for (One& one : ranks_) {
        moved = one.execution->progress() || moved;
        if (one.execution->failed()) return one.execution->failure().message;
        done = done && one.execution->done();
      }
      if (done) return {};
      if (!moved) fabric_.tick();
    }
    return "did not end";
  }

  void expect_delivered(const std::vector<Letter>& sent) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      // The receives stand behind the sends, in the order of the letters.
      std::size_t at =
          static_cast<std::size_t>(std::count_if(sent.begin(), sent.end(), [&](const Letter& l) { return l.from == static_cast<int>(r); }));
      for (const Letter& letter : sent) {
        if (letter.to != static_cast<int>(r)) continue;
        std::size_t number = 0;  // among its sender's letters
        for (const Letter& other : sent) {
          if (other.from == letter.from) ++number;
          if (&other == &letter) break;
        }
        EXPECT_EQ(ranks_[r].memory[at++], text_of(letter, number)) << letter.from << " to " << letter.to;
      }
    }
  }

 private:
  struct One {
    std::unique_ptr<executor::Execution> execution;
    Plan plan;
    Binding binding;
    executor::Operands operands;
    std::vector<std::vector<std::byte>> memory;  // each with one byte more, which nobody may touch
    executor::CallSignature call;
  };

  static void add(One& one, const Letter& letter) {
    one.operands.user.push_back({nullptr, letter.count, letter.count * size_of(letter.type), letter.type});
  }
  static std::vector<std::byte> text_of(const Letter& letter, std::size_t number) {
    std::vector<std::byte> text(letter.count * size_of(letter.type) + 1, std::byte{0xee});
    for (std::size_t i = 0; i + 1 < text.size(); ++i)
      text[i] = static_cast<std::byte>(i * 7 + number * 31 + static_cast<std::size_t>(letter.from) * 101);
    return text;
  }

  transport::FakeFabric fabric_;
  std::uint64_t message_bytes_;
  std::vector<One> ranks_;
};

transport::FakeOptions fabric_of(std::uint64_t seed) {
  transport::FakeOptions options;
  options.seed = seed;
  options.slots = 2;
  options.channels = 4;
  options.longest_delay_ticks = 3;
  options.message_bytes = 512;
  return options;
}

std::vector<Letter> letters(std::mt19937_64& random, int ranks, int n, std::uint64_t most) {
  constexpr DataType kTypes[] = {DataType::u8, DataType::f32, DataType::bf16, DataType::i64};
  std::vector<Letter> out;
  while (static_cast<int>(out.size()) < n) {
    Letter letter{static_cast<int>(random() % static_cast<unsigned>(ranks)), static_cast<int>(random() % static_cast<unsigned>(ranks)),
                  random() % most, kTypes[random() % 4]};
    if (letter.from != letter.to) out.push_back(letter);
  }
  return out;
}

TEST(Groups, EveryLetterArrivesInShortFormAndOpByOp) {
  std::mt19937_64 random(7);
  int in_short_form = 0, op_by_op = 0;
  for (int run = 0; run < 60; ++run) {
    const int ranks = 2 + run % 4;
    GroupRun group(ranks, fabric_of(static_cast<std::uint64_t>(run)));
    // Several calls, so that the numbers of the messages go on; long letters and many letters have no short form.
    for (int call = 0; call < 4; ++call) {
      const auto sent = letters(random, ranks, call == 3 ? 300 : 1 + run % 20, run % 3 == 0 ? 600 : 60);
      (group.start(sent, sent) ? in_short_form : op_by_op) += 1;
      ASSERT_EQ(group.finish(), "") << run;
      group.expect_delivered(sent);
    }
  }
  EXPECT_GT(in_short_form, 60);
  EXPECT_GT(op_by_op, 60);
}

TEST(Groups, ALetterOfAnotherLengthOrTypeIsAMismatchThatSaysBoth) {
  for (const Letter& lie : {Letter{0, 1, 7, DataType::f32}, Letter{0, 1, 8, DataType::i64}}) {
    GroupRun group(2, fabric_of(1));
    const std::vector<Letter> before{{0, 1, 3, DataType::u8}, {1, 0, 3, DataType::u8}};
    ASSERT_TRUE(group.start(before, before));
    ASSERT_EQ(group.finish(), "");
    ASSERT_TRUE(group.start({{0, 1, 8, DataType::f32}}, {lie}));
    const std::string said = group.finish();
    EXPECT_NE(said.find("send_recv of 8 f32, call 2"), std::string::npos) << said;
    EXPECT_NE(said.find(fmt::format("send_recv of {} {}", lie.count, name_of(lie.type))), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace peal::test
