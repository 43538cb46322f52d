// Errors, their classes and bounds; what the constants rest on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sim/validate.hpp>
#include <topology/machine.hpp>

namespace peal::sim {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A case whose predictions are off by the given shares, all at one size.
PredictedCase off_by(const std::string& id, std::uint64_t bytes, const std::vector<double>& errors) {
  PredictedCase c;
  c.published.id = c.published.label = id;
  c.published.machine = "m:1";
  for (const double e : errors) {
    PredictedRow row;
    row.measured.bytes = {bytes};
    row.measured.time_us = 10;
    row.answer = LibraryAnswer{Nanoseconds{10e3 * (1 + e)}, "Ring", "LL", 1, {}};
    c.rows.push_back(row);
  }
  return c;
}

/// A table of `times` for two A100s, as a person would write it.
std::vector<PublishedCase> table(const std::vector<double>& times) {
  std::string text = "case_id,machine,collective,bytes,time_us,total_ranks\n";
  std::uint64_t bytes = 1024;
  for (const double time : times) {
    text += fmt::format("two,dgx-a100:1 (2 GPUs),all_reduce,{},{},2\n", bytes, time);
    bytes *= 4096;
  }
  auto cases = read_published_text(text, "t.csv");
  EXPECT_TRUE(cases) << cases.error().message;
  return *std::move(cases);
}

Validation validated(std::vector<PublishedCase> cases) {
  ValidateOptions options;
  options.whose = Library::peal;
  auto v = validate("t.csv", std::move(cases), options);
  EXPECT_TRUE(v) << v.error().message;
  return *std::move(v);
}

TEST(Errors, AreMediansOfMediansAndPercentilesOfRows) {
  const PredictedCase a = off_by("a", 8, {0.1, -0.2, 0.3});
  const PredictedCase b = off_by("b", 8, {0.6});
  const Errors e = errors_of({&a, &b}, 0);
  EXPECT_EQ(e.cases, 2);
  EXPECT_EQ(e.rows, 4);
  EXPECT_NEAR(e.median, 0.4, 1e-12) << "between 0.2 and 0.6";
  EXPECT_NEAR(e.p90, 0.3 + 0.7 * 0.3, 1e-12) << "rank 2.7 of 0.1, 0.2, 0.3, 0.6";
  EXPECT_NEAR(e.worst, 0.6, 1e-12);
  EXPECT_NEAR(e.bias, (0.1 + 0.6) / 2, 1e-12);
  EXPECT_EQ(errors_of({&a, &b}, 1).rows, 0);
}

TEST(Errors, RowsSetApartOrWithoutAnswerDoNotCount) {
  PredictedCase a = off_by("a", 8, {0.1, 5, 7});
  a.rows[1].measured.set_apart = "degraded";
  a.rows[2].answer.reset();
  EXPECT_EQ(errors_of({&a}, -1).rows, 1);
  EXPECT_NEAR(errors_of({&a}, -1).worst, 0.1, 1e-12);
}

TEST(Errors, RangesMeetAtOneAndSixteenMebibytes) {
  EXPECT_EQ(range_of({kMiB - 1}), 0);
  EXPECT_EQ(range_of({kMiB}), 1);
  EXPECT_EQ(range_of({16 * kMiB - 1}), 1);
  EXPECT_EQ(range_of({16 * kMiB}), 2);
}

TEST(Bounds, AreReadInPercentAndJudged) {
  EXPECT_NEAR(*parse_bounds("7")->median[2], 0.07, 1e-12);
  EXPECT_FALSE(parse_bounds("7")->p90[0]);
  EXPECT_NEAR(*parse_bounds("20,15,5,50,40,20")->p90[1], 0.4, 1e-12);
  for (const char* text : {"", "x", "1,2", "1,2,3,4", "-1", "5%", "1,2,3,4,5,6,7", "1,,3", "nan"}) EXPECT_FALSE(parse_bounds(text)) << text;
  Validation v;
  EXPECT_EQ(violations(v, {}).size(), 1u) << "nothing was judged";
  const PredictedCase a = off_by("a", 32 * kMiB, {0.04, 0.3});
  v.all = errors_of({&a}, -1);
  v.errors[2] = errors_of({&a}, 2);
  EXPECT_EQ(violations(v, {}).size(), 2u) << "median and percentile";
  EXPECT_EQ(violations(v, *parse_bounds("17.1")).size(), 0u) << "the median is 17 %";
  EXPECT_EQ(violations(v, *parse_bounds("16.9")).size(), 1u);
}

TEST(Validate, APredictionHeldAgainstItselfHasNoErrorAndOneAgainstTwiceItsTimeHalf) {
  std::vector<double> times;
  const Validation guess = validated(table({10, 10, 10}));
  for (const PredictedRow& row : guess.cases.at(0).rows) times.push_back(row.answer.value().time.microseconds());
  const Validation same = validated(table(times));
  EXPECT_EQ(same.all.rows, 3);
  EXPECT_NEAR(same.all.worst, 0, 1e-6);
  EXPECT_TRUE(violations(same, {}).empty());
  for (double& time : times) time *= 2;
  const Validation half = validated(table(times));
  for (const Errors& e : half.errors) EXPECT_NEAR(e.median, 0.5, 1e-6);
  EXPECT_NEAR(half.all.bias, -0.5, 1e-6);
  EXPECT_FALSE(violations(half, {}).empty());
}

TEST(Validate, WhatIsNotPredictedIsListedWithItsReason) {
  auto cases = read_published_text(
      "case_id,machine,collective,bytes,time_us,quality\n"
      "known,dgx-a100:1 (2 GPUs),all_reduce,8,9,good\n"
      "known,dgx-a100:1 (2 GPUs),all_reduce,16,9,degraded\n"
      "unknown,dgx-z9:1,all_reduce,8,9,good\n",
      "t.csv");
  ASSERT_TRUE(cases) << cases.error().message;
  const Validation v = validated(*std::move(cases));
  EXPECT_EQ(v.all.rows, 1);
  EXPECT_NE(v.cases[1].why_not.find("dgx-z9"), std::string::npos) << v.cases[1].why_not;
  const std::string text = validation_text(v, {});
  EXPECT_NE(text.find("unknown (dgx-z9:1, 1 row)"), std::string::npos) << text;
  EXPECT_NE(text.find("known: 1 of 2 rows, from line 3: degraded"), std::string::npos) << text;
  const std::string rows = validation_csv(v);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 4) << "a line a row, predicted or not";
  EXPECT_NE(validation_json(v, {}).find("\"schema\": \"peal.validate/1\""), std::string::npos);
}

