// Lines in front of ports: who is held up, where DCQCN settles, what it costs a call. Against published figures where there are any.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sim/line_cost.hpp>
#include <sim/simulate.hpp>
#include <sim/solver.hpp>
#include <topology/machine.hpp>

namespace peal::sim {
namespace {

using Ids = std::vector<std::uint32_t>;

// Four senders to one port of 10, one of them with a second flow that goes elsewhere.
TEST(Lines, WhoStandsBehindASlowFlowIsHeldUp) {
  for (const bool is_line : {false, true}) {
    FairShare share;
    const auto busy = share.add_constraint(10, is_line);
    const auto idle = share.add_constraint(10, is_line);
    Ids slow;
    const auto out = share.add_constraint(10, is_line);
    slow.push_back(share.add_variable(Ids{out, busy}));
    for (int i = 0; i < 3; ++i) slow.push_back(share.add_variable(Ids{share.add_constraint(10, is_line), busy}));
    const auto victim = share.add_variable(Ids{out, idle});
    share.solve();
    for (const auto flow : slow) EXPECT_DOUBLE_EQ(share.rate(flow), 2.5);
    EXPECT_DOUBLE_EQ(share.rate(victim), is_line ? 2.5 : 7.5);
    if (!is_line) continue;
    EXPECT_EQ(share.stopped_by(slow[1]), busy);
    EXPECT_EQ(share.stopped_by(victim), out);
    EXPECT_DOUBLE_EQ(share.users(busy), 4);
    // Who has been told how fast it may send holds up nobody.
    share.let_pass(slow[0]);
    share.solve();
    EXPECT_DOUBLE_EQ(share.rate(victim), 7.5);
  }
}

// The pause goes on upwards: a flow waits for one that waits for another, with which it shares no port.
TEST(Lines, WhoIsHeldUpHoldsUpOthers) {
  FairShare share;
  const auto first = share.add_constraint(10, true);
  const auto second = share.add_constraint(10, true);
  const auto busy = share.add_constraint(1, true);
  const auto slow = share.add_variable(Ids{second, busy});
  const auto between = share.add_variable(Ids{first, second});
  const auto far = share.add_variable(Ids{first});
  share.solve();
  for (const auto flow : {slow, between, far}) EXPECT_DOUBLE_EQ(share.rate(flow), 1);
}

// A wire that nobody else uses is slow further on; what lies before a bound, or before the slow place, is free.
TEST(Lines, OnlyWhatLiesBeforeTheSlowPlaceIsBackedUp) {
  FairShare share;
  const auto port = share.add_constraint(10, true);
  const auto narrow = share.add_constraint(2);
  const auto after = share.add_constraint(10, true);
  const auto slow = share.add_variable(Ids{port, narrow, after});
  const auto behind = share.add_variable(Ids{port});
  const auto beyond = share.add_variable(Ids{after});
  share.solve();
  EXPECT_DOUBLE_EQ(share.rate(slow), 2);
  EXPECT_DOUBLE_EQ(share.rate(behind), 2);
  EXPECT_DOUBLE_EQ(share.rate(beyond), 8);
  FairShare other;
  const auto line = other.add_constraint(10, true);
  other.add_variable(Ids{line}, 1);
  const auto free = other.add_variable(Ids{line});
  other.solve();
  EXPECT_DOUBLE_EQ(other.rate(free), 9);
}

// Nobody passes a line faster than one who is stopped behind it, and whoever does not hold up others leaves max-min rates as they are.
TEST(Lines, RandomNetworksKeepTheirOrder) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    FairShare plain, lines, passing;
    std::vector<double> capacity;
    for (std::uint32_t c = 0; c < 8; ++c) {
      capacity.push_back(1 + static_cast<double>(random() % 9));
      plain.add_constraint(capacity.back());
      lines.add_constraint(capacity.back(), true);
      passing.add_constraint(capacity.back(), true);
    }
    std::vector<Ids> ways;
    for (int f = 0; f < 12; ++f) {
      // Ways go upwards, as in a tree of switches: no circles.
      Ids way;
      for (std::uint32_t c = 0; c < 8; ++c)
        if (random() % 3 == 0) way.push_back(c);
      if (way.empty()) way.push_back(static_cast<std::uint32_t>(random() % 8));
      ways.push_back(way);
      plain.add_variable(way);
      lines.add_variable(way);
      passing.add_variable(way, FairShare::kUnbounded, 1, {}, false);
    }
    for (FairShare* share : {&plain, &lines, &passing}) share->solve();
    for (std::uint32_t f = 0; f < ways.size(); ++f) {
      EXPECT_NEAR(passing.rate(f), plain.rate(f), 1e-9 * plain.rate(f)) << "round " << round;
      const auto stop = std::find(ways[f].begin(), ways[f].end(), lines.stopped_by(f));
      ASSERT_NE(stop, ways[f].end()) << "round " << round;
      for (auto line = ways[f].begin(); line != stop; ++line)
        for (std::uint32_t other = 0; other < ways.size(); ++other)
          if (std::find(ways[other].begin(), ways[other].end(), *line) != ways[other].end()) {
            EXPECT_LE(lines.rate(other), lines.rate(f) * (1 + 1e-9)) << "round " << round;
          }
    }
    std::vector<double> used(8, 0);
    for (std::uint32_t f = 0; f < ways.size(); ++f)
      for (const auto c : ways[f]) used[c] += lines.rate(f);
    for (std::uint32_t c = 0; c < 8; ++c) EXPECT_LE(used[c], capacity[c] * (1 + 1e-9));
  }
}

