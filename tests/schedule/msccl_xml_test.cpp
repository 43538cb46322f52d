// Each oddity of MSCCL files in a small file of its own (tests/fixtures/msccl).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <schedule/msccl_xml.hpp>
#include <schedule/verify.hpp>

#include <string>

#include "source_tree.hpp"

namespace peal::schedule {
namespace {

using ::testing::HasSubstr;

std::string fixture(const std::string& name) { return peal::test::in_source("tests/fixtures/msccl/") + name; }

Verdict judged_file(const std::string& name, Protocol protocol = Protocol::staged) {
  const Result<MscclPlan> plan = read_msccl_plan(fixture(name));
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  if (!plan) return {};
  VerifyOptions options;
  options.protocol = protocol;
  return verify(plan->schedule, options);
}

std::string refusal(const std::string& name) {
  const Result<MscclPlan> plan = read_msccl_plan(fixture(name));
  EXPECT_FALSE(plan.has_value());
  return plan ? "" : plan.error().message;
}

TEST(MscclXml, readsFilesWithCommentsFirstAndTheAttributesOf2021) {
  const Result<MscclPlan> plan = read_msccl_plan(fixture("comments_first_and_old_attributes.xml"));
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_TRUE(plan->in_place);
  EXPECT_FALSE(plan->out_of_place);
  EXPECT_EQ(plan->min_bytes, 0U);
  EXPECT_EQ(plan->max_bytes, ~std::uint64_t{0});
  EXPECT_EQ(plan->steps, 8U);
  EXPECT_TRUE(plan->schedule.request.in_place);
  EXPECT_TRUE(plan->schedule.layouts.uniform);
  const Verdict verdict = judged_file("comments_first_and_old_attributes.xml");
  EXPECT_TRUE(verdict.ok) << verdict.why;
}

TEST(MscclXml, takesNopsBeforeAStepAsItsDependencies) {
  const Verdict verdict = judged_file("nop_chain.xml");
  EXPECT_TRUE(verdict.ok) << verdict.why;
}

TEST(MscclXml, seesTheRaceWhenADependencyIsLost) {
  const Verdict verdict = judged_file("race_by_lost_dependency.xml");
  EXPECT_FALSE(verdict.ok);
  EXPECT_THAT(verdict.why, HasSubstr("a race"));
}

TEST(MscclXml, waitsForEverForAStepThatNobodyAnnounces) {
  const Verdict verdict = judged_file("nop_chain_without_hasdep.xml");
  EXPECT_FALSE(verdict.ok);
  EXPECT_THAT(verdict.why, HasSubstr("0 of 1 signals come"));
}

TEST(MscclXml, mapsFusedSteps) {
  const Verdict verdict = judged_file("fused_steps.xml");
  EXPECT_TRUE(verdict.ok) << verdict.why;
  // rrs keeps its result nowhere: there is nothing to read from afar.
  const Verdict remote = judged_file("fused_steps.xml", Protocol::direct_read);
  EXPECT_THAT(remote.why, HasSubstr("lies in no memory"));
}

TEST(MscclXml, keepsPartialSumsOfAReduceScatterInPlaceInScratch) {
  const Verdict verdict = judged_file("reduce_scatter_in_place.xml");
  EXPECT_TRUE(verdict.ok) << verdict.why;
}

TEST(MscclXml, findsDeadlocksAndWrongSums) {
  EXPECT_THAT(judged_file("deadlock.xml").why, HasSubstr("waits for ever"));
  EXPECT_THAT(judged_file("wrong_sum.xml").why, HasSubstr("adds a contribution twice"));
}

TEST(MscclXml, saysWhatIsWrongWithAFileAndWhere) {
  EXPECT_THAT(refusal("cut_off.xml"), HasSubstr("cut off or damaged"));
  EXPECT_THAT(refusal("cut_off.xml"), HasSubstr("line "));
  EXPECT_THAT(refusal("unknown_step_type.xml"), HasSubstr("gpu 0, thread block 0: step 1 has the unknown type \"rrx\""));
  EXPECT_THAT(refusal("duplicate_thread_block.xml"), HasSubstr("gpu 0, thread block 1: there are two thread blocks with this number"));
  EXPECT_THAT(refusal("missing_gpu.xml"), HasSubstr("promises 3 GPUs, but gpu 2 is missing"));
  EXPECT_THAT(refusal("chunk_out_of_range.xml"), HasSubstr("lies outside buffer i of 2 chunks"));
  EXPECT_THAT(refusal("unknown_collective.xml"), HasSubstr("coll=\"alltoallv\" cannot be imported"));
  EXPECT_THAT(refusal("not_msccl.xml"), HasSubstr("no MSCCL algorithm"));
  EXPECT_THAT(refusal("absent.xml"), HasSubstr("cannot open"));
  EXPECT_THAT(refusal("."), HasSubstr("cannot"));
}

TEST(MscclXml, refusesHugeFilesAndNumbers) {
  const std::string huge(65U << 20, ' ');
  const Result<MscclPlan> plan = parse_msccl_xml(huge, "huge.xml");
  ASSERT_FALSE(plan.has_value());
  EXPECT_THAT(plan.error().message, HasSubstr("huge.xml: the file has 68157440 bytes"));
  const std::string head = "<algo name=\"x\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"1\" coll=\"allreduce\" ngpus=";
  for (const char* ranks : {"\"99999999999999999999\"", "\"0\"", "\"-1\"", "\"2x\"", "\"\""}) {
    const Result<MscclPlan> refused = parse_msccl_xml(head + ranks + "/>", "x.xml");
    ASSERT_FALSE(refused.has_value()) << ranks;
    EXPECT_THAT(refused.error().message, HasSubstr("is not a number from 1 to 1024"));
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<a>";
  EXPECT_FALSE(parse_msccl_xml(deep, "deep.xml").has_value());
}

}  // namespace
}  // namespace peal::schedule
