#include <gtest/gtest.h>
#include <algorithm>

#include <topology/machine.hpp>
#include <tuning/explain.hpp>
#include <tuning/message_cost.hpp>
#include <tuning/placement.hpp>

namespace peal::tuning {
namespace {

struct Seat {
  std::unique_ptr<topology::Resources> resources;
  Environment environment;
};

Seat gpus(const char* machine, int nodes, int ranks, EnvironmentOptions options = {}) {
  auto cluster = topology::build_cluster(machine, nodes);
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  Seat seat;
  const std::vector<int> devices = spread(*cluster, ranks);
  seat.resources = std::make_unique<topology::Resources>(std::move(*cluster));
  auto environment = environment_of(*seat.resources, devices, options);
  EXPECT_TRUE(environment) << (environment ? "" : environment.error().message);
  seat.environment = std::move(*environment);
  return seat;
}

Seat dgx(int nodes, int ranks, EnvironmentOptions options = {}) { return gpus("dgx-h100", nodes, ranks, std::move(options)); }

Seat host(int cores, int ranks, EnvironmentOptions options = {}) {
  auto cluster =
      topology::read_cluster_text(fmt::format("devices:\n  - {{id: \"core[0-{0}]\", kind: core}}\n  - {{id: mem0, kind: memory}}\n"
                                              "links:\n  - {{a: \"core[0-{0}]\", b: mem0, kind: shm, GBps: 100, latency_ns: 30}}\n",
                                              cores - 1),
                                  "test host");
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  Seat seat;
  const std::vector<int> devices = spread(*cluster, ranks);
  seat.resources = std::make_unique<topology::Resources>(std::move(*cluster));
  auto environment = environment_of(*seat.resources, devices, options);
  EXPECT_TRUE(environment) << (environment ? "" : environment.error().message);
  seat.environment = std::move(*environment);
  return seat;
}

/// Hosts of `each` ranks, joined by sockets.
Environment several_hosts(int count, int each) {
  Environment environment = host(count * each, count * each).environment;
  environment.nodes = count;
  environment.placement.group.clear();
  for (int r = 0; r < count * each; ++r) environment.placement.group.push_back(r / each);
  environment.level[0].is_used = each > 1;
  environment.level[1] = {true, "tcp", topology::PathClass::net, {0}, Bandwidth::gigabytes(1.25), each};
  std::erase_if(environment.offers, [](const Offer& o) { return o.protocol != schedule::Protocol::staged; });
  environment.offers.at(0).constants[1] = *topology::constants_for("tcp", "staged");
  return environment;
}

/// Hosts of one rank, joined by their NICs.
Environment hosts_with_nics(int count, const EnvironmentOptions& options) {
  auto machine = topology::read_cluster_text(
      "devices:\n  - {id: core0, kind: core}\n  - {id: mem0, kind: memory}\n  - {id: cpu0, kind: cpu}\n"
      "  - {id: nic0, kind: nic, rail: 0, port: {kind: ethernet, GBps: 1.25}}\n"
      "links:\n  - {a: core0, b: mem0, kind: shm, GBps: 100, latency_ns: 30}\n  - {a: cpu0, b: core0, kind: shm, GBps: 100}\n"
      "  - {a: nic0, b: cpu0, kind: pcie, GBps: 10}\n",
      "test host with a NIC");
  EXPECT_TRUE(machine) << (machine ? "" : machine.error().message);
  auto cluster = topology::build_cluster(topology::Graph(machine->machine()), count);
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  const std::vector<int> devices = spread(*cluster, count);
  const topology::Resources resources(std::move(*cluster));
  auto environment = environment_of(resources, devices, options);
  EXPECT_TRUE(environment) << (environment ? "" : environment.error().message);
  return std::move(*environment);
}

/// The same, which are containers of one machine of two cores.
Environment containers(int count) {
  EnvironmentOptions options;
  options.is_one_machine = true;
  for (int r = 0; r < count; ++r) options.core_of.push_back(r % 2);
  return hosts_with_nics(count, options);
}

Question ask(std::uint64_t bytes) {
  Question q;
  q.call.bytes = {bytes};
  return q;
}

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

// So two opposite rings cost half there inside a node, and are the best that the simulation knows (bench/sim/choice.py).
TEST(Select, TwoOppositeRingsForLongCallsAmongManyMI300X) {
  Question question = ask(256 << 20);
  const auto selection = select(gpus("mi300x-8", 40, 320).environment, question);
  ASSERT_TRUE(selection) << selection.error().message;
  EXPECT_EQ(selection->chosen().algorithm->name, "bidirectional_ring");
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

TEST(Select, TheFastestComesFirst) {
  const Seat seat = host(4, 4);
  auto selection = select(seat.environment, ask(1 << 20));
  ASSERT_TRUE(selection) << selection.error().message;
  EXPECT_GT(selection->candidates.size(), 3u);
  for (std::size_t i = 1; i < selection->candidates.size(); ++i)
    EXPECT_LE(selection->candidates[i - 1].prediction.time, selection->candidates[i].prediction.time);
}

TEST(Select, SmallMessagesGoInLines) {
  auto selection = select(host(2, 2).environment, ask(8));
  ASSERT_TRUE(selection) << selection.error().message;
  EXPECT_EQ(selection->chosen().protocol, schedule::Protocol::line);
}

TEST(Select, LargeMessagesNeverGoInLinesOnAHost) {
  auto selection = select(host(2, 2).environment, ask(1 << 20));
  ASSERT_TRUE(selection) << selection.error().message;
  for (const Candidate& c : selection->candidates) EXPECT_NE(c.protocol, schedule::Protocol::line);
  EXPECT_FALSE(selection->excluded.empty());
}

TEST(Select, AHostTakesSomeAlgorithmsOnlyByName) {
  Question q = ask(1 << 20);
  q.call.collective = Collective::broadcast;
  const Seat seat = host(8, 8);
  auto free_choice = select(seat.environment, q);
  ASSERT_TRUE(free_choice) << free_choice.error().message;
  for (const Candidate& c : free_choice->candidates) EXPECT_NE(c.algorithm->name, "double_binary_tree");
  EXPECT_TRUE(std::any_of(free_choice->excluded.begin(), free_choice->excluded.end(), [](const Exclusion& e) {
    return e.algorithm == "double_binary_tree" && e.why.find("by name") != std::string::npos;
  }));
  q.algorithm = "double_binary_tree";
  auto by_name = select(seat.environment, q);
  ASSERT_TRUE(by_name) << by_name.error().message;
  EXPECT_EQ(by_name->chosen().algorithm->name, "double_binary_tree");
}

TEST(Select, DeterministicTakesOnlyCanonicalOnes) {
  Question q = ask(1 << 20);
  q.is_deterministic = true;
  auto selection = select(host(8, 8).environment, q);
  ASSERT_TRUE(selection) << selection.error().message;
  for (const Candidate& c : selection->candidates) EXPECT_TRUE(c.is_canonical) << c.algorithm->name;
  q.algorithm = "ring";
  auto forced = select(host(8, 8).environment, q);
  ASSERT_FALSE(forced);
  EXPECT_NE(forced.error().message.find("canonical"), std::string::npos) << forced.error().message;
}

// A tree is canonical, too, but rounds floats of 16 and 8 bits at every hop: other bits than of an owner that rounds once.
TEST(Select, DeterministicSumsOfNarrowFloatsAreRoundedOnce) {
  for (const Collective collective : {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter})
    for (const DataType type : {DataType::bf16, DataType::f16, DataType::f8_e4m3fn, DataType::f8_e5m2})
      for (const int ranks : {3, 5, 8})
        for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{4096}, std::uint64_t{1} << 20, std::uint64_t{64} << 20}) {
          Question q = ask(bytes);
          q.call.collective = collective;
          q.call.type = type;
          q.is_deterministic = true;
          auto selection = select(host(ranks, ranks).environment, q);
          ASSERT_TRUE(selection) << selection.error().message;
          for (const Candidate& c : selection->candidates) EXPECT_TRUE(c.algorithm->sums_at_once) << c.algorithm->name;
        }
  Question q = ask(1 << 20);
  q.is_deterministic = true;
  q.algorithm = "tree";
  EXPECT_TRUE(select(host(8, 8).environment, q));
  q.call.type = DataType::bf16;
  EXPECT_TRUE(select(host(2, 2).environment, q)) << "two ranks have one sum to round";
  auto refused = select(host(8, 8).environment, q);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("rounded once"), std::string::npos) << refused.error().message;
}