// Zhu et al., SIGCOMM 2015, section 2.2, "victim flow": H11 to H14 and VS hang on T1, which has two ways up of 40 Gb/s; H11 to H14 send to
// R on T4, VS to VR on T2. Half of the four take each way up, VS one of them. Published, in the median: VS gets 10 Gb/s where 20 are free;
// 4.5 with two more senders on T3 that share no link with it (figures as remembered, not seen in the text again).
TEST(Lines, AVictimOfPausesGetsWhatWasMeasured) {
  const auto victim = [](int more_senders) {
    FairShare share;
    const auto line = [&] { return share.add_constraint(40, true); };
    const Ids up = {line(), line()};
    const Ids down = {line(), line()};
    const auto receiver = line();
    for (std::size_t i = 0; i < 4; ++i) share.add_variable(Ids{line(), up[i % 2], down[i % 2], receiver});
    for (std::size_t i = 0; i < static_cast<std::size_t>(more_senders); ++i) share.add_variable(Ids{line(), line(), down[i % 2], receiver});
    const auto flow = share.add_variable(Ids{line(), up[0], line()});
    share.solve();
    return share.rate(flow);
  };
  EXPECT_NEAR(victim(0), 10, 1e-9);
  // By flows, not by ways in as switches arbitrate: those would give 5.
  EXPECT_NEAR(victim(2), 40.0 / 6, 1e-9);
  EXPECT_NEAR(victim(2), 4.5, 0.5 * 4.5);
}

// Zhu et al., CoNEXT 2016, figure 5 (queue over time, feedback of 4 us), at the end of the curves of
// github.com/jitupadhye-zz/rdma e7e9160 conext2016/figures/stable_q_4.pdf: 20.2, 125.6 and 1185 KB with 2, 10 and 64 flows at 40 Gb/s.
TEST(Dcqcn, SettlesWhereItsFluidModelDoes) {
  const auto paper = dcqcn_figures("paper");
  ASSERT_TRUE(paper) << paper.error().message;
  for (const auto& [flows, queue] : {std::pair{2.0, 20'170.0}, {10.0, 125'600.0}, {64.0, 1'185'000.0}}) {
    const DcqcnPoint point = fixed_point(*paper, flows, 5);
    EXPECT_NEAR(point.queue, queue, 0.05 * queue) << flows;
    EXPECT_EQ(point.is_reached, flows < 14) << flows;
  }
  // Beyond kmax everything is marked: the queue stands there.
  const Congestion congestion{FlowControl::dcqcn, *paper};
  EXPECT_DOUBLE_EQ(congestion.queue(64, 5), paper->kmax);
  EXPECT_DOUBLE_EQ(congestion.queue(1, 5), 0);
}

