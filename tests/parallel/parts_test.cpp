// What other programs use: reducer, cut layers, pipelines; checkpoints; asynchronous training.
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <parallel/checkpoint.hpp>
#include <parallel/gradient_reducer.hpp>
#include <parallel/linear.hpp>
#include <parallel/pipeline_runner.hpp>
#include <parallel/stale_train.hpp>

#include "small_gpt.hpp"

namespace peal::parallel {
namespace {

TEST(GradientReducer, AveragesEveryBucketWhateverTheOrderAndOnlyWhenNothingIsAddedUp) {
  for (const int ranks : {1, 2, 3, 5}) {
    on_ranks(ranks, [&](const std::shared_ptr<comm::Core>& world) -> Status {
      const std::vector<std::size_t> sizes = {100, 1, 300, 50};
      Buffer gradients(451, static_cast<float>(world->rank()));
      PEAL_ASSIGN(const auto reducer, GradientReducer::make(world, gradients, sizes, 1200, ReduceOp::avg));
      EXPECT_EQ(reducer->buckets(), 3U);  // 50; 300; 100 and 1
      reducer->set_accumulating(true);
      for (const std::size_t parameter : {3, 2, 1, 0}) PEAL_TRY(reducer->ready(parameter));
      PEAL_TRY(reducer->finish());
      EXPECT_EQ(gradients[0], static_cast<float>(world->rank()));
      reducer->set_accumulating(false);
      const bool is_odd = world->rank() % 2 == 1;  // ranks may be ready in another order
      for (const std::size_t parameter : {is_odd ? 2 : 3, is_odd ? 3 : 2, 0}) PEAL_TRY(reducer->ready(parameter));
      EXPECT_FALSE(reducer->ready(0)) << "twice in a step";
      PEAL_TRY(reducer->finish());
      for (const float gradient : gradients) EXPECT_FLOAT_EQ(gradient, static_cast<float>(ranks - 1) / 2);
      return {};
    });
  }
}

TEST(GradientReducer, RefusesSizesThatDoNotAddUp) {
  Buffer gradients(10);
  const std::vector<std::size_t> sizes = {4, 5};
  EXPECT_FALSE(GradientReducer::make(nullptr, gradients, sizes, 100, ReduceOp::sum));
}

// Two layers in a row against the same with whole matrices.
TEST(Linear, ColumnsThenRowsGiveTheWholeProductAndItsGradients) {
  constexpr std::int64_t kRows = 8, kIn = 6, kInner = 8, kOut = 5;
  const auto value = [](std::int64_t i) { return std::sin(0.37F * static_cast<float>(i) + 1); };
  Buffer x(kRows * kIn), w1(kInner * kIn), w2(kOut * kInner), dy(kRows * kOut);
  for (Buffer* buffer : {&x, &w1, &w2, &dy})
    for (std::size_t i = 0; i < buffer->size(); ++i) (*buffer)[i] = value(static_cast<std::int64_t>(i + 7 * buffer->size()));
  Group alone;
  const Arithmetic& plain = plain_arithmetic();
  const ColumnLinear whole1(plain, alone, {kIn, kInner}, false);
  const RowLinear whole2(plain, alone, {kInner, kOut}, false);
  Buffer inner(kRows * kInner), y(kRows * kOut), inner_gradient(kRows * kInner), x_gradient(kRows * kIn), w1_gradient(w1.size());
  ASSERT_TRUE(whole1.forward(kRows, w1.data(), nullptr, x.data(), nullptr, inner.data()));
  ASSERT_TRUE(whole2.forward(kRows, w2.data(), nullptr, inner.data(), y.data()));
  ASSERT_TRUE(whole2.backward_input(kRows, w2.data(), dy.data(), nullptr, inner_gradient.data()));
  ASSERT_TRUE(whole1.backward_input(kRows, w1.data(), inner_gradient.data(), x_gradient.data()));
  whole1.backward_weight(kRows, x.data(), inner_gradient.data(), w1_gradient.data(), nullptr);
  for (const int ranks : {2, 4}) {
    for (const bool cuts : {false, true}) {
      on_ranks(ranks, [&](const std::shared_ptr<comm::Core>& world) -> Status {
        Group group(world);
        const ColumnLinear first(plain, group, {kIn, kInner}, cuts);
        const RowLinear second(plain, group, {kInner, kOut}, cuts);
        const std::int64_t part = kInner / ranks, own = cuts ? kRows / ranks : kRows, row = cuts ? own * world->rank() : 0;
        Buffer own2;
        for (std::int64_t o = 0; o < kOut; ++o)
          for (std::int64_t i = 0; i < part; ++i) own2.push_back(w2[static_cast<std::size_t>(o * kInner + world->rank() * part + i)]);
        const float* own1 = w1.data() + world->rank() * part * kIn;
        Buffer all = floats(kRows * kIn), mine = floats(kRows * part), out = floats(own * kOut), dmine = floats(kRows * part);
        Buffer all_dy = floats(kRows * kOut), dx = floats(own * kIn), dw = floats(part * kIn);
        PEAL_TRY(first.forward(kRows, own1, nullptr, x.data() + row * kIn, all.data(), mine.data()));
        PEAL_TRY(second.forward(kRows, own2.data(), nullptr, mine.data(), out.data()));
        PEAL_TRY(second.backward_input(kRows, own2.data(), dy.data() + row * kOut, all_dy.data(), dmine.data()));
        PEAL_TRY(first.backward_input(kRows, own1, dmine.data(), dx.data()));
        first.backward_weight(kRows, cuts ? all.data() : x.data(), dmine.data(), dw.data(), nullptr);
        const auto expect_part = [](const Buffer& found, const float* wanted) {
          for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-4) << i;
        };
        expect_part(out, y.data() + row * kOut);
        expect_part(dx, x_gradient.data() + row * kIn);
        expect_part(dw, w1_gradient.data() + world->rank() * part * kIn);
        return {};
      });
    }
  }
}

// A chunk multiplies by its number + 2.
TEST(PipelineRunner, EveryOrderComputesTheChainThereAndBack) {
  using training::PipelineKind;
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::interleaved, PipelineKind::zero_bubble}) {
    for (const int ranks : {1, 2, 3, 4}) {
      const int pieces = kind == PipelineKind::interleaved ? 2 : 1, batches = 2 * ranks;
      if (pieces > 1 && ranks == 1) continue;
      on_ranks(ranks, [&](const std::shared_ptr<comm::Core>& world) -> Status {
        int chunks = 0, forwards = 0, weights = 0, ends = 0;
        PipelineCalls calls;
        calls.forward = [&](int chunk, int batch, const float* input, float* output) -> Status {
          ++forwards;
          const float x = input == nullptr ? static_cast<float>(batch + 1) : input[0];
          const float y = x * static_cast<float>(chunk + 2);
          if (output != nullptr) output[0] = output[1] = y;
          if (output != nullptr) return {};
          ++ends;
          float wanted = static_cast<float>(batch + 1);
          for (int c = 0; c < chunks; ++c) wanted *= static_cast<float>(c + 2);
          EXPECT_FLOAT_EQ(y, wanted);
          return {};
        };
        calls.backward = [&](int chunk, int batch, const float* output_gradient, float* input_gradient) -> Status {
          const float g = (output_gradient == nullptr ? static_cast<float>(batch) : output_gradient[1]) + static_cast<float>(chunk);
          if (input_gradient != nullptr) {
            input_gradient[0] = input_gradient[1] = g;
            return {};
          }
          EXPECT_FLOAT_EQ(g, static_cast<float>(batch + chunks * (chunks - 1) / 2));
          return {};
        };
        calls.backward_weight = [&](int, int) -> Status { return ++weights, Status(); };
        PEAL_ASSIGN(const auto runner, PipelineRunner::make(world, kind, batches, pieces, 2, calls));
        chunks = runner->chunks();
        EXPECT_EQ(chunks, ranks * pieces);
        for (int step = 0; step < 2; ++step) PEAL_TRY(runner->step());
        EXPECT_EQ(forwards, 2 * batches * pieces);
        EXPECT_EQ(weights, kind == PipelineKind::zero_bubble ? 2 * batches : 0);
        EXPECT_EQ(ends, world->rank() == ranks - 1 ? 2 * batches : 0);
        return {};
      });
    }
  }
}

