// Folded and unfolded simulations give the same times: every algorithm, on fabrics that are alike everywhere and on those that are not.
#include <gtest/gtest.h>

#include <base/names.hpp>
#include <sim/simulate.hpp>
#include <topology/machine.hpp>

namespace peal::sim {
namespace {

struct Both {
  Outcome folded;
  Outcome whole;
};

Result<Both> both(const Scene& scene, const tuning::Plan& plan, const Perturbation& perturbation = {}) {
  InterpretOptions options;
  options.perturbation = perturbation;
  const int n = scene.environment.ranks;
  for (const std::uint64_t number : {0, 3, 40, 200})
    for (const auto& [from, to] : {std::pair{0, 1}, {1, 0}, {n - 1, 0}, {n / 2 + 1, n / 2 + 2}, {0, n / 2}, {n / 2, 0}})
      if (from != to && to < n) options.messages.push_back({from, to, number});
  PEAL_ASSIGN(Outcome folded, interpret(plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options));
  options.folds = false;
  PEAL_ASSIGN(Outcome whole, interpret(plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options));
  return Both{std::move(folded), std::move(whole)};
}

void expect_same(const Both& both, const std::string& what) {
  EXPECT_NEAR(both.folded.time.value, both.whole.time.value, 1e-9 * both.whole.time.value) << what;
  ASSERT_EQ(both.folded.rank_done.size(), both.whole.rank_done.size()) << what;
  for (std::size_t r = 0; r < both.whole.rank_done.size(); ++r)
    ASSERT_NEAR(both.folded.rank_done[r], both.whole.rank_done[r], 1e-9 * both.whole.rank_done[r]) << what << ", rank " << r;
  EXPECT_EQ(both.folded.messages, both.whole.messages) << what;
  ASSERT_EQ(both.folded.messages_asked.size(), both.whole.messages_asked.size()) << what;
  for (std::size_t i = 0; i < both.whole.messages_asked.size(); ++i) {
    const MessageTimes& a = both.folded.messages_asked[i];
    const MessageTimes& b = both.whole.messages_asked[i];
    EXPECT_EQ(a.asked, b.asked) << what;
    EXPECT_EQ(std::pair(a.channel, a.count), std::pair(b.channel, b.count)) << what;
    ASSERT_NEAR(a.began, b.began, 1e-9 * both.whole.time.value) << what << ", message " << a.asked.number << " of " << a.asked.from;
    ASSERT_NEAR(a.arrived, b.arrived, 1e-9 * both.whole.time.value) << what << ", message " << a.asked.number << " of " << a.asked.from;
  }
  double folded = 0;
  double whole = 0;
  for (const ResourceUse& use : both.folded.resources) folded += use.alike * use.bytes;
  for (const ResourceUse& use : both.whole.resources) whole += use.bytes;
  EXPECT_NEAR(folded, whole, 1e-9 * whole) << what;
}

Scene fold_scene(const char* machine, int nodes, const std::string& fabric, int ranks = 0) {
  auto cluster = topology::build_cluster(machine, nodes, fabric);
  EXPECT_TRUE(cluster) << cluster.error().message;
  auto scene = make_scene(*std::move(cluster), ranks);
  EXPECT_TRUE(scene) << scene.error().message;
  return *std::move(scene);
}

/// What an algorithm would do with `bytes`; none where it does not serve these ranks.
std::optional<tuning::Plan> plan_of(const Scene& scene, const schedule::Algorithm& algorithm, std::uint64_t bytes,
                                    schedule::Protocol protocol = schedule::Protocol::staged) {
  tuning::Call call;
  call.collective = algorithm.collective;
  call.bytes = {bytes};
  if (has_root(call.collective)) call.root = scene.environment.ranks / 3;
  if (!schedule::suits(algorithm, tuning::request_of(scene.environment, call), protocol)) return std::nullopt;
  auto plan = tuning::make_plan(scene.environment, algorithm, protocol, call);
  if (!plan) return std::nullopt;
  return *std::move(plan);
}

struct Seen {
  int algorithms = 0;
  int folded = 0;
};

Seen expect_all_the_same(const Scene& scene, const std::string& where, std::uint64_t bytes) {
  Seen seen;
  for (const schedule::Algorithm& algorithm : schedule::registry()) {
    const auto plan = plan_of(scene, algorithm, bytes);
    if (!plan) continue;
    const auto done = both(scene, *plan);
    const std::string what = fmt::format("{} {} of {} bytes on {}", name_of(algorithm.collective), algorithm.name, bytes, where);
    EXPECT_TRUE(done) << what << ": " << done.error().message;
    if (!done) continue;
    expect_same(*done, what);
    ++seen.algorithms;
    seen.folded += done->folded.simulated_ranks < done->whole.simulated_ranks ? 1 : 0;
  }
  return seen;
}

struct Place {
  const char* machine;
  int nodes;
  const char* fabric;
  bool is_symmetric;  // so that some algorithms fold
};

class Folding : public testing::TestWithParam<Place> {};

// 768 KiB: parts of 24, 48 and 64 ranks are equally long; 1,000,000 bytes: they are not.
TEST_P(Folding, GivesTheTimesOfEveryAlgorithm) {
  const Place& place = GetParam();
  const Scene scene = fold_scene(place.machine, place.nodes, place.fabric);
  for (const std::uint64_t bytes : {std::uint64_t{768} << 10, std::uint64_t{1'000'000}}) {
    const Seen seen = expect_all_the_same(scene, fmt::format("{} {} {}", place.nodes, place.machine, place.fabric), bytes);
    EXPECT_GE(seen.algorithms, 30);
    if (place.is_symmetric) {
      EXPECT_GT(seen.folded, 5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Folding,
                         testing::Values(Place{"dgx-h100", 1, "", true}, Place{"dgx-h100", 4, "ideal", true},
                                         Place{"dgx-h100", 3, "ideal", true}, Place{"dgx-a100", 2, "ideal", true},
                                         Place{"dgx-h100", 4, "fat-tree,levels=2,radix=32,oversubscription=3,adaptive=true", true},
                                         Place{"dgx-h100", 4, "fat-tree,levels=3,radix=16,adaptive=true", true},
                                         Place{"dgx-h100", 4, "rail-optimised,radix=8,adaptive=true", true},
                                         Place{"dgx-h100", 4, "fat-tree,levels=2,radix=32,oversubscription=2", false},
                                         Place{"dgx-h100", 4, "dragonfly,radix=32,adaptive=true", true},
                                         Place{"dgx-h100", 4, "torus,dims=2x2", false}));

TEST(Fold, MachinesThatAreAlikeShareTheirRanks) {
  const Scene scene = fold_scene("dgx-h100", 16, "ideal");
  for (const auto& [collective, algorithm, most] : {std::tuple{Collective::all_reduce, "ring", 8},
                                                    {Collective::all_reduce, "hierarchical", 8},
                                                    {Collective::all_to_all, "all_pairs", 8},
                                                    {Collective::all_reduce, "recursive_doubling", 8},
                                                    {Collective::all_reduce, "binary_tree", 64},
                                                    {Collective::barrier, "dissemination", 8}}) {
    const auto found = schedule::find_algorithm(collective, algorithm);
    ASSERT_TRUE(found) << algorithm;
    const auto plan = plan_of(scene, **found, 1 << 20);
    ASSERT_TRUE(plan) << algorithm;
    const auto done = both(scene, *plan);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_LE(done->folded.simulated_ranks, most) << algorithm;
    EXPECT_EQ(done->whole.simulated_ranks, 128) << algorithm;
    expect_same(*done, algorithm);
  }
}

TEST(Fold, LongCallsAreContinuedFromPiecesThatRepeat) {
  const Scene scene = fold_scene("dgx-h100", 4, "ideal");
  // Hierarchical calls are cut into fewer pieces: a round along rails for each.
  for (const auto& [algorithm, most] : {std::pair{"tree", std::uint64_t{1} << 28},
                                        {"double_binary_tree", std::uint64_t{1} << 28},
                                        {"binary_tree", std::uint64_t{1} << 30},
                                        {"hierarchical", std::uint64_t{1} << 34}}) {
    const auto found = schedule::find_algorithm(Collective::all_reduce, algorithm);
    for (const std::uint64_t bytes : {most, most - 4096 * 37}) {
      const auto plan = plan_of(scene, **found, bytes);
      ASSERT_TRUE(plan);
      const auto done = both(scene, *plan);
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_GT(done->folded.repeated_pieces, plan->pieces.count / 4) << algorithm;
      EXPECT_LT(done->folded.events, done->whole.events * 3 / 4) << algorithm;
      EXPECT_GE(std::count_if(done->whole.messages_asked.begin(), done->whole.messages_asked.end(),
                              [](const MessageTimes& times) { return times.asked.number == 200 && times.began > 0; }),
                2)
          << algorithm;
      expect_same(*done, algorithm);
    }
  }
}

// A tree over many machines runs full only after many pieces, and with a slow root, a slow leaf or a slow port otherwise than without.
TEST(Fold, TreesInManyPiecesStayRightWithOneSlowWireOrOneSlowRank) {
  const Scene scene = fold_scene("dgx-h100", 9, "ideal");
  const auto in = scene.resources->route(scene.device_of_rank[8], scene.device_of_rank[0]).resources;
  const auto out = scene.resources->route(scene.device_of_rank[32], scene.device_of_rank[40]).resources;
  const auto plan = plan_of(scene, **schedule::find_algorithm(Collective::all_reduce, "tree"), 1 << 28);
  ASSERT_TRUE(plan);
  std::vector<double> times;
  for (const Perturbation& one : {Perturbation{}, Perturbation{{}, {{0, 2.0}}}, Perturbation{{}, {{13, 3.0}}},
                                  Perturbation{{{in.back(), 0.5}}, {}}, Perturbation{{{out.front(), 0.5}}, {}}}) {
    const auto done = both(scene, *plan, one);
    ASSERT_TRUE(done) << done.error().message;
    const std::string what = fmt::format("perturbation {}", times.size());
    EXPECT_GT(done->folded.repeated_pieces, plan->pieces.count / 4) << what;
    EXPECT_LT(done->folded.events, done->whole.events * 3 / 4) << what;
    expect_same(*done, what);
    times.push_back(done->folded.time.value);
  }
  EXPECT_GT(times[1], 1.2 * times[0]);
}

// Children of one rank that have subtrees of one shape do the same at the same time, and are simulated as one, also where something is slow
// elsewhere; machines of one part in a tree are.
TEST(Fold, TreesInWhichChildrenAreServedAtOnceFoldByTheirShape) {
  const Scene scene = fold_scene("dgx-h100", 65, "ideal");
  const auto port = scene.resources->route(scene.device_of_rank[32], scene.device_of_rank[40]).resources;
  for (const Collective collective : {Collective::all_reduce, Collective::broadcast, Collective::reduce}) {
    const auto plan = plan_of(scene, **schedule::find_algorithm(collective, "binary_tree"), 4 << 20);
    ASSERT_TRUE(plan);
    std::vector<int> simulated;
    for (const Perturbation& one : {Perturbation{}, Perturbation{{}, {{13, 3.0}}}, Perturbation{{{port.front(), 0.5}}, {}}}) {
      const auto done = both(scene, *plan, one);
      ASSERT_TRUE(done) << done.error().message;
      expect_same(*done, std::string(name_of(collective)));
      simulated.push_back(done->folded.simulated_ranks);
    }
    EXPECT_LE(simulated[0], 8 * 10) << name_of(collective);
    EXPECT_LT(simulated[0], simulated[1]) << name_of(collective);
    EXPECT_LE(simulated[1], 260) << name_of(collective);
    EXPECT_LE(simulated[2], 260) << name_of(collective);
  }
}

// In one machine, where ranks are told apart, and with a protocol that bounds what a rank sends to all.
TEST(Fold, ChildrenThatAreServedAtOnceShareTheirParentsWires) {
  const Scene one = fold_scene("dgx-h100", 1, "");
  const Scene several = fold_scene("dgx-h100", 8, "ideal");
  for (const Scene* scene : {&one, &several})
    for (const schedule::Protocol protocol : {schedule::Protocol::line, schedule::Protocol::staged}) {
      const auto plan = plan_of(*scene, **schedule::find_algorithm(Collective::all_reduce, "binary_tree"), 1 << 20, protocol);
      ASSERT_TRUE(plan);
      const auto done = both(*scene, *plan);
      ASSERT_TRUE(done) << done.error().message;
      expect_same(*done, std::string(schedule::name_of(protocol)));
      EXPECT_LT(done->folded.simulated_ranks, done->whole.simulated_ranks);
    }
}

// Ranks that meet at a switch are simulated one by one; pieces repeat there, too, and wires that never limit are left out.
TEST(Fold, PiecesRepeatWhereSwitchesCompute) {
  const char* const fabric = "rail-optimised,radix=64,switch=quantum-2,sharp=true";
  for (const auto& [nodes, algorithm] : {std::pair{1, "nvls"}, {2, "nvls_tree"}, {3, "sharp"}}) {
    const Scene scene = nodes > 1 ? fold_scene("dgx-h100", nodes, fabric) : fold_scene("dgx-h100", 1, "ideal");
    const auto plan = plan_of(scene, **schedule::find_algorithm(Collective::all_reduce, algorithm), std::uint64_t{8} << 30);
    ASSERT_TRUE(plan) << algorithm;
    for (const Perturbation& one : {Perturbation{}, Perturbation{{}, {{3, 2.0}}}}) {
      const auto done = both(scene, *plan, one);
      ASSERT_TRUE(done) << done.error().message;
      if (one.slow_ranks.empty()) {
        EXPECT_GT(done->folded.repeated_pieces, plan->pieces.count / 4) << algorithm;
      }
      expect_same(*done, algorithm);
    }
  }
}

// One slow wire or one slow rank: what it touches is told apart, and times stay right.
TEST(Fold, StaysRightWithOneSlowWireOrOneSlowRank) {
  const Scene scene = fold_scene("dgx-h100", 4, "ideal");
  const auto route = scene.resources->route(scene.device_of_rank[11], scene.device_of_rank[20]);
  for (const char* algorithm : {"ring", "tree", "hierarchical", "grid", "two_shot", "multi_ring"}) {
    const auto found = schedule::find_algorithm(Collective::all_reduce, algorithm);
    const auto plan = plan_of(scene, **found, 1 << 20);
    if (!plan) continue;
    for (const Perturbation& one : {Perturbation{{{route.resources[1], 0.5}}, {}}, Perturbation{{}, {{13, 2.0}}}}) {
      const auto done = both(scene, *plan, one);
      ASSERT_TRUE(done) << done.error().message;
      expect_same(*done, algorithm);
    }
  }
}

// Everybody to everybody, one of them slow: nobody behaves like anybody else, and that many messages are not begun.
TEST(Fold, WhatIsTooMuchToSimulateIsSaidAtOnce) {
  const Scene scene = fold_scene("dgx-h100", 2'800, "ideal");
  const auto plan = plan_of(scene, **schedule::find_algorithm(Collective::all_to_all, "all_pairs"), 64 << 20);
  ASSERT_TRUE(plan);
  InterpretOptions options;
  options.perturbation.slow_ranks = {{13, 2.0}};
  options.most_events = 100'000'000;
  const auto refused = interpret(*plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("5e+08 messages are too many"), std::string::npos) << refused.error().message;
}

// Before it is taken: a channel for every pair of ranks.
TEST(Fold, WhatTakesTooMuchMemoryIsSaidAtOnce) {
  const Scene scene = fold_scene("dgx-h100", 256, "ideal");
  const auto plan = plan_of(scene, **schedule::find_algorithm(Collective::all_to_all, "all_pairs"), 64 << 20);
  ASSERT_TRUE(plan);
  InterpretOptions options;
  options.perturbation.slow_ranks = {{13, 2.0}};
  options.most_bytes = 5e8;
  const auto refused = interpret(*plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("4e+06 pairs of ranks that talk to each other are 0.545 GB"), std::string::npos)
      << refused.error().message;
  options.perturbation = {};
  EXPECT_TRUE(interpret(*plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options));
}

// Nobody asked for an algorithm: then the fastest that can be simulated is, and the row says so.
TEST(Fold, WhatIsChosenFreelyGivesWayToWhatCanBeSimulated) {
  const Scene scene = fold_scene("dgx-h100", 128, "ideal");
  tuning::Question question;
  question.call = {Collective::all_to_all, Bytes{64 << 20}};
  InterpretOptions options;
  options.perturbation.slow_ranks = {{13, 2.0}};
  options.most_bytes = 5e7;
  const auto study = sim::study(scene, question, options);
  ASSERT_TRUE(study) << study.error().message;
  EXPECT_EQ(study->row.algorithm, "hierarchical");
  EXPECT_EQ(study->row.instead_of.find("all_pairs: 1e+06 pairs of ranks that talk"), 0) << study->row.instead_of;
  EXPECT_NE(notes_text(study->row).find("in place of what would be chosen, all_pairs"), std::string::npos);
  question.algorithm = "hierarchical";
  const auto forced = sim::study(scene, question, options);
  ASSERT_TRUE(forced) << forced.error().message;
  EXPECT_EQ(forced->row.out_of_place->time_us, study->row.out_of_place->time_us);
  EXPECT_TRUE(forced->row.instead_of.empty());
  question.algorithm = "all_pairs";
  EXPECT_FALSE(sim::study(scene, question, options));
}

// A pair of ranks that is done leaves its channel to another; not where somebody asks for a message. Times, counts and loads are the same.
TEST(Fold, ChannelsServeOnePairAfterTheOther) {
  const Scene scene = fold_scene("dgx-h100", 12, "fat-tree,levels=3,radix=64,oversubscription=3");
  const auto plan = plan_of(scene, **schedule::find_algorithm(Collective::all_to_all, "all_pairs"), 8 << 20);
  ASSERT_TRUE(plan);
  for (const Perturbation& one : {Perturbation{}, Perturbation{{}, {{3, 2.0}}}}) {
    InterpretOptions options;
    options.perturbation = one;
    options.jitter.share = 0.05;
    const auto reused = interpret(*plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options);
    ASSERT_TRUE(reused) << reused.error().message;
    options.messages = {{3, 4, 0}};
    const auto apart = interpret(*plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options);
    ASSERT_TRUE(apart) << apart.error().message;
    ASSERT_EQ(apart->messages_asked.size(), 1u);
    EXPECT_GT(apart->messages_asked.front().arrived, 0);
    EXPECT_EQ(reused->messages, 96u * 95u);
    EXPECT_EQ(reused->messages, apart->messages);
    EXPECT_EQ(reused->time.value, apart->time.value);
    EXPECT_EQ(reused->rank_done, apart->rank_done);
    ASSERT_EQ(reused->resources.size(), apart->resources.size());
    for (std::size_t i = 0; i < reused->resources.size(); ++i) EXPECT_EQ(reused->resources[i].bytes, apart->resources[i].bytes);
  }
}

// Where a hash chooses cables, messages straight between all meet others on every one.
TEST(Fold, RatesAreKeptForAWhileWhereTooManyWouldBeWorkedOut) {
  const Scene scene = fold_scene("dgx-h100", 40, "fat-tree,levels=3,radix=64,oversubscription=3");
  tuning::Question question;
  question.call = {Collective::all_to_all, Bytes{64 << 20}};
  question.algorithm = "all_pairs";
  InterpretOptions options;
  std::vector<Progress> told;
  options.progress = [&](const Progress& so_far) { told.push_back(so_far); };
  const auto exact = sim::study(scene, question, options);
  ASSERT_TRUE(exact) << exact.error().message;
  EXPECT_FALSE(exact->row.kept_rates_from);
  EXPECT_EQ(notes_text(exact->row).find("approximate"), std::string::npos);
  ASSERT_FALSE(told.empty());
  EXPECT_GT(told.front().share_done, 0.1);
  EXPECT_LT(told.front().share_done, 0.9);

  options.most_exact_rates = 0;
  const auto kept = sim::study(scene, question, options);
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->row.kept_rates_from, Nanoseconds{0});
  EXPECT_NE(notes_text(kept->row).find("approximate from 0.00 us on"), std::string::npos) << notes_text(kept->row);
  EXPECT_NE(kept->row.out_of_place->time_us, exact->row.out_of_place->time_us);
  EXPECT_NEAR(kept->row.out_of_place->time_us / exact->row.out_of_place->time_us, 1, 0.05);
  EXPECT_EQ(kept->outcome.messages, exact->outcome.messages);

  // Told from what is done: twice as many would be too many.
  options.most_exact_rates = 1e5;
  const auto later = sim::study(scene, question, options);
  ASSERT_TRUE(later) << later.error().message;
  ASSERT_TRUE(later->row.kept_rates_from);
  EXPECT_GT(later->row.kept_rates_from->value, 0);
}

// Parts of two lengths pass every rank of a ring at other times.
TEST(Fold, FallsBackToEveryRankWhereNothingIsAlike) {
  const Scene scene = fold_scene("dgx-h100", 3, "ideal");
  const auto found = schedule::find_algorithm(Collective::all_reduce, "ring");
  const auto plan = plan_of(scene, **found, 1'000'000);
  ASSERT_TRUE(plan);
  const auto done = both(scene, *plan);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->folded.simulated_ranks, 24);
  EXPECT_EQ(done->folded.chunk_spread, 0);
}

// Of more ranks than 4,096, where that takes long; and says by how much.
TEST(Fold, TakesChunksAsEqualWhereManyRanksWouldDifferByThemAlone) {
  const auto found = schedule::find_algorithm(Collective::all_reduce, "ring");
  const auto done = [&](int nodes) {
    const Scene scene = fold_scene("dgx-h100", nodes, "ideal");
    const auto plan = plan_of(scene, **found, 10'000'000);
    return *interpret(*plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, {});
  };
  const Outcome many = done(513);
  EXPECT_LE(many.simulated_ranks, 8);
  EXPECT_GT(many.chunk_spread, 0);
  EXPECT_LT(many.chunk_spread, 0.03);
  EXPECT_EQ(done(33).chunk_spread, 0);
}

}  // namespace
}  // namespace peal::sim
