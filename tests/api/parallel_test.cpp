#include <peal/parallel.hpp>
#include <stdexcept>

#include "rank_threads.hpp"

namespace peal::test {
namespace {

TEST(Parallel, ReducerAveragesWhatIsReadyAndWhatIsNot) {
  for (const int ranks : {1, 2, 4}) {
    on_ranks(ranks, with_transport("auto"), [&](Communicator& world) {
      std::vector<float> gradients(30, static_cast<float>(world.rank()));
      const std::vector<std::size_t> sizes = {10, 20};
      GradientReducer reducer(world, gradients, sizes, {.bucket_bytes = 80});
      reducer.ready(1);
      reducer.finish();
      for (const float gradient : gradients) EXPECT_FLOAT_EQ(gradient, static_cast<float>(ranks - 1) / 2);
      EXPECT_THROW(reducer.ready(2), Error);
    });
  }
}

TEST(Parallel, LayersThatDoNotDivideAreRefusedWithWhatDoes) {
  on_ranks(3, with_transport("auto"), [](Communicator& world) {
    EXPECT_THROW(ColumnLinear(world, {.in = 4, .out = 8}), Error);
    EXPECT_THROW(RowLinear(world, {.in = 4, .out = 8}), Error);
    EXPECT_EQ(ColumnLinear(world, {.in = 4, .out = 9}).own_out(), 3);
  });
}

TEST(Parallel, RowsThatSequenceParallelismCannotCutAreRefused) {
  on_ranks(2, with_transport("auto"), [](Communicator& world) {
    std::vector<float> some(16);
    ColumnLinear up(world, {.in = 2, .out = 2, .is_sequence_parallel = true});
    RowLinear down(world, {.in = 2, .out = 2, .is_sequence_parallel = true});
    EXPECT_THROW(up.forward(3, some.data(), nullptr, some.data(), some.data(), some.data()), Error);
    EXPECT_THROW(up.forward(2, some.data(), nullptr, some.data(), nullptr, some.data()), Error);
    EXPECT_THROW(down.forward(3, some.data(), nullptr, some.data(), some.data()), Error);
    EXPECT_THROW(down.backward_input(2, some.data(), some.data(), nullptr, some.data()), Error);
    EXPECT_THROW(RowLinear(world, {.in = 2, .out = 0}), Error);
    ColumnLinear uncut(world, {.in = 2, .out = 2});
    std::vector<float> y(3);
    uncut.forward(3, some.data(), nullptr, some.data(), nullptr, y.data());
    EXPECT_THROW(uncut.forward(0, some.data(), nullptr, some.data(), nullptr, y.data()), Error);
  });
}

TEST(Parallel, CallersProductsAreUsed) {
  on_ranks(2, with_transport("auto"), [](Communicator& world) {
    int asked = 0;
    LinearOptions options{.in = 2, .out = 2};
    options.multiply = [&](const MatrixProduct& p, const float* a, const float* b, float* c) {
      ++asked;
      EXPECT_TRUE(p.is_b_transposed);
      c[0] = a[0] * b[0] + a[1] * b[1];
    };
    ColumnLinear layer(world, options);
    const float x[] = {1, 2}, weight[] = {3, 4};
    float y = 0;
    layer.forward(1, weight, nullptr, x, nullptr, &y);
    EXPECT_EQ(y, 11);
    EXPECT_EQ(asked, 1);
  });
}

// The first stage throws in its second micro batch; the others wait for it in vain, and are told.
TEST(Parallel, AnExceptionOfOneStageEndsTheStepOnAll) {
  on_ranks(3, with_transport("auto"), [](Communicator& world) {
    PipelineWork work;
    work.forward = [&](int chunk, int batch, std::span<const float>, std::span<float> output) {
      if (chunk == 0 && batch == 1) throw std::runtime_error("no more data");
      if (!output.empty()) output[0] = 1;
    };
    work.backward = [](int, int, std::span<const float>, std::span<float> gradient) {
      if (!gradient.empty()) gradient[0] = 1;
    };
    PipelineRunner runner(world, {.micro_batches = 6, .elements = 1}, work);
    if (world.rank() == 0) {
      EXPECT_THROW(runner.step(), std::runtime_error);
    } else {
      EXPECT_THROW(runner.step(), Error);
    }
    EXPECT_THROW(runner.step(), Error);
  });
}

TEST(Parallel, PipelinesThatCannotBeAreRefused) {
  on_ranks(2, with_transport("auto"), [](Communicator& world) {
    PipelineWork work;
    EXPECT_THROW(PipelineRunner(world, {.micro_batches = 2, .elements = 1}, work), Error);
    work.forward = [](int, int, std::span<const float>, std::span<float>) {};
    work.backward = [](int, int, std::span<const float>, std::span<float>) {};
    EXPECT_THROW(PipelineRunner(world, {.order = PipelineOrder::zero_bubble, .micro_batches = 2, .elements = 1}, work), Error);
    EXPECT_THROW(PipelineRunner(world, {.order = PipelineOrder::interleaved, .micro_batches = 3, .pieces = 2, .elements = 1}, work), Error);
    EXPECT_THROW(PipelineRunner(world, {.micro_batches = 2, .pieces = 2, .elements = 1}, work), Error);
    EXPECT_THROW(PipelineRunner(world, {.micro_batches = 0, .elements = 1}, work), Error);
    EXPECT_THROW(PipelineRunner(world, {.micro_batches = 2}, work), Error) << "nothing is sent";
  });
}

}  // namespace
}  // namespace peal::test
