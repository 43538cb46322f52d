// What is taken on a processor whose cores pass messages in another way than those of most.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <schedule/verify.hpp>
#include <topology/constants.hpp>
#include <topology/machine.hpp>
#include <tuning/explain.hpp>
#include <tuning/message_cost.hpp>
#include <tuning/select.hpp>

namespace peal::tuning {
namespace {

using schedule::Protocol;
using testing::HasSubstr;

constexpr const char* kMeshed = "GenuineIntel 6 207";
constexpr const char* kZen5 = "AuthenticAMD 26 2";
constexpr const char* kZen4 = "AuthenticAMD 25 17";
constexpr const char* kOther = "AuthenticAMD 25 1";

/// Neighbours share a core where ranks are more than cores.
Environment host_with(const std::string& processor, int ranks, int cores) {
  auto cluster =
      topology::read_cluster_text(fmt::format("devices:\n  - {{id: \"core[0-{0}]\", kind: core}}\n  - {{id: mem0, kind: memory}}\n"
                                              "  - {{id: numa0, kind: cpu, attributes: {{processor: \"{1}\"}}}}\n"
                                              "links:\n  - {{a: \"core[0-{0}]\", b: mem0, kind: shm, GBps: 100, latency_ns: 30}}\n"
                                              "  - {{a: mem0, b: numa0, kind: memory, GBps: 100}}\n",
                                              cores - 1, processor),
                                  "test host");
  EXPECT_TRUE(cluster) << (cluster ? "" : cluster.error().message);
  const topology::Resources resources(std::move(*cluster));
  std::vector<int> devices;
  for (int r = 0; r < ranks; ++r) devices.push_back(r * cores / std::max(ranks, cores));
  EnvironmentOptions options;
  options.protocols = {Protocol::line, Protocol::staged, Protocol::direct_read};
  auto environment = environment_of(resources, devices, options);
  EXPECT_TRUE(environment) << (environment ? "" : environment.error().message);
  return std::move(*environment);
}

Question asked(Collective collective, std::uint64_t bytes) {
  Question question;
  question.call.collective = collective;
  question.call.bytes = {bytes};
  return question;
}

Plan plan_of(const Environment& environment, Collective collective, const char* algorithm, std::uint64_t bytes) {
  auto plan =
      make_plan(environment, **schedule::find_algorithm(collective, algorithm), Protocol::direct_read, asked(collective, bytes).call);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().message);
  return std::move(*plan);
}

TEST(Processor, LongMessagesAreReadInTheSendersMemoryWhereThatWasMeasuredToWin) {
  for (const int ranks : {2, 8, 16}) {
    const auto long_call = select(host_with(kMeshed, ranks, 16), asked(Collective::all_to_all, std::uint64_t(ranks) << 18));
    ASSERT_TRUE(long_call);
    EXPECT_EQ(long_call->chosen().protocol, Protocol::direct_read) << ranks;
    const auto short_call = select(host_with(kMeshed, ranks, 16), asked(Collective::all_to_all, std::uint64_t(ranks) << 13));
    ASSERT_TRUE(short_call);
    EXPECT_NE(short_call->chosen().protocol, Protocol::direct_read) << ranks;
    const auto elsewhere = select(host_with(kOther, ranks, 16), asked(Collective::all_to_all, std::uint64_t(ranks) << 18));
    ASSERT_TRUE(elsewhere);
    EXPECT_EQ(elsewhere->chosen().protocol, Protocol::staged) << ranks;
  }
}

TEST(Processor, GroupsAreReadThereTooAlsoWhereRanksShareCores) {
  EXPECT_TRUE(reads_in_place(host_with(kMeshed, 2, 16)));
  EXPECT_TRUE(reads_in_place(host_with(kMeshed, 16, 16)));
  EXPECT_TRUE(reads_in_place(host_with(kMeshed, 4, 2)));
  EXPECT_FALSE(reads_in_place(host_with(kOther, 4, 2)));
  EXPECT_FALSE(reads_in_place(host_with(kOther, 2, 16)));
  EXPECT_FALSE(reads_in_place(host_with("", 2, 16)));
}

TEST(Processor, RanksThatTakeTurnsTakeThemAsFastAsThisProcessorDoes) {
  const Environment turns = host_with(kMeshed, 4, 2);
  const Environment elsewhere = host_with(kOther, 4, 2);
  EXPECT_LT(turns.core_switch, elsewhere.core_switch);
  EXPECT_LT(turns.same_core_gain, elsewhere.same_core_gain);
  const Environment cores = host_with(kMeshed, 4, 4);
  EXPECT_EQ(cores.core_switch, elsewhere.core_switch) << "known of ranks that share cores alone";
  EXPECT_EQ(cores.same_core_gain, elsewhere.same_core_gain);
}

TEST(Processor, ShortReductionsOfRanksThatShareCoresCrossInFewSteps) {
  const auto way = [](const char* processor, int ranks, std::uint64_t bytes, Collective collective = Collective::all_reduce) {
    const auto selection = select(host_with(processor, ranks, 2), asked(collective, bytes));
    EXPECT_TRUE(selection);
    return std::string(selection->chosen().algorithm->name);
  };
  for (const std::uint64_t bytes : {2048, 4096, 8192}) EXPECT_EQ(way(kMeshed, 4, bytes), "recursive_doubling") << bytes;
  EXPECT_EQ(way(kMeshed, 4, 1024), "one_shot");
  EXPECT_EQ(way(kMeshed, 4, 16384), "rabenseifner");
  EXPECT_EQ(way(kMeshed, 8, 4096), "star");
  EXPECT_EQ(way(kMeshed, 8, 16384), "rabenseifner");
  for (const std::uint64_t bytes : {8192, 16384}) EXPECT_EQ(way(kMeshed, 8, bytes, Collective::reduce), "tree") << bytes;
  EXPECT_EQ(way(kZen4, 8, 8192, Collective::reduce), "direct");
  EXPECT_EQ(way(kZen4, 4, 4096), "one_shot") << "measured on another kind alone";
}

TEST(Processor, OfWaysThatStayWithinCoresThatIsTakenWhoseBusiestRankSendsLeast) {
  const Environment turns = host_with(kMeshed, 8, 2);
  const auto selection = select(turns, asked(Collective::all_reduce, 1 << 20));
  ASSERT_TRUE(selection);
  const Candidate& chosen = selection->chosen();
  EXPECT_EQ(chosen.algorithm->name, "rabenseifner");
  const auto tree = std::find_if(selection->candidates.begin(), selection->candidates.end(),
                                 [](const Candidate& c) { return c.algorithm->name == "tree" && c.protocol == Protocol::staged; });
  ASSERT_NE(tree, selection->candidates.end());
  EXPECT_LT(tree->prediction.time, chosen.prediction.time) << "or this would not be asked";
  EXPECT_EQ(chosen.prediction.crossed, tree->prediction.crossed);
  EXPECT_LT(chosen.prediction.bytes[0], tree->prediction.bytes[0]);
}

// Where two copies have the higher rate beyond a length, that is taken unless another is asked for; where no such length is known, not.
TEST(Processor, VeryLongMessagesAreReadOnlyByName) {
  const Environment elsewhere = host_with(kOther, 2, 16);
  for (const Collective collective : {Collective::broadcast, Collective::scatter}) {
    const std::uint64_t buffer = collective == Collective::scatter ? 2 : 1;  // of which one rank reads a block
    const auto read = select(elsewhere, asked(collective, buffer << 20));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->chosen().protocol, Protocol::direct_read) << name_of(collective);
    Question question = asked(collective, buffer << 21);
    const auto longer = select(elsewhere, question);
    ASSERT_TRUE(longer);
    EXPECT_EQ(longer->chosen().protocol, Protocol::staged) << name_of(collective);
    EXPECT_TRUE(std::any_of(longer->excluded.begin(), longer->excluded.end(), [](const Exclusion& e) {
      return e.protocol == Protocol::direct_read && e.why.find("longer than 1048576 bytes") != std::string::npos;
    })) << name_of(collective);
    const auto is_read = [](const Candidate& c) { return c.protocol == Protocol::direct_read; };
    EXPECT_TRUE(std::none_of(longer->candidates.begin(), longer->candidates.end(), is_read));
    question.is_to_measure = true;
    const auto measured = select(elsewhere, question);
    ASSERT_TRUE(measured);
    EXPECT_TRUE(std::any_of(measured->candidates.begin(), measured->candidates.end(), is_read));
    question.protocol = "direct_read";
    question.is_to_measure = false;
    const auto named = select(elsewhere, question);
    ASSERT_TRUE(named) << named.error().message;
    EXPECT_EQ(named->chosen().protocol, Protocol::direct_read);
  }
  const auto meshed = select(host_with(kMeshed, 3, 16), asked(Collective::broadcast, 64 << 20));
  ASSERT_TRUE(meshed);
  EXPECT_EQ(meshed->chosen().protocol, Protocol::direct_read);
}

