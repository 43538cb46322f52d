#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cli/measure_ranks.hpp>

namespace peal::cli {
namespace {

using ::testing::ElementsAre;

/// Three hosts with two, one and one ranks.
RankMeasurements four_ranks() {
  RankMeasurements found;
  found.latency_us = {{0, 0.2, 5, 9}, {0.2, 0, 4, 8}, {5, 4, 0, 7}, {9, 8, 7, 0}};
  found.GBps = {{0, 10, 1, 1}, {10, 0, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, 0}};
  found.host_of = {"a", "a", "b", "c"};
  found.host_index = {0, 0, 1, 2};
  found.hosts = {"a", "b", "c"};
  found.racks = {.rack_of = {0, 0, 1}, .count = 2, .within_ns = 4000, .between_ns = 7000};
  found.source = "measured 2026-01-02";
  return found;
}

TEST(MeasureRanks, TheNearestRanksStandForTheirHosts) {
  EXPECT_THAT(host_latencies(four_ranks()), ElementsAre(ElementsAre(0, 4, 8), ElementsAre(4, 0, 7), ElementsAre(8, 7, 0)));
}

TEST(MeasureRanks, TheTextSaysMatricesHostsAndRacks) {
  EXPECT_EQ(rank_measurements_text(four_ranks()), R"(4 ranks on 3 hosts, measured 2026-01-02

Latency one way, 8 bytes, us
             0       1       2       3
     0       -     0.2       5       9
     1     0.2       -       4       8
     2       5       4       -       7
     3       9       8       7       -

Bandwidth each way, 1 MiB both ways at once, GB/s
             0       1       2       3
     0       -      10       1       1
     1      10       -       1       1
     2       1       1       -       1
     3       1       1       1       -

Hosts of the ranks
  a: 0 1
  b: 2
  c: 3

2 groups of hosts, taken for racks: at most 4 us to the next host within, at least 7 us between them
  rack 0: a b
  rack 1: c
)");
}

TEST(MeasureRanks, OneDistanceIsSaidToBeOne) {
  RankMeasurements found = four_ranks();
  found.racks = {.rack_of = {0, 0, 0}, .count = 1, .within_ns = 4000};
  EXPECT_THAT(rank_measurements_text(found), ::testing::HasSubstr("3 hosts at one distance"));
}

}  // namespace
}  // namespace peal::cli