TEST(Select, PartialSumsAsF32RoundNarrowSumsOnceByAnyAlgorithm) {
  const Seat seat = host(8, 8);
  Question q = ask(1 << 20);
  q.call.type = DataType::bf16;
  for (const char* name : {"ring", "tree", "two_shot"}) {
    q.algorithm = name;
    q.call.wide_partials = false;
    const bool is_direct = q.algorithm == "two_shot";
    auto plain = select(seat.environment, q);
    ASSERT_TRUE(plain) << plain.error().message;
    EXPECT_EQ(rounding_of(plain->chosen(), seat.environment, q.call), is_direct ? "once" : "once a hop");
    q.call.wide_partials = true;
    auto wide = select(seat.environment, q);
    ASSERT_TRUE(wide) << wide.error().message;
    EXPECT_EQ(rounding_of(wide->chosen(), seat.environment, q.call), "once") << name;
    EXPECT_EQ(explain_text(seat.environment, *wide).find("travel as f32") != std::string::npos, !is_direct) << name;
    // An owner that holds all inputs gets them as they are.
    EXPECT_EQ(wide->chosen().prediction.bytes[0] > plain->chosen().prediction.bytes[0], !is_direct) << name;
  }
  q.algorithm = "tree";
  q.is_deterministic = true;
  EXPECT_TRUE(select(seat.environment, q)) << "a canonical order in f32, rounded once, gives the same bits";
  q.algorithm = "ring";
  EXPECT_FALSE(select(seat.environment, q));
  // Types that are not rounded have nothing to widen.
  q = ask(1 << 20);
  q.call.wide_partials = true;
  EXPECT_FALSE(request_of(seat.environment, q.call).wide_partials);
  q.call.type = DataType::f8_e5m2;
  EXPECT_TRUE(request_of(seat.environment, q.call).wide_partials);
  EXPECT_FALSE(request_of(host(2, 2).environment, q.call).wide_partials) << "two ranks have one sum to round";
}

