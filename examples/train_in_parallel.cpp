// Three ways to train in parallel, each on every rank of the job:  peal run -n 2 -- ./train_in_parallel
// The model is as small as can be: y = w x, the loss (y - target)^2 / 2. What computes is plain C++; yours may be any framework.
#include <cstdio>
#include <peal/parallel.hpp>
#include <vector>

namespace {

// Every rank has its own samples; gradients are averaged while the rest of the backward pass goes on.
float data_parallel(peal::Communicator& world) {
  constexpr std::size_t kLayers = 4, kWidth = 1000;
  std::vector<float> gradients(kLayers * kWidth);
  const std::vector<std::size_t> sizes(kLayers, kWidth);
  peal::GradientReducer reducer(world, gradients, sizes, {.bucket_bytes = 2 * kWidth * sizeof(float)});
  for (std::size_t layer = kLayers; layer-- > 0;) {
    for (std::size_t i = 0; i < kWidth; ++i) gradients[layer * kWidth + i] = static_cast<float>(layer) + static_cast<float>(world.rank());
    reducer.ready(layer);
  }
  reducer.finish();
  return gradients[0];
}

// Two dense layers that all ranks share: the first cut by its outputs, the second by its inputs.
float tensor_parallel(peal::Communicator& world) {
  const std::int64_t rows = 2, width = 8 * world.size();
  peal::ColumnLinear up(world, {.in = 4, .out = width});
  peal::RowLinear down(world, {.in = width, .out = 3});
  const std::vector<float> up_weight(static_cast<std::size_t>(up.own_out() * 4), 0.5F), x(static_cast<std::size_t>(rows * 4), 1);
  const std::vector<float> down_weight(static_cast<std::size_t>(3 * down.own_in()), 1.0F / static_cast<float>(width));
  std::vector<float> inner(static_cast<std::size_t>(rows * up.own_out())), y(static_cast<std::size_t>(rows * 3));
  up.forward(rows, up_weight.data(), nullptr, x.data(), nullptr, inner.data());
  down.forward(rows, down_weight.data(), nullptr, inner.data(), y.data());
  return y[0];
}

// Every rank is a stage, y = 2 x; eight micro batches in 1F1B order. The gradient that reaches the first stage is that of its input.
float pipeline(peal::Communicator& world) {
  std::vector<float> held(8);
  float first_gradient = 0;
  peal::PipelineWork work;
  work.forward = [&](int, int batch, std::span<const float> input, std::span<float> output) {
    held[static_cast<std::size_t>(batch)] = 2 * (input.empty() ? 1.0F : input[0]);
    if (!output.empty()) output[0] = held[static_cast<std::size_t>(batch)];
  };
  work.backward = [&](int, int, std::span<const float> output_gradient, std::span<float> input_gradient) {
    const float gradient = 2 * (output_gradient.empty() ? 1.0F : output_gradient[0]);
    if (!input_gradient.empty()) input_gradient[0] = gradient;
    first_gradient = gradient;
  };
  peal::PipelineRunner runner(world, {.micro_batches = 8, .elements = 1}, work);
  runner.step();
  return first_gradient;
}

}  // namespace

int main() try {
  peal::Communicator world = peal::init();
  const float mean = data_parallel(world), sum = tensor_parallel(world), gradient = pipeline(world);
  std::printf("rank %d of %d: mean gradient %g, two layers give %g, gradient of stage %d's input %g\n", world.rank(), world.size(), mean,
              sum, world.rank(), gradient);
  return 0;
} catch (const peal::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
