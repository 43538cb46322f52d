// The registry answers, refuses with a reason, and makes programs of a size that does not grow with the number of ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <schedule/registry.hpp>
#include <set>

#include "algorithm_cases.hpp"

namespace peal::schedule {
namespace {

using testing::HasSubstr;

Request request_of(Collective collective, std::int32_t ranks) {
  Request request;
  request.collective = collective;
  request.ranks = ranks;
  return request;
}

Schedule schedule_of(Collective collective, std::string_view name, std::int32_t ranks) {
  const Result<const Algorithm*> algorithm = find_algorithm(collective, name);
  EXPECT_TRUE(algorithm.has_value());
  Result<Schedule> schedule = make_schedule(**algorithm, request_of(collective, ranks));
  EXPECT_TRUE(schedule.has_value());
  return *schedule;
}

TEST(Registry, ServesEveryCollective) {
  for (int c = 0; c < kCollectiveCount; ++c) EXPECT_FALSE(algorithms_for(static_cast<Collective>(c)).empty()) << c;
}

TEST(Registry, HasEachNameOnceInACollective) {
  std::set<std::pair<Collective, std::string_view>> seen;
  for (const Algorithm& a : registry()) EXPECT_TRUE(seen.insert({a.collective, a.name}).second) << a.name;
}

TEST(Registry, SaysWhatCanBeTypedWhenANameIsUnknown) {
  const auto found = find_algorithm(Collective::all_reduce, "rabenseifer");
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().message, HasSubstr("did you mean rabenseifner?"));
  EXPECT_THAT(found.error().message, HasSubstr("two_shot"));
}

TEST(Registry, RefusesBadRequestsWithOneSentence) {
  const Algorithm& ring = **find_algorithm(Collective::broadcast, "ring");
  Request request = request_of(Collective::broadcast, 4);
  request.root = 4;
  EXPECT_THAT(make_schedule(ring, request).error().message, HasSubstr("root 4"));
  request = request_of(Collective::broadcast, 0);
  EXPECT_THAT(make_schedule(ring, request).error().message, HasSubstr("at least 1"));
  request = request_of(Collective::broadcast, 3);
  request.placement.ring = {0, 1, 1};
  EXPECT_THAT(make_schedule(ring, request).error().message, HasSubstr("every rank once"));
  request.placement = {{}, {0, 2, 1}};
  EXPECT_THAT(make_schedule(ring, request).error().message, HasSubstr("lowest rank"));
  EXPECT_FALSE(make_schedule(ring, request_of(Collective::all_reduce, 3)).has_value());
  Request swap = request_of(Collective::all_to_all, 2);
  swap.in_place = true;
  EXPECT_THAT(make_schedule(**find_algorithm(Collective::all_to_all, "all_pairs"), swap).error().message, HasSubstr("in place"));
  const Algorithm& two_levels = **find_algorithm(Collective::all_gather, "hierarchical");
  Request uneven = request_of(Collective::all_gather, 3);
  EXPECT_THAT(make_schedule(two_levels, uneven).error().message, HasSubstr("2 groups"));
  uneven.placement.group = {0, 0, 1};
  EXPECT_THAT(make_schedule(two_levels, uneven).error().message, HasSubstr("equal size"));
}

TEST(Registry, GivesSmallProgramsToAHundredThousandRanks) {
  constexpr std::int32_t kRanks = 100'000;
  struct Case {
    Collective collective;
    const char* name;
    std::size_t most_ops;
  };
  const Case cases[] = {{Collective::all_reduce, "ring", 12},
                        {Collective::all_gather, "ring", 8},
                        {Collective::reduce_scatter, "ring", 6},
                        {Collective::all_to_all, "all_pairs", 8},
                        {Collective::all_to_all_v, "all_pairs", 8},
                        {Collective::gather_v, "direct", 8},
                        {Collective::scatter_v, "direct", 8},
                        {Collective::all_gather, "direct", 8},
                        {Collective::broadcast, "tree", 20},
                        {Collective::all_reduce, "tree", 40},
                        {Collective::broadcast, "binary_tree", 10},
                        {Collective::all_reduce, "binary_tree", 16},
                        {Collective::broadcast, "double_binary_tree", 10},
                        {Collective::all_reduce, "double_binary_tree", 20},
                        {Collective::all_reduce, "recursive_doubling", 80},
                        {Collective::barrier, "dissemination", 40}};
  for (const Case& c : cases) {
    const Schedule schedule = schedule_of(c.collective, c.name, kRanks);
    for (const std::int32_t rank : {0, 1, 77'777, kRanks - 1}) EXPECT_LE(program_for(schedule, rank).ops.size(), c.most_ops) << c.name;
  }
}

TEST(Registry, SharesBlocksOfOneSizeAmongAHundredThousandRanks) {
  Request request = request_of(Collective::all_reduce, 96'000);
  request.placement.group = consecutive_groups(request.ranks, 8);
  const Schedule schedule = *make_schedule(**find_algorithm(Collective::all_reduce, "hierarchical"), request);
  EXPECT_LE(program_for(schedule, 77'777).ops.size(), 40U);
}

TEST(Registry, OneShotBetweenTwoRanksNeedsNoScratch) {
  const Schedule schedule = schedule_of(Collective::all_reduce, "one_shot", 2);
  EXPECT_EQ(schedule.layouts.scratch_copies, 0);
  EXPECT_EQ(to_text(program_for(schedule, 0)),
            "rank 0 of 2\n"
            "  strand 0\n"
            "    send input[0] -> 1\n"
            "  strand 1\n"
            "    recv_reduce 1 -> output[0] = input[0] + ., finish\n");
}

TEST(Registry, PrintsARingAsPeopleReadIt) {
  EXPECT_EQ(to_text(program_for(schedule_of(Collective::all_reduce, "ring", 4), 1)),
            "rank 1 of 4\n"
            "  strand 0\n"
            "    send input[0] -> 2\n"
            "    loop 2 times\n"
            "      recv_reduce_send 0 -> output[3-1i mod 4] = input[3-1i mod 4] + . -> 2\n"
            "    end\n"
            "    recv_reduce_send 0 -> output[1] = input[1] + . -> 2, finish\n"
            "    loop 2 times\n"
            "      recv_send 0 -> output[0-1i mod 4] -> 2\n"
            "    end\n"
            "    recv 0 -> output[2]\n");
}

TEST(Registry, ARingWithWidePartialSumsRoundsWhereItFinishes) {
  Request request;
  request.ranks = 4;
  request.wide_partials = true;
  const Schedule schedule = *make_schedule(**find_algorithm(Collective::all_reduce, "ring"), request);
  EXPECT_TRUE(sends_wide_partials(schedule));
  const Program program = program_for(schedule, 1);
  EXPECT_EQ(to_text(program),
            "rank 1 of 4\n"
            "  strand 0\n"
            "    send input[0] -> 2, as fp32\n"
            "    loop 2 times\n"
            "      recv_reduce_send 0 -> input[3-1i mod 4] + . -> 2, as fp32\n"
            "    end\n"
            "    recv_reduce_send 0 -> output[1] = input[1] + . -> 2, finish, from fp32\n"
            "    loop 2 times\n"
            "      recv_send 0 -> output[0-1i mod 4] -> 2\n"
            "    end\n"
            "    recv 0 -> output[2]\n");
  EXPECT_FALSE(program.keeps_wide_output) << "what goes on at once needs no memory";
  request.ranks = 2;
  EXPECT_FALSE(sends_wide_partials(*make_schedule(**find_algorithm(Collective::all_reduce, "ring"), request)));
  request.ranks = 4;
  EXPECT_FALSE(sends_wide_partials(*make_schedule(**find_algorithm(Collective::all_reduce, "two_shot"), request)));
}

TEST(Registry, PrintsABruckExchangeAsPeopleReadIt) {
  EXPECT_EQ(to_text(program_for(schedule_of(Collective::all_gather, "bruck", 3), 1)),
            "rank 1 of 3\n"
            "  strand 0\n"
            "    send input[0] -> 0\n"
            "    copy scratch[0] = input[0]\n"
            "    recv 2 -> scratch[1]\n"
            "    send scratch[0] -> 2\n"
            "    recv 0 -> scratch[2]\n"
            "    copy output[1 and 1 more] = scratch[0 and 1 more]\n"
            "    copy output[0] = scratch[2]\n");
}

TEST(Registry, PacksAllToAllOfManyRanksInFewLoops) {
  EXPECT_LE(program_for(schedule_of(Collective::all_to_all, "bruck", 60'000), 7'777).ops.size(), 700U);
  const Algorithm& bruck = **find_algorithm(Collective::all_to_all, "bruck");
  EXPECT_THAT(make_schedule(bruck, request_of(Collective::all_to_all, 70'000)).error().message, HasSubstr("65535"));
}

// Who forwards one half is a leaf for the other, so nobody but the root sends more than the data once.
TEST(Registry, ForwardsInOneOfTwoTreesOnly) {
  for (std::int32_t n = 3; n <= 64; ++n) {
    const Schedule schedule = schedule_of(Collective::broadcast, "double_binary_tree", n);
    for (std::int32_t rank = 0; rank < n; ++rank) {
      std::set<std::int32_t> halves;
      int messages = 0;
      for (const Op& op : program_for(schedule, rank, false).ops) {
        if (op.kind != OpKind::send) continue;
        halves.insert(op.src.first);
        ++messages;
      }
      EXPECT_LE(messages, 2) << n << " " << rank;
      if (rank != schedule.request.root) {
        EXPECT_LE(halves.size(), 1U) << n << " " << rank;
      }
    }
  }
}

TEST(Registry, GoesBothWaysRoundOnlyBetweenGroups) {
  const Algorithm& both_ways = **find_algorithm(Collective::all_reduce, "bidirectional_ring");
  Request request = request_of(Collective::all_reduce, 4);
  EXPECT_THAT(make_schedule(both_ways, request).error().message, HasSubstr("2 groups"));
  request.placement.group = consecutive_groups(4, 2);
  EXPECT_EQ(to_text(program_for(*make_schedule(both_ways, request), 0)),
            "rank 0 of 4\n"
            "  strand 0\n"
            "    send input[6] -> 1\n"
            "    loop 2 times\n"
            "      recv_reduce_send 3 -> output[4-2i mod 8] = input[4-2i mod 8] + . -> 1\n"
            "    end\n"
            "    recv_reduce_send 3 -> output[0] = input[0] + . -> 1, finish\n"
            "    loop 2 times\n"
            "      recv_send 3 -> output[6-2i mod 8] -> 1\n"
            "    end\n"
            "    recv 3 -> output[2]\n"
            "  strand 1\n"
            "    send input[3] -> 3, channel 1\n"
            "    loop 2 times\n"
            "      recv_reduce_send 1 -> output[5+2i mod 8] = input[5+2i mod 8] + . -> 3, channel 1\n"
            "    end\n"
            "    recv_reduce_send 1 -> output[1] = input[1] + . -> 3, finish, channel 1\n"
            "    loop 2 times\n"
            "      recv_send 1 -> output[3+2i mod 8] -> 3, channel 1\n"
            "    end\n"
            "    recv 1 -> output[7], channel 1\n");
}

TEST(Registry, GroupsTransfersByPeerAndCopiesToItself) {
  const Transfer sends[] = {{1}, {0}, {1}};
  const Transfer receives[] = {{0}, {2}};
  const Program program = group_program(0, 3, sends, receives);
  EXPECT_EQ(to_text(program),
            "rank 0 of 3\n"
            "  strand 0\n"
            "    send user0[0] -> 1\n"
            "    send user2[0] -> 1\n"
            "  strand 1\n"
            "    copy user3[0] = user1[0]\n"
            "  strand 2\n"
            "    recv 2 -> user4[0]\n");
}

}  // namespace
}  // namespace peal::schedule