struct TemporaryFile {
  std::string path = testing::TempDir() + "peal-checkpoint-" + std::to_string(::getpid());
  ~TemporaryFile() { std::filesystem::remove(path); }
};

training::Layout layout_of(int dp, int tp, int pp, int zero) {
  training::Layout layout;
  layout.dp = dp;
  layout.tp = tp;
  layout.pp = pp;
  layout.zero = zero;
  layout.micro_batch = 1;
  layout.global_batch = 4;
  return layout;
}

TEST(Checkpoint, IsGoneOnFromWithAnotherLayoutAsIfNothingHadHappened) {
  const TemporaryFile file;
  const TrainReport whole = train_on_ranks({.job = small_job(layout_of(1, 1, 1, 0)), .steps = 4});
  train_on_ranks({.job = small_job(layout_of(2, 1, 2, 3)), .steps = 2, .save = file.path});
  const TrainReport rest = train_on_ranks({.job = small_job(layout_of(1, 4, 1, 0)), .steps = 2, .checks = true, .resume = file.path});
  ASSERT_EQ(rest.steps.size(), 2U);
  EXPECT_EQ(rest.first_step, 2);
  for (std::size_t s = 0; s < 2; ++s) EXPECT_NEAR(rest.steps[s].loss, whole.steps[s + 2].loss, 1e-4);
  EXPECT_TRUE(rest.check && rest.check->holds());
  EXPECT_FALSE(std::filesystem::exists(file.path + "." + std::to_string(::getpid()) + ".partial"));
}

