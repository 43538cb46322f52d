#include <gtest/gtest.h>

#include <algorithm>
#include <topology/machine.hpp>
#include <training/planner.hpp>

namespace peal::training {
namespace {

Model model_of_32_layers() {
  const auto model = model_named("llama3-8b");
  EXPECT_TRUE(model);
  return *model;
}

/// Time and memory by a formula: what the planner does with answers does not depend on where they are from.
LayoutEvaluator made_up(double limit) {
  const auto seconds = [](const Layout& l) {
    const double tensor = l.tp > 8 ? 3 : 1 + 0.02 * l.tp;
    const double bubble = 1 + (l.pp - 1.0) / (l.vpp * l.micro_batches());
    return 10 * tensor * bubble / std::min(l.micro_batch, 2) * (l.recompute == Recompute::full ? 1.3 : 1) * (l.zero == 3 ? 1.1 : 1);
  };
  const auto bytes = [](const Layout& l) {
    return 400e9 / (l.tp * l.pp) / (l.recompute == Recompute::full ? 2 : 1) / (l.zero == 3 ? 2 : 1);
  };
  LayoutEvaluator answers;
  answers.memory_limit = limit;
  answers.memory = [bytes](const Layout& l) -> Result<double> { return bytes(l); };
  answers.bound = [seconds](const Layout& l) -> Result<double> { return 0.9 * seconds(l); };
  answers.simulate = [=](const Layout& l) -> Result<StepReport> {
    StepReport report;
    report.layout = l;
    report.time = report.compute = seconds(l);
    report.memory_limit = limit;
    StageMemory stage;
    stage.parameters = bytes(l);
    report.memory = {stage};
    return report;
  };
  return answers;
}

LayoutSpace space_of(int gpus) {
  LayoutSpace space;
  space.gpus = gpus;
  space.gpus_per_node = 8;
  space.global_batch = 256;
  return space;
}

const RejectedFamily* family(const LayoutPlan& plan, const std::string& choice) {
  const auto found = std::find_if(plan.rejected.begin(), plan.rejected.end(), [&](const RejectedFamily& f) { return f.choice == choice; });
  return found == plan.rejected.end() ? nullptr : &*found;
}

TEST(Planner, FindsTheBestThatLookingAtAllWouldFind) {
  const Model model = model_of_32_layers();
  const LayoutEvaluator answers = made_up(200e9);
  PlanOptions few;
  few.most_simulated = 10'000;
  PlanOptions all = few;
  all.best = 10'000;
  const auto quick = plan_layouts(model, space_of(16), answers, few);
  const auto whole = plan_layouts(model, space_of(16), answers, all);
  ASSERT_TRUE(quick) << quick.error().message;
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_LT(quick->simulated, whole->simulated);
  ASSERT_EQ(quick->best.size(), 10u);
  for (std::size_t i = 0; i < quick->best.size(); ++i) EXPECT_DOUBLE_EQ(quick->best[i].time, whole->best[i].time) << i;
  for (const StepReport& report : quick->best) EXPECT_TRUE(check(model, report.layout, 16));
}

TEST(Planner, IsTheSameForEveryNumberOfThreads) {
  const Model model = model_of_32_layers();
  PlanOptions options;
  options.threads = 1;
  const auto one = plan_layouts(model, space_of(64), made_up(80e9), options);
  options.threads = 4;
  const auto four = plan_layouts(model, space_of(64), made_up(80e9), options);
  ASSERT_TRUE(one && four);
  ASSERT_EQ(one->best.size(), four->best.size());
  for (std::size_t i = 0; i < one->best.size(); ++i) EXPECT_EQ(one->best[i].layout, four->best[i].layout) << i;
  EXPECT_EQ(one->simulated, four->simulated);
}

TEST(Planner, SaysOfEveryFamilyWhyItIsNotChosen) {
  const auto plan = plan_layouts(model_of_32_layers(), space_of(64), made_up(80e9));
  ASSERT_TRUE(plan) << plan.error().message;
  const RejectedFamily* wide = family(*plan, "tp 16");
  ASSERT_NE(wide, nullptr);
  EXPECT_EQ(wide->why, RejectedFamily::Why::is_slower);
  EXPECT_NE(wide->reason.find("leaves the node of 8"), std::string::npos) << wide->reason;
  EXPECT_NE(wide->reason.find("% slower"), std::string::npos) << wide->reason;
  const RejectedFamily* uneven = family(*plan, "vpp 6");
  ASSERT_NE(uneven, nullptr);
  EXPECT_EQ(uneven->why, RejectedFamily::Why::does_not_divide);
  const auto small = plan_layouts(model_of_32_layers(), space_of(64), made_up(20e9));
  const RejectedFamily* flat = family(*small, "pp 1");
  ASSERT_TRUE(flat == nullptr || !flat->reason.empty());
}

TEST(Planner, SaysWhatWouldFitWhereNothingDoes) {
  LayoutSpace fixed = space_of(64);
  fixed.tp = 1;
  fixed.pp = 1;
  const auto freed = plan_layouts(model_of_32_layers(), fixed, made_up(80e9));
  ASSERT_FALSE(freed);
  EXPECT_NE(freed.error().message.find("does not fit on 64 GPUs of 80.0 GB: the least is 100.0 GB"), std::string::npos)
      << freed.error().message;
  EXPECT_NE(freed.error().message.find(" does"), std::string::npos);
  const auto more = plan_layouts(model_of_32_layers(), space_of(8), made_up(2e9));
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message.find("nodes do, with"), std::string::npos) << more.error().message;
}

TEST(Planner, WhatIsGivenIsKept) {
  LayoutSpace space = space_of(64);
  space.tp = 4;
  space.zero = 1;
  const auto plan = plan_layouts(model_of_32_layers(), space, made_up(80e9));
  ASSERT_TRUE(plan);
  for (const StepReport& report : plan->best) {
    EXPECT_EQ(report.layout.tp, 4);
    EXPECT_EQ(report.layout.zero, 1);
  }
  EXPECT_EQ(family(*plan, "tp 8"), nullptr);
}

TEST(Planner, GpusThatDoNotDivideAreAnsweredWithTheNearestNumbers) {
  LayoutSpace space = space_of(8);
  space.tp = 3;
  EXPECT_EQ(plan_layouts(model_of_32_layers(), space, made_up(80e9)).error().message, "8 GPUs do not divide by --tp 3; 2 or 4 does");
  space.tp = 2;
  space.pp = 8;
  EXPECT_EQ(plan_layouts(model_of_32_layers(), space, made_up(80e9)).error().message,
            "8 GPUs do not divide by --tp 2 x --pp 8; a product of 8 does");
}

// DeepSeek-V3's first layers have no experts: what its ranks send about them is of the stages behind.
TEST(Planner, TrafficIsOfTheStageThatSendsMost) {
  const Model model = *model_named("deepseek-v3");
  Layout layout;
  layout.pp = 16;
  layout.dp = 16;
  layout.ep = 16;
  layout.global_batch = 256;
  ASSERT_TRUE(check(model, layout));
  const auto traffic = [&](const Layout& l) { return traffic_of(model, l, *ComputeModel::make(model, l, *processor_named("H100-SXM5"))); };
  const auto at = [](Dimension d) { return static_cast<std::size_t>(d); };
  const Transformer& t = model.transformer;
  // Of four layers a stage: to the experts and back, forward and backward.
  const double tokens = static_cast<double>(t.seq_len * t.hidden) * 2 * t.experts.chosen;
  EXPECT_NEAR(traffic(layout).bytes[at(Dimension::ep)], 16 * 4 * 4 * tokens * 15 / 16, 1e-6 * tokens);
  EXPECT_NEAR(traffic(layout).bytes[at(Dimension::pp)], 16 * 2 * 2.0 * static_cast<double>(t.seq_len * t.hidden), 1);
  const double once = traffic(layout).bytes[at(Dimension::dp)];
  layout.zero = 2;
  EXPECT_NEAR(traffic(layout).bytes[at(Dimension::dp)], once * 17 / 2, 1e-6 * once) << "scattered after each of 16 micro batches";
  layout.ep = 1;
  layout.zero = 0;
  EXPECT_GT(traffic(layout).bytes[at(Dimension::dp)], 10 * once) << "experts' gradients are sent too";
}

TEST(Planner, PutsTensorParallelismIntoTheNodeAndSaysWhy) {
  const auto cluster = topology::build_cluster("dgx-a100", 4);
  ASSERT_TRUE(cluster);
  Layout layout;
  layout.tp = 8;
  layout.pp = 2;
  layout.dp = 2;
  Traffic traffic;
  traffic.bytes[static_cast<std::size_t>(Dimension::tp)] = 9e9;
  traffic.bytes[static_cast<std::size_t>(Dimension::dp)] = 3e9;
  traffic.bytes[static_cast<std::size_t>(Dimension::pp)] = 1e9;
  const auto places = places_of(*cluster, layout, traffic);
  ASSERT_TRUE(places) << places.error().message;
  ASSERT_EQ(places->size(), 3u);
  EXPECT_EQ(place_text(places->front(), *places),
            "tp 8: inside a node (NVL, 300 GB/s a rank); a rank sends 9 GB a step, more than any other, so that it has the nearest links");
  EXPECT_EQ((*places)[1].path, topology::PathClass::net);
  EXPECT_EQ((*places)[1].nodes, 2);
  EXPECT_EQ(orders_of(layout, traffic).size(), 2u) << "dp before pp, and pp before dp";
}

TEST(Planner, APictureSaysWhatLayoutsDifferIn) {
  LayoutPlan plan;
  for (const PipelineKind kind : {PipelineKind::zero_bubble, PipelineKind::one_f_one_b}) {
    StepReport report;
    report.layout.tp = report.layout.pp = report.layout.dp = 8;
    report.layout.zero = 3;
    report.layout.has_sequence_parallel = true;
    report.layout.global_batch = 1024;
    report.layout.pipeline = kind;
    report.layout.recompute = Recompute::selective;
    report.time = 1;
    plan.best.push_back(report);
  }
  const std::string svg = plan_svg(model_of_32_layers(), plan);
  for (const char* words : {"zero-bubble", "1f1b", "selective recomputation"}) EXPECT_NE(svg.find(words), std::string::npos) << svg;
  EXPECT_EQ(svg.find("…"), std::string::npos) << "nothing is cut off";
}

TEST(Planner, PlansARealModelOnARealCluster) {
  const Model model = model_of_32_layers();
  const auto cluster = topology::build_cluster("dgx-h100", 1);
  ASSERT_TRUE(cluster);
  const auto evaluator = make_evaluator(model, *cluster, sim::Library::nccl);
  ASSERT_TRUE(evaluator) << evaluator.error().message;
  LayoutSpace space = space_of(8);
  space.global_batch = 64;
  const auto plan = plan_layouts(model, space, *evaluator);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_FALSE(plan->best.empty());
  for (const StepReport& report : plan->best) {
    EXPECT_TRUE(report.fits());
    const auto bound = evaluator->bound(report.layout);
    ASSERT_TRUE(bound);
    EXPECT_LE(*bound, report.time * (1 + 1e-9)) << describe(report.layout);
    const auto again = simulate_step(model, *cluster, report.layout, {});
    ASSERT_TRUE(again);
    EXPECT_DOUBLE_EQ(again->report.time, report.time);
  }
  const std::string text = plan_text(model, space, *plan, "peal sim step --model llama3-8b --machine dgx-h100");
  EXPECT_NE(text.find(options_of(plan->best.front().layout)), std::string::npos);
}

}  // namespace
}  // namespace peal::training
