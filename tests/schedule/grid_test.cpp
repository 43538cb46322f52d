// Grids: how many groups stand along a side, and algorithms of three and four levels.
#include <gtest/gtest.h>

#include <numeric>
#include <schedule/cursor.hpp>
#include <schedule/registry.hpp>
#include <schedule/verify.hpp>

#include "algorithm_cases.hpp"

namespace peal::schedule {
namespace {

Request request_of(Collective collective, std::int32_t groups, std::int32_t size) {
  Request request;
  request.collective = collective;
  request.ranks = groups * size;
  request.placement.group = consecutive_groups(request.ranks, size);
  return request;
}

Schedule schedule_of(std::string_view algorithm, const Request& request) {
  return *make_schedule(**find_algorithm(request.collective, algorithm), request);
}

// Messages that one rank of `groups` groups of one sends in an all-reduce: twice the steps along all sides.
std::int32_t steps_of(std::int32_t groups) {
  return static_cast<std::int32_t>(
             (**find_algorithm(Collective::all_reduce, "grid")).cost(request_of(Collective::all_reduce, groups, 1)).level[1].messages) /
         2;
}

std::vector<std::int32_t> peers_sent_to(const Program& program) {
  std::vector<std::int32_t> peers;
  for (std::size_t s = 0; s < program.strands(); ++s)
    for (StrandCursor at(program, s, 1); !at.done(); at.advance(program))
      if (const BoundOp bound = at.current(program); bound.op->kind == OpKind::send) peers.push_back(bound.peer);
  return peers;
}

TEST(Grid, HasTheSidesWhoseRingsTakeTheFewestSteps) {
  EXPECT_EQ(steps_of(4), 1 + 1);
  EXPECT_EQ(steps_of(8), 3 + 1);
  EXPECT_EQ(steps_of(12), 3 + 2);
  EXPECT_EQ(steps_of(16), 3 + 3);
  EXPECT_EQ(steps_of(27), 2 + 2 + 2);
  EXPECT_EQ(steps_of(12'500), 24 + 24 + 19);
  EXPECT_EQ(steps_of(2 * 6'247), 6'246 + 1);
}

TEST(Grid, TheLongestSideIsThatOfNeighbours) {
  const Program program = program_for(schedule_of("grid", request_of(Collective::all_to_all, 12, 2)), 0);
  EXPECT_EQ(peers_sent_to(program), (std::vector<std::int32_t>{1, 2, 4, 6, 8, 16})) << "inside, 4 groups along one side, 3 along the other";
}

TEST(Grid, IsRightOnTwoThreeAndFourLevels) {
  struct Shape {
    std::int32_t groups;
    std::int32_t size;
  };
  for (const Shape shape : {Shape{4, 1}, {4, 3}, {6, 2}, {9, 1}, {8, 3}, {27, 1}, {30, 2}})
    for (const Collective collective : {Collective::all_reduce, Collective::all_to_all}) {
      SCOPED_TRACE(std::to_string(shape.groups) + " groups of " + std::to_string(shape.size));
      const Verdict verdict = verify(schedule_of("grid", request_of(collective, shape.groups, shape.size)), {.protocol = Protocol::staged});
      EXPECT_TRUE(verdict.ok) << verdict.why;
    }
}

TEST(Grid, HierarchicalAllToAllIsRight) {
  for (const std::int32_t groups : {2, 3, 5})
    for (const std::int32_t size : {2, 4}) {
      const Verdict verdict =
          verify(schedule_of("hierarchical", request_of(Collective::all_to_all, groups, size)), {.protocol = Protocol::staged});
      EXPECT_TRUE(verdict.ok) << verdict.why;
    }
}

TEST(Grid, PrintsAnExchangeAsPeopleReadIt) {
  EXPECT_EQ(to_text(program_for(schedule_of("hierarchical", request_of(Collective::all_to_all, 2, 2)), 1)),
            "rank 1 of 4\n"
            "  strand 0\n"
            "    loop 2 times\n"
            "      loop 2 times\n"
            "        copy scratch[0+1i+2j] = input[0+2i+1j]\n"
            "      end\n"
            "    end\n"
            "    signal event 0\n"
            "    send scratch[0 and 1 more] -> 0\n"
            "    wait event 1 >= 1\n"
            "    loop 2 times\n"
            "      loop 2 times\n"
            "        copy scratch[0+1i+2j] = scratch[4+2i+1j]\n"
            "      end\n"
            "    end\n"
            "    signal event 0\n"
            "    send scratch[2 and 1 more] -> 3\n"
            "  strand 1\n"
            "    wait event 0 >= 1\n"
            "    copy scratch[6 and 1 more] = scratch[2 and 1 more]\n"
            "    recv 0 -> scratch[4 and 1 more]\n"
            "    signal event 1\n"
            "    wait event 0 >= 2\n"
            "    copy output[0 and 1 more] = scratch[0 and 1 more]\n"
            "    recv 3 -> output[2 and 1 more]\n"
            "    signal event 1\n");
}

TEST(Grid, ARankOfAHundredThousandHasFewOpsAndFewMessages) {
  const Schedule sums = schedule_of("grid", request_of(Collective::all_reduce, 12'500, 8));
  EXPECT_LE(program_for(sums, 77'777).ops.size(), 60U);
  const Request exchange = request_of(Collective::all_to_all, 12'500, 8);
  const Program program = program_for(schedule_of("grid", exchange), 77'777);
  EXPECT_EQ(peers_sent_to(program).size(), 7U + 24 + 24 + 19);
  const Program by_rails = program_for(schedule_of("hierarchical", exchange), 77'777);
  EXPECT_LE(by_rails.ops.size(), 60U);
  EXPECT_EQ(peers_sent_to(by_rails).size(), 7U + 12'499);
}

// Rings along rails of 1,025 groups would take 2,048 steps.
TEST(Grid, LongRailsOfHierarchicalGoAlongItsSides) {
  const auto text_of = [](const char* algorithm, std::int32_t groups) {
    return to_text(program_for(schedule_of(algorithm, request_of(Collective::all_reduce, groups, 2)), 77));
  };
  EXPECT_EQ(text_of("hierarchical", 1'025), text_of("grid", 1'025));
  EXPECT_NE(text_of("hierarchical", 1'024), text_of("grid", 1'024));
  EXPECT_NE(text_of("hierarchical", 1'031).find("1030"), std::string::npos) << "a prime has no sides";
  const auto messages = [](const char* algorithm, std::int32_t groups) {
    return (**find_algorithm(Collective::all_reduce, algorithm)).cost(request_of(Collective::all_reduce, groups, 2)).level[1].messages;
  };
  EXPECT_EQ(messages("hierarchical", 1'025), messages("grid", 1'025));
  EXPECT_EQ(messages("hierarchical", 1'024), 2 * 1'023);
}

TEST(Grid, SaysWhatItNeeds) {
  const Algorithm& grid = **find_algorithm(Collective::all_reduce, "grid");
  const auto why = [&](const Request& request) { return make_schedule(grid, request).error().message; };
  EXPECT_EQ(why(request_of(Collective::all_reduce, 7, 2)),
            "a grid needs a number of groups that is a product, 4 or more; there are 7; use hierarchical or ring");
  Request uneven = request_of(Collective::all_reduce, 4, 2);
  uneven.placement.group = {0, 0, 0, 1, 1, 2, 2, 3};
  EXPECT_EQ(why(uneven), "a grid needs groups of equal size; use tree or ring");
}

}  // namespace
}  // namespace peal::schedule