TEST(Select, AForcedChoiceIsTakenOrRefused) {
  const Seat seat = host(4, 4);
  Question q = ask(1 << 20);
  q.algorithm = "ring";
  q.protocol = "staged";
  auto selection = select(seat.environment, q);
  ASSERT_TRUE(selection) << selection.error().message;
  ASSERT_EQ(selection->candidates.size(), 1u);
  EXPECT_EQ(selection->chosen().algorithm->name, "ring");
  for (const auto& [algorithm, protocol] : {std::pair{"rign", ""}, {"", "stagd"}, {"ring", "line"}, {"", "fused"}}) {
    q.algorithm = algorithm;
    q.protocol = protocol;
    auto refused = select(seat.environment, q);
    EXPECT_FALSE(refused) << algorithm << " " << protocol;
    if (!refused) {
      EXPECT_GT(refused.error().message.size(), 20u);
    }
  }
}

TEST(Select, WrongRootsAreRefused) {
  Question q = ask(64);
  q.call.collective = Collective::broadcast;
  q.call.root = 4;
  EXPECT_FALSE(select(host(4, 4).environment, q));
}

TEST(Select, EveryCollectiveHasAWayAtEveryRankCount) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    const Seat seat = host(8, ranks);
    for (int c = 0; c < kCollectiveCount; ++c)
      for (const std::uint64_t bytes : {0u, 8u, 1000u, 1u << 20}) {
        Question q = ask(bytes);
        q.call.collective = static_cast<Collective>(c);
        q.call.peer = ranks - 1;
        auto selection = select(seat.environment, q);
        EXPECT_TRUE(selection) << ranks << ": " << (selection ? "" : selection.error().message);
        if (selection) {
          EXPECT_GE(selection->chosen().prediction.time.value, 0);
        }
      }
  }
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

