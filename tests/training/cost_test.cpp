#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <topology/machine.hpp>
#include <training/cost.hpp>

#include "source_tree.hpp"

namespace peal::training {
namespace {

constexpr const char* kPrices =
    "currency: EUR\n"
    "prices:\n"
    "  - {what: node, of: box, value: 100000, date: 2024-01-01, basis: list, source: a}\n"
    "  - {what: rent, of: A100, value: 2, date: 2026-01-01, basis: list, source: b}\n"
    "  - {what: rent, of: A100-SXM4-80GB, value: 3, date: 2026-01-01, basis: list, source: b}\n"
    "  - {what: switch-port, of: infiniband-200, value: 500, date: 2026-01-01, basis: list, source: c}\n"
    "  - {what: cable, of: infiniband-200, value: 1000, date: 2026-01-01, basis: list, source: c}\n"
    "  - {what: radix, of: infiniband-200, value: 16, date: 2026-01-01, basis: list, source: c}\n"
    "  - {what: power, of: box, value: 5, date: 2026-01-01, basis: list, source: d}\n"
    "  - {what: electricity, value: 0.2, date: 2026-01-01, basis: list, source: e}\n"
    "  - {what: pue, value: 1.5, date: 2026-01-01, basis: list, source: f}\n"
    "  - {what: life, value: 5, date: 2026-01-01, basis: assumed, source: g}\n";

Job job_of(int nodes) {
  Job job{"box", "A100-SXM4-40GB", nodes, 8 * nodes, 8, "infiniband-200"};
  job.hours = 100;
  return job;
}

std::string why(const std::string& line) {
  const auto prices = read_prices_text("currency: USD\nprices:\n  - " + line + "\n", "mine.yaml");
  return prices ? "read" : prices.error().message;
}

TEST(Cost, IsTheArithmeticOfItsPrices) {
  const auto prices = read_prices_text(kPrices, "mine.yaml");
  ASSERT_TRUE(prices) << prices.error().message;
  const JobCost one = cost_of(job_of(1), *prices);
  EXPECT_DOUBLE_EQ(*one.energy_kWh.value, 5 * 1.5 * 100);
  EXPECT_DOUBLE_EQ(*one.electricity.value, 150);
  EXPECT_DOUBLE_EQ(*one.rent.value, 2 * 8 * 100) << "the longest name that the GPU's begins with";
  EXPECT_DOUBLE_EQ(*one.network.value, 0);
  EXPECT_NEAR(*one.owned.value, 100000 * 100 / (5 * 8760.0) + 150, 1e-6);
  EXPECT_NEAR(*one.break_even_hours.value, 100000 / (16 - 1.5), 1e-6);
  // 16 ports fill one switch; 32 need two levels: 3 switch ports and 2 cables a NIC.
  EXPECT_DOUBLE_EQ(*cost_of(job_of(2), *prices).network.value, 16 * (500 + 1000));
  EXPECT_DOUBLE_EQ(*cost_of(job_of(4), *prices).network.value, 32 * (3 * 500 + 2 * 1000));
}

TEST(Cost, AFasterNetworkPaysForItselfOrDoesNot) {
  const auto prices = read_prices_text(kPrices, "mine.yaml");
  ASSERT_TRUE(prices);
  Job slow = job_of(4);
  slow.hours = 200;
  JobCost cheap = cost_of(slow, *prices);
  cheap.network = {10000, {}};
  const NetworkComparison c = compare_networks(cost_of(job_of(4), *prices), cheap);
  EXPECT_DOUBLE_EQ(c.saved_hours, 100);
  EXPECT_DOUBLE_EQ(*c.extra.value, 112000 - 10000);
  EXPECT_NEAR(*c.saved.value, *cheap.owned.value / 2, 1e-6);
  EXPECT_NEAR(*c.break_even_jobs.value, *c.extra.value / *c.saved.value, 1e-9);
  const NetworkComparison same = compare_networks(cheap, cheap);
  EXPECT_FALSE(same.break_even_jobs.value);
  EXPECT_FALSE(same.saved.value) << "no time, no worth";
}

TEST(Cost, AMissingPriceIsNamedWithTheLineToAdd) {
  const auto prices = read_prices_text(kPrices, "mine.yaml");
  ASSERT_TRUE(prices);
  Job job = job_of(1);
  job.gpu = "B200";
  const JobCost cost = cost_of(job, *prices);
  EXPECT_FALSE(cost.rent.value);
  EXPECT_NE(cost.rent.missing.find("mine.yaml"), std::string::npos) << cost.rent.missing;
  EXPECT_NE(cost.rent.missing.find("{what: rent, of: B200, value:"), std::string::npos) << cost.rent.missing;
  EXPECT_FALSE(cost.break_even_hours.value);
  EXPECT_TRUE(cost.owned.value);
}

TEST(Prices, AreReadOrRefusedInOneSentence) {
  EXPECT_EQ(why("{what: pue, value: 1.2, date: 2024-02-03, basis: list, source: a}"), "read");
  EXPECT_NE(why("{what: house, value: 1, date: 2024-02-03, basis: list, source: a}").find("write one of: node"), std::string::npos);
  EXPECT_NE(why("{what: pue, value: 1, date: 3.2.2024, basis: list, source: a}").find("write it as 2024-08-22"), std::string::npos);
  EXPECT_NE(why("{what: pue, value: 1, date: 2024-02-03, basis: rumour, source: a}").find("list, reported, assumed"), std::string::npos);
  EXPECT_NE(why("{what: node, value: 1, date: 2024-02-03, basis: list, source: a}").find("needs `of:`"), std::string::npos);
  EXPECT_NE(why("{what: pue, value: 1, date: 2024-02-03, basis: list}").find("source"), std::string::npos);
  EXPECT_NE(why("{what: pue, value: -1, date: 2024-02-03, basis: list, source: a}").find("mine.yaml:3"), std::string::npos);
}

TEST(Prices, OursAreReadAndGiveTheGoldenText) {
  const auto prices = load_prices();
  ASSERT_TRUE(prices) << prices.error().message;
  const auto cluster = topology::build_cluster("dgx-h100", 16);
  ASSERT_TRUE(cluster);
  Job job = job_on(*cluster, "dgx-h100");
  EXPECT_EQ(job.port, "infiniband-400");
  EXPECT_EQ(job.network_ports, 8);
  EXPECT_EQ(job.cables, 0) << "an ideal fabric has no switches";
  const auto tree = topology::build_cluster("dgx-h100", 16, "fat-tree,levels=2,radix=32");
  ASSERT_TRUE(tree) << tree.error().message;
  const Job drawn = job_on(*tree, "dgx-h100");
  EXPECT_EQ(drawn.cables, 128 + 128) << "128 NICs, and as many cables up";
  EXPECT_EQ(drawn.switch_ports, 128 + 2 * 128);
  job.hours = 100;
  std::ostringstream golden;
  golden << std::ifstream(test::in_source("tests/golden/cost_dgx-h100.txt")).rdbuf();
  EXPECT_EQ(cost_text(cost_of(job, *prices), *prices, {20261123}), golden.str())
      << "write it anew: peal cost --hours 100 --machine dgx-h100 --nodes 16 --as-of 2026-11-23 > tests/golden/cost_dgx-h100.txt";
}

TEST(Cost, DaysAreDaysOfACalendar) {
  EXPECT_EQ(to_text(*parse_day("2024-02-29")), "2024-02-29");
  for (const char* wrong : {"2023-02-29", "2026-02-31", "2026-13-01", "2026-00-10", "26-01-01", "2026-1-1", ""}) {
    const auto day = parse_day(wrong);
    EXPECT_FALSE(day) << wrong;
  }
}

}  // namespace
}  // namespace peal::training
