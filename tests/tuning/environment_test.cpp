#include <gtest/gtest.h>

#include <tuning/message_cost.hpp>
#include <tuning/placement.hpp>

#include "seats.hpp"

namespace peal::tuning {
namespace {

TEST(Placement, GroupsAreNumberedByTheirLowestRank) {
  const int groups[] = {7, 3, 7, 3, 9};
  const schedule::Placement placement = place_groups(groups);
  EXPECT_EQ(placement.group, (std::vector<std::int32_t>{0, 1, 0, 1, 2}));
  EXPECT_EQ(placement.ring, (std::vector<std::int32_t>{0, 2, 1, 3, 4}));
}

TEST(Placement, OneHostHasNoGroups) {
  const std::string hosts[] = {"a", "a", "a"};
  EXPECT_EQ(place(hosts), schedule::Placement{});
}

TEST(Placement, RanksOfADgxAreGroupedByNode) {
  const Seat seat = dgx(2, 16);
  EXPECT_EQ(seat.environment.nodes, 2);
  EXPECT_EQ(seat.environment.placement.group[7], 0);
  EXPECT_EQ(seat.environment.placement.group[8], 1);
  EXPECT_TRUE(seat.environment.placement.ring.empty());
  EXPECT_EQ(seat.environment.level[1].ranks_per_outlet, 1);
}

TEST(Environment, KnowsScopesOfBothLevels) {
  const Seat seat = dgx(2, 16);
  EXPECT_EQ(seat.environment.level[0].scope, "nvlink-h100");
  EXPECT_EQ(seat.environment.level[1].scope, "infiniband");
  EXPECT_FALSE(seat.environment.is_host);
}

// Among GPUs wired all to all a rank's ways to the others begin by a wire each; behind NVSwitches all by the same.
TEST(Environment, CountsTheWiresOutOfARank) {
  EXPECT_EQ(dgx(2, 16).environment.level[0].outlets, 1);
  EXPECT_EQ(gpus("mi300x-8", 2, 16).environment.level[0].outlets, 7);
  EXPECT_EQ(host(2, 4).environment.level[0].outlets, 1);
}

TEST(Environment, TravelsAsJson) {
  for (const Seat& seat : {dgx(2, 16), gpus("mi300x-8", 2, 16), host(2, 4), host(1, 1), dgx(1, 1)}) {
    const std::string text = to_json(seat.environment);
    auto back = environment_from_json(text);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(to_json(*back), text);
    for (const std::uint64_t bytes : {8u, 65536u, 1u << 24}) {
      auto here = select(seat.environment, ask(bytes));
      auto there = select(*back, ask(bytes));
      ASSERT_TRUE(here && there);
      ASSERT_EQ(here->candidates.size(), there->candidates.size());
      for (std::size_t i = 0; i < here->candidates.size(); ++i) {
        EXPECT_EQ(here->candidates[i].algorithm, there->candidates[i].algorithm);
        EXPECT_EQ(here->candidates[i].protocol, there->candidates[i].protocol);
        EXPECT_EQ(here->candidates[i].prediction.time, there->candidates[i].prediction.time);
      }
    }
  }
}

TEST(Environment, RefusesTextThatIsNoEnvironment) {
  const std::string good = to_json(host(2, 2).environment);
  for (std::size_t length = 0; length + 1 < good.size(); length += 97) EXPECT_FALSE(environment_from_json(good.substr(0, length)));
  EXPECT_FALSE(environment_from_json("{\"ranks\":-1}"));
  EXPECT_FALSE(environment_from_json("[]"));
}

TEST(Environment, RanksThatAreMoreThanCoresShareThemWithTheirNeighbours) {
  EXPECT_EQ(host(2, 4).environment.core_of, (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(host(2, 3).environment.core_of, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(host(4, 3).environment.core_of, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Environment, CoresMayBeSharedAcrossHostsThatAreContainersOfOneMachine) {
  EnvironmentOptions options;
  options.core_of = {7, 7, 3, 3};
  const Seat seat = host(2, 4, options);
  EXPECT_EQ(seat.environment.core_of, (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_TRUE(seat.environment.shares_cores());
}

TEST(Plan, RanksThatShareCoresKeepWhatLiesInTheirSlotsInACache) {
  const auto message_bytes = [](int cores, int ranks, Collective collective, const char* algorithm) {
    const Environment environment = host(cores, ranks).environment;
    const Call call{collective, {16 << 20}, DataType::f32};
    const auto plan = make_plan(environment, **schedule::find_algorithm(collective, algorithm), schedule::Protocol::staged, call);
    return plan ? plan->message_bytes : 0;
  };
  EXPECT_EQ(message_bytes(2, 8, Collective::all_to_all, "all_pairs"), 64 * 1024);  // 56 channels in 4 MiB
  EXPECT_EQ(message_bytes(2, 8, Collective::all_reduce, "two_shot"), 64 * 1024);
  EXPECT_EQ(message_bytes(2, 16, Collective::all_to_all, "all_pairs"), 32 * 1024);  // the least
  EXPECT_EQ(message_bytes(8, 8, Collective::all_to_all, "all_pairs"), schedule::kSlotMessageBytes);
  EXPECT_EQ(message_bytes(2, 4, Collective::all_to_all, "all_pairs"), schedule::kSlotMessageBytes);
  EXPECT_EQ(message_bytes(2, 8, Collective::all_reduce, "ring"), schedule::kSlotMessageBytes);
  EXPECT_EQ(message_bytes(2, 8, Collective::all_gather, "direct"), schedule::kSlotMessageBytes);  // one copy for all
}

TEST(Environment, MessagesBetweenRanksOfOneCoreAreCopiedFaster) {
  const Environment environment = host(2, 4).environment;
  const Offer& offer = *environment.offer(schedule::Protocol::staged);
  const auto cost = [&](int a, int b) {
    return message_cost(environment, offer.constants[0], schedule::Protocol::staged, 0, {}, environment.level[0].bottleneck,
                        environment.are_on_one_core(a, b));
  };
  EXPECT_GT(environment.same_core_gain, 1);
  EXPECT_DOUBLE_EQ(cost(0, 1).copy, environment.same_core_gain * cost(1, 2).copy);
  EXPECT_DOUBLE_EQ(cost(2, 3).reduce, environment.same_core_gain * cost(0, 2).reduce);
}

// What a core goes round in a call and finds cold again: the square of the ranks by everybody to everybody, their number by a star.
TEST(Environment, MessagesOnManyChannelsCostMoreWhereRanksShareCores) {
  const auto plan_of = [](const Environment& environment, const char* algorithm) {
    Call call;
    call.bytes = {8};
    auto plan = make_plan(environment, **schedule::find_algorithm(Collective::all_reduce, algorithm), schedule::Protocol::staged, call);
    EXPECT_TRUE(plan);
    return std::move(*plan);
  };
  const auto send_ns = [](const Environment& environment, const Plan& plan) { return message_cost(environment, plan, 0, {}, {}).per_send; };
  const Environment many = host(2, 64).environment;
  const Plan direct = plan_of(many, "one_shot");
  const Plan star = plan_of(many, "star");
  EXPECT_DOUBLE_EQ(direct.ends_a_core, 64 * 63);
  EXPECT_DOUBLE_EQ(star.ends_a_core, 2 * 63);
  EXPECT_GT(send_ns(many, direct), send_ns(many, star) + many.cold_end.value / 2);
  EXPECT_DOUBLE_EQ(send_ns(many, star), send_ns(many, plan_of(host(2, 8).environment, "one_shot"))) << "both are kept";
  EXPECT_DOUBLE_EQ(local_cost(many, direct).per_op, local_cost(many, star).per_op) << "no message";
  EXPECT_DOUBLE_EQ(plan_of(host(64, 64).environment, "one_shot").ends_a_core, 0) << "a core each";
}

// Who sends over lo does the protocol's work of the receiver, too.
TEST(Environment, OverLoopbackSendingIsIssuedForBothSides) {
  EnvironmentOptions options;
  options.wires = Wires::socket;
  const Environment environment = host(1, 2, options).environment;
  const topology::ProtocolConstants& constants = environment.offer(schedule::Protocol::staged)->constants[0];
  ASSERT_EQ(constants.scope, "tcp-loopback");
  EXPECT_LT(constants.receive_share, 1);
  const MessageCost cost = message_cost(environment, constants, schedule::Protocol::staged, 0, {}, environment.level[0].bottleneck);
  EXPECT_DOUBLE_EQ(cost.per_receive, constants.receive_share * cost.per_op);
  EXPECT_DOUBLE_EQ(cost.per_send + cost.per_receive, 2 * cost.per_op);
  const auto read = environment_from_json(to_json(environment));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->offer(schedule::Protocol::staged)->constants[0].receive_share, constants.receive_share);
}

// Eight ranks that send to all before they receive fill more than the caches; in a ring each has one message under way.
TEST(Environment, WhatHasLeftTheCachesIsReceivedMoreSlowly) {
  EnvironmentOptions options;
  options.wires = Wires::socket;
  Environment environment = host(1, 8, options).environment;
  topology::ProtocolConstants& constants = environment.offers.front().constants[0];
  ASSERT_EQ(constants.scope, "tcp-loopback");
  ASSERT_GT(constants.kept.value, 0u);
  const MessageCost cost = message_cost(environment, constants, schedule::Protocol::staged, 0, {}, environment.level[0].bottleneck);
  EXPECT_EQ(cost_after(cost, cost.kept).copy, cost.copy);
  EXPECT_DOUBLE_EQ(cost_after(cost, 1.5 * cost.kept).copy, cost.copy / (1 + 0.5 * (1 / cost.left_share - 1)));
  EXPECT_DOUBLE_EQ(cost_after(cost, 9 * cost.kept).copy, cost.left_share * cost.copy);
  const auto read = environment_from_json(to_json(environment));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->offers.front().constants[0].kept, constants.kept);
  EXPECT_EQ(read->offers.front().constants[0].left_share, constants.left_share);
  const auto time = [&](const char* algorithm, std::uint64_t bytes) {
    Question q;
    q.call.collective = Collective::all_gather;
    q.call.bytes = {bytes};
    q.algorithm = algorithm;
    const auto selection = select(environment, q);
    return selection ? selection->chosen().prediction.time.value : 0;
  };
  const double direct = time("direct", 2 << 20), ring = time("ring", 2 << 20), short_direct = time("direct", 64 << 10);
  constants.kept = {};
  EXPECT_GT(direct, 1.05 * time("direct", 2 << 20));
  EXPECT_DOUBLE_EQ(ring, time("ring", 2 << 20));
  EXPECT_DOUBLE_EQ(short_direct, time("direct", 64 << 10));
}

TEST(Environment, WhatIsReducedOutOfASocketIsCopiedOutFirst) {
  const Environment environment = host(2, 2).environment;
  const Offer& offer = *environment.offer(schedule::Protocol::staged);
  const double bytes = 1 << 20;
  MessageCost cost =
      message_cost(environment, offer.constants[0], schedule::Protocol::staged, 0, {}, environment.level[0].bottleneck, false);
  const auto reducing = [&] { return receive_work(cost, schedule::OpKind::recv_reduce, 0, bytes); };
  EXPECT_DOUBLE_EQ(reducing(), bytes / cost.reduce) << "slots are read where they lie";
  cost.is_memory = false;
  EXPECT_DOUBLE_EQ(reducing(), bytes / cost.reduce + bytes / cost.copy);
}

TEST(Prediction, WhatGoesToSeveralRanksIsCopiedOnce) {
  const Environment environment = host(8, 8).environment;
  const auto copying = [&](std::uint64_t bytes) {
    Call call;
    call.collective = Collective::broadcast;
    call.bytes = {bytes};
    call.is_in_place = true;
    const auto plan = make_plan(environment, **schedule::find_algorithm(Collective::broadcast, "direct"), schedule::Protocol::staged, call);
    return predict(environment, *plan).breakdown.copy;
  };
  const double rate = environment.offer(schedule::Protocol::staged)->constants[0].copy.gigabytes();
  EXPECT_NEAR(copying(schedule::kLeastSharedBytes), 2 * schedule::kLeastSharedBytes / rate, 1) << "once in, once out";
  EXPECT_NEAR(copying(schedule::kLeastSharedBytes / 2), 8 * schedule::kLeastSharedBytes / 2 / rate, 1) << "a copy for each";
}

TEST(Environment, OffersOnlyWhatTheTransportsCarry) {
  EnvironmentOptions options;
  options.protocols = {schedule::Protocol::staged};
  const Seat seat = host(2, 2, options);
  ASSERT_EQ(seat.environment.offers.size(), 1u);
  EXPECT_EQ(seat.environment.offers[0].protocol, schedule::Protocol::staged);
  EXPECT_EQ(seat.environment.refusals.size(), static_cast<std::size_t>(schedule::kProtocolCount) - 1);
}

TEST(Plan, SizesAreThoseOfNcclTests) {
  Call call;
  call.bytes = {1000};
  call.collective = Collective::all_gather;
  EXPECT_EQ(elements_of(call, 4).input, 62u);
  EXPECT_EQ(elements_of(call, 4).output, 248u);
  EXPECT_EQ(size_of_call(call, 4).value, 992u);
  call.collective = Collective::all_reduce;
  EXPECT_EQ(elements_of(call, 4).input, 250u);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_reduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::all_to_all, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::broadcast, 8), 1);
}

TEST(Environment, KnowsWhetherRanksTakeTurnsOnACore) {
  EXPECT_FALSE(host(2, 2).environment.shares_cores());
  EXPECT_FALSE(host(4, 2).environment.shares_cores());
  EXPECT_TRUE(host(2, 3).environment.shares_cores());
}

}  // namespace
}  // namespace peal::tuning
