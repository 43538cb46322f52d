// The cursor walks loops, pieces and empty strands; lowering fuses what may be fused.
#include <gtest/gtest.h>

#include <algorithm>
#include <schedule/builder.hpp>
#include <schedule/cursor.hpp>
#include <schedule/registry.hpp>
#include <vector>

namespace peal::schedule {
namespace {

struct Seen {
  std::int32_t piece;
  std::int32_t peer;
  std::int32_t chunk;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> walk(const Program& program, std::int32_t pieces) {
  std::vector<Seen> seen;
  for (StrandCursor cursor(program, 0, pieces); !cursor.done(); cursor.advance(program)) {
    const BoundOp bound = cursor.current(program);
    seen.push_back({bound.piece, bound.peer, bound.chunk(bound.op->src)});
  }
  return seen;
}

TEST(StrandCursor, AdvancesPeersAndChunksInLoopsAndRepeatsForEachPiece) {
  RankBuilder builder;
  StrandBuilder strand = builder.strand("test");
  strand.loop(3, [&] {
    Op& op = strand.send(3, input(1).by(-1));
    op.peer_step = 1;
    op.modulus = 4;
  });
  strand.send(0, input(9));
  const Program program = lower(builder.take(), 2, 5, true);
  const std::vector<Seen> expected{{0, 3, 1}, {0, 4, 0}, {0, 0, 3}, {0, 0, 9}, {1, 3, 1}, {1, 4, 0}, {1, 0, 3}, {1, 0, 9}};
  EXPECT_EQ(walk(program, 2), expected);
}

TEST(StrandCursor, NestsTwoLoops) {
  RankBuilder builder;
  StrandBuilder strand = builder.strand("test");
  strand.loop(2, [&] { strand.loop(2, [&] { strand.send(1, input(0).by(1, 10)); }); });
  const Program program = lower(builder.take(), 0, 2, true);
  const std::vector<Seen> expected{{0, 1, 0}, {0, 1, 1}, {0, 1, 10}, {0, 1, 11}};
  EXPECT_EQ(walk(program, 1), expected);
}

// Of 2 x (1 + 3 x (1 + 2) + 1) ops, in two pieces.
TEST(StrandCursor, KnowsHowOftenItComesToAnOp) {
  RankBuilder builder;
  StrandBuilder strand = builder.strand("test");
  strand.send(1, input(0));
  strand.loop(3, [&] {
    strand.send(1, input(1));
    strand.loop(2, [&] { strand.send(1, input(2)); });
  });
  strand.send(1, input(3));
  const Program program = lower(builder.take(), 0, 2, true);
  StrandCursor cursor(program, 0, 2);
  for (int i = 0; i < 22; ++i, cursor.advance(program)) EXPECT_EQ(cursor.visits(program).over, i);
  EXPECT_TRUE(cursor.done());
  EXPECT_EQ(cursor.visits(program).over, 22);
  EXPECT_EQ(cursor.visits(program).all, 22);
}

TEST(StrandCursor, RaisesThresholdsByTheSignalsOfAPiece) {
  RankBuilder builder;
  const std::int32_t event = builder.event();
  StrandBuilder strand = builder.strand("test");
  strand.loop(3, [&] { strand.signal(event); });
  StrandBuilder waiting = builder.strand("waits");
  waiting.wait(event, 2);
  const Program program = lower(builder.take(), 0, 1, true);
  ASSERT_EQ(program.event_quota, std::vector<std::int32_t>{3});
  StrandCursor cursor(program, 1, 2);
  EXPECT_EQ(cursor.current(program).threshold(program), 2);
  cursor.advance(program);
  EXPECT_EQ(cursor.current(program).threshold(program), 5);
}

TEST(StrandCursor, EndsAtOnceWhereLoopsRunNoTimes) {
  RankBuilder builder;
  StrandBuilder strand = builder.strand("test");
  strand.loop(0, [&] { strand.send(1, input(0)); });
  const Program program = lower(builder.take(), 0, 2, true);
  EXPECT_EQ(program.strands(), 0U);
}

TEST(Lowering, FusesAReceiveWithTheSendOfItsResultOnly) {
  RankBuilder builder;
  StrandBuilder strand = builder.strand("test");
  strand.recv_reduce(1, output(0), input(0));
  strand.send(2, output(0));
  strand.recv(1, output(1));
  strand.send(2, output(2));
  const Program program = lower(builder.take(), 0, 3, true);
  ASSERT_EQ(program.ops.size(), 3U);
  EXPECT_EQ(program.ops[0].kind, OpKind::recv_reduce_send);
  EXPECT_EQ(program.ops[0].peer2, 2);
  EXPECT_NE(program.ops[0].flags & kStore, 0);
  EXPECT_EQ(program.ops[1].kind, OpKind::recv);
}

TEST(StrandCursor, KnowsWhichSendsTakeTheSameBytes) {
  RankBuilder builder;
  StrandBuilder strand = builder.strand("test");
  strand.send(1, input(0));
  strand.send(2, input(0));
  strand.send(3, input(1));
  strand.loop(3, [&] { strand.send(1, input(1)).peer_step = 1; });
  strand.loop(2, [&] { strand.send(1, input(0).by(1)).peer_step = 1; });
  StrandBuilder other = builder.strand("other");
  other.send(1, input(0).by(1));
  const Program program = lower(builder.take(), 0, 4, true);
  std::vector<std::pair<int, int>> same;
  for (std::size_t s = 0; s < program.strands(); ++s) {
    for (StrandCursor cursor(program, s, 1); !cursor.done(); cursor.advance(program)) {
      const SameSends sends = cursor.same_sends(program);
      same.emplace_back(sends.before, sends.after);
    }
  }
  const std::vector<std::pair<int, int>> expected = {{0, 1}, {1, 0}, {0, 0}, {0, 2}, {1, 1}, {2, 0}, {0, 0}, {0, 0}, {0, 0}};
  EXPECT_EQ(same, expected);
}

TEST(StrandCursor, KnowsHowManyCopiesItsLoopsHoldAlone) {
  RankBuilder builder;
  StrandBuilder strand = builder.strand("test");
  strand.copy(output(0), input(0));
  strand.loop(3, [&] { strand.loop(2, [&] { strand.copy(scratch(0).by(1, 2), input(0).by(3, 1)); }); });
  strand.loop(2, [&] {
    strand.loop(4, [&] { strand.copy(scratch(0).by(1), input(0).by(1)); });
    strand.send(1, scratch(0, 4));
  });
  const Program program = lower(builder.take(), 0, 2, true);
  StrandCursor cursor(program, 0, 1);
  EXPECT_EQ(cursor.copies_left(program), 1) << "in no loop";
  cursor.advance(program);
  EXPECT_EQ(cursor.copies_left(program), 6);
  cursor.advance(program);
  EXPECT_EQ(cursor.copies_left(program), 5);
  cursor.to_last_copy(program);
  EXPECT_EQ(cursor.copies_left(program), 1);
  EXPECT_EQ(cursor.current(program).chunk(program.ops[3].src), 3 * 1 + 1 * 2);
  cursor.advance(program);
  EXPECT_EQ(cursor.copies_left(program), 4) << "the loop around holds a send, too";
  cursor.to_last_copy(program);
  cursor.advance(program);
  EXPECT_EQ(cursor.current(program).op->kind, OpKind::send);
  EXPECT_EQ(cursor.copies_left(program), 1);
}

TEST(Lowering, LeavesContributionsWhereTheyCameInDirectReductions) {
  for (const auto& [collective, name] : {std::pair{Collective::all_reduce, "one_shot"},
                                         {Collective::all_reduce, "two_shot"},
                                         {Collective::reduce_scatter, "direct"},
                                         {Collective::reduce, "direct"}}) {
    Request request;
    request.collective = collective;
    request.ranks = 5;
    const Schedule schedule = *make_schedule(**find_algorithm(collective, name), request);
    const Program program = program_for(schedule, 0);
    EXPECT_TRUE(std::any_of(program.ops.begin(), program.ops.end(), [](const Op& op) { return (op.flags & kHeld) != 0; })) << name;
  }
}

TEST(Lowering, LeavesContributionsWhereTheyCameOnlyIfOneReductionReadsThem) {
  const auto is_held = [](bool is_read_again, bool fuse, int read_chunk = 1) {
    RankBuilder builder;
    StrandBuilder strand = builder.strand("test");
    strand.loop(2, [&] { strand.recv(1, scratch(0).by(1)).peer_step = 1; });
    const std::vector<Source> sources = {{input(0), -1}, {scratch(0), -1}, {scratch(read_chunk), -1}};
    strand.reduce(output(0), sources, true);
    if (is_read_again) strand.send(1, scratch(0));
    return (lower(builder.take(), 0, 3, fuse).ops[1].flags & kHeld) != 0;
  };
  EXPECT_TRUE(is_held(false, true));
  EXPECT_FALSE(is_held(true, true));
  EXPECT_FALSE(is_held(false, true, 2)) << "one of the contributions is not read";
  EXPECT_FALSE(is_held(false, true, 0)) << "one of them is read twice";
  EXPECT_FALSE(is_held(false, false)) << "programs as they were built";
}

}  // namespace
}  // namespace peal::schedule
