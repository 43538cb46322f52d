// A device's time: figures of processors, counted work, and what must hold whatever the constants are.
#include <gtest/gtest.h>

#include <topology/machine.hpp>
#include <training/compute.hpp>
#include <training/model.hpp>

namespace peal::training {
namespace {

Layout small(int tp = 1) {
  Layout layout;
  layout.tp = tp;
  layout.micro_batch = 1;
  layout.global_batch = 8;
  return layout;
}

ComputeModel model_of(const Model& model, const Layout& layout, std::string_view gpu = "H100-SXM5", std::string_view software = {}) {
  auto made = ComputeModel::make(model, layout, *processor_named(gpu), software);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return *std::move(made);
}

TEST(Processor, EveryGpuOfTheCatalogueHasFigures) {
  const std::vector<topology::MachineEntry> machines = *topology::list_machines();
  for (const topology::MachineEntry& entry : machines) {
    const topology::Graph graph = *topology::load_machine(entry.name);
    for (const int device : graph.devices_of(topology::DeviceKind::gpu)) {
      const auto processor = processor_named(graph.device(device).name);
      ASSERT_TRUE(processor) << entry.name << ": " << processor.error().message;
      EXPECT_GT(processor->memory_GBps, 0);
      EXPECT_GT(processor->units, 0);
      EXPECT_FALSE(processor->source.empty());
    }
  }
}

TEST(Processor, TheLongestNameCounts) {
  EXPECT_LT(processor_named("A100-SXM4-40GB")->memory_bytes, 0.6 * processor_named("A100-SXM4")->memory_bytes);
  EXPECT_EQ(processor_named("H100-SXM5")->units, 132);
  EXPECT_EQ(processor_named("H100-PCIe")->units, 114);
  EXPECT_EQ(processor_named("V100-SXM2")->generation, "volta");
  const std::pair<const char*, const char*> of_drivers[] = {{"NVIDIA H100 80GB HBM3", "H100"},
                                                            {"NVIDIA H100 PCIe", "H100-PCIe"},
                                                            {"Tesla V100-SXM2-32GB", "V100-SXM2-32GB"},
                                                            {"NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB"},
                                                            {"NVIDIA A100 80GB PCIe", "A100 80GB PCIe"},
                                                            {"NVIDIA GeForce RTX 4090", "RTX 4090"},
                                                            {"AMD Instinct MI300X", "MI300X"}};
  for (const auto& [said, meant] : of_drivers) EXPECT_EQ(processor_named(said)->name, meant);
}

TEST(Processor, AMachineWithoutGpusIsAnsweredWithOneThatHasThem) {
  topology::Graph host;
  ASSERT_TRUE(host.add_device({.id = "core0", .kind = topology::DeviceKind::core, .name = "cpu 0", .source = "a test"}));
  const auto processor = processor_of(topology::Cluster(std::move(host)));
  ASSERT_FALSE(processor);
  EXPECT_EQ(processor.error().message, "the machine has no GPU to train on; give --machine dgx-h100, or another of `peal machines`");
}

TEST(Processor, AnUnknownGpuFailsWithThoseThatAreKnown) {
  const auto processor = processor_named("Voodoo 2");
  ASSERT_FALSE(processor);
  EXPECT_NE(processor.error().message.find("Voodoo 2"), std::string::npos);
  EXPECT_NE(processor.error().message.find("MI300X"), std::string::npos);
}

TEST(Compute, AnUnknownSoftwareFailsWithThoseThatAreKnown) {
  const auto made = ComputeModel::make(*model_named("llama3-8b"), small(), *processor_named("H100-SXM5"), "megatron-1999");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("megatron-2021"), std::string::npos);
}

TEST(Compute, WorkIsWhatTheModelCounts) {
  for (const char* name : {"llama3-8b", "gpt3-13b", "mixtral-8x7b"}) {
    const Model model = *model_named(name);
    const ComputeModel compute = model_of(model, small());
    double forward = compute.head(false).flops, all = forward + compute.head(true).flops;
    for (int layer = 0; layer < model.transformer.layers; ++layer) {
      forward += compute.forward(layer).flops;
      all += compute.forward(layer).flops + compute.backward_input(layer).flops + compute.backward_weight(layer).flops;
    }
    const double counted = training_flops(model, model.transformer.seq_len, true);
    EXPECT_NEAR(forward / (counted / 3), 1, 0.02) << name;
    // Fused attention does five products backwards, of which one is the forward's again.
    EXPECT_GE(all, counted * 0.98) << name;
    EXPECT_LE(all, counted * 1.1) << name;
  }
}

TEST(Compute, TensorRanksDivideTheWork) {
  const Model model = *model_named("llama3-8b");
  const ComputeModel whole = model_of(model, small()), eighth = model_of(model, small(8));
  EXPECT_NEAR(8 * eighth.forward(0).flops / whole.forward(0).flops, 1, 1e-9);
  EXPECT_LT(eighth.forward(0).time, whole.forward(0).time);
  EXPECT_GT(8 * eighth.forward(0).time.value, whole.forward(0).time.value);  // smaller products are less efficient
  EXPECT_TRUE(whole.forward(0).calls.empty());
  ASSERT_EQ(eighth.forward(0).calls.size(), 1U);
  EXPECT_EQ(eighth.forward(0).calls[0].times, 2);
  EXPECT_EQ(eighth.forward(0).calls[0].bytes, 2.0 * 8192 * 4096);
}

TEST(Compute, WholeLayersAreComputedAnew) {
  const Model model = *model_named("gpt3-13b");
  Layout layout = small(2);
  const ComputeModel kept = model_of(model, layout, "A100-SXM4", "megatron-2021");
  layout.recompute = Recompute::full;
  const ComputeModel anew = model_of(model, layout, "A100-SXM4", "megatron-2021");
  EXPECT_NEAR(anew.backward_input(0).flops, kept.backward_input(0).flops + kept.forward(0).flops, 1);
  EXPECT_EQ(anew.backward_weight(0).time, kept.backward_weight(0).time);
  EXPECT_EQ(anew.backward_input(0).calls.size(), 2U);  // the forward pass's calls, too
}

TEST(Compute, NothingIsFasterThanThePeak) {
  for (const char* name : {"llama3-8b", "bert-large", "deepseek-v3"}) {
    const Model model = *model_named(name);
    const ComputeModel compute = model_of(model, small());
    const int last = model.transformer.layers - 1;
    for (const PassWork& work : {compute.forward(0), compute.backward_input(last), compute.backward_weight(last), compute.head(true)})
      EXPECT_GT(work.time.value, work.flops / 989.4e3) << name;  // FLOPs over FLOPs a nanosecond
  }
}

TEST(Compute, AHostThatIsBehindHidesCalls) {
  const Model model = *model_named("gpt2");
  const PassWork work = model_of(model, small(2), "A100-SXM4", "megatron-deepspeed").forward(0);
  ASSERT_FALSE(work.calls.empty());
  EXPECT_GT(work.calls[0].hidden_us, 0);
  EXPECT_EQ(exposed_us(work.calls[0], {0.5e3 * work.calls[0].hidden_us}), 0);
}

TEST(Compute, ConvolutionsCountTheirWork) {
  const Model model = *model_named("resnet-50");
  Layout layout = small();
  layout.micro_batch = 256;
  layout.global_batch = 256;
  const ComputeModel compute = model_of(model, layout, "A100-SXM4", "dle-mxnet");
  double flops = 0;
  for (int i = 0; i < static_cast<int>(model.convolutions.size()); ++i) flops += compute.forward(i).flops;
  EXPECT_NEAR(flops / 256 / 8.2e9, 1, 0.05);  // 4.1 billion multiply-adds an image (arXiv 1512.03385 has 3.8 for the first version)
}

TEST(Compute, AStepWaitsForTheSlowestOfItsDevices) {
  const Model model = *model_named("llama3-8b");
  Layout layout = small();
  double before = 0;
  for (const int dp : {1, 8, 1024}) {
    layout.dp = dp;
    layout.global_batch = 8 * dp;
    const double ns = model_of(model, layout).forward(0).time.value;
    EXPECT_GT(ns, before) << dp;
    if (before > 0) EXPECT_LT(ns, 1.15 * before) << dp;
    before = ns;
  }
}

TEST(Compute, EvidenceNamesItsRuns) {
  EXPECT_NE(evidence_of(*processor_named("A100-SXM4"), small(), "megatron-2021").find("SC21"), std::string::npos);
  EXPECT_NE(evidence_of(*processor_named("MI300X"), small()).find("assumed"), std::string::npos);
}

}  // namespace
}  // namespace peal::training
