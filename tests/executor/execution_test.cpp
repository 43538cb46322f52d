// The interpreter over the fake transport: right bytes for every schedule of the registry, whatever the order in which messages come.
#include <gtest/gtest.h>

#include <algorithm>

#include "fake_run.hpp"

namespace peal::test {
namespace {

using schedule::Protocol;

struct Circumstances {
  const char* name;
  int slots;
  int delay;
  std::uint64_t message_bytes;
  std::uint64_t count;  // elements
  bool is_by_sockets = false;
};

/// Both ways round; with shares that do not divide what there is to move, or with equal ones.
schedule::Placement two_rings(int n, bool has_equal_shares) {
  schedule::Placement placement;
  placement.rings.resize(2);
  for (int r = 0; r < n; ++r) placement.rings[0].push_back(r);
  placement.rings[1].assign(placement.rings[0].rbegin(), placement.rings[0].rend());
  if (!has_equal_shares) placement.shares = {3, 2};
  return placement;
}

int run_all(const Circumstances& at, Protocol protocol, std::initializer_list<int> ranks) {
  int runs = 0;
  for (const schedule::Algorithm& algorithm : schedule::registry()) {
    for (const int n : ranks) {
      for (const int root : n > 1 ? std::vector<int>{0, n / 2} : std::vector<int>{0}) {
        for (const bool in_place : {false, true}) {
          for (const bool grouped : {false, true}) {
            CollectiveCase c{algorithm.collective, n, root, (root + n / 2) % n, at.count, in_place};
            if ((in_place && !c.has_in_place()) || (root != 0 && !c.is_rooted() && c.collective != Collective::send_recv) ||
                (grouped && n < 4))
              continue;
            schedule::Request request;
            request.collective = c.collective;
            request.ranks = n;
            request.root = c.root;
            request.peer = c.peer;
            for (int r = 0; grouped && r < n; ++r) request.placement.group.push_back(r / 2);
            if (algorithm.name == "multi_ring" && n > 1) request.placement = two_rings(n, grouped);
            request.in_place = in_place;  // decides whether a buffer may be read from afar
            if (!algorithm.supports(request) || !schedule::suits(algorithm, request, protocol)) continue;
            FakeRun::Options options;
            options.protocol = protocol;
            options.message_bytes = at.message_bytes;
            options.fabric.seed = static_cast<std::uint64_t>(n) * 100 + static_cast<std::uint64_t>(runs);
            options.fabric.slots = at.slots;
            options.fabric.channels = 4;
            options.fabric.longest_delay_ticks = at.delay;
            options.fabric.message_bytes = at.message_bytes;
            options.fabric.is_by_sockets = at.is_by_sockets;
            FakeRun run(algorithm, request, c, options);
            EXPECT_EQ(run.refused(), "");
            run.start();
            const std::string said = run.finish();
            EXPECT_EQ(said, "") << name_of(c.collective) << " by " << algorithm.name << " " << at.name << ", " << n << " ranks, root "
                                << root << (in_place ? ", in place" : "") << (grouped ? ", groups of two" : "");
            ++runs;
          }
        }
      }
    }
  }
  return runs;
}

TEST(Execution, EveryScheduleInOneMessage) {
  EXPECT_GT(run_all({"at once", 4, 0, 1 << 18, 37}, Protocol::staged, {1, 2, 3, 4, 5, 6, 7, 8}), 400);
}
TEST(Execution, EveryScheduleWithTheFewestSlotsAndLateMessages) {
  EXPECT_GT(run_all({"in pieces", 2, 5, 512, 700}, Protocol::staged, {2, 3, 4, 5, 8}), 200);
}
TEST(Execution, EveryScheduleInPiecesAsBySockets) {
  EXPECT_GT(run_all({"as by sockets", 2, 5, 512, 700, true}, Protocol::staged, {2, 3, 4, 5, 8}), 200);
}
TEST(Execution, EveryScheduleWithNothingToMove) {
  EXPECT_GT(run_all({"of nothing", 2, 3, 512, 0}, Protocol::staged, {1, 2, 3, 5, 8}), 200);
}
TEST(Execution, EveryScheduleByLines) { EXPECT_GT(run_all({"by lines", 4, 3, 96, 61}, Protocol::line, {1, 2, 3, 4, 7}), 200); }
TEST(Execution, EveryScheduleByReference) {
  EXPECT_GT(run_all({"by reference", 4, 3, 1 << 18, 900}, Protocol::direct_read, {1, 2, 3, 4, 8}), 50);
}
TEST(Execution, EveryScheduleByReferenceInPieces) {
  EXPECT_GT(run_all({"by reference in pieces", 4, 5, 512, 2100}, Protocol::direct_read, {1, 2, 3, 4, 8}), 50);
}

// Messages under way after the first turn of rank 0 alone, by reference, in six pieces.
std::size_t offered_at_once(Collective collective, const char* algorithm, bool in_place) {
  CollectiveCase c{collective, 2, 0, 0, 6 * 1024, in_place};
  schedule::Request request;
  request.collective = collective;
  request.ranks = c.ranks;
  FakeRun::Options options;
  options.protocol = Protocol::direct_read;
  options.fabric.slots = 8;
  options.fabric.message_bytes = options.message_bytes = 4096;
  FakeRun run(**schedule::find_algorithm(collective, algorithm), request, c, options);
  EXPECT_EQ(run.refused(), "");
  run.start();
  run.execution(0).progress();
  const std::size_t offered = run.fabric().in_flight();
  EXPECT_EQ(run.finish(), "");
  return offered;
}

TEST(Execution, PiecesOfTheInputAreOfferedAheadWhereNothingElseGoesThatWay) {
  EXPECT_EQ(offered_at_once(Collective::all_gather, "recursive_doubling", false), 4U) << "as many as one system call reads";
  EXPECT_EQ(offered_at_once(Collective::all_gather, "recursive_doubling", true), 4U) << "nobody writes where it lies";
  EXPECT_EQ(offered_at_once(Collective::all_reduce, "ring", false), 1U) << "two messages a piece go the same way";
  EXPECT_EQ(offered_at_once(Collective::broadcast, "tree", false), 1U) << "the root helps its receiver, piece by piece";
}

// What a signal sets free goes out before the next message is taken in, by sockets: two ranks that send a sum each do not send by turns.
TEST(Execution, BySocketsTheSumIsSentBeforeThePeersIsReceived) {
  CollectiveCase c{Collective::all_reduce, 2, 0, 0, 4 * 1024, false};
  schedule::Request request;
  request.ranks = c.ranks;
  FakeRun::Options options;
  options.keeps_log = true;
  options.fabric.is_by_sockets = true;
  options.fabric.slots = 8;
  options.fabric.message_bytes = options.message_bytes = 2048;
  FakeRun run(**schedule::find_algorithm(Collective::all_reduce, "two_shot"), request, c, options);
  ASSERT_EQ(run.refused(), "");
  run.start();
  while (!run.done()) {
    bool moved = false;
    for (const int r : {0, 1})  // each as far as it gets, so that all that it sends is there when the other one goes on
      while (run.execution(r).progress()) moved = true;
    ASSERT_TRUE(moved);
  }
  for (const int r : {0, 1}) {
    const std::vector<executor::Completion>& log = run.log(r);
    const std::vector<schedule::Op>& ops = run.program(r).ops;
    const auto place = [&](schedule::OpKind kind, std::int32_t piece) {
      const auto found = std::find_if(log.begin(), log.end(), [&](const executor::Completion& done) {
        const schedule::Op& op = ops[done.op];
        return done.piece == piece && op.kind == kind && (kind == schedule::OpKind::recv || op.src.buffer == schedule::kOutput);
      });
      EXPECT_NE(found, log.end());
      return found - log.begin();
    };
    const std::int32_t pieces = run.binding(r).pieces().count;
    ASSERT_GT(pieces, 1);
    for (std::int32_t piece = 0; piece < pieces; ++piece)
      EXPECT_LT(place(schedule::OpKind::send, piece), place(schedule::OpKind::recv, piece)) << "rank " << r;
  }
}

// A message that its receiver may read costs system calls, not a slot: it is not cut in halves.
TEST(Execution, TransfersThatMayBeReadInPlaceAreCutLess) {
  executor::Plan plan;
  plan.is_cut_by_transfer = true;
  plan.message_bytes = 256 << 10;
  EXPECT_EQ(plan.message_bytes_of(64 << 10), 32u << 10);
  plan.least_referenced = 64 << 10;
  EXPECT_EQ(plan.message_bytes_of(63 << 10), 32u << 10);
  EXPECT_GE(plan.message_bytes_of(64 << 10), 64u << 10);
  EXPECT_EQ(plan.message_bytes_of(256 << 10), 256u << 10);
  EXPECT_EQ(plan.message_bytes_of(16 << 20), 256u << 10) << "as long as a slot, for who cannot read it";
}

// A way offers references from some message on, so the sends of one row may go in two ways.
TEST(Execution, ARowOfSendsEndsWithItsLastOneWhicheverWayThatGoes) {
  for (const int after : {1, 2, 3}) {
    CollectiveCase c{Collective::broadcast, 4, 0, 0, 12 * 4096, false};
    schedule::Request request;
    request.collective = Collective::broadcast;
    request.ranks = c.ranks;
    FakeRun::Options options;
    options.protocol = Protocol::direct_read;
    options.fabric.channels = 4;
    options.fabric.message_bytes = options.message_bytes = 16 * 1024;
    options.fabric.references_after = after;
    options.fabric.has_shared_copies = true;
    FakeRun run(**schedule::find_algorithm(Collective::broadcast, "tree"), request, c, options);
    ASSERT_EQ(run.refused(), "");
    run.start();
    EXPECT_EQ(run.finish(), "") << "references after " << after;
  }
}

const schedule::Algorithm& ring() { return **schedule::find_algorithm(Collective::all_reduce, "ring"); }

FakeRun ring_run(int n, int delay = 2) {
  CollectiveCase c{Collective::all_reduce, n, 0, 0, 400, false};
  schedule::Request request;
  request.ranks = n;
  FakeRun::Options options;
  options.fabric.slots = 2;
  options.fabric.channels = 4;
  options.fabric.longest_delay_ticks = delay;
  options.fabric.message_bytes = options.message_bytes = 256;
  return FakeRun(ring(), request, c, options);
}

TEST(Execution, AStalledChannelHoldsTheCallAndNothingElse) {
  auto run = ring_run(4);
  run.fabric().stall(1, 2, 0, true);
  run.start();
  for (int i = 0; i < 5000; ++i) run.turn();
  EXPECT_FALSE(run.done());
  EXPECT_FALSE(run.execution(2).failed());
  EXPECT_EQ(run.execution(2).awaited_peers(), (std::vector<int>{1}));
  // What rank 0 sent lies ready: rank 1 waits for room towards rank 2, not for rank 0, who may have ended meanwhile.
  EXPECT_EQ(run.execution(1).awaited_peers(), (std::vector<int>{2}));
  run.fabric().stall(1, 2, 0, false);
  EXPECT_EQ(run.finish(), "");
}

TEST(Execution, AKilledRankShowsInHealthAndTheOthersDoNotEnd) {
  auto run = ring_run(4);
  run.start();
  for (int i = 0; i < 10; ++i) run.turn();
  run.fabric().kill(2);
  for (int i = 0; i < 5000; ++i)
    for (const int r : {0, 1, 3}) run.execution(r).progress();
  for (const int r : {0, 1, 3}) {
    EXPECT_FALSE(run.execution(r).done());
    const Status health = run.fabric().transport(r).health();
    ASSERT_FALSE(health);
    EXPECT_EQ(health.error().rank, 2);
    EXPECT_EQ(health.error().code, ErrorCode::rank_dead);
  }
}

TEST(Execution, AMessageOfAnotherCallIsAMismatchThatNamesBoth) {
  CollectiveCase c{Collective::all_reduce, 2, 0, 0, 8, false};
  schedule::Request request;
  request.ranks = 2;
  FakeRun::Options options;
  options.fabric.channels = 4;
  FakeRun run(ring(), request, c, options);
  // Rank 1 has sent for something else before.
  executor::CallSignature other;
  other.collective = Collective::broadcast;
  other.type = DataType::f32;
  other.count = 3;
  other.root = 1;
  other.sequence = 1;
  const transport::Tag tag = executor::to_tag(other);
  const std::byte junk[12] = {};
  ASSERT_TRUE(run.fabric().transport(1).sender(0)->send(junk, sizeof junk, &tag));
  run.start();
  for (int i = 0; i < 100; ++i) run.turn();
  ASSERT_TRUE(run.execution(0).failed());
  const Failure& failure = run.execution(0).failure();
  EXPECT_EQ(failure.code, ErrorCode::mismatch);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_NE(failure.message.find("broadcast of 3 f32 with root 1"), std::string::npos) << failure.message;
  EXPECT_NE(failure.message.find("all_reduce of 8 i32"), std::string::npos) << failure.message;
}

}  // namespace
}  // namespace peal::test