TEST(Validate, AFileDescribesTheClusterWhereTheMachineColumnIsNotEnough) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / fmt::format("peal-clusters-{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "desks.yaml") << "nodes: 2\n"
                                          "devices:\n"
                                          "  - {id: \"gpu[0-1]\", kind: gpu, name: RTX 4090}\n"
                                          "  - {id: cpu0, kind: cpu}\n"
                                          "  - {id: eth0, kind: nic, rail: 0, port: {of: ethernet-25}}\n"
                                          "links:\n"
                                          "  - {a: \"gpu[0-1]\", b: cpu0, of: pcie-4-x16}\n"
                                          "  - {a: eth0, b: cpu0, of: pcie-3-x8}\n";
  std::ofstream(folder / "broken.yaml") << "devices: 3\n";
  auto cases = read_published_text(
      "case_id,machine,collective,bytes,time_us,total_ranks,notable_env\n"
      "desks,two desks of ours,all_reduce,8,9,4,bf16\n"
      "broken,dgx-a100:1,all_reduce,8,9,8,\n"
      "plain,dgx-a100:1 (2 GPUs),all_reduce,8,9,,\n",
      "t.csv");
  ASSERT_TRUE(cases) << cases.error().message;
  ValidateOptions options;
  options.whose = Library::peal;
  options.clusters = folder.string();
  const auto v = validate("t.csv", *std::move(cases), options);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(v) << v.error().message;
  EXPECT_EQ(v->cases[0].why_not, "");
  EXPECT_EQ(v->cases[0].nodes, 2);
  EXPECT_EQ(v->cases[0].ranks, 4);
  EXPECT_NE(v->cases[1].why_not.find("broken.yaml:1"), std::string::npos) << v->cases[1].why_not;
  EXPECT_EQ(v->cases[2].ranks, 2);
}

TEST(Validate, WhatASourceSaysBeyondItsTableCountsAndIsTold) {
  const char* text =
      "case_id,machine,collective,bytes,time_us\n"
      "dranet_h200_2nx1_ag,dgx-h200:2 (1 GPU and 1x400G RoCE a node),all_gather,1073741824,17261\n";
  ValidateOptions options;
  const auto bare = validate("t.csv", *read_published_text(text, "t.csv"), options);
  options.clusters = topology::data_directory() + "/cases";
  const auto known = validate("t.csv", *read_published_text(text, "t.csv"), options);
  ASSERT_TRUE(known) << known.error().message;
  ASSERT_TRUE(bare) << bare.error().message;
  ASSERT_EQ(known->cases[0].why_not, "");
  EXPECT_GT(known->cases[0].rows[0].answer->time.value, 1.2 * bare->cases[0].rows[0].answer->time.value) << "the GPU is not beside its NIC";
  ASSERT_EQ(known->cases[0].remarks.size(), 1u);
  const std::string& remark = known->cases[0].remarks[0];
  EXPECT_NE(remark.find("cases/dranet_h200_2nx1_ag.yaml"), std::string::npos) << remark;
  const std::string by_words = fmt::format("by the words alone {:.0f} %", 100 * bare->all.median);
  EXPECT_NE(remark.find(by_words), std::string::npos) << remark;
  EXPECT_TRUE(bare->cases[0].remarks.empty());
}