TEST(Select, OfWaysThatAreAsGoodAsEqualTheOneWithTheFewestStepsIsTaken) {
  const Seat seat = host(2, 2);
  int preferred = 0;  // to a faster one that takes more steps
  for (const Collective collective : {Collective::all_reduce, Collective::reduce, Collective::broadcast, Collective::all_gather})
    for (std::uint64_t bytes = 1024; bytes <= std::uint64_t{16} << 20; bytes *= 2) {
      Question q = ask(bytes);
      q.call.collective = collective;
      const auto selection = select(seat.environment, q);
      ASSERT_TRUE(selection) << selection.error().message;
      const Prediction& chosen = selection->chosen().prediction;
      auto fastest = chosen.time;
      for (const Candidate& each : selection->candidates) fastest = std::min(fastest, each.prediction.time);
      EXPECT_LE(chosen.time.value, 1.05 * fastest.value);
      preferred += chosen.time > fastest ? 1 : 0;
      for (const Candidate& each : selection->candidates) {
        if (each.prediction.time.value > 1.05 * fastest.value) continue;
        EXPECT_GE(each.prediction.steps, chosen.steps) << name_of(collective) << " of " << bytes << " by " << each.algorithm->name;
        if (each.prediction.steps == chosen.steps && each.algorithm->sums_at_once) {
          EXPECT_TRUE(selection->chosen().algorithm->sums_at_once) << name_of(collective) << " of " << bytes;
        }
      }
    }
  EXPECT_GT(preferred, 0);
}

TEST(Select, TwoRanksThatGatherTwoPiecesEachTakeOneOutBeforeTheySendTheNext) {
  const auto chosen_by = [](const Environment& environment, std::uint64_t bytes) {
    Question q = ask(bytes);
    q.call.collective = Collective::all_gather;
    const auto selection = select(environment, q);
    EXPECT_TRUE(selection);
    return std::string(selection->chosen().algorithm->name);
  };
  const Environment two = host(2, 2).environment;
  for (const std::uint64_t bytes : {128u << 10, 256u << 10, 1u << 20}) EXPECT_EQ(chosen_by(two, bytes), "recursive_doubling") << bytes;
  for (const std::uint64_t bytes : {32u << 10, 64u << 10, 4u << 20}) EXPECT_EQ(chosen_by(two, bytes), "direct") << bytes;
  EXPECT_NE(chosen_by(host(4, 4).environment, 1 << 20), "recursive_doubling");
  EXPECT_NE(chosen_by(host(1, 2).environment, 1 << 20), "recursive_doubling") << "they share a core";
}

TEST(Select, BetweenTwoHostsTheFewestBytesCross) {
  const Environment environment = several_hosts(2, 2);
  const std::pair<Collective, double> fewest[] = {{Collective::all_reduce, 2},
                                                  {Collective::all_gather, 1},
                                                  {Collective::reduce_scatter, 1},
                                                  {Collective::broadcast, 1},
                                                  {Collective::reduce, 1}};
  for (const auto& [collective, times] : fewest)
    for (const std::uint64_t bytes : {std::uint64_t{256} << 10, std::uint64_t{1} << 20, std::uint64_t{16} << 20}) {
      Question q = ask(bytes);
      q.call.collective = collective;
      const auto selection = select(environment, q);
      ASSERT_TRUE(selection) << selection.error().message;
      const Candidate& chosen = selection->chosen();
      EXPECT_NEAR(chosen.prediction.crossed, times * static_cast<double>(bytes), 0.01 * static_cast<double>(bytes))
          << name_of(collective) << " of " << bytes << " by " << chosen.algorithm->name;
    }
}

TEST(Select, WhereRanksShareCoresFewBytesOfAnAllReduceCrossBetweenThem) {
  const Environment shared = host(2, 8).environment;
  for (const std::uint64_t bytes : {std::uint64_t{64} << 10, std::uint64_t{1} << 20}) {
    const auto selection = select(shared, ask(bytes));
    ASSERT_TRUE(selection) << selection.error().message;
    const Candidate& chosen = selection->chosen();
    const auto size = static_cast<double>(bytes);
    EXPECT_NEAR(chosen.prediction.crossed, 2 * size, 0.01 * size) << bytes << " by " << chosen.algorithm->name;
    EXPECT_EQ(selection->preferred_for, "fewer bytes between cores");
    const auto faster = std::find_if(selection->candidates.begin(), selection->candidates.end(), [](const Candidate& c) {
      return c.algorithm->name == "two_shot" && c.protocol == schedule::Protocol::staged;
    });
    ASSERT_NE(faster, selection->candidates.end());
    EXPECT_NEAR(faster->prediction.crossed, 8 * size, 0.01 * size);
    EXPECT_LT(faster->prediction.time.value, chosen.prediction.time.value);
  }
  EXPECT_NE(select(host(8, 8).environment, ask(64 << 10))->preferred_for, "fewer bytes between cores") << "a core each";
}

