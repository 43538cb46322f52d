#include "small_gpt.hpp"

#include <cmath>

namespace peal::parallel {
namespace {

training::Layout serial_layout() {
  training::Layout layout;
  layout.micro_batch = 2;
  layout.global_batch = 4;
  return layout;
}

Result<double> loss_of(GptTrainer& trainer, std::int64_t step) {
  PEAL_TRY(trainer.step(step));
  return trainer.stage().loss();
}

// The way back is written by hand, so it is held against the way there alone: along its gradient every parameter changes the loss at the
// rate of the gradient's length.
// `change` of the loss to either side.
void expect_central_differences(GptJob job, double change) {
  job.learning_rate = 0;
  auto trainer = GptTrainer::make(job, nullptr);
  ASSERT_TRUE(trainer);
  GptStage& stage = (*trainer)->stage();
  // Away from the start, where biases are 0 and attention is even.
  int at = 0;
  for (const ParameterSpec& spec : all_parameters_of(job.model.transformer))
    stage.each_element(Kept::parameter, spec.name, false,
                       [&](std::int64_t, float& value) { value += 0.2F * std::sin(0.7F * static_cast<float>(at++)); });
  std::map<std::string, Buffer> gradients;
  stage.on_gradients = [&]() -> Status {
    for (const ParameterSpec& spec : all_parameters_of(job.model.transformer)) {
      PEAL_ASSIGN(gradients[spec.name], collect_whole(stage, Kept::gradient, spec, nullptr));
    }
    return {};
  };
  ASSERT_TRUE(loss_of(**trainer, 0));
  stage.on_gradients = nullptr;
  for (const auto& [name, gradient] : gradients) {
    double length = 0;
    for (const float g : gradient) length += static_cast<double>(g) * g;
    length = std::sqrt(length);
    ASSERT_GT(length, 1e-4) << name;
    const double step = change / length;
    double losses[2] = {};
    for (const int side : {0, 1}) {
      const auto move = [&](double by) {
        stage.each_element(Kept::parameter, name, false, [&](std::int64_t index, float& value) {
          value += static_cast<float>(by * static_cast<double>(gradient[static_cast<std::size_t>(index)]) / length);
        });
      };
      move(side == 0 ? -step : step);
      losses[side] = loss_of(**trainer, 0).value_or(NAN);
      move(side == 0 ? step : -step);
    }
    EXPECT_NEAR((losses[1] - losses[0]) / (2 * step) / length, 1.0, 0.02) << name;
  }
}

TEST(Gpt, GradientsAreThoseOfTheLossByCentralDifferences) { expect_central_differences(small_job(serial_layout(), 2), 2e-3); }

TEST(Gpt, GradientsAreThoseOfTheLossWithTiedEmbeddings) {
  GptJob job = small_job(serial_layout(), 2);
  job.model.transformer.ties_embeddings = true;
  expect_central_differences(job, 2e-3);
}

// Where a token changes its mind the loss jumps, which no gradient knows of: the changes are small, and the seed is one whose tokens stand
// clear of it (with others, routers and the norms in front of them differ). Of all experts there is no choice.
TEST(Gpt, GradientsAreThoseOfTheLossWithExperts) {
  GptJob job = with_experts(small_job(serial_layout(), 2));
  job.model.transformer.experts.chosen = 4;
  expect_central_differences(job, 1e-4);
  job.model.transformer.experts.chosen = 2;
  job.seed = 6;
  expect_central_differences(job, 2e-5);
}

TEST(Gpt, IsTheModelThatIsCountedAndSimulated) {
  for (const GptJob& job : {small_job(serial_layout()), with_experts(small_job(serial_layout()))}) {
    training::Model model = job.model;
    model.transformer.norm = training::Norm::layer;
    for (const bool is_tied : {false, true}) {
      model.transformer.ties_embeddings = is_tied;
      std::int64_t sum = 0;
      for (const ParameterSpec& spec : all_parameters_of(model.transformer)) sum += spec.elements();
      EXPECT_EQ(sum, training::parameters(model));
    }
  }
}

TEST(Gpt, LearnsTheText) {
  TrainOptions options{.job = small_job(serial_layout(), 2), .steps = 60};
  options.job.learning_rate = 1e-2;
  const auto report = train(options, nullptr, {});
  ASSERT_TRUE(report);
  EXPECT_NEAR(report->steps.front().loss, std::log(40.0), 0.1);
  EXPECT_LT(report->steps.back().loss, 2.5);
}

TEST(Gpt, TorchComputesWhatPlainLoopsDo) {
  const auto torch = torch_arithmetic();
  if (!torch) GTEST_SKIP() << torch.error().message;
  TrainOptions options{.job = small_job(serial_layout(), 2), .steps = 2};
  const auto plain = train(options, nullptr, {});
  options.job.arithmetic = *torch;
  const auto other = train(options, nullptr, {});
  ASSERT_TRUE(plain && other);
  for (std::size_t s = 0; s < 2; ++s) EXPECT_NEAR(other->steps[s].loss, plain->steps[s].loss, 1e-4);
}

}  // namespace
}  // namespace peal::parallel
