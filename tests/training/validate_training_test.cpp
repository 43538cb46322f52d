// Tables of published training runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <topology/machine.hpp>
#include <training/validate_training.hpp>

namespace peal::training {
namespace {

constexpr std::string_view kHead =
    "case_id,source_group,framework_or_release,hardware,gpu_type,model,layers,hidden,heads,ffn,vocab,seq_len,gpus,tp,pp,dp,micro_batch,"
    "global_batch,precision,activation_recompute,schedule,iter_time_s,outcome\n";

/// arXiv 2104.04473, table 1: times from the rates that it prints.
std::string table() {
  std::string text(kHead);
  const auto add = [&](std::string_view id, std::string_view shape, std::string_view cut, std::string_view seconds) {
    text += fmt::format("{},SC21,Megatron-LM 2021-04,Selene DGX A100,A100-80GB-SXM,GPT,{},51200,2048,{},fp16,full,1F1B,{},ok\n", id, shape,
                        cut, seconds);
  };
  add("1.7B", "24,2304,24,9216", "32,1,1,32,16,512", "3.528");
  add("3.6B", "30,3072,32,12288", "64,2,1,32,16,512", "3.697");
  add("7.5B", "36,4096,32,16384", "128,4,1,32,16,512", "3.696");
  add("18.4B", "40,6144,48,24576", "256,8,1,32,8,1024", "9.399");
  add("39.1B", "48,8192,64,32768", "512,8,2,32,4,1536", "14.453");
  return text;
}

TEST(TrainingTable, IsKnownByItsColumns) {
  EXPECT_TRUE(is_training_table(table()));
  EXPECT_FALSE(is_training_table("case_id,machine,collective,bytes,time_us\n"));
}

TEST(TrainingTable, BadCellsAreNamedWithTheirLine) {
  std::string text = table();
  text.replace(text.find("2304"), 4, "wide");
  const auto runs = read_training_text(text, "t.csv");
  ASSERT_FALSE(runs);
  EXPECT_NE(runs.error().message.find("t.csv:2: hidden is 'wide'"), std::string::npos) << runs.error().message;
  EXPECT_FALSE(read_training_text(std::string(kHead), "t.csv"));
  EXPECT_FALSE(read_training_text("case_id,model\na,b\n", "t.csv"));
}

TEST(TrainingTable, RanksThatDoNotMultiplyAreNotPredicted) {
  std::string text = table();
  text.replace(text.find("32,1,1,32,16"), 12, "64,1,1,32,16");
  const auto runs = *read_training_text(text, "t.csv");
  const auto run = run_of(runs[0]);
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message.find("is 32, and the row has 64 GPUs"), std::string::npos) << run.error().message;
}

TEST(TrainingTable, WordsBecomeALayout) {
  const auto runs = *read_training_text(table(), "t.csv");
  const TrainingRun run = *run_of(runs[4]);
  EXPECT_EQ(run.software, "megatron-2021");
  EXPECT_EQ(run.machine, "dgx-a100");
  EXPECT_EQ(run.nodes, 64);
  EXPECT_EQ(run.layout.recompute, Recompute::full);
  EXPECT_EQ(run.layout.precision, Precision::fp16);
  EXPECT_FALSE(run.layout.overlaps_gradients);
  EXPECT_EQ(run.layout.micro_batches(), 12);
}

TEST(TrainingValidation, PredictsOrdersAndJudges) {
  const auto runs = *read_training_text(table(), "t.csv");
  const auto study = validate_training("t.csv", runs, {});
  ASSERT_TRUE(study) << study.error().message;
  const TrainingValidation& v = study->validation;
  ASSERT_EQ(v.all.rows, 5);
  EXPECT_LT(v.all.mean, 0.15);
  ASSERT_EQ(v.orders.size(), 1U);
  EXPECT_GT(v.orders[0].spearman, 0.8);
  EXPECT_EQ(v.judged_to_fit, 5);
  TrainingBounds bounds;
  bounds.mean_error = 0.5;
  bounds.spearman = 0;
  EXPECT_TRUE(violations(v, bounds).empty());
  bounds.mean_error = 1e-6;
  EXPECT_EQ(violations(v, bounds).size(), 1U);
  EXPECT_NE(training_validation_text(v, bounds).find("SC21"), std::string::npos);
  EXPECT_NE(training_validation_json(v, bounds).find("\"schema\": \"peal.validate_training/1\""), std::string::npos);
}

// data/measured/training.csv: runs whose recipes are public, on up to 6,144 GPUs.
TEST(TrainingValidation, PredictsTheTableThatComesWithPeal) {
  const std::string path = topology::data_directory() + "/measured/training.csv";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const auto runs = read_training_text(text.str(), path);
  ASSERT_TRUE(runs) << runs.error().message;
  const TrainingStudy study = *validate_training(path, *runs, {});
  for (const PredictedRun& run : study.validation.runs) EXPECT_EQ(run.why_not, "") << run.published.id;
  EXPECT_LT(study.validation.all.mean, 0.07);
  EXPECT_EQ(violations(study.validation, {}), std::vector<std::string>{});  // layouts at more and more GPUs are in order, too
}

// As its recipes say: buckets grow with the ranks, and tensor-parallel calls travel beside products unless a note says otherwise.
TEST(TrainingTable, WhatIsNotInARowIsOfItsSoftware) {
  std::string text(kHead);
  text.insert(text.find(",outcome"), ",notes");
  for (const char* notes : {"", "vanilla; buckets of 75 MB"})
    text += fmt::format(
        "a,NeMo,NeMo 25.02,DGX H100,H100-SXM,Nemotron-4 15B,32,6144,48,24576,256000,4096,1024,4,1,256,4,4096,BF16,none,,2.9,{},ok\n",
        notes);
  const auto runs = *read_training_text(text, "t.csv");
  EXPECT_TRUE(run_of(runs[0])->layout.overlaps_tensor);
  EXPECT_FALSE(run_of(runs[1])->layout.overlaps_tensor);
  EXPECT_EQ(run_of(runs[0])->layout.bucket_bytes, 256e6 * 2);
  EXPECT_EQ(run_of(runs[1])->layout.bucket_bytes, 75e6);
  EXPECT_FALSE(run_of(runs[0])->model.transformer.ties_embeddings);
}

TEST(TrainingValidation, FitsMoveTowardsTheRunsAndNameThem) {
  auto runs = *read_training_text(table(), "t.csv");
  for (PublishedRun& run : runs) run.seconds *= 1.3;
  TrainingValidateOptions options;
  options.fits_anew = true;
  const auto study = validate_training("t.csv", runs, options);
  ASSERT_TRUE(study) << study.error().message;
  const auto before = validate_training("t.csv", runs, {});
  EXPECT_LT(study->validation.all.mean, before->validation.all.mean);
  EXPECT_GT(study->validation.kept_out_all.mean, study->validation.all.mean);  // no other source: priors
  const int place = *study->constants.find("product.ampere");
  EXPECT_EQ(study->constants.all()[static_cast<std::size_t>(place)].machines, std::vector<std::string>{"SC21"});
}

}  // namespace
}  // namespace peal::training