TEST(Select, WhereRanksShareCoresLinesAreTakenOnlyForWhatFitsOne) {
  const auto has_lines = [](const Environment& environment, std::uint64_t bytes) {
    Question q = ask(bytes);
    q.call.collective = Collective::all_gather;
    const auto selection = select(environment, q);
    return std::any_of(selection->candidates.begin(), selection->candidates.end(),
                       [](const Candidate& c) { return c.protocol == schedule::Protocol::line; });
  };
  EXPECT_TRUE(has_lines(host(2, 4).environment, 256));
  EXPECT_FALSE(has_lines(host(2, 4).environment, 768));
  EXPECT_TRUE(has_lines(host(4, 4).environment, 768));
}

// Of several ways that cross equally little the busiest link decides, so large calls go by chains.
TEST(Select, BetweenSeveralHostsTheFewestBytesOfBroadcastAndReduceCrossByEveryLinkOnce) {
  for (const auto& [count, each] : {std::pair{3, 2}, {3, 4}, {4, 2}, {8, 4}})
    for (const Collective collective : {Collective::broadcast, Collective::reduce})
      for (const int root : {0, 1})
        for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{16} << 20}) {
          Question q = ask(bytes);
          q.call.collective = collective;
          q.call.root = root;
          const auto selection = select(several_hosts(count, each), q);
          ASSERT_TRUE(selection) << selection.error().message;
          const Candidate& chosen = selection->chosen();
          const auto size = static_cast<double>(bytes);
          EXPECT_NEAR(chosen.prediction.crossed, (count - 1) * size, 0.01 * size)
              << name_of(collective) << " of " << bytes << " by " << chosen.algorithm->name << " on " << count << " hosts of " << each;
          EXPECT_NEAR(chosen.prediction.bytes[1], size, 0.01 * size);
        }
}

// Three hosts of two: a tree sends as many bytes in all as a ring, but twice the length out of its root's host, where a ring sends 4/3.
TEST(Select, OfWaysThatCrossEquallyOftenTheBusiestHostDecides) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{16} << 20}) {
    const auto selection = select(several_hosts(3, 2), ask(bytes));
    ASSERT_TRUE(selection) << selection.error().message;
    const Prediction& chosen = selection->chosen().prediction;
    const auto size = static_cast<double>(bytes);
    EXPECT_NEAR(chosen.by_busiest, 4 * size / 3, 0.01 * size) << bytes << " by " << selection->chosen().algorithm->name;
    EXPECT_NEAR(chosen.crossed, 4 * size, 0.01 * size);
    const auto tree = std::find_if(selection->candidates.begin(), selection->candidates.end(),
                                   [](const Candidate& c) { return c.algorithm->name == "tree"; });
    ASSERT_NE(tree, selection->candidates.end());
    EXPECT_NEAR(tree->prediction.crossed, 4 * size, 0.01 * size);
    EXPECT_NEAR(tree->prediction.by_busiest, 2 * size, 0.01 * size);
  }
}

TEST(Select, LongCallsBetweenHostsGoByFewSendersToEach) {
  Question q = ask(std::uint64_t{16} << 20);
  q.call.collective = Collective::reduce_scatter;
  const auto selection = select(containers(4), q);
  ASSERT_TRUE(selection) << selection.error().message;
  EXPECT_EQ(selection->chosen().algorithm->name, "ring");
  EXPECT_EQ(selection->chosen().prediction.senders, 1);
  EXPECT_EQ(selection->preferred_for, "fewer ranks that send to one host at once");
  const auto direct = std::find_if(selection->candidates.begin(), selection->candidates.end(),
                                   [](const Candidate& c) { return c.algorithm->name == "direct"; });
  ASSERT_NE(direct, selection->candidates.end());
  EXPECT_EQ(direct->prediction.senders, 3);
  EXPECT_LT(direct->prediction.time, selection->chosen().prediction.time);
}

TEST(Select, BetweenContainersOfOneMachineShortCallsTakeFewMessages) {
  const Environment environment = containers(4);
  for (const auto& [collective, name] : {std::pair{Collective::all_reduce, "recursive_doubling"},
                                         {Collective::all_gather, "recursive_doubling"},
                                         {Collective::reduce_scatter, "recursive_halving"}}) {
    Question q = ask(16 * 1024);
    q.call.collective = collective;
    const auto selection = select(environment, q);
    ASSERT_TRUE(selection) << selection.error().message;
    EXPECT_EQ(selection->chosen().algorithm->name, name) << name_of(collective);
  }
}