// The same paper's equation 12, for few marks; and its bound of the time to converge, conext2016/figures/convergence_default.txt.
TEST(Dcqcn, AgreesWithItsAuthorsFormulas) {
  const auto paper = dcqcn_figures("paper");
  ASSERT_TRUE(paper);
  const Dcqcn& d = *paper;
  const double packets = 5 / d.packet;  // a nanosecond
  const double term = d.packet / d.bytes + 2 / (d.timer * packets);
  const double marked = std::cbrt(d.increase / d.packet * 4 / (d.alpha * packets * packets) * term * term);
  EXPECT_NEAR(fixed_point(d, 2, 5).marked, marked, 0.2 * marked);
  for (const auto& [flows, seconds] :
       {std::pair{2.0, 0.096901}, {4.0, 0.063592}, {8.0, 0.04124}, {16.0, 0.02692}, {32.0, 0.017972}, {64.0, 0.012452}, {100.0, 0.010089}})
    EXPECT_NEAR(converges_within(d, flows, 5) * 1e-9, seconds, 0.12 * seconds) << flows;
}

TEST(Dcqcn, QueuesGrowWithTheSendersAndThePort) {
  const auto vendor = dcqcn_figures("vendor");
  ASSERT_TRUE(vendor) << vendor.error().message;
  const Congestion congestion{FlowControl::dcqcn, *vendor};
  double before = 0;
  for (const double flows : {2, 4, 16, 64, 256}) {
    EXPECT_GT(congestion.queue(flows, 50), before);
    before = congestion.queue(flows, 50);
  }
  EXPECT_GE(congestion.queue(2, 50), 16 * vendor->kmin);
  EXPECT_NEAR(congestion.queue(8, 50) / congestion.queue(8, 3.125), 16, 1);
  EXPECT_DOUBLE_EQ(congestion.holds_up_for(8), 3 * vendor->cut);
}

Scene scene_of(const char* machine, int nodes, const char* fabric) {
  auto cluster = topology::build_cluster(machine, nodes, fabric);
  EXPECT_TRUE(cluster) << cluster.error().message;
  auto scene = make_scene(*std::move(cluster), 0);
  EXPECT_TRUE(scene) << scene.error().message;
  return *std::move(scene);
}

Study congested_study(const Scene& scene, Collective collective, std::uint64_t bytes, std::string_view control, bool folds = true,
                      std::vector<std::pair<std::int32_t, double>> slow_ranks = {}) {
  tuning::Question question;
  question.call.collective = collective;
  question.call.bytes = {bytes};
  if (collective == Collective::all_to_all) question.algorithm = "all_pairs";  // everybody to everybody, whoever else is at the port
  InterpretOptions options;
  options.folds = folds;
  options.perturbation.slow_ranks = std::move(slow_ranks);
  auto congestion = parse_congestion(control, scene.resources->cluster());
  EXPECT_TRUE(congestion) << congestion.error().message;
  options.congestion = *congestion;
  auto done = study(scene, question, options);
  EXPECT_TRUE(done) << done.error().message;
  return *std::move(done);
}

TEST(Congestion, RoceIsToldFromOtherNetworks) {
  for (const auto& [machine, control] : {std::pair{"gcp-a3-ultra", FlowControl::dcqcn},
                                         {"dgx-h100", FlowControl::fair},
                                         {"aws-p5", FlowControl::fair},
                                         {"cscs-gh200", FlowControl::fair},
                                         {"azure-nc96ads-a100-v4", FlowControl::fair}}) {
    const auto cluster = topology::build_cluster(machine, 2, "");
    ASSERT_TRUE(cluster);
    EXPECT_EQ(flow_control_of(*cluster), control) << machine;
  }
  const auto cluster = topology::build_cluster("dgx-h100", 2, "");
  const auto wrong = parse_congestion("tcp", *cluster);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("type auto, fair, credits"), std::string::npos);
}

