#include <gtest/gtest.h>

#include <algorithm>
#include <tuning/explain.hpp>

#include "seats.hpp"

namespace peal::tuning {
namespace {

// So two opposite rings cost half there inside a node, and are the best that the simulation knows (bench/sim/choice.py).
TEST(Select, TwoOppositeRingsForLongGathersAmongManyMI300X) {
  Question question = ask(256 << 20);
  question.call.collective = Collective::all_gather;
  const auto selection = select(gpus("mi300x-8", 40, 320).environment, question);
  ASSERT_TRUE(selection) << selection.error().message;
  EXPECT_EQ(selection->chosen().algorithm->name, "bidirectional_ring");
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

// The faster of both, and the k-nomial one where sums must be canonical; on a host a name is that name.
TEST(Select, BetweenGpusATreeHasItsFasterForm) {
  const Seat gpus = dgx(16, 128);
  const auto form = [](const Environment& environment, std::uint64_t bytes, bool is_deterministic) {
    Question q = ask(bytes);
    q.algorithm = "tree";
    q.is_deterministic = is_deterministic;
    const auto selection = select(environment, q);
    EXPECT_TRUE(selection) << selection.error().message;
    return std::string(selection->chosen().algorithm->name);
  };
  EXPECT_EQ(form(gpus.environment, 1 << 30, false), "binary_tree");
  EXPECT_EQ(form(gpus.environment, 1 << 30, true), "tree");
  EXPECT_EQ(form(host(8, 8).environment, 1 << 30, false), "tree");
  for (const auto& [asked, given] : {std::pair{"binary_tree", "binary_tree"}, {"k_nomial_tree", "tree"}}) {
    Question q = ask(1 << 30);
    q.algorithm = asked;
    const auto by_name = select(gpus.environment, q);
    ASSERT_TRUE(by_name) << by_name.error().message;
    for (const Candidate& c : by_name->candidates) EXPECT_EQ(c.algorithm->name, given);
  }
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

std::string chosen_name(const Environment& environment, Collective collective, std::uint64_t bytes) {
  Question q = ask(bytes);
  q.call.collective = collective;
  const auto selection = select(environment, q);
  EXPECT_TRUE(selection);
  return selection ? std::string(selection->chosen().algorithm->name) : "";
}

TEST(Select, TwoRanksThatGatherTwoPiecesEachTakeOneOutBeforeTheySendTheNext) {
  const auto chosen_by = [](const Environment& environment, std::uint64_t bytes) {
    return chosen_name(environment, Collective::all_gather, bytes);
  };
  const Environment two = host(2, 2).environment;
  for (const std::uint64_t bytes : {128u << 10, 256u << 10, 1u << 20}) EXPECT_EQ(chosen_by(two, bytes), "recursive_doubling") << bytes;
  for (const std::uint64_t bytes : {32u << 10, 64u << 10, 4u << 20}) EXPECT_EQ(chosen_by(two, bytes), "direct") << bytes;
  EXPECT_NE(chosen_by(host(4, 4).environment, 1 << 20), "recursive_doubling");
  EXPECT_NE(chosen_by(host(1, 2).environment, 1 << 20), "recursive_doubling") << "they share a core";
}

TEST(Select, TwoRanksThatExchangePiecesAllToAllTakeTurns) {
  const auto chosen_by = [](const Environment& environment, std::uint64_t bytes) {
    return chosen_name(environment, Collective::all_to_all, bytes);
  };
  for (const std::uint64_t bytes : {256u << 10, 1u << 20, 16u << 20})
    EXPECT_EQ(chosen_by(host(2, 2).environment, bytes), "pairwise") << bytes;
  EXPECT_EQ(chosen_by(host(2, 2).environment, 1 << 10), "all_pairs") << "one piece";
  for (const int cores : {1, 4}) EXPECT_EQ(chosen_by(host(cores, 4).environment, 1 << 20), "all_pairs") << cores;
  EXPECT_EQ(chosen_by(host_over_loopback(2, 2).environment, 1 << 20), "all_pairs") << "by sockets";
}

// A step more costs system calls, and a rank keeps its own block while the other's pieces come.
TEST(Select, TwoRanksBySocketsTakeFewStepsAndKeepTheirBlockMeanwhile) {
  const auto chosen_by = [](int ranks, Collective collective, std::uint64_t bytes) {
    return chosen_name(host_over_loopback(2, ranks).environment, collective, bytes);
  };
  EXPECT_EQ(chosen_by(2, Collective::all_reduce, 512 << 10), "one_shot") << "one piece";
  EXPECT_EQ(chosen_by(2, Collective::all_reduce, 1 << 20), "recursive_doubling") << "two, of which each is taken before the next is sent";
  EXPECT_EQ(chosen_by(2, Collective::all_reduce, 2 << 20), "two_shot");
  EXPECT_EQ(chosen_by(2, Collective::all_gather, 4 << 20), "pat") << "two pieces";
  for (const std::uint64_t bytes : {8u, 128u << 10, 1u << 20, 8u << 20})
    EXPECT_EQ(chosen_by(2, Collective::all_gather, bytes), "direct") << bytes;
  for (const std::uint64_t bytes : {512u << 10, 1u << 20, 4u << 20}) EXPECT_NE(chosen_by(4, Collective::all_gather, bytes), "pat") << bytes;
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

// All to one rank and back is as many messages as ranks, where everybody to everybody is their square.
TEST(Select, ManyRanksOnFewCoresGoByWayOfOneOfThem) {
  const Environment many = host(2, 64).environment;
  for (const Collective collective : {Collective::all_reduce, Collective::all_gather}) EXPECT_EQ(chosen_name(many, collective, 8), "star");
  EXPECT_EQ(chosen_name(many, Collective::barrier, 0), "star");
  EXPECT_EQ(chosen_name(many, Collective::all_reduce, 16 << 10), "star");
  EXPECT_NE(chosen_name(many, Collective::all_gather, 512 << 10), "star") << "its centre would send all to all";
  EXPECT_EQ(chosen_name(host(2, 16).environment, Collective::all_reduce, 8), "one_shot") << "fewer steps";
  EXPECT_NE(chosen_name(host(64, 64).environment, Collective::all_reduce, 8), "star") << "a core each";
  Environment hosts = several_hosts(4, 16);
  hosts.core_of = many.core_of;
  ASSERT_TRUE(hosts.shares_cores());
  EXPECT_NE(chosen_name(hosts, Collective::all_reduce, 8), "star") << "between hosts";
  Question by_name = ask(8);
  by_name.algorithm = "star";
  EXPECT_TRUE(select(hosts, by_name));
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

TEST(Select, RanksThatTakeTurnsDoNotCutWhatAllExchange) {
  const auto pieces = [](const Environment& environment, Collective collective, const char* algorithm) {
    Question q = ask(512 << 10);
    q.call.collective = collective;
    q.algorithm = algorithm;
    q.protocol = "staged";
    return select(environment, q)->candidates.front().pieces;
  };
  const Environment turns = host(2, 4).environment;
  const Environment cores = host(4, 4).environment;
  EXPECT_EQ(pieces(turns, Collective::all_reduce, "rabenseifner"), 1);
  EXPECT_EQ(pieces(cores, Collective::all_reduce, "rabenseifner"), 2);
  EXPECT_EQ(pieces(turns, Collective::all_gather, "direct"), 1);
  EXPECT_EQ(pieces(cores, Collective::all_gather, "direct"), 2);
  EXPECT_EQ(pieces(turns, Collective::all_reduce, "tree"), pieces(cores, Collective::all_reduce, "tree")) << "what is passed on is cut";
  EXPECT_EQ(pieces(turns, Collective::gather, "direct"), pieces(cores, Collective::gather, "direct")) << "one root";
  EXPECT_EQ(chosen_name(turns, Collective::all_reduce, 32 << 10), "tree");
  EXPECT_EQ(chosen_name(turns, Collective::all_reduce, 64 << 10), "rabenseifner") << "in whole messages, where a tree cuts its own";
  EXPECT_EQ(chosen_name(turns, Collective::all_reduce, 256 << 10), "rabenseifner");
  EXPECT_EQ(chosen_name(turns, Collective::reduce_scatter, 1 << 20), "direct") << "fewer steps than a ring that seems as fast";
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