TEST(Processor, LongCallsThatTwoRanksPassBothWaysGoRoundInTheirSlots) {
  const auto message_bytes = [](const Environment& of, Collective collective, std::uint64_t mebibytes) {
    Question question = asked(collective, mebibytes << 20);
    question.protocol = "staged";
    return select(of, question)->chosen().message_bytes;
  };
  const Environment meshed = host_with(kMeshed, 2, 16);
  for (const Collective collective : {Collective::all_reduce, Collective::all_to_all}) {
    EXPECT_EQ(message_bytes(meshed, collective, 256), schedule::kSlotMessageBytes / 2) << "four lie side by side in a slot's area";
    EXPECT_EQ(message_bytes(meshed, collective, 16), schedule::kSlotMessageBytes) << "no faster";
    EXPECT_EQ(message_bytes(host_with(kMeshed, 3, 16), collective, 256), schedule::kSlotMessageBytes) << "no areas";
  }
  EXPECT_EQ(message_bytes(meshed, Collective::gather, 256), schedule::kSlotMessageBytes) << "one way a tenth slower";
}

TEST(Processor, AnIceLakeIsTakenForAlike) {
  const std::string ice_lake = "GenuineIntel 6 106";
  EXPECT_EQ(host_with(ice_lake, 2, 2).offer(Protocol::staged)->constants[0].scope, "shm-emerald-rapids-pair");
  const Environment many = host_with(ice_lake, 64, 2);
  EXPECT_EQ(many.offer(Protocol::staged)->constants[0].scope, "shm-emerald-rapids-shared");
  const auto chosen = select(many, asked(Collective::all_reduce, 64 << 10));
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->chosen().algorithm->name, "star") << "a tree sends less between cores and takes 1.4 times as long";
}

