// What a benchmark prints and writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cli/bench.hpp>
#include <nlohmann/json.hpp>

namespace peal::cli {
namespace {

BenchRow row_of(double p50) {
  BenchRow row;
  row.bytes = 1024;
  row.count = 256;
  row.algorithm = "ring";
  row.protocol = "staged";
  row.predicted_us = 2;
  for (BenchHalf& half : row.half) half = {true, p50, p50, 2 * p50, 0.5, 0.75, 0};
  return row;
}

TEST(BenchReport, WrongElementsAreCountedOverRowsAndHalves) {
  std::vector<BenchRow> rows = {row_of(4), row_of(4)};
  EXPECT_THAT(bench_ending(rows), testing::HasSubstr("0 OK"));
  rows[0].half[1].wrong = 3;
  rows[1].half[0].wrong = 4;
  EXPECT_THAT(bench_ending(rows), testing::HasSubstr("7 FAILED"));
}

TEST(BenchReport, WhatWasNotCheckedIsNotCalledRight) {
  std::vector<BenchRow> rows = {row_of(4)};
  for (BenchHalf& half : rows[0].half) half.wrong = -1;
  EXPECT_THAT(bench_ending(rows), testing::HasSubstr("not checked"));
  EXPECT_THAT(bench_line({}, rows[0]), testing::HasSubstr("N/A"));
  EXPECT_TRUE(nlohmann::json::parse(bench_json({}, rows, 2, "shm"))["rows"][0]["out_of_place"]["wrong"].is_null());
}

TEST(BenchReport, BoundIsThePredictedTimeInPercentOfTheMeasured) {
  EXPECT_THAT(bench_line({}, row_of(4)), testing::HasSubstr("    50  ring/staged"));
}

TEST(BenchReport, AHalfThatIsNotMeasuredIsNullAndDashes) {
  BenchRow row = row_of(4);
  row.half[1] = {};
  const auto json = nlohmann::json::parse(bench_json({}, {row}, 2, "shm"));
  EXPECT_TRUE(json["rows"][0]["in_place"].is_null());
  EXPECT_EQ(bench_line({}, row).size(), bench_line({}, row_of(4)).size());
}

TEST(BenchReport, ColumnsStayUnderTheirHeadsFromNanosecondsToSeconds) {
  const std::string heading = bench_heading({}, {}, 2, "shm");
  const auto bar = [](const std::string& text) { return text.find('|'); };
  const std::string head = heading.substr(heading.find("#         size"));
  for (const double time : {0.001, 1.0, 99.994, 12345.6, 9999999.0}) {
    const std::string line = bench_line({}, row_of(time));
    EXPECT_EQ(bar(line), bar(head)) << line;
    EXPECT_EQ(line.rfind('|'), head.substr(0, head.find('\n')).rfind('|')) << line;
  }
}

TEST(BenchReport, DigestsAndErrorsStandBelowTheirRowOnlyWhenAskedFor) {
  BenchRow row = row_of(4);
  const std::string plain = bench_line({}, row);
  EXPECT_FALSE(nlohmann::json::parse(bench_json({}, {row}, 2, "shm"))["rows"][0].contains("digest"));
  EXPECT_FALSE(nlohmann::json::parse(bench_json({}, {row}, 2, "shm"))["rows"][0].contains("numerics"));
  EXPECT_THAT(bench_ending({row}), testing::Not(testing::HasSubstr("digest")));
  row.digest = {"abcd", 40, 3, "ef01", 64};
  row.numerics = {100, 1, 2.5, 49.5, 0.25, 0.125};
  EXPECT_THAT(bench_line({}, row), testing::StartsWith(plain));
  EXPECT_THAT(bench_line({}, row), testing::HasSubstr("\n#   digest: sha256 abcd  40 calls, 3 differ\n"));
  EXPECT_THAT(bench_line({}, row), testing::HasSubstr("max 2.5 ulps, mean 0.5 ulps"));
  EXPECT_THAT(bench_line({}, row), testing::HasSubstr("1 of them not finite"));
  EXPECT_THAT(bench_ending({row, row}), testing::HasSubstr("differ from the first of their row: 6"));
  const auto json = nlohmann::json::parse(bench_json({}, {row}, 2, "shm"))["rows"][0];
  EXPECT_EQ(json["digest"].dump(), R"({"differing":3,"head":{"count":64,"sha256":"ef01"},"repeats":40,"sha256":"abcd"})");
  EXPECT_EQ(json["numerics"].dump(),
            R"({"elements":100,"max_backward":0.125,"max_relative":0.25,"max_ulps":2.5,"mean_ulps":0.5,"not_finite":1})");
  row.digest.head_count = 0;
  EXPECT_TRUE(nlohmann::json::parse(bench_json({}, {row}, 2, "shm"))["rows"][0]["digest"]["head"].is_null());
}

TEST(BenchReport, OneRankIsNotManyRanks) {
  EXPECT_THAT(bench_heading({}, {}, 1, "none"), testing::HasSubstr("over 1 rank, none"));
  EXPECT_THAT(bench_heading({}, {}, 2, "shm"), testing::HasSubstr("over 2 ranks, shm"));
}

TEST(BenchReport, CollectivesWithoutAnInPlaceForm) {
  for (const Collective c : {Collective::all_to_all, Collective::all_to_all_v, Collective::send_recv, Collective::barrier})
    EXPECT_FALSE(has_in_place(c));
  for (const Collective c : {Collective::all_reduce, Collective::gather, Collective::scatter, Collective::reduce_scatter_v,
                             Collective::gather_v, Collective::scatter_v})
    EXPECT_TRUE(has_in_place(c));
}

}  // namespace
}  // namespace peal::cli
