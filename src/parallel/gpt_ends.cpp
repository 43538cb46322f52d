// Both ends of the model, cut by the vocabulary: a rank of a tensor-parallel group has the words' vectors and the logits of its own words.
#include <algorithm>
#include <cmath>
#include <parallel/gpt_unit.hpp>
#include <parallel/linear.hpp>

namespace peal::parallel {

namespace {

class Embedding final : public GptUnit {
 public:
  explicit Embedding(const GptContext& c) : GptUnit(c, {UnitName::embedding, 0}) {}

  struct EmbeddingTape final : Tape {
    Buffer gradient;  // of own rows
  };
  std::unique_ptr<Tape> new_tape() const override { return std::make_unique<EmbeddingTape>(); }

  Status forward(Tape&, const MicroBatch& batch, const float*, float* output, double&) override {
    const GptContext& c = context_;
    const std::int64_t width = c.shape.hidden;
    float* part = place_of_part(*c.tensor, c.cuts_sequence, c.rows(), width, output);
    for (std::int64_t row = 0; row < c.rows(); ++row) {
      const std::int64_t word = own_word(batch, row);
      if (word >= 0)
        std::copy_n(parameter(kWords) + word * width, width, part + row * width);
      else
        std::fill_n(part + row * width, width, 0.0F);
    }
    PEAL_TRY(sum_rows(*c.tensor, c.cuts_sequence, c.rows(), width, part, output));
    for (std::int64_t row = 0; row < c.own_rows(); ++row)
      for (std::int64_t i = 0; i < width; ++i) output[row * width + i] += parameter(kPositions)[position(row) * width + i];
    return {};
  }

  Status backward_input(Tape& kept, const MicroBatch&, const float* output_gradient, float*) override {
    static_cast<EmbeddingTape&>(kept).gradient.assign(output_gradient, output_gradient + context_.boundary());
    return {};
  }

  Status backward_weight(Tape& kept, const MicroBatch& batch) override {
    const GptContext& c = context_;
    const std::int64_t width = c.shape.hidden;
    const Buffer& own = static_cast<EmbeddingTape&>(kept).gradient;
    for (std::int64_t row = 0; row < c.own_rows(); ++row)
      for (std::int64_t i = 0; i < width; ++i)
        gradient(kPositions)[position(row) * width + i] += own[static_cast<std::size_t>(row * width + i)];
    const float* rows = own.data();
    if (c.cuts_sequence) {
      float* all = c.tensor->scratch(c.rows() * width);
      PEAL_TRY(c.tensor->gather(own.data(), all, c.boundary()));
      rows = all;
    }
    for (std::int64_t row = 0; row < c.rows(); ++row)
      if (const std::int64_t word = own_word(batch, row); word >= 0)
        for (std::int64_t i = 0; i < width; ++i) gradient(kWords)[word * width + i] += rows[row * width + i];
    return {};
  }

 private:
  static constexpr std::size_t kPositions = kWords + 1;
  // Its number among those of this rank; -1 for a word of another rank.
  std::int64_t own_word(const MicroBatch& batch, std::int64_t row) const {
    const std::int64_t words = shards()[kWords].rows();
    const std::int64_t word = batch.tokens[static_cast<std::size_t>(row)] - words * context_.tensor->rank();
    return word >= 0 && word < words ? word : -1;
  }
  std::int64_t position(std::int64_t own_row) const {
    return context_.first_position() + (context_.first_row() + own_row) % context_.positions;
  }
};

// Final norm, logits (by matrix of its own, the embedding's, or another stage's copy of that), and cross entropy whose sums run over the
// group (arXiv 1909.08053, section 3).
class Head final : public GptUnit {
 public:
  explicit Head(const GptContext& c)
      : GptUnit(c, {UnitName::head, 0}), logits_(*c.arithmetic, *c.tensor, {c.shape.hidden, c.shape.vocab}, c.cuts_sequence) {}

  struct HeadTape final : Tape {
    Buffer x, all, logit_gradient;
    NormTape norm;
  };
  std::unique_ptr<Tape> new_tape() const override { return std::make_unique<HeadTape>(); }

