// What a call says about itself: the critical path, the use of links, pictures.
#include <gtest/gtest.h>

#include <regex>
#include <sim/call_report.hpp>
#include <sim/pictures.hpp>
#include <sim/simulate.hpp>
#include <topology/machine.hpp>

namespace peal::sim {
namespace {

Study study_of(const char* machine, int nodes, std::uint64_t bytes, const char* algorithm, const char* protocol) {
  auto scene = make_scene(*topology::build_cluster(machine, nodes), 0);
  EXPECT_TRUE(scene) << scene.error().message;
  tuning::Question q;
  q.call.bytes = {bytes};
  q.algorithm = algorithm;
  q.protocol = protocol;
  InterpretOptions options;
  options.keeps_path = options.keeps_trace = true;
  auto done = study(*scene, q, options);
  EXPECT_TRUE(done) << done.error().message;
  return *std::move(done);
}

std::map<PathShare, double> path_shares_of(const Outcome& outcome) {
  std::map<PathShare, double> shares;
  for (const PathPart& part : outcome.path) shares[part.what] += part.end - part.start;
  return shares;
}

/// From 0 to the end without a gap.
void expect_whole(const Outcome& outcome) {
  double at = 0;
  for (const PathPart& part : outcome.path) {
    EXPECT_NEAR(part.start, at, 1e-6 * outcome.time.value);
    EXPECT_GE(part.end, part.start);
    at = part.end;
  }
  EXPECT_NEAR(at, outcome.time.value, 1e-6 * outcome.time.value);
}

TEST(CriticalPath, CoversTheCallWithoutGaps) {
  for (const char* algorithm : {"ring", "double_binary_tree", "rabenseifner", "hierarchical"})
    for (const std::uint64_t bytes : {std::uint64_t{64}, std::uint64_t{4} << 20}) {
      SCOPED_TRACE(algorithm);
      expect_whole(study_of("dgx-a100", 2, bytes, algorithm, "staged").outcome);
    }
}

TEST(CriticalPath, OfATinyRingIsItsLaunchAndItsHops) {
  const Outcome outcome = study_of("dgx-h100", 1, 8, "ring", "line").outcome;
  const auto shares = path_shares_of(outcome);
  EXPECT_NEAR(shares.at(PathShare::launch), 6600, 1e-6);
  EXPECT_NEAR(shares.at(PathShare::latency), 14 * 600, 14 * 600 * 0.02);
}

TEST(CriticalPath, OfAHugeRingIsItsWire) {
  const Outcome outcome = study_of("dgx-h100", 1, std::uint64_t{1} << 30, "ring", "staged").outcome;
  EXPECT_GT(path_shares_of(outcome).at(PathShare::wire), 0.95 * outcome.time.value);
  const std::string text = path_text(outcome);
  EXPECT_NE(text.find("% "), std::string::npos);
  EXPECT_NE(text.find("wire"), std::string::npos) << text;
}

TEST(CriticalPath, NamesALateRank) {
  auto scene = make_scene(*topology::build_cluster("dgx-h100", 1), 0);
  ASSERT_TRUE(scene);
  tuning::Question q;
  q.call.bytes = {1 << 20};
  InterpretOptions options;
  options.keeps_path = true;
  options.late_ranks = {{6, 1e6}};
  auto done = study(*scene, q, options);
  ASSERT_TRUE(done) << done.error().message;
  expect_whole(done->outcome);
  EXPECT_EQ(done->outcome.path.front().what, PathShare::late);
  EXPECT_EQ(done->outcome.path.front().rank, 6);
  EXPECT_DOUBLE_EQ(done->outcome.path.front().end, 1e6);
}

TEST(CriticalPath, OfRanksThatShareACoreCountsTheirTurns) {
  auto scene = make_scene(*topology::read_cluster_text("devices:\n  - {id: core0, kind: core}\n  - {id: memory, kind: memory}\nlinks:\n"
                                                       "  - {a: core0, b: memory, kind: shm, GBps: 10, source: test}\n",
                                                       "one core"),
                          4);
  ASSERT_TRUE(scene) << scene.error().message;
  tuning::Question q;
  q.call.bytes = {64 << 10};
  InterpretOptions options;
  options.keeps_path = true;
  auto done = study(*scene, q, options);
  ASSERT_TRUE(done) << done.error().message;
  expect_whole(done->outcome);
  EXPECT_GT(path_shares_of(done->outcome)[PathShare::turn], 0);
}

// What is read in the sender's memory: the sender may return when it hears that it was.
TEST(CriticalPath, OfASenderThatIsReadEndsWithItsCredit) {
  auto scene =
      make_scene(*topology::read_cluster_text("devices:\n  - {id: \"core[0-1]\", kind: core}\n  - {id: memory, kind: memory}\nlinks:\n"
                                              "  - {a: \"core[0-1]\", b: memory, kind: shm, GBps: 10, source: test}\n",
                                              "two cores"),
                 2);
  ASSERT_TRUE(scene) << scene.error().message;
  tuning::Question q;
  q.call.collective = Collective::broadcast;
  q.call.bytes = {1 << 20};
  q.protocol = "direct_read";
  InterpretOptions options;
  options.keeps_path = true;
  auto done = study(*scene, q, options);
  ASSERT_TRUE(done) << done.error().message;
  expect_whole(done->outcome);
  EXPECT_EQ(done->outcome.last_rank, 0);
  EXPECT_EQ(done->outcome.path.back().what, PathShare::credit);
}

TEST(CriticalPath, IsEmptyUnlessAskedFor) {
  auto scene = make_scene(*topology::build_cluster("dgx-h100", 1), 0);
  ASSERT_TRUE(scene);
  tuning::Question q;
  q.call.bytes = {1 << 20};
  EXPECT_TRUE(study(*scene, q, {})->outcome.path.empty());
}

TEST(Use, NamesTheBottleneckAndFoldsWhatIsAlike) {
  auto scene = make_scene(*topology::build_cluster("dgx-h100", 4), 0);
  ASSERT_TRUE(scene);
  tuning::Question q;
  q.call.bytes = {1 << 30};
  q.algorithm = "ring";
  q.protocol = "staged";
  auto done = study(*scene, q, {});
  ASSERT_TRUE(done) << done.error().message;
  const std::string text = use_text(done->outcome, *scene->resources);
  EXPECT_NE(text.find("The bottleneck is "), std::string::npos) << text;
  EXPECT_NE(text.find(" alike"), std::string::npos) << text;
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 22);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

TEST(Timeline, HasARowForEachOfAFewRanksAndSomeOfMany) {
  const Study small = study_of("dgx-h100", 1, 1 << 20, "ring", "staged");
  const std::string eight = timeline_svg("eight", {}, small.outcome.trace.events(), 8);
  EXPECT_EQ(count(eight, ">rank "), 8u);
  EXPECT_NE(eight.find(">recv_reduce_send</text>"), std::string::npos);
  const Study large = study_of("dgx-h100", 8, 1 << 20, "ring", "staged");
  const std::string many = timeline_svg("many", {}, large.outcome.trace.events(), 64);
  EXPECT_EQ(count(many, ">rank "), kMostTimelineRanks);
  EXPECT_NE(many.find(">rank 63<"), std::string::npos);
  EXPECT_NE(many.find("32 of 64 ranks are shown"), std::string::npos);
}

TEST(Timeline, OfNothingIsStillAPage) {
  const std::string page = timeline_svg("nothing", {}, {}, 2);
  EXPECT_EQ(count(page, "</svg>"), 1u);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(Plot, HasALineASeriesAndSizesOnItsAxis) {
  const Series series[] = {{"a <b>", {1024, 65536, 4194304}, {1, 20, 200}}, {"c", {1024, 4194304}, {2, 100}}};
  const std::string page = busbw_svg("title", {}, series);
  EXPECT_EQ(count(page, "<polyline"), 2u);
  EXPECT_EQ(count(page, "<circle"), 5u);
  for (const char* label : {">1K<", ">64K<", ">4M<", ">200<", "a &lt;b&gt;: up to 200 GB/s"})
    EXPECT_NE(page.find(label), std::string::npos) << label;
  const std::string empty = busbw_svg("title", {}, {});
  EXPECT_EQ(empty.find("nan"), std::string::npos);
  EXPECT_EQ(empty.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace peal::sim
