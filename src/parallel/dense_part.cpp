#include <parallel/feed_forward.hpp>
#include <parallel/linear.hpp>

namespace peal::parallel {

namespace {

enum DenseParameter : std::size_t { kUp, kUpBias, kDown, kDownBias };  // as parameters_of() has them

struct DenseTape final : Tape {
  Buffer all;  // what came in, of all rows: with sequence parallelism only
  Buffer up, bent;
  Buffer up_gradient, down_gradient, down_all;  // gradients, of the outputs of up and down; the latter of own rows, and of all
};

class DensePart final : public FeedForward {
 public:
  DensePart(const GptContext& c, const GptUnit& unit, std::size_t first)
      : context_(c),
        unit_(unit),
        first_(first),
        up_(*c.arithmetic, *c.tensor, {c.shape.hidden, c.shape.ffn}, c.cuts_sequence),
        down_(*c.arithmetic, *c.tensor, {c.shape.ffn, c.shape.hidden}, c.cuts_sequence) {}

  std::unique_ptr<Tape> new_tape() const override { return std::make_unique<DenseTape>(); }

  Status forward(Tape& kept, const float* x, float* y) override {
    auto& tape = static_cast<DenseTape&>(kept);
    const GptContext& c = context_;
    tape.all = floats(gathered());
    tape.up = floats(c.rows() * up_.own_out());
    PEAL_TRY(up_.forward(c.rows(), parameter(kUp), parameter(kUpBias), x, tape.all.data(), tape.up.data()));
    c.look();
    tape.bent = floats(c.rows() * up_.own_out());
    c.arithmetic->gelu(c.rows() * up_.own_out(), tape.up.data(), tape.bent.data());
    return down_.forward(c.rows(), parameter(kDown), parameter(kDownBias), tape.bent.data(), y);
  }

  Status backward_input(Tape& kept, const float* y_gradient, float* x_gradient) override {
    auto& tape = static_cast<DenseTape&>(kept);
    const GptContext& c = context_;
    tape.down_gradient.assign(y_gradient, y_gradient + c.boundary());
    Buffer bent_gradient = floats(c.rows() * down_.own_in());
    tape.down_all = floats(gathered());
    PEAL_TRY(down_.backward_input(c.rows(), parameter(kDown), y_gradient, tape.down_all.data(), bent_gradient.data()));
    c.look();
    tape.up_gradient = floats(c.rows() * up_.own_out());
    c.arithmetic->gelu_backward(c.rows() * up_.own_out(), bent_gradient.data(), tape.up.data(), tape.up_gradient.data());
    return up_.backward_input(c.rows(), parameter(kUp), tape.up_gradient.data(), x_gradient);
  }

  void backward_weight(const Tape& kept, const float* x) override {
    const auto& tape = static_cast<const DenseTape&>(kept);
    const GptContext& c = context_;
    down_.backward_weight(c.rows(), tape.bent.data(), tape.down_all.data(), tape.down_gradient.data(), gradient(kDown),
                          gradient(kDownBias));
    c.look();
    up_.backward_weight(c.rows(), c.cuts_sequence ? tape.all.data() : x, tape.up_gradient.data(), gradient(kUp), gradient(kUpBias));
  }

 private:
  const float* parameter(std::size_t number) const { return unit_.parameter(first_ + number); }
  float* gradient(std::size_t number) const { return unit_.gradient(first_ + number); }
  std::int64_t gathered() const { return context_.cuts_sequence ? context_.rows() * context_.shape.hidden : 0; }

  const GptContext& context_;
  const GptUnit& unit_;
  std::size_t first_;
  ColumnLinear up_;
  RowLinear down_;
};

}  // namespace

std::unique_ptr<FeedForward> make_dense(const GptContext& context, const GptUnit& unit, std::size_t first) {
  return std::make_unique<DensePart>(context, unit, first);
}

}  // namespace peal::parallel