TEST(Environment, BetweenContainersOfOneMachineTheWireIsNoLimit) {
  const Environment environment = containers(2);
  const auto defaults = topology::host_defaults();
  ASSERT_TRUE(defaults);
  EXPECT_EQ(environment.level[1].scope, "tcp-containers");
  EXPECT_EQ(environment.level[1].bottleneck, defaults->loopback);
  EXPECT_EQ(environment.offer(schedule::Protocol::staged)->constants[1].scope, "tcp-containers");
  EnvironmentOptions options;
  EXPECT_EQ(hosts_with_nics(2, options).level[1].scope, "tcp");
}

TEST(Environment, KnowsWhetherRanksTakeTurnsOnACore) {
  EXPECT_FALSE(host(2, 2).environment.shares_cores());
  EXPECT_FALSE(host(4, 2).environment.shares_cores());
  EXPECT_TRUE(host(2, 3).environment.shares_cores());
}

TEST(Plan, MessagesBySocketsAreLongerWhereNobodyWaitsToSendThemOn) {
  Question q = ask(std::uint64_t{16} << 20);
  q.protocol = "staged";
  EXPECT_EQ(select(host(2, 2).environment, q)->chosen().message_bytes, schedule::kSlotMessageBytes);
  EXPECT_TRUE(several_hosts(2, 1).is_by_sockets_alone());
  EXPECT_EQ(select(several_hosts(2, 1), q)->chosen().message_bytes, schedule::kSocketMessageBytes);
  EXPECT_FALSE(several_hosts(2, 2).is_by_sockets_alone());
  EXPECT_EQ(select(several_hosts(2, 2), q)->chosen().message_bytes, schedule::kRelayedSocketMessageBytes);
}

TEST(Plan, MessagesBySocketsStayWholeUpToTheLengthFromWhichAHalfIsWorthAMessage) {
  const auto cut = [](std::uint64_t bytes, std::uint64_t most) {
    return schedule::socket_message_bytes(bytes, schedule::kWholeSocketMessageBytes, most);
  };
  constexpr std::uint64_t kWhole = schedule::kWholeSocketMessageBytes;
  EXPECT_EQ(cut(kWhole, schedule::kSocketMessageBytes), kWhole);
  EXPECT_EQ(cut(2 * kWhole, schedule::kSocketMessageBytes), kWhole);
  EXPECT_EQ(cut(4 * kWhole, schedule::kSocketMessageBytes), 2 * kWhole);
  EXPECT_EQ(cut(64 * kWhole, schedule::kSocketMessageBytes), schedule::kSocketMessageBytes);
  static_assert(schedule::kRelayedSocketMessageBytes < kWhole);
  EXPECT_EQ(cut(1024, schedule::kRelayedSocketMessageBytes), schedule::kRelayedSocketMessageBytes);
  // Where the messages of several ranks meet on one host's link.
  EXPECT_EQ(several_hosts(2, 1).uncut_by_sockets(), kWhole);
  EXPECT_EQ(several_hosts(2, 2).uncut_by_sockets(), schedule::kWholeMeetingMessageBytes);
  EXPECT_EQ(several_hosts(3, 1).uncut_by_sockets(), schedule::kWholeMeetingMessageBytes);
  Question q = ask(1024 * 1024);
  q.call.collective = Collective::all_to_all;
  EXPECT_EQ(select(several_hosts(4, 2), q)->chosen().message_bytes, schedule::kWholeMeetingMessageBytes);
}

TEST(Explain, SaysWhatWasChosenAndWhy) {
  const Seat seat = host(4, 4);
  Question q = ask(1 << 20);
  q.call.type = DataType::bf16;
  auto selection = select(seat.environment, q);
  ASSERT_TRUE(selection);
  const std::string text = explain_text(seat.environment, *selection);
  for (const char* word : {"chosen:", "it beat:", "excluded:", "constants:", "rounded to bf16", "steps", "GB/s"})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  const std::string tree = explain_json(seat.environment, *selection);
  for (const char* word : {"\"schema\": \"peal.explain/1\"", "\"predicted_us\"", "\"candidates\"", "\"bytes_per_link\"", "\"canonical\""})
    EXPECT_NE(tree.find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace peal::tuning