TEST(Checkpoint, ExpertsGoOnWithAnotherLayoutAndNotWithAnotherChoice) {
  const TemporaryFile file;
  GptJob spread = with_experts(small_job(layout_of(4, 1, 1, 2)));
  spread.layout.ep = 2;
  train_on_ranks({.job = spread, .steps = 1, .save = file.path});
  GptJob other = with_experts(small_job(layout_of(1, 2, 1, 0)));
  const TrainReport rest = train_on_ranks({.job = other, .steps = 1, .checks = true, .resume = file.path});
  EXPECT_TRUE(rest.check && rest.check->holds());
  const TrainReport straight = train_on_ranks({.job = with_experts(small_job(layout_of(1, 1, 1, 0))), .steps = 2});
  EXPECT_NEAR(rest.steps[0].loss, straight.steps[1].loss, 1e-4);
  other.model.transformer.experts.chosen = 1;
  auto trainer = GptTrainer::make(serial_job(other), nullptr);
  ASSERT_TRUE(trainer);
  const Status refused = load_checkpoint(**trainer, file.path);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("--experts 4 --chosen 2"), std::string::npos) << refused.error().message;
}

TEST(Checkpoint, RefusesAnotherModelAndAFileThatWasCutOff) {
  const TemporaryFile file;
  const GptJob job = small_job(layout_of(1, 1, 1, 0));
  ASSERT_TRUE(train({.job = job, .steps = 1, .save = file.path}, nullptr, {}));
  auto other = GptTrainer::make(small_job(layout_of(1, 1, 1, 0), 2), nullptr);
  ASSERT_TRUE(other);
  const Status refused = load_checkpoint(**other, file.path);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("--layers 4"), std::string::npos) << refused.error().message;
  std::filesystem::resize_file(file.path, std::filesystem::file_size(file.path) - 1);
  auto same = GptTrainer::make(job, nullptr);
  EXPECT_FALSE(load_checkpoint(**same, file.path));
}