TEST(Processor, TwoRanksAndRanksThatShareCoresMayHaveConstantsOfTheirOwn) {
  const Environment pair = host_with(kMeshed, 2, 16), more = host_with(kMeshed, 3, 16), crowd = host_with(kMeshed, 4, 2);
  EXPECT_EQ(crowd.offer(Protocol::staged)->constants[0].scope, "shm-emerald-rapids-shared");
  EXPECT_FALSE(crowd.memory.is_read_in_lanes);
  EXPECT_TRUE(pair.memory.is_read_in_lanes);
  EXPECT_FALSE(pair.memory.is_read_overwritten);
  EXPECT_FALSE(more.memory.is_read_in_lanes);
  EXPECT_TRUE(more.memory.is_read_overwritten);
  EXPECT_EQ(pair.offer(Protocol::staged)->constants[0].scope, "shm-emerald-rapids-pair");
  EXPECT_EQ(more.offer(Protocol::staged)->constants[0].scope, "shm-emerald-rapids");
  const auto within = select(pair, asked(Collective::broadcast, 8 << 20));
  ASSERT_TRUE(within);
  EXPECT_EQ(within->chosen().protocol, Protocol::direct_read);
  const auto beyond = select(pair, asked(Collective::broadcast, 16 << 20));
  ASSERT_TRUE(beyond);
  EXPECT_EQ(beyond->chosen().protocol, Protocol::staged);
}

