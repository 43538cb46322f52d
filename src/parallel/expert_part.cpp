#include <algorithm>
#include <parallel/expert_choice.hpp>
#include <parallel/feed_forward.hpp>
#include <parallel/linear.hpp>
#include <parallel/token_exchange.hpp>

namespace peal::parallel {

namespace {

struct ExpertTape final : Tape {
  Buffer all;  // what came in, of all rows: with sequence parallelism only
  ExpertChoice choice;
  TokenExchange exchange;
  Buffer arrived, up, bent;  // of the tokens that chose this rank's experts
  Buffer returned;           // what experts made of this rank's tokens, a part of the sum over tensor-parallel ranks, as it left
  Buffer up_gradient, down_gradient, score_gradient;
};

class ExpertPart final : public FeedForward {
 public:
  ExpertPart(const GptContext& c, const GptUnit& unit, std::size_t first) : context_(c), unit_(unit), first_(first) {}

  std::unique_ptr<Tape> new_tape() const override { return std::make_unique<ExpertTape>(); }

  Status forward(Tape& kept, const float* x, float* y) override {
    auto& tape = static_cast<ExpertTape&>(kept);
    const GptContext& c = context_;
    PEAL_ASSIGN(const float* rows, all_rows(x, tape.all));
    PEAL_ASSIGN(const Buffer scores, score(rows));
    tape.choice = choose_experts(c.rows(), experts(), chosen(), scores.data());
    PEAL_ASSIGN(tape.exchange, TokenExchange::make(*c.experts, experts(), tape.choice.experts));
    Buffer leaving = floats(tape.exchange.leaving() * width());
    each_choice(tape, [&](std::int64_t row, std::size_t, std::int64_t place) {
      std::copy_n(rows + row * width(), width(), leaving.data() + place * width());
    });
    PEAL_TRY(tape.exchange.to_experts(*c.experts, width(), leaving, tape.arrived));
    c.look();
    const Buffer made = ask_experts(tape);
    PEAL_TRY(tape.exchange.to_tokens(*c.experts, width(), made, tape.returned));
    float* part = place_of_part(*c.tensor, c.cuts_sequence, c.rows(), width(), y);
    std::fill_n(part, c.rows() * width(), 0.0F);
    each_choice(tape, [&](std::int64_t row, std::size_t i, std::int64_t place) {
      add(tape.choice.weights[i], tape.returned.data() + place * width(), part + row * width());
    });
    return sum_rows(*c.tensor, c.cuts_sequence, c.rows(), width(), part, y);
  }

  Status backward_input(Tape& kept, const float* y_gradient, float* x_gradient) override {
    auto& tape = static_cast<ExpertTape&>(kept);
    const GptContext& c = context_;
    Buffer gathered;
    PEAL_ASSIGN(const float* gradients, all_rows(y_gradient, gathered));
    Buffer weight_gradients = floats(tape.exchange.leaving()), leaving = floats(tape.exchange.leaving() * width());
    each_choice(tape, [&](std::int64_t row, std::size_t i, std::int64_t place) {
      const float* gradient = gradients + row * width();
      const float* returned = tape.returned.data() + place * width();
      for (std::int64_t w = 0; w < width(); ++w) weight_gradients[i] += gradient[w] * returned[w];
      add(tape.choice.weights[i], gradient, leaving.data() + place * width());
    });
    PEAL_TRY(c.tensor->sum(weight_gradients.data(), tape.exchange.leaving()));
    tape.score_gradient = score_gradients(tape.choice, c.rows(), experts(), weight_gradients);
    PEAL_TRY(tape.exchange.to_experts(*c.experts, width(), leaving, tape.down_gradient));
    c.look();
    const Buffer back = ask_experts_back(tape);
    PEAL_TRY(tape.exchange.to_tokens(*c.experts, width(), back, leaving));
    float* part = place_of_part(*c.tensor, c.cuts_sequence, c.rows(), width(), x_gradient);
    // The scores are whole on every tensor-parallel rank, and count once.
    if (c.tensor->rank() == 0)
      c.arithmetic->multiply(input_product(c.rows(), width(), experts()), tape.score_gradient.data(), unit_.parameter(first_), part);
    else
      std::fill_n(part, c.rows() * width(), 0.0F);
    each_choice(tape,
                [&](std::int64_t row, std::size_t, std::int64_t place) { add(1, leaving.data() + place * width(), part + row * width()); });
    return sum_rows(*c.tensor, c.cuts_sequence, c.rows(), width(), part, x_gradient);
  }

  void backward_weight(const Tape& kept, const float* x) override {
    const auto& tape = static_cast<const ExpertTape&>(kept);
    const GptContext& c = context_;
    c.arithmetic->multiply(weight_product(c.rows(), width(), experts()), tape.score_gradient.data(), c.cuts_sequence ? tape.all.data() : x,
                           unit_.gradient(first_));
    each_expert(tape, [&](std::size_t expert, std::int64_t row, std::int64_t rows) {
      c.arithmetic->multiply(weight_product(rows, inner(), width()), tape.down_gradient.data() + row * width(),
                             tape.bent.data() + row * inner(), unit_.gradient(down(expert)));
      c.arithmetic->multiply(weight_product(rows, width(), inner()), tape.up_gradient.data() + row * inner(),
                             tape.arrived.data() + row * width(), unit_.gradient(up(expert)));
    });
  }