// In every round each port has one sender and one receiver, as long as nobody falls behind.
TEST(Congestion, WhoeverMeetsALateRankWaitsInItsQueue) {
  const Scene scene = scene_of("gcp-a3-ultra", 8, "fat-tree,levels=2,radix=64,adaptive=true");
  const auto all_to_all = [&](const char* control, std::vector<std::pair<std::int32_t, double>> slow_ranks) {
    return congested_study(scene, Collective::all_to_all, 8 << 20, control, true, std::move(slow_ranks)).outcome;
  };
  EXPECT_EQ(all_to_all("dcqcn", {}).most_in_line, 0);
  EXPECT_EQ(all_to_all("dcqcn", {}).time, all_to_all("fair", {}).time);
  const Outcome fair = all_to_all("fair", {{5, 3.0}});
  EXPECT_EQ(fair.most_in_line, 0);
  const Outcome lines = all_to_all("dcqcn", {{5, 3.0}});
  EXPECT_GT(lines.most_in_line, 1);
  EXPECT_GT(lines.longest_queue, 1e6);
  EXPECT_GT(lines.time.value, fair.time.value);
}

// Two pairs meet on a cable by their hash, and pauses hold up what goes elsewhere: no faster than by fair sharing.
TEST(Congestion, PausesCostMoreThanFairSharingWhereHashesCollide) {
  const Scene scene = scene_of("gcp-a3-ultra", 4, "fat-tree,levels=2,radix=32");
  const auto time = [&](const char* control) {
    return congested_study(scene, Collective::all_to_all, 32 << 20, control, true, {{5, 3.0}}).outcome.time.value;
  };
  EXPECT_GT(time("pfc"), 1.05 * time("fair"));
  EXPECT_NEAR(time("pfc"), time("credits"), 0.02 * time("pfc"));
}

// Folded and not: machines on an ideal fabric are alike, with lines too.
TEST(Congestion, FoldedCallsGiveTheSameTimes) {
  const Scene scene = scene_of("gcp-a3-ultra", 4, "ideal");
  for (const char* control : {"pfc", "dcqcn", "dcqcn:paper"}) {
    for (const Collective collective : {Collective::all_to_all, Collective::gather}) {
      for (const std::uint64_t bytes : {std::uint64_t{3} << 18, std::uint64_t{3} << 22}) {
        const Outcome folded = congested_study(scene, collective, bytes, control).outcome;
        const Outcome whole = congested_study(scene, collective, bytes, control, false).outcome;
        EXPECT_NEAR(folded.time.value, whole.time.value, 1e-9 * whole.time.value) << control << " " << bytes;
        EXPECT_EQ(folded.most_in_line, whole.most_in_line);
        if (collective == Collective::all_to_all) {
          EXPECT_LT(folded.simulated_ranks, whole.simulated_ranks) << control;
        }
      }
    }
  }
}

// Routes round a ring of six depend on each other all the way round; up and down a tree they never do.
TEST(Congestion, PausesThatCanWaitForEverAreSaid) {
  const Study ring = congested_study(scene_of("gcp-a3-ultra", 6, "torus,dims=6"), Collective::all_to_all, 1 << 20, "pfc");
  EXPECT_GE(ring.outcome.circle.size(), 3u);
  const Study tree = congested_study(scene_of("gcp-a3-ultra", 4, "fat-tree,levels=2,radix=32"), Collective::all_to_all, 1 << 20, "pfc");
  EXPECT_TRUE(tree.outcome.circle.empty());
  LineCost cost;
  cost.congestion.control = FlowControl::pfc;
  cost.circle = ring.outcome.circle;
  EXPECT_NE(line_cost_text(cost).find("can wait for one another for ever"), std::string::npos);
}

TEST(Congestion, SaysWhichModelAppliedAndWhatItCost) {
  const Scene scene = scene_of("gcp-a3-ultra", 4, "fat-tree,levels=2,radix=32");
  tuning::Question question;
  question.call.collective = Collective::all_to_all;
  question.call.bytes = {1 << 20};
  InterpretOptions options;
  options.congestion = *parse_congestion("auto", scene.resources->cluster());
  const auto done = study(scene, question, options);
  ASSERT_TRUE(done);
  const auto cost = cost_of_lines(scene, question, options, {}, *done);
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_GT(cost->time_us, cost->fair_us);
  EXPECT_GT(cost->pfc_us, 0);
  const std::string text = line_cost_text(*cost);
  EXPECT_NE(text.find("RoCE v2 with DCQCN and PFC"), std::string::npos) << text;
  EXPECT_NE(text.find("by fair sharing alone"), std::string::npos) << text;
  EXPECT_NE(line_cost_json(*cost).find("\"control\":\"dcqcn\""), std::string::npos);
}

}  // namespace
}  // namespace peal::sim