TEST(Checkpoint, HeadIsReadAsItWasWritten) {
  const CheckpointHead head = checkpoint_head(with_experts(small_job(layout_of(1, 1, 1, 0))).model.transformer, 7);
  const std::string text = head_text(head);
  const auto read = parse_head(text, "x");
  ASSERT_TRUE(read);
  EXPECT_EQ(head_text(*read), text);
  EXPECT_EQ(read->tensors, head.tensors);
  EXPECT_EQ(read->file_bytes, head.file_bytes);
  for (const std::string& wrong : {std::string("no checkpoint\n"), text.substr(0, text.size() - 3),
                                   std::string("peal-checkpoint 1\nshape 1 2 3\n"), std::string("peal-checkpoint 1\ntensor first a -1\n")})
    EXPECT_FALSE(parse_head(wrong, "x")) << wrong;
}

// A line for each of 24,240 tensors: a head of more than a megabyte.
TEST(Checkpoint, OfVeryManyTensorsIsReadAgain) {
  const TemporaryFile file;
  GptJob job = small_job(layout_of(1, 1, 1, 0), 20);
  training::Transformer& t = job.model.transformer;
  t.hidden = t.heads = t.kv_heads = t.head_dim = t.ffn = 1;
  t.experts = {.count = 200, .chosen = 1, .ffn = 1};
  ASSERT_GT(head_text(checkpoint_head(t, 0)).size(), std::size_t{1} << 20);
  EXPECT_TRUE(check_can_save(t, file.path));
  EXPECT_FALSE(std::filesystem::exists(file.path));
  const auto written = GptTrainer::make(job, nullptr);
  job.seed = 2;
  const auto read = GptTrainer::make(job, nullptr);
  ASSERT_TRUE(written && read);
  const Status saved = save_checkpoint(**written, file.path, nullptr);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_TRUE(check_can_load(t, file.path));
  const Status loaded = load_checkpoint(**read, file.path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (const ParameterSpec& spec : all_parameters_of(t)) {
    const auto wanted = collect_whole((*written)->stage(), Kept::parameter, spec, nullptr);
    EXPECT_EQ(*collect_whole((*read)->stage(), Kept::parameter, spec, nullptr), *wanted) << spec.name;
  }
}

TEST(Checkpoint, ThatNobodyCouldReadIsNotWritten) {
  training::Transformer shape = small_job(layout_of(1, 1, 1, 0), 200).model.transformer;
  shape.experts = {.count = 1000, .chosen = 1, .ffn = 1};
  const Status many = check_can_save(shape, TemporaryFile().path);
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message.find("--experts"), std::string::npos) << many.error().message;
  shape.experts = {};
  for (const std::string& path : {testing::TempDir(), testing::TempDir() + "no/m.peal"}) {
    const Status nowhere = check_can_save(shape, path);
    ASSERT_FALSE(nowhere);
    EXPECT_EQ(nowhere.error().code, ErrorCode::invalid_argument) << nowhere.error().message;
  }
  EXPECT_FALSE(check_can_load(shape, testing::TempDir()));
}

TEST(StaleTraining, LearnsAndKeepsTheBound) {
  for (const int bound : {0, 1, -1}) {
    training::Layout layout = layout_of(3, 1, 1, 0);
    layout.global_batch = 6;
    StaleOptions options{.job = small_job(layout, 2), .steps = 15, .bound = bound, .straggler = 3};
    options.job.learning_rate = 3e-3;
    on_ranks(4, [&](const std::shared_ptr<comm::Core>& world) -> Status {
      PEAL_ASSIGN(const StaleReport report, train_stale(options, world, {}));
      if (world->rank() > 0) return {};
      std::int64_t gradients = 0;
      for (const std::int64_t count : report.staleness) gradients += count;
      EXPECT_EQ(gradients, 45);
      EXPECT_LT(report.last_loss, report.first_loss - 0.3);
      EXPECT_TRUE(bound >= 0 ? report.largest_lead <= bound : report.largest_lead > 1) << report.largest_lead;
      return {};
    });
  }
}

}  // namespace
}  // namespace peal::parallel
