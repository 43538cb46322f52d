// What a device holds, against the formulas of the papers.
#include <gtest/gtest.h>

#include <training/memory.hpp>

namespace peal::training {
namespace {

constexpr std::string_view kThen = "megatron-2021";

struct Case {
  Model model = *model_named("gpt3-175b");
  Layout layout;
  Processor gpu = *processor_named("A100-SXM4");

  Case() {
    layout.tp = 8;
    layout.pp = 8;
    layout.micro_batch = 1;
    layout.global_batch = 64;
  }
  std::vector<StageMemory> stages(std::string_view software = kThen) const { return *memory_of(model, layout, software); }
};

/// Bytes of all layers of a stage and a micro batch, over s b h.
double share(const Case& c, const StageMemory& stage, int under_way) {
  const Transformer& t = c.model.transformer;
  const double sbh = static_cast<double>(t.seq_len) * static_cast<double>(t.hidden);
  return stage.activations / (sbh * t.layers / c.layout.pp * under_way);
}

double attention_term(const Transformer& t) { return 5.0 * t.heads * static_cast<double>(t.seq_len) / static_cast<double>(t.hidden); }

TEST(Memory, AZeroBubblePipelineKeepsAsManyMicroBatchesAtEveryStageAsOtherwiseTheFirst) {
  Case c;
  const std::vector<StageMemory> before = c.stages();
  c.layout.pipeline = PipelineKind::zero_bubble;
  const std::vector<StageMemory> stages = c.stages();
  for (std::size_t s = 0; s < stages.size(); ++s) EXPECT_DOUBLE_EQ(stages[s].activations, before[0].activations) << "stage " << s;
}

TEST(Memory, ActivationsAreThoseOfEquationTwo) {
  const Case c;
  const Transformer& t = c.model.transformer;
  EXPECT_NEAR(share(c, c.stages()[0], 8), 10 + 24.0 / 8 + attention_term(t) / 8, 1e-6);
  EXPECT_NEAR(share(c, c.stages()[7], 1), 10 + 24.0 / 8 + attention_term(t) / 8, 1e-6);
}

TEST(Memory, SequenceParallelismDividesAll) {
  Case c;
  c.layout.has_sequence_parallel = true;
  EXPECT_NEAR(share(c, c.stages()[0], 8), (34 + attention_term(c.model.transformer)) / 8, 1e-6);
  c.layout.recompute = Recompute::selective;
  EXPECT_NEAR(share(c, c.stages()[0], 8), 34.0 / 8, 1e-6);
}

TEST(Memory, FullRecomputationKeepsInputs) {
  Case c;
  c.layout.recompute = Recompute::full;
  EXPECT_NEAR(share(c, c.stages()[0], 8), 2, 1e-6);
}

TEST(Memory, InterleavedPipelinesKeepMore) {
  Case c;
  const double plain = c.stages()[0].activations;
  c.layout.vpp = 3;
  c.layout.pipeline = PipelineKind::interleaved;
  c.layout.global_batch = 640;
  // 1 + (p - 1) / (p m) times as many (arXiv 2205.05198, section 4.2.3).
  EXPECT_NEAR(c.stages()[0].activations / plain, 1 + 7.0 / 24, 1e-9);
}

TEST(Memory, ZeroDividesWhatItSays) {
  Case c;
  c.model = *model_named("gpt3-1.3b");
  c.layout = Layout();
  c.layout.dp = 64;
  c.layout.global_batch = 64;
  const StageMemory none = c.stages()[0];
  const auto n = static_cast<double>(parameters(c.model));
  EXPECT_NEAR((none.parameters + none.gradients + none.optimizer) / n, 18, 0.1);  // arXiv 1910.02054 has 16: gradients of 16 bits
  c.layout.zero = 1;
  const StageMemory one = c.stages()[0];
  EXPECT_NEAR(one.optimizer, none.optimizer / 64, 1);
  EXPECT_EQ(one.gradients, none.gradients);
  c.layout.zero = 2;
  EXPECT_NEAR(c.stages()[0].gradients, none.gradients / 64, 1);
  c.layout.zero = 3;
  EXPECT_NEAR((c.stages()[0].parameters + c.stages()[0].gradients + c.stages()[0].optimizer) / n, 16.0 / 64, 0.01);
}

TEST(Memory, ExpertsAreDividedByTheirRanks) {
  Case c;
  c.model = *model_named("mixtral-8x7b");
  c.layout = Layout();
  c.layout.dp = 8;
  c.layout.global_batch = 8;
  const double whole = c.stages({})[0].parameters;
  c.layout.ep = 8;
  EXPECT_LT(c.stages({})[0].parameters, 0.2 * whole);
}

TEST(Memory, WhatIsAdvisedFits) {
  const Model llama = *model_named("llama3-8b");
  const Processor gpu = *processor_named("H100-SXM5");
  Layout layout;
  layout.dp = 8;
  layout.micro_batch = 2;
  layout.global_batch = 16;
  const Status status = fits(llama, layout, gpu);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("; give --recompute full --zero 1"), std::string::npos) << status.error().message;
  layout.recompute = Recompute::full;
  layout.zero = 1;
  EXPECT_TRUE(fits(llama, layout, gpu));
  Layout images;
  images.micro_batch = images.global_batch = 20'000;
  const Status many = fits(*model_named("resnet-50"), images, gpu);
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message.find("; give --micro-batch 1250"), std::string::npos) << many.error().message;
}

TEST(Memory, WhatDoesNotFitSaysWhatWould) {
  Case c;
  c.layout = Layout();
  c.layout.global_batch = 1;
  const Status status = fits(c.model, c.layout, c.gpu);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("GPT-3 175B"), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find("; with --recompute full it would be "), std::string::npos) << status.error().message;
  EXPECT_NE(status.error().message.find(" give more tensor-parallel ranks, stages or GPUs"), std::string::npos) << status.error().message;
  const Case good;
  Layout layout = good.layout;
  layout.has_sequence_parallel = true;
  layout.recompute = Recompute::selective;
  EXPECT_TRUE(fits(good.model, layout, good.gpu, kThen)) << "arXiv 2205.05198, table 5, ran it";
}

}  // namespace
}  // namespace peal::training
