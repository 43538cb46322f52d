// Steps in virtual time: held against arithmetic, and against published runs in `peal validate`.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <topology/machine.hpp>
#include <training/step.hpp>

namespace peal::training {
namespace {

topology::Cluster cluster_of(const char* machine, int nodes) { return *topology::build_cluster(machine, nodes); }

Layout cut(int tp, int pp, int dp, int micro_batches) {
  Layout layout;
  layout.tp = tp;
  layout.pp = pp;
  layout.dp = dp;
  layout.global_batch = dp * micro_batches;
  layout.recompute = Recompute::full;
  return layout;
}

StepStudy step_of(const char* model, const topology::Cluster& cluster, const Layout& layout, const StepOptions& options = {}) {
  const auto known = model_named(model);
  EXPECT_TRUE(known);
  const Status can = check(*known, layout);
  EXPECT_TRUE(can) << can.error().message;
  auto study = simulate_step(*known, cluster, layout, options);
  EXPECT_TRUE(study) << study.error().message;
  return *std::move(study);
}

double told(const StepReport& report) {
  return report.compute + report.optimizer + report.overhead + std::accumulate(std::begin(report.exposed), std::end(report.exposed), 0.0);
}

TEST(Step, OfOneStageIsComputingCallsAndNothingElse) {
  const topology::Cluster cluster = cluster_of("dgx-h100", 2);
  for (const int zero : {0, 1, 2, 3})
    for (const bool overlaps : {true, false}) {
      Layout layout = cut(4, 1, 4, 3);
      layout.zero = zero;
      layout.overlaps_gradients = overlaps;
      const StepReport report = step_of("llama3-8b", cluster, layout).report;
      EXPECT_NEAR(told(report), report.time, 1e-9 * report.time) << describe(layout);
      EXPECT_EQ(report.bubble, 0) << describe(layout) << ": one stage waits for no other";
      EXPECT_GT(report.exposed[static_cast<int>(Dimension::tp)], 0);
    }
}

// (p - 1) / m of what a stage computes, less by the pieces of an interleaved one, a third with weights apart; ends of the model are not
// even.
TEST(Step, PipelinesLoseWhatTheirFormulasSay) {
  const topology::Cluster cluster = cluster_of("dgx-h100", 8);
  Layout layout = cut(8, 8, 1, 32);
  const StepReport plain = step_of("gpt3-175b", cluster, layout).report;
  EXPECT_NEAR(plain.bubble, 7.0 / (32 + 7), 0.03);
  layout.pipeline = PipelineKind::gpipe;
  EXPECT_NEAR(step_of("gpt3-175b", cluster, layout).report.time, plain.time, 0.01 * plain.time);
  layout.pipeline = PipelineKind::interleaved;
  layout.vpp = 4;
  const StepReport pieces = step_of("gpt3-175b", cluster, layout).report;
  EXPECT_LT(pieces.time, plain.time);
  EXPECT_LT(pieces.bubble, plain.bubble / 2);
  layout.vpp = 1;
  layout.pipeline = PipelineKind::zero_bubble;
  const StepReport divided = step_of("gpt3-175b", cluster, layout).report;
  EXPECT_LT(divided.bubble, 0.7 * plain.bubble);
}

TEST(Step, GradientsBesideTheBackwardPassAreHidden) {
  const topology::Cluster cluster = cluster_of("dgx-h100", 4);
  Layout layout = cut(1, 1, 32, 1);
  const auto dp = static_cast<int>(Dimension::dp);
  for (const int zero : {0, 1, 3}) {
    layout.zero = zero;
    layout.overlaps_gradients = true;
    const StepReport beside = step_of("gpt3-1.3b", cluster, layout).report;
    layout.overlaps_gradients = false;
    const StepReport after = step_of("gpt3-1.3b", cluster, layout).report;
    EXPECT_LT(beside.exposed[dp], 0.7 * after.exposed[dp]) << zero;
    EXPECT_NEAR(beside.exposed[dp] + beside.hidden[dp], after.exposed[dp] + after.hidden[dp], 1e-6) << "the calls are the same";
  }
}

// One gradient call a step, however many micro batches there are.
// Tied embeddings are shared when ZeRO 2 has reduced all else: that is waiting for gradients, not for the other stage.
TEST(Step, GradientsBeforeTiedEmbeddingsAreWaitedFor) {
  const topology::Cluster cluster = cluster_of("dgx-1-v100", 4);
  Layout layout = cut(1, 2, 16, 8);
  layout.recompute = Recompute::none;
  layout.seq_len = 64;  // little to compute beside them
  const StepReport once = step_of("gpt2-xl", cluster, layout).report;
  layout.zero = 2;
  const StepReport each = step_of("gpt2-xl", cluster, layout).report;
  constexpr int dp = static_cast<int>(Dimension::dp);
  EXPECT_GT(each.time, 1.1 * once.time);
  EXPECT_GT(each.exposed[dp], 1.1 * (each.time - told(each))) << "more than what stages wait for one another";
}

TEST(Step, APrecisionWithoutUnitsIsComputedInTheNext) {
  const topology::Cluster cluster = cluster_of("dgx-1-v100", 1);
  Layout layout = cut(1, 1, 8, 2);
  const StepReport wished = step_of("gpt2-xl", cluster, layout).report;
  layout.precision = Precision::fp16;
  const StepReport had = step_of("gpt2-xl", cluster, layout).report;
  EXPECT_GT(wished.model_flops_utilisation, 0);
  EXPECT_DOUBLE_EQ(wished.model_flops_utilisation, had.model_flops_utilisation);
  ASSERT_EQ(wished.notes.size(), 1u);
  EXPECT_EQ(wished.notes.front(), "V100 has no bf16 products: computed in fp16");
  EXPECT_TRUE(had.notes.empty());
  layout.precision = Precision::fp8;
  const auto refused = simulate_step(*model_named("gpt2-xl"), cluster, layout);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "V100 has no fp8 products; give --precision fp16");
}

TEST(Step, AccumulationCallsOnce) {
  const topology::Cluster cluster = cluster_of("dgx-h100", 2);
  const auto dp = static_cast<int>(Dimension::dp);
  const auto calls = [&](int zero, int micro_batches) {
    Layout layout = cut(1, 1, 16, micro_batches);
    layout.zero = zero;
    const StepReport report = step_of("gpt3-1.3b", cluster, layout).report;
    return report.exposed[dp] + report.hidden[dp];
  };
  EXPECT_NEAR(calls(0, 4), calls(0, 1), 1e-9);
  EXPECT_NEAR(calls(1, 4), calls(1, 1), 1e-9);
  EXPECT_NEAR(calls(2, 4), 4 * calls(2, 1) - 3 * (calls(1, 1) / 2), 0.02 * calls(2, 4)) << "ZeRO 2 scatters each time, gathers once";
}

// A group with a rank a node has a NIC to itself where there are as many NICs as GPUs; eight share the one NIC of another machine.
TEST(Communication, GroupsOverNodesShareTheNics) {
  const Layout layout = cut(8, 1, 4, 1);
  const double bytes = 1e9;
  auto many = Communication::make(cluster_of("dgx-h100", 4), layout, sim::Library::nccl);
  ASSERT_TRUE(many);
  const double alone = many->time(Dimension::dp, Collective::all_reduce, bytes)->seconds();
  EXPECT_NEAR(alone, 1.5 * bytes / 50e9, 0.25 * alone) << "2 (n - 1) / n of the bytes over a NIC of 400 Gbit/s";
  auto few = Communication::make(cluster_of("dgx-1-v100", 4), layout, sim::Library::nccl);
  ASSERT_TRUE(few);
  const double shared = few->time(Dimension::dp, Collective::all_reduce, bytes)->seconds();
  EXPECT_NEAR(shared, 2 * 1.5 * bytes / 12.5e9, 0.35 * shared) << "two GPUs a NIC of 100 Gbit/s";
}

// Experts are gathered inside a group and summed between groups as the rest is.
TEST(Step, HybridShardingHoldsForExpertsToo) {
  const topology::Cluster cluster = cluster_of("dgx-h100", 4);
  constexpr int dp = static_cast<int>(Dimension::dp);
  const auto told_over_data = [&](const Model& model, int group, int ep) {
    Layout layout = cut(1, 1, 32, 1);
    layout.zero = 3;
    layout.zero_group = group;
    layout.ep = ep;
    const Status can = check(model, layout);
    EXPECT_TRUE(can) << can.error().message;
    const StepReport report = simulate_step(model, cluster, layout)->report;
    return report.exposed[dp] + report.hidden[dp];
  };
  const Model mixtral = *model_named("mixtral-8x7b");
  Model dense = mixtral;  // as many parameters
  dense.transformer.experts = {};
  dense.transformer.ffn = mixtral.transformer.experts.ffn * mixtral.transformer.experts.count;
  for (const int group : {0, 8}) {
    const double whole = told_over_data(dense, group, 1);
    EXPECT_NEAR(told_over_data(mixtral, group, 1), whole, 0.05 * whole) << "in groups of " << group;
  }
  EXPECT_LT(told_over_data(mixtral, 8, 8), 0.8 * told_over_data(mixtral, 0, 8))
      << "a node holds each expert once: summed, and not gathered";
}

TEST(Communication, GroupsOfRanksWithEqualExpertsAreAmongThem) {
  Layout layout = cut(1, 1, 16, 1);
  layout.ep = 4;
  auto calls = Communication::make(cluster_of("dgx-h100", 2), layout, sim::Library::nccl);
  ASSERT_TRUE(calls);
  const auto time = [&](int group) { return calls->time_of_data(Talkers::same_experts, Collective::all_gather, 1e8, group)->value; };
  EXPECT_EQ(time(1), 0) << "who is alone has nothing to gather";
  EXPECT_EQ(time(4), time(0)) << "all four";
  EXPECT_LT(time(2) * 2, time(0)) << "on one node";
  const double between = calls->time_between(Talkers::same_experts, 1, Collective::all_reduce, 1e8)->value;
  EXPECT_EQ(between, calls->time_of_data(Talkers::same_experts, Collective::all_reduce, 1e8)->value);
}

TEST(Communication, GpusWithoutPcieAreAnsweredWithWhatWorks) {
  Layout layout = cut(1, 1, 4, 1);
  auto formula = Communication::make(cluster_of("power8-p100", 1), layout, sim::Library::nccl);
  ASSERT_TRUE(formula);
  const auto refused = formula->time(Dimension::dp, Collective::all_reduce, 1e6);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("gpu0 (P100-SXM2) has no PCIe link here; give --library peal"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("--machine dgx-1-p100"), std::string::npos) << refused.error().message;
  auto simulated = Communication::make(cluster_of("power8-p100", 1), layout, sim::Library::peal);
  ASSERT_TRUE(simulated);
  EXPECT_GT(simulated->time(Dimension::dp, Collective::all_reduce, 1e6)->value, 0);
}

TEST(Communication, StagesOnOneNodeAreNearerThanOnTwo) {
  Layout layout = cut(4, 4, 1, 4);
  auto calls = Communication::make(cluster_of("dgx-h100", 2), layout, sim::Library::nccl);
  ASSERT_TRUE(calls);
  const double inside = calls->time_of_send(0, 1, 64e6)->value, between = calls->time_of_send(1, 2, 64e6)->value;
  EXPECT_LT(inside * 3, between);
  EXPECT_EQ(calls->time(Dimension::pp, Collective::send_recv, 64e6)->value, between);
  EXPECT_EQ(calls->time(Dimension::dp, Collective::all_reduce, 64e6)->value, 0) << "one rank has nobody to tell";
  auto simulated = Communication::make(cluster_of("dgx-h100", 2), layout, sim::Library::peal);
  ASSERT_TRUE(simulated);
  EXPECT_LT(simulated->time_of_send(0, 1, 64e6)->value * 2, simulated->time_of_send(1, 2, 64e6)->value);
  const auto crossing = calls->with(cut(16, 2, 1, 2));
  EXPECT_FALSE(crossing) << "32 GPUs are not there";
}

TEST(Step, TraceReportAndPictureSayTheSame) {
  const topology::Cluster cluster = cluster_of("dgx-h100", 1);
  StepOptions options;
  options.keeps_trace = true;
  const Layout layout = cut(2, 4, 1, 4);
  const StepStudy study = step_of("gpt3-1.3b", cluster, layout, options);
  double last = 0, computed = 0;
  for (const TraceEvent& event : study.trace.events()) {
    last = std::max(last, event.start_us + event.duration_us);
    if (event.process == study.report.busiest && event.thread == 0 && event.category != "optimizer") computed += event.duration_us;
  }
  EXPECT_NEAR(last * 1e-6 + study.report.overhead, study.report.time, 1e-9);
  EXPECT_NEAR(computed * 1e-6, study.report.compute + study.report.exposed[static_cast<int>(Dimension::tp)], 1e-9);
  const Model model = *model_named("gpt3-1.3b");
  const auto json = nlohmann::json::parse(step_json(model, study.report));
  EXPECT_EQ(json["schema"], "peal.step/1");
  EXPECT_EQ(json["memory"].size(), 4U);
  EXPECT_DOUBLE_EQ(json["time_s"], study.report.time);
  const std::string svg = step_svg("A step", {}, study.trace, 4);
  EXPECT_NE(svg.find("stage 3"), std::string::npos);
  EXPECT_NE(svg.find("reduce gradients"), svg.find("send forward")) << "one rank a group reduces nothing";
  EXPECT_NE(step_text(model, study.report).find("bubble"), std::string::npos);
}

}  // namespace
}  // namespace peal::training