  Status forward(Tape& kept, const MicroBatch& batch, const float* input, float*, double& loss) override {
    auto& tape = static_cast<HeadTape&>(kept);
    const GptContext& c = context_;
    tape.x.assign(input, input + c.boundary());
    norm_forward(c, input, parameter(kNormGain), parameter(kNormBias), tape.norm);
    tape.all = floats(c.cuts_sequence ? c.rows() * c.shape.hidden : 0);
    tape.logit_gradient = floats(c.rows() * logits_.own_out());
    PEAL_TRY(logits_.forward(c.rows(), words(), nullptr, tape.norm.y.data(), tape.all.data(), tape.logit_gradient.data()));
    c.look();
    return judge(batch, tape.logit_gradient, loss);
  }

  Status backward_input(Tape& kept, const MicroBatch&, const float*, float* input_gradient) override {
    auto& tape = static_cast<HeadTape&>(kept);
    const GptContext& c = context_;
    tape.norm.y_gradient = floats(c.boundary());
    PEAL_TRY(logits_.backward_input(c.rows(), words(), tape.logit_gradient.data(), tape.norm.y_gradient.data()));
    norm_backward_input(c, tape.x.data(), parameter(kNormGain), tape.norm, input_gradient);
    c.look();
    return {};
  }

  Status backward_weight(Tape& kept, const MicroBatch&) override {
    const auto& tape = static_cast<const HeadTape&>(kept);
    const GptContext& c = context_;
    logits_.backward_weight(c.rows(), (c.cuts_sequence ? tape.all : tape.norm.y).data(), tape.logit_gradient.data(), words_gradient(),
                            nullptr);
    norm_backward_weight(c, tape.x.data(), tape.norm, gradient(kNormGain), gradient(kNormBias));
    c.look();
    return {};
  }

 private:
  enum Number : std::size_t { kNormGain, kNormBias, kLogits };

  bool borrows() const { return context_.shape.ties_embeddings && context_.embedding != nullptr; }
  const float* words() const { return borrows() ? context_.embedding->parameter(kWords) : parameter(kLogits); }
  float* words_gradient() const { return borrows() ? context_.embedding->gradient(kWords) : gradient(kLogits); }

  // The logits become their gradients.
  Status judge(const MicroBatch& batch, Buffer& logits, double& loss) {
    const GptContext& c = context_;
    const std::int64_t words = logits_.own_out(), first = words * c.tensor->rank();
    Buffer tops = floats(c.rows()), sums = floats(2 * c.rows());  // sums: of exponentials, then the target's logit
    for (std::int64_t row = 0; row < c.rows(); ++row) {
      const float* line = logits.data() + row * words;
      tops[static_cast<std::size_t>(row)] = *std::max_element(line, line + words);
    }
    PEAL_TRY(c.tensor->sum(tops.data(), c.rows(), ReduceOp::max));
    const auto target_of = [&](std::int64_t row) { return batch.targets[static_cast<std::size_t>(row)] - first; };
    for (std::int64_t row = 0; row < c.rows(); ++row) {
      float* line = logits.data() + row * words;
      const float top = tops[static_cast<std::size_t>(row)];
      if (const std::int64_t target = target_of(row); target >= 0 && target < words)
        sums[static_cast<std::size_t>(c.rows() + row)] = line[target] - top;
      for (std::int64_t i = 0; i < words; ++i) sums[static_cast<std::size_t>(row)] += line[i] = std::exp(line[i] - top);
    }
    PEAL_TRY(c.tensor->sum(sums.data(), 2 * c.rows()));
    const auto scale = static_cast<float>(c.loss_scale);
    for (std::int64_t row = 0; row < c.rows(); ++row) {
      float* line = logits.data() + row * words;
      const float sum = sums[static_cast<std::size_t>(row)];
      loss += c.loss_scale * (std::log(sum) - sums[static_cast<std::size_t>(c.rows() + row)]);
      for (std::int64_t i = 0; i < words; ++i) line[i] *= scale / sum;
      if (const std::int64_t target = target_of(row); target >= 0 && target < words) line[target] -= scale;
    }
    return {};
  }

  ColumnLinear logits_;
};

}  // namespace

std::unique_ptr<GptUnit> make_embedding(const GptContext& context) { return std::make_unique<Embedding>(context); }
std::unique_ptr<GptUnit> make_head(const GptContext& context) { return std::make_unique<Head>(context); }

}  // namespace peal::parallel