 private:
  int experts() const { return context_.shape.experts.count; }
  int chosen() const { return context_.shape.experts.chosen; }
  std::int64_t width() const { return context_.shape.hidden; }
  std::int64_t inner() const { return context_.shape.experts.ffn / context_.tensor->size(); }
  // Numbers of parameters, as parameters_of() has them: the router, then two for each expert that this rank holds.
  std::size_t up(std::size_t expert) const { return first_ + 1 + 2 * expert; }
  std::size_t down(std::size_t expert) const { return up(expert) + 1; }

  void add(float scale, const float* what, float* to) const {
    for (std::int64_t w = 0; w < width(); ++w) to[w] += scale * what[w];
  }

  // Own rows, or with sequence parallelism those of all, which then stand in `gathered`.
  Result<const float*> all_rows(const float* own, Buffer& gathered) const {
    if (!context_.cuts_sequence) return own;
    gathered = floats(context_.rows() * width());
    PEAL_TRY(context_.tensor->gather(own, gathered.data(), context_.boundary()));
    return gathered.data();
  }

  // Every tensor-parallel rank scores some of the rows, and adds zeros to what others score: all choose by the same bits.
  Result<Buffer> score(const float* rows) const {
    const GptContext& c = context_;
    const std::int64_t first = c.rows() * c.tensor->rank() / c.tensor->size(), end = c.rows() * (c.tensor->rank() + 1) / c.tensor->size();
    Buffer scores = floats(c.rows() * experts());
    if (end > first)
      c.arithmetic->multiply(forward_product(end - first, width(), experts()), rows + first * width(), unit_.parameter(first_),
                             scores.data() + first * experts());
    PEAL_TRY(c.tensor->sum(scores.data(), c.rows() * experts()));
    return scores;
  }

  // visit(row, number of the choice, its place among the leaving rows)
  template <class Visit>
  void each_choice(const ExpertTape& tape, Visit&& visit) const {
    for (std::size_t i = 0; i < tape.choice.experts.size(); ++i) visit(static_cast<std::int64_t>(i) / chosen(), i, tape.exchange.place(i));
  }

  // visit(own expert, its first row, rows), of those that somebody chose.
  template <class Visit>
  void each_expert(const ExpertTape& tape, Visit&& visit) const {
    const auto own = static_cast<std::size_t>(experts() / context_.experts->size());
    for (std::size_t expert = 0; expert < own; ++expert) {
      if (tape.exchange.count_of(expert) > 0) visit(expert, tape.exchange.first_of(expert), tape.exchange.count_of(expert));
      context_.look();
    }
  }

  Buffer ask_experts(ExpertTape& tape) const {
    tape.up = floats(tape.exchange.arrived() * inner());
    tape.bent = floats(tape.exchange.arrived() * inner());
    Buffer made = floats(tape.exchange.arrived() * width());
    each_expert(tape, [&](std::size_t expert, std::int64_t row, std::int64_t rows) {
      float* const up_out = tape.up.data() + row * inner();
      float* const bent = tape.bent.data() + row * inner();
      context_.arithmetic->multiply(forward_product(rows, width(), inner()), tape.arrived.data() + row * width(),
                                    unit_.parameter(up(expert)), up_out);
      context_.arithmetic->gelu(rows * inner(), up_out, bent);
      context_.arithmetic->multiply(forward_product(rows, inner(), width()), bent, unit_.parameter(down(expert)),
                                    made.data() + row * width());
    });
    return made;
  }

  Buffer ask_experts_back(ExpertTape& tape) const {
    tape.up_gradient = floats(tape.exchange.arrived() * inner());
    Buffer bent_gradient = floats(tape.exchange.arrived() * inner()), back = floats(tape.exchange.arrived() * width());
    each_expert(tape, [&](std::size_t expert, std::int64_t row, std::int64_t rows) {
      const std::int64_t at = row * inner();
      context_.arithmetic->multiply(input_product(rows, inner(), width()), tape.down_gradient.data() + row * width(),
                                    unit_.parameter(down(expert)), bent_gradient.data() + at);
      context_.arithmetic->gelu_backward(rows * inner(), bent_gradient.data() + at, tape.up.data() + at, tape.up_gradient.data() + at);
      context_.arithmetic->multiply(input_product(rows, width(), inner()), tape.up_gradient.data() + at, unit_.parameter(up(expert)),
                                    back.data() + row * width());
    });
    return back;
  }

  const GptContext& context_;
  const GptUnit& unit_;
  std::size_t first_;
};

}  // namespace

std::unique_ptr<FeedForward> make_experts(const GptContext& context, const GptUnit& unit, std::size_t first) {
  return std::make_unique<ExpertPart>(context, unit, first);
}

}  // namespace peal::parallel