TEST(Processor, TwoRanksOnAMeshTakeEachPieceOfASumBeforeTheySendTheNext) {
  const auto way = [](const char* processor, std::uint64_t bytes) {
    const auto selection = select(host_with(processor, 2, 16), asked(Collective::all_reduce, bytes));
    EXPECT_TRUE(selection);
    return selection->chosen().algorithm->name;
  };
  EXPECT_EQ(way(kMeshed, 256 << 10), "one_shot") << "one piece";
  EXPECT_EQ(way(kMeshed, 4 << 20), "recursive_doubling");
  EXPECT_EQ(way(kMeshed, 16 << 20), "rabenseifner") << "whole messages are too long to be read";
  EXPECT_EQ(way(kZen4, 16 << 20), "one_shot") << "measured apart";
  EXPECT_EQ(way(kOther, 16 << 20), "two_shot");
}

TEST(Processor, LongMessagesOfRanksThatShareCoresGoThroughSlotsUnlessSeveralReadSideBySide) {
  for (const int ranks : {4, 8}) {
    const Environment crowd = host_with(kMeshed, ranks, 2);
    const auto protocol = [&](Collective collective, std::uint64_t bytes) {
      const auto selection = select(crowd, asked(collective, bytes));
      EXPECT_TRUE(selection);
      return selection->chosen().protocol;
    };
    const std::uint64_t n = static_cast<std::uint64_t>(ranks);
    EXPECT_EQ(protocol(Collective::all_to_all, n << 20), Protocol::direct_read) << ranks;
    for (const Collective collective : {Collective::broadcast, Collective::gather, Collective::all_to_all})
      EXPECT_EQ(protocol(collective, n << 22), Protocol::staged) << ranks << ' ' << name_of(collective);
    EXPECT_EQ(protocol(Collective::scatter, n << 22), Protocol::direct_read) << ranks;
  }
}

TEST(Processor, TwoRanksWithACoreEachMaySumByHalves) {
  const Environment pair = host_with(kMeshed, 2, 16);
  const Question question = asked(Collective::all_reduce, 512 << 10);
  EXPECT_EQ(way_by_halves(pair, question, "one_shot"), "two_shot");
  schedule::Request in_place = request_of(pair, question.call);
  in_place.in_place = true;
  const auto algorithm = schedule::find_algorithm(Collective::all_reduce, way_by_halves(pair, question, "one_shot"));
  ASSERT_TRUE(algorithm);
  EXPECT_TRUE(schedule::is_right_when_answered(**algorithm, in_place));
  EXPECT_EQ(way_by_halves(pair, question, "two_shot"), "") << "it is taken already";
  EXPECT_EQ(way_by_halves(host_with(kMeshed, 2, 1), question, "one_shot"), "") << "they share a core";
  EXPECT_EQ(way_by_halves(host_with(kMeshed, 4, 16), question, "one_shot"), "") << "of four ranks";
  EXPECT_EQ(way_by_halves(pair, asked(Collective::reduce, 512 << 10), "direct"), "");
  Question forced = question;
  forced.algorithm = "one_shot";
  EXPECT_EQ(way_by_halves(pair, forced, "one_shot"), "") << "that one was asked for";
}

// What was measured for the processor counts more than what is predicted to be a little faster; elsewhere it does not.
TEST(Processor, TwoRanksSumWholeWhereThatWasMeasuredToWin) {
  const auto way = [](const char* processor, int ranks, std::uint64_t bytes, Collective collective = Collective::all_reduce) {
    const auto selection = select(host_with(processor, ranks, 16), asked(collective, bytes));
    EXPECT_TRUE(selection);
    return std::pair(selection->chosen().algorithm->name, selection->chosen().protocol);
  };
  for (const std::uint64_t bytes : {128u << 10, 512u << 10, 1023u << 10, 16u << 20, 256u << 20}) {
    EXPECT_EQ(way(kZen4, 2, bytes), std::pair(std::string_view("one_shot"), Protocol::staged)) << bytes;
    EXPECT_EQ(way(kOther, 2, bytes).first, "two_shot") << bytes;
    EXPECT_EQ(way(kZen5, 2, bytes).first, "two_shot") << bytes;
    EXPECT_NE(way(kZen4, 4, bytes).first, "one_shot") << bytes;
  }
  for (const std::uint64_t bytes : {64u << 10, 1u << 20, 8u << 20}) EXPECT_EQ(way(kZen4, 2, bytes).first, "two_shot") << bytes;
  const auto selection = select(host_with(kZen4, 2, 16), asked(Collective::all_reduce, 16 << 20));
  ASSERT_TRUE(selection);
  EXPECT_THAT(selection->preferred_for, HasSubstr("measured"));
  EXPECT_EQ(way(kZen4, 2, 256 << 10, Collective::broadcast), way(kOther, 2, 256 << 10, Collective::broadcast)) << "else as any host";
  EXPECT_EQ(host_with(kZen4, 2, 16).offer(Protocol::staged)->constants[0].scope, "shm");
}