TEST(Validate, ARateThatTwoCasesWouldHaveFarApartIsNamed) {
  const auto runs = [](double ring, double tree) {
    return *read_published_text(fmt::format("case_id,machine,collective,bytes,time_us,notable_env\n"
                                            "ring,dgx-a100:2,all_reduce,8589934592,{},NCCL_ALGO=Ring\n"
                                            "gather,dgx-a100:2,all_gather,8589934592,{},\n",
                                            ring, tree),
                                "t.csv");
  };
  const auto exact = validate("t.csv", runs(1, 1), {});
  ASSERT_TRUE(exact) << exact.error().message;
  const auto time = [&](std::size_t c) { return exact->cases[c].rows[0].answer.value().time.microseconds(); };
  EXPECT_TRUE(validate("t.csv", runs(time(0) * 0.95, time(1) * 1.05), {})->tensions.empty());
  const auto apart = validate("t.csv", runs(time(0) / 1.2, time(1) / 0.9), {});
  ASSERT_EQ(apart->tensions.size(), 1u);
  const Tension& t = apart->tensions[0];
  EXPECT_EQ(t.slow, "ring");
  EXPECT_EQ(t.fast, "gather");
  EXPECT_NEAR(t.slowest, 0.2, 1e-3);
  EXPECT_NEAR(t.fastest, -0.1, 1e-3);
  EXPECT_NE(validation_text(*apart, {}).find("no value of it meets both"), std::string::npos);
}

TEST(Validate, CasesThatRanTheSameAndDisagreeAreNamed) {
  std::string text = "case_id,machine,collective,bytes,time_us\n";
  for (const int bytes : {8, 16, 32})
    text += fmt::format("a,dgx-a100:1 (2 GPUs),all_reduce,{},10\nb,dgx-a100:1 (2 GPUs),all_reduce,{},15\n", bytes, bytes);
  const Validation v = validated(*read_published_text(text, "t.csv"));
  ASSERT_EQ(v.disagreements.size(), 1u);
  EXPECT_NEAR(v.disagreements[0].difference, 0.5, 1e-12);
}

/// Of the cases of data/measured/collectives.csv whose name begins so, in one range of sizes.
Errors errors_of_measured(const std::string& name, int range) {
  static const Validation all = [] {
    const std::string path = topology::data_directory() + "/measured/collectives.csv";
    return *validate(path, *read_published_text(*read_table_file(path), path), {});
  }();
  std::vector<const PredictedCase*> cases;
  for (const PredictedCase& c : all.cases)
    if (c.published.id.rfind(name, 0) == 0) cases.push_back(&c);
  EXPECT_FALSE(cases.empty()) << name;
  return errors_of(cases, range);
}

// Bounds that a change of the model may not pass unseen: by words alone, of runs between many nodes and of all.
TEST(Validate, TheTableThatComesWithPealIsPredictedAsWellAsIsSaid) {
  EXPECT_LT(errors_of_measured("", 0).median, 0.25);
  EXPECT_LT(errors_of_measured("", 1).median, 0.28);
  EXPECT_LT(errors_of_measured("", 2).median, 0.09);
  EXPECT_LT(errors_of_measured("nt309_h100_4n", 1).median, 0.25);
  EXPECT_LT(errors_of_measured("nt309b_h100_8n", 1).median, 0.20) << "later nodes of a tree wait as the first for lines of LL128";
  EXPECT_LT(errors_of_measured("oci_gb200_32n", 2).median, 0.20) << "racks of 64 GPUs go by trees";
  EXPECT_LT(errors_of_measured("polaris_540n_ar", 2).median, 0.10);
}

// Fitted without a case, constants are what they are when it is not there.
TEST(Validate, NothingIsFittedToCasesThatSaySo) {
  const auto cases = [](double time, const std::string& why) {
    auto both = *read_published_text(fmt::format("case_id,machine,collective,bytes,time_us\n"
                                                 "good,dgx-a100:1,all_reduce,8,20\n"
                                                 "odd,dgx-a100:1,all_reduce,16,{}\n",
                                                 time),
                                     "t.csv");
    both[1].not_fitted = why;
    return both;
  };
  const auto launch = [&](double time, const std::string& why) {
    const auto fitted = fit_to(cases(time, why), {});
    EXPECT_TRUE(fitted) << fitted.error().message;
    return fitted->value(*fitted->find("launch.ampere"));
  };
  EXPECT_NEAR(launch(20, "odd"), launch(900, "odd"), 1e-9);
  EXPECT_GT(launch(900, ""), 1.05 * launch(20, ""));
  const auto v = validate("t.csv", cases(900, "a storm"), {});
  ASSERT_TRUE(v);
  EXPECT_EQ(v->all.rows, 2) << "it is judged";
  EXPECT_NE(validation_text(*v, {}).find("odd: no constant is fitted to it: a storm"), std::string::npos);
}

}  // namespace
}  // namespace peal::sim
