// Calls that do not fit together: nobody goes on as if they had, everybody reports the same first fault for ever after.
#include <array>
#include <atomic>
#include <chrono>
#include <optional>

#include "rank_threads.hpp"

namespace peal::test {
namespace {

using Body = std::function<void(Communicator&)>;

/// What a call threw, or nothing.
constexpr std::size_t kMost = 4096;

/// Runs `calls[r]` on rank r, then barriers until the fault is known, then one more: every rank must have got `code`, and the same text
/// twice.
void expect_same_fault(const std::string& transport, const std::vector<Body>& calls, ErrorCode code,
                       const std::vector<std::string>& words) {
  std::vector<std::string> texts(calls.size());
  on_ranks(static_cast<int>(calls.size()), with_transport(transport), [&](Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    std::optional<Error> first = error_of([&] { calls[rank](world); });
    // A pure sender learns at its next call.
    for (int i = 0; i < 3 && !first; ++i) first = error_of([&] { world.barrier(); });
    ASSERT_TRUE(first) << "rank " << rank << " went on as if nothing had happened";
    EXPECT_EQ(first->code(), code) << "rank " << rank << ": " << first->what();
    float in = 1, out = 0;
    const std::optional<Error> later = error_of([&] { world.all_reduce(&in, &out, 1, DataType::f32); });
    ASSERT_TRUE(later) << "rank " << rank << " can use a failed communicator";
    EXPECT_EQ(later->code(), code);
    EXPECT_STREQ(later->what(), first->what());
    const auto work = error_of([&] { world.barrier_async().wait(); });
    ASSERT_TRUE(work);
    EXPECT_STREQ(work->what(), first->what());
    texts[rank] = first->what();
  });
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  for (const std::string& word : words) EXPECT_NE(texts[0].find(word), std::string::npos) << "\"" << word << "\" is not in: " << texts[0];
}

struct Buffers {
  std::vector<float> in = std::vector<float>(kMost, 1.0f), out = std::vector<float>(kMost);
};

Body all_reduce(std::size_t count, DataType type = DataType::f32, ReduceOp op = ReduceOp::sum) {
  return [=](Communicator& world) {
    Buffers b;
    world.all_reduce(b.in.data(), b.out.data(), count, type, op);
  };
}
Body broadcast(std::size_t count, int root) {
  return [=](Communicator& world) {
    Buffers b;
    world.broadcast(b.in.data(), b.out.data(), count, DataType::f32, root);
  };
}

class Mismatch : public ::testing::TestWithParam<const char*> {
 protected:
  void expect(const std::vector<Body>& calls, const std::vector<std::string>& words) {
    expect_same_fault(GetParam(), calls, ErrorCode::mismatch, words);
  }
};

TEST_P(Mismatch, OtherCollective) {
  expect({all_reduce(8), broadcast(8, 0)}, {"rank ", "all_reduce of 8 f32", "broadcast of 8 f32"});
  expect({all_reduce(8), all_reduce(8), broadcast(8, 0)}, {"all_reduce of 8 f32", "broadcast of 8 f32"});
}

TEST_P(Mismatch, OtherType) { expect({all_reduce(8), all_reduce(8, DataType::i32)}, {"of 8 f32", "of 8 i32"}); }

TEST_P(Mismatch, OtherOp) {
  expect({all_reduce(8), all_reduce(8, DataType::f32, ReduceOp::max)}, {"(sum)", "(max)"});
  expect({all_reduce(8), all_reduce(8), all_reduce(8), all_reduce(8, DataType::f32, ReduceOp::prod)}, {"(sum)", "(prod)"});
}

TEST_P(Mismatch, OtherCount) {
  expect({all_reduce(8), all_reduce(9)}, {"of 8 f32", "of 9 f32"});
  // Of another size class, so perhaps by another plan.
  expect({all_reduce(1), all_reduce(4000)}, {"of 1 f32", "of 4000 f32"});
  expect({all_reduce(0), all_reduce(1)}, {"of 0 f32", "of 1 f32"});
}

TEST_P(Mismatch, OtherRoot) {
  // Two ranks that each take themselves for the root only send: they learn in their next call.
  expect({broadcast(8, 0), broadcast(8, 1)}, {"rank "});
  expect({broadcast(8, 0), broadcast(8, 1), broadcast(8, 0)}, {"rank "});
}

TEST_P(Mismatch, AMissingCall) {
  const Body both = [](Communicator& world) {
    all_reduce(8)(world);
    broadcast(4, 0)(world);
  };
  expect({both, broadcast(4, 0)}, {"all_reduce of 8 f32", "broadcast of 4 f32"});
}

TEST_P(Mismatch, SendAndReceiveOfAnotherCountOrType) {
  const auto send = [](std::size_t count, DataType type) {
    return [=](Communicator& world) {
      Buffers b;
      world.send(b.in.data(), count, type, 1);
    };
  };
  const auto receive = [](std::size_t count, DataType type) {
    return [=](Communicator& world) {
      Buffers b;
      world.receive(b.out.data(), count, type, 0);
    };
  };
  expect({send(8, DataType::f32), receive(9, DataType::f32)}, {"rank 0", "of 8 f32", "of 9 f32"});
  expect({send(8, DataType::f32), receive(8, DataType::i32)}, {"rank 0", "of 8 f32", "of 8 i32"});
  // Either side may be the first to see it: the receiver in this call, the sender in its next.
  expect({send(8, DataType::f32), all_reduce(8)}, {"all_reduce of 8 f32"});
}

// `root_says` is what the root takes for rank 1's count, `own` what rank 1 gives.
Body gather_v(std::uint64_t root_says, std::size_t own, int root = 0) {
  return [=](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    std::vector<std::uint64_t> counts(n, 4), displs(n);
    counts[1] = root_says;
    for (std::size_t r = 1; r < n; ++r) displs[r] = displs[r - 1] + counts[r - 1];
    std::vector<float> in(own + 4), out(displs[n - 1] + counts[n - 1]);
    const std::size_t mine = world.rank() == 1 ? own : 4;
    world.gather_v(in.data(), mine, out.data(), counts, displs, DataType::f32, root);
  };
}
Body scatter_v(std::uint64_t root_says, std::size_t own, int root = 0) {
  return [=](Communicator& world) {
    const auto n = static_cast<std::size_t>(world.size());
    std::vector<std::uint64_t> counts(n, 4), displs(n);
    counts[1] = root_says;
    for (std::size_t r = 1; r < n; ++r) displs[r] = displs[r - 1] + counts[r - 1];
    std::vector<float> in(displs[n - 1] + counts[n - 1]), out(own + 4);
    const std::size_t mine = world.rank() == 1 ? own : 4;
    world.scatter_v(in.data(), counts, displs, out.data(), mine, DataType::f32, root);
  };
}

TEST_P(Mismatch, OtherCountThanTheRootHasForARank) {
  for (const Body& call : {gather_v(9, 8), gather_v(8, 9), gather_v(0, 1), gather_v(1, 0)})
    expect({call, call, call}, {"rank 1 sent", "gather_v of f32 with root 0", "the counts of the two ranks differ"});
  for (const Body& call : {scatter_v(9, 8), scatter_v(8, 9), scatter_v(0, 1), scatter_v(1, 0)})
    expect({call, call, call}, {"rank 0 sent", "scatter_v of f32 with root 0", "the counts of the two ranks differ"});
}

// Long transfers go in messages of which all but the last are alike: one may be a full message longer than the other.
TEST_P(Mismatch, OtherCountThanTheRootHasForARankByWholeMessages) {
  // Through slots and by reference; by sockets two of it where there are three ranks.
  const auto with_ranks = [](int ranks) -> std::size_t { return (GetParam() == "tcp" && ranks == 2 ? 1024 : 256) * 1024 / 4; };
  const auto named = [](const char* collective, std::size_t count, const char* root) {
    return std::string(collective) + " of " + std::to_string(count) + " f32" + root;
  };
  const std::size_t of_three = with_ranks(3);
  const Body gather = gather_v(2 * of_three, 3 * of_three);
  expect({gather, gather, gather}, {named("gather_v", 3 * of_three, " with root 0"), named("gather_v", 2 * of_three, " with root 0")});
  const Body scatter = scatter_v(3 * of_three, 2 * of_three);
  expect({scatter, scatter, scatter}, {named("scatter_v", 3 * of_three, " with root 0"), named("scatter_v", 2 * of_three, " with root 0")});
  const std::size_t message = with_ranks(2);
  const Body short_for_long = gather_v(6, 3 * message);
  expect({short_for_long, short_for_long}, {named("gather_v", 3 * message, " with root 0"), "gather_v of f32 with root 0"});
  const auto exchange = [message](std::uint64_t to_next, std::uint64_t from_previous) {
    return [=](Communicator& world) {
      std::vector<std::uint64_t> out(2, 4), in(2, 4), displs{0, 4};
      const auto me = static_cast<std::size_t>(world.rank());
      out[1 - me] = to_next;
      in[1 - me] = from_previous;
      std::vector<float> data(displs[1] + 4 * message), got(data.size());
      if (me == 0) displs = {0, 4};
      if (me == 1) displs = {4, 0};
      world.all_to_all_v(data.data(), out, displs, got.data(), in, displs, DataType::f32);
    };
  };
  expect({exchange(3 * message, 5), exchange(5, 2 * message)},
         {named("all_to_all_v", 3 * message, ""), named("all_to_all_v", 2 * message, "")});
}

TEST_P(Mismatch, OtherRootOfVaryingCounts) {
  expect({scatter_v(4, 4), scatter_v(4, 4, 1)}, {"rank "});
  expect({scatter_v(4, 4), scatter_v(4, 4, 1), scatter_v(4, 4)}, {"rank "});
  // Roots of long blocks wait for one another to take theirs.
  expect({scatter_v(1 << 20, 1 << 20), scatter_v(1 << 20, 1 << 20, 1)}, {"rank "});
}

// Two ranks that each take themselves for the root only receive: no message tells them, and still they learn it long before the timeout.
TEST_P(Mismatch, OtherRootOfAGather) {
  const auto gather = [](int root) {
    return [=](Communicator& world) {
      Buffers b;
      world.gather(b.in.data(), b.out.data(), 8, DataType::f32, root);
    };
  };
  const auto start = std::chrono::steady_clock::now();
  expect({gather_v(4, 4), gather_v(4, 4, 1)}, {"gather_v of f32 with root 0", "gather_v of f32 with root 1", "the same calls"});
  expect({gather_v(4, 4), gather_v(4, 4), gather_v(4, 4, 1)}, {"rank "});
  expect({gather_v(4, 4), gather_v(4, 4, 1), gather_v(4, 4, 2)}, {"gather_v of f32 with root "});
  expect({gather(0), gather(1)}, {"gather of 8 f32 with root 0", "gather of 8 f32 with root 1"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

INSTANTIATE_TEST_SUITE_P(Transports, Mismatch, ::testing::Values("shm", "tcp"), [](const auto& test) { return std::string(test.param); });

// Bad arguments are refused before anything is sent: the communicator stays good.
TEST(Arguments, AreRefusedInOneSentenceAndDoNoHarm) {
  on_ranks(2, with_transport("shm"), [](Communicator& world) {
    std::array<float, 8> in{}, out{};
    const std::vector<std::uint64_t> one{1}, two{1, 1};
    const auto refused = [&](ErrorCode code, const std::string& word, const std::function<void()>& call) {
      const auto error = error_of(call);
      ASSERT_TRUE(error) << word;
      EXPECT_EQ(error->code(), code) << error->what();
      EXPECT_NE(std::string(error->what()).find(word), std::string::npos) << error->what();
    };
    refused(ErrorCode::invalid_argument, "root 2", [&] { world.broadcast(in.data(), out.data(), 8, DataType::f32, 2); });
    refused(ErrorCode::invalid_argument, "root -1", [&] { world.reduce(in.data(), out.data(), 8, DataType::f32, ReduceOp::sum, -1); });
    refused(ErrorCode::unsupported, "band", [&] { world.all_reduce(in.data(), out.data(), 8, DataType::f32, ReduceOp::band); });
    refused(ErrorCode::unsupported, "all_reduce",
            [&] { world.all_reduce(in.data(), out.data(), 8, DataType::f32, static_cast<ReduceOp>(77)); });
    refused(ErrorCode::invalid_argument, "77", [&] { world.all_reduce(in.data(), out.data(), 8, static_cast<DataType>(77)); });
    refused(ErrorCode::invalid_argument, "null", [&] { world.all_reduce(nullptr, out.data(), 8, DataType::f32); });
    refused(ErrorCode::invalid_argument, "null", [&] { world.all_reduce(in.data(), nullptr, 8, DataType::f32); });
    refused(ErrorCode::invalid_argument, "address space", [&] { world.all_reduce(in.data(), out.data(), ~std::size_t{0}, DataType::f64); });
    refused(ErrorCode::unsupported, "in place", [&] { world.all_to_all(in.data(), in.data(), 2, DataType::f32); });
    refused(ErrorCode::invalid_argument, "counts", [&] { world.all_gather_v(in.data(), out.data(), one, one, DataType::f32); });
    refused(ErrorCode::invalid_argument, "counts", [&] { world.all_to_all_v(in.data(), two, one, out.data(), two, two, DataType::f32); });
    refused(ErrorCode::invalid_argument, "counts",
            [&] { world.gather_v(in.data(), 1, out.data(), one, two, DataType::f32, world.rank()); });
    refused(ErrorCode::invalid_argument, "own count is 2",
            [&] { world.scatter_v(in.data(), two, two, out.data(), 2, DataType::f32, world.rank()); });
    refused(ErrorCode::invalid_argument, "null", [&] { world.gather_v(nullptr, 1, out.data(), two, two, DataType::f32, 0); });
    refused(ErrorCode::invalid_argument, "rank 2", [&] { world.send(in.data(), 1, DataType::f32, 2); });
    refused(ErrorCode::invalid_argument, "rank -1", [&] { world.receive(out.data(), 1, DataType::f32, -1); });
    refused(ErrorCode::invalid_argument, "itself", [&] { world.send(in.data(), 1, DataType::f32, world.rank()); });
    refused(ErrorCode::invalid_argument, "group_start", [&] { world.group_end(); });
    Communicator none;
    refused(ErrorCode::invalid_argument, "empty", [&] { none.barrier(); });
    float mine = static_cast<float>(world.rank() + 1), sum = 0;
    world.all_reduce(&mine, &sum, 1, DataType::f32);
    EXPECT_EQ(sum, 3.0f);
  });
}

TEST(Arguments, AWishThatCannotBeServedIsAnError) {
  const auto refused = [](const Options& options, const std::string& word) {
    on_ranks(2, options, [&](Communicator& world) {
      float in = 1, out = 0;
      const auto error = error_of([&] { world.all_reduce(&in, &out, 1, DataType::f32); });
      ASSERT_TRUE(error) << word;
      EXPECT_NE(std::string(error->what()).find(word), std::string::npos) << error->what();
    });
  };
  Options options = with_transport("shm");
  options.algorithm = "rinng";
  refused(options, "rinng");
  options.algorithm.clear();
  options.protocol = "stagged";
  refused(options, "stagged");
  EXPECT_TRUE(error_of([] { init(make_unique_id(), 0, 1, with_transport("pigeon")); }));
  EXPECT_TRUE(error_of([] { init(make_unique_id(), 3, 2, with_transport("shm")); }));
  UniqueId junk{};
  EXPECT_TRUE(error_of([&] { init(junk, 0, 1); }));
}

}  // namespace
}  // namespace peal::test
