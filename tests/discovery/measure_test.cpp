#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <discovery/measure.hpp>
#include <random>
#include <topology/resources.hpp>

#include "tree.hpp"

namespace peal::discovery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Matrix = std::vector<std::vector<double>>;

/// `near` within a rack and `far` between racks, each pair off by up to `noise` upwards, as latencies are.
Matrix latencies(const std::vector<int>& rack_of, double near, double far, double noise, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> off(1, 1 + noise);
  Matrix m(rack_of.size(), std::vector<double>(rack_of.size(), 0));
  for (std::size_t a = 0; a < rack_of.size(); ++a)
    for (std::size_t b = 0; b < rack_of.size(); ++b)
      if (a != b) m[a][b] = (rack_of[a] == rack_of[b] ? near : far) * off(random);
  return m;
}

TEST(Racks, AreFoundUnderNoiseInAnyOrderOfHosts) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int racks = 2 + static_cast<int>(random() % 6), hosts = 2 + static_cast<int>(random() % 7);
    std::vector<int> truth;
    for (int i = 0; i < racks * hosts; ++i) truth.push_back(i / hosts);
    std::shuffle(truth.begin(), truth.end(), random);
    const Racks found = find_racks(latencies(truth, 2000, 3200, 0.2, seed));
    ASSERT_EQ(found.count, racks) << seed;
    for (std::size_t a = 0; a < truth.size(); ++a)
      for (std::size_t b = 0; b < truth.size(); ++b) ASSERT_EQ(found.rack_of[a] == found.rack_of[b], truth[a] == truth[b]) << seed;
    EXPECT_LT(found.within_ns, found.between_ns);
  }
}

TEST(Racks, OneDistanceIsOneGroupWhateverTheNoise) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Racks found = find_racks(latencies(std::vector<int>(2 + seed % 30, 0), 2000, 0, 0.25, seed));
    EXPECT_EQ(found.count, 1) << seed;
    EXPECT_EQ(found.between_ns, 0);
  }
}

TEST(Racks, SlowSinglePairsDoNoHarm) {
  Matrix m = latencies({0, 0, 0, 0, 1, 1, 1, 1}, 2000, 4000, 0.05, 1);
  m[0][1] = m[1][0] = 9000;  // two of a rack that were disturbed
  m[2][0] = 50000;           // one direction only
  const Racks found = find_racks(m);
  EXPECT_THAT(found.rack_of, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
}

TEST(Racks, OfDifferentSizesAndASingleHost) {
  const Racks found = find_racks(latencies({2, 0, 0, 1, 0, 1, 0}, 1500, 6000, 0.1, 3));
  EXPECT_THAT(found.rack_of, ElementsAre(0, 1, 1, 2, 1, 2, 1));
  EXPECT_EQ(found.count, 3);
}

TEST(Racks, FewHostsAndNone) {
  EXPECT_EQ(find_racks({}).count, 0);
  EXPECT_THAT(find_racks({{0}}).rack_of, ElementsAre(0));
  EXPECT_THAT(find_racks({{0, 5}, {7, 0}}).rack_of, ElementsAre(0, 0));  // one distance
  EXPECT_EQ(find_racks({{0, 5}, {7, 0}}).within_ns, 5);
  EXPECT_EQ(find_racks({{0, 0}, {0, 0}}).count, 1);
}

TEST(MeasureHost, FiguresArePossibleAndStandOnTheGraphWithTheirDate) {
  const auto found = measure_host();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->source, HasSubstr("measured 2"));
  EXPECT_GT(found->core_copy.gigabytes(), 0.05);
  EXPECT_LT(found->core_copy.gigabytes(), 500);
  EXPECT_GT(found->all_copy.value, 0);
  ASSERT_TRUE(found->loopback && found->loopback_latency);
  EXPECT_GT(found->loopback->gigabytes(), 0.01);
  EXPECT_GT(found->loopback_latency->value, 200);
  for (std::size_t a = 0; a < found->cpus.size(); ++a) {
    EXPECT_EQ(found->exchange_ns[a][a], 0);
    for (std::size_t b = 0; b < a; ++b) EXPECT_EQ(found->exchange_ns[a][b], found->exchange_ns[b][a]);
  }
  const auto graph = discover_host({}, &*found);
  ASSERT_TRUE(graph) << graph.error().message;
  for (const topology::Link& link : graph->links()) {
    if (link.kind == topology::LinkKind::loopback) {
      EXPECT_EQ(link.source, found->source + ", both ends polling as ranks do");
    }
  }
}

TEST(MeasureHost, MeasuredFiguresTakeThePlaceOfAssumedOnes) {
  const Tree tree;
  HostMeasurements m;
  m.cpus = {0, 1, 2, 3};
  m.exchange_ns = {{0, 50, 300, 300}, {50, 0, 300, 300}, {300, 300, 0, 50}, {300, 300, 50, 0}};
  m.core_copy = Bandwidth::gigabytes(7);
  m.all_copy = Bandwidth::gigabytes(20);
  m.processor_share = 0.3;
  m.source = "measured 2026-01-02 on this host";
  const auto graph = discover_host(tree.roots("pack:2 numa:1 l3:1 core:2 pu:1"), &m);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_THAT(std::string(graph->warnings().front()), HasSubstr("a thread got 30 % of its core"));
  const topology::Resources r{topology::Graph(*graph)};
  EXPECT_DOUBLE_EQ(r.route(graph->find("core0"), graph->find("core1")).latency.value, 50);
  EXPECT_DOUBLE_EQ(r.route(graph->find("core1"), graph->find("core2")).latency.value, 300);
  const auto& core = graph->device(graph->find("core2"));
  EXPECT_EQ(core.attribute("exchange_ns"), "core0 300, core1 300, core3 50");
  for (const topology::Link& link : graph->links()) {
    if (link.kind == topology::LinkKind::shm) {
      EXPECT_EQ(link.source, m.source);
      EXPECT_DOUBLE_EQ(link.bandwidth.gigabytes(), 7);
    }
    if (link.kind == topology::LinkKind::loopback) {
      EXPECT_THAT(link.source, HasSubstr("assumed"));  // was not measured
    }
  }
}

}  // namespace
}  // namespace peal::discovery