TEST(Processor, ShortMessagesAreReadOnlyByName) {
  Question question = asked(Collective::all_to_all, 64 << 10);
  const Environment environment = host_with(kMeshed, 8, 16);
  const auto free = select(environment, question);
  ASSERT_TRUE(free);
  const auto excluded = std::find_if(free->excluded.begin(), free->excluded.end(),
                                     [](const Exclusion& e) { return e.algorithm == "all_pairs" && e.protocol == Protocol::direct_read; });
  ASSERT_NE(excluded, free->excluded.end());
  EXPECT_THAT(excluded->why, HasSubstr("shorter than 32768 bytes"));
  question.protocol = "direct_read";
  const auto named = select(environment, question);
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->chosen().protocol, Protocol::direct_read);
}

// Who reads at once what lies under one lock of its sender waits for the others; a sender that receives nothing copies a part.
TEST(Processor, ReadersAndHelpersOfAPlan) {
  const Environment environment = host_with(kMeshed, 8, 16);
  const Plan broadcast = plan_of(environment, Collective::broadcast, "direct", 8 << 20);
  EXPECT_EQ(broadcast.readers, 7);
  EXPECT_EQ(broadcast.helped, 7);
  EXPECT_DOUBLE_EQ(broadcast.help_share, 1.0 / 6) << "it fills its own output meanwhile";
  EXPECT_EQ(plan_of(environment, Collective::broadcast, "direct", 256 << 10).help_share, 0) << "one message is read before that is done";
  const Plan gather = plan_of(environment, Collective::gather, "direct", 8 << 20);
  EXPECT_EQ(gather.readers, 1);
  EXPECT_EQ(gather.helped, 1);
  EXPECT_EQ(gather.help_share, 1);
  const Plan scatter = plan_of(environment, Collective::scatter, "direct", 1 << 20);
  EXPECT_EQ(scatter.readers, 1);
  EXPECT_EQ(scatter.waiting, 7) << "all blocks lie under one lock";
  EXPECT_EQ(plan_of(environment, Collective::scatter, "direct", 4 << 20).waiting, 1) << "in huge pages";
  EXPECT_EQ(plan_of(environment, Collective::broadcast, "direct", 1 << 20).waiting, 1) << "they fall in step, or not";
  EXPECT_EQ(plan_of(environment, Collective::all_to_all, "all_pairs", 1 << 20).waiting, 1) << "they come in turns";
  const Plan all_gather = plan_of(environment, Collective::all_gather, "direct", 8 << 20);
  EXPECT_EQ(all_gather.readers, 1) << "they come in turns";
  EXPECT_EQ(all_gather.helped, 0) << "every rank reads, too";
  EXPECT_EQ(plan_of(environment, Collective::reduce, "ring", 8 << 20).helped, 0) << "most receive, too";
  EXPECT_EQ(plan_of(host_with(kMeshed, 2, 16), Collective::reduce, "ring", 8 << 20).helped, 0)
      << "who reduces what it reads reads all itself";
  const auto copy = [&](const Plan& plan) { return message_cost(environment, plan, 0, {}, {}).copy; };
  EXPECT_DOUBLE_EQ(copy(gather), 2 * copy(all_gather));
  Environment held = environment;
  const auto broadcast_by = [&](double share) {
    held.memory.shared_read = share;
    return message_cost(held, broadcast, 0, {}, {}).copy;
  };
  EXPECT_DOUBLE_EQ(broadcast_by(0), 2.5 * broadcast_by(0.25)) << "six others, each by a quarter";
  EXPECT_DOUBLE_EQ(copy(scatter), 4096 / (200.0 * 7)) << "each page is looked up alone";
}

// Of an all-reduce in two steps the second copies sums that their ranks have just written; in one step all that is read is input.
TEST(Processor, SumsThatWereJustWrittenAreReadAtTheirOwnRate) {
  Environment environment = host_with(kMeshed, 2, 16);
  const auto us = [&](Collective collective, const char* algorithm, double written_share) {
    Plan plan = plan_of(environment, collective, algorithm, 1 << 20);
    plan.offer.is_measured = true;
    plan.offer.written_share = written_share;
    return predict(environment, plan).time.microseconds();
  };
  for (const auto& [collective, algorithm, is_slower] : {std::tuple{Collective::all_reduce, "two_shot", true},
                                                         {Collective::all_reduce, "one_shot", false},
                                                         {Collective::reduce_scatter, "direct", false},
                                                         {Collective::all_gather, "direct", false}})
    EXPECT_EQ(us(collective, algorithm, 0.5) > us(collective, algorithm, 1), is_slower) << algorithm;
}

TEST(Processor, BytesOverWhichCachesAreFilled) {
  const Environment environment = host_with(kMeshed, 2, 16);
  constexpr double kBytes = 1 << 20;
  const auto worked = [&](Collective collective, const char* algorithm) {
    return plan_of(environment, collective, algorithm, 1 << 20).worked;
  };
  EXPECT_EQ(worked(Collective::all_reduce, "one_shot"), 3 * kBytes);
  EXPECT_EQ(worked(Collective::all_reduce, "two_shot"), 2.5 * kBytes) << "half is reduced, half is only copied";
  EXPECT_EQ(worked(Collective::reduce_scatter, "direct"), 1.5 * kBytes);
  EXPECT_EQ(worked(Collective::all_gather, "direct"), 2 * kBytes) << "of the half that is its own it makes a copy";
  EXPECT_EQ(worked(Collective::broadcast, "ring"), 2 * kBytes);
  Question question = asked(Collective::all_reduce, 1 << 20);
  question.protocol = "staged";
  EXPECT_EQ(make_plan(environment, **schedule::find_algorithm(Collective::all_reduce, "one_shot"), Protocol::staged, question.call)->worked,
            2 * kBytes);
}

TEST(Processor, TheEnvironmentThatRanksSendOneAnotherKeepsIt) {
  const auto zen4 = environment_from_json(to_json(host_with(kZen4, 2, 16)));
  ASSERT_TRUE(zen4) << zen4.error().message;
  EXPECT_EQ(zen4->memory, host_with(kZen4, 2, 16).memory);
  EXPECT_GT(zen4->memory.most_halved.value, zen4->memory.least_halved.value);
  for (const auto& [ranks, cores] : {std::pair{2, 16}, {4, 16}, {4, 2}}) {
    const Environment environment = host_with(kMeshed, ranks, cores);
    const auto read = environment_from_json(to_json(environment));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->memory, environment.memory);
    EXPECT_EQ(read->least_within_cores, environment.least_within_cores);
    EXPECT_EQ(read->most_within_cores, environment.most_within_cores);
    EXPECT_EQ(read->least_plain_within_cores, environment.least_plain_within_cores);
    EXPECT_TRUE(reads_in_place(*read));
  }
}

// Where the kernel looks up small pages slowly, what is read must lie in huge ones, and only whole ones inside a buffer are.
TEST(Processor, SmallPagesAreChargedToWhatIsReadInTheSendersMemory) {
  Environment pair = host_with(kZen5, 2, 16);
  EXPECT_EQ(pair.offer(Protocol::staged)->constants[0].scope, "shm-zen5-pair");
  EXPECT_EQ(host_with(kZen5, 3, 16).offer(Protocol::staged)->constants[0].scope, "shm");
  EXPECT_FALSE(reads_in_place(pair));
  const auto time = [&](std::uint64_t bytes) {
    Question question = asked(Collective::broadcast, bytes);
    question.algorithm = "direct";
    question.protocol = "direct_read";
    return select(pair, question)->chosen().prediction.time.value;
  };
  const double with_1m = time(1 << 20), with_16m = time(16 << 20);
  pair.memory.small_page = {0};
  EXPECT_GT(with_1m, 1.3 * time(1 << 20));
  EXPECT_LT(with_16m, 1.2 * time(16 << 20)) << "only two mebibytes of it lie in small pages";
}

}  // namespace
}  // namespace peal::tuning
