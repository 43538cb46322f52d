// One layer:  x -> norm -> qkv -> attention -> projection -> + x = mid -> norm -> feed-forward part -> + mid
#include <parallel/attention.hpp>
#include <parallel/feed_forward.hpp>
#include <parallel/linear.hpp>

namespace peal::parallel {

namespace {

enum LayerParameter : std::size_t {  // as parameters_of() has them
  kNorm1Gain,
  kNorm1Bias,
  kQkv,
  kQkvBias,
  kProjection,
  kProjectionBias,
  kNorm2Gain,
  kNorm2Bias,
  kFeedForward,  // and on
};

struct LayerTape final : Tape {
  Buffer x, middle;
  NormTape norm1, norm2;
  Buffer all1;  // what the first norm gave, of all rows: with sequence parallelism only
  AttentionTape attention;
  Buffer attended;
  std::unique_ptr<Tape> feed_forward;
  // Gradients, of the outputs of:
  Buffer qkv_gradient, projection_gradient, projection_all;
};

void add(std::int64_t count, const float* what, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += what[i];
}

class GptLayer final : public GptUnit {
 public:
  GptLayer(const GptContext& c, int layer)
      : GptUnit(c, {UnitName::layer, layer}),
        qkv_(*c.arithmetic, *c.tensor, {c.shape.hidden, 3 * c.shape.heads * c.shape.head_dim}, c.cuts_sequence),
        projection_(*c.arithmetic, *c.tensor, {c.shape.heads * c.shape.head_dim, c.shape.hidden}, c.cuts_sequence),
        feed_forward_(c.shape.has_experts(layer) ? make_experts(c, *this, kFeedForward) : make_dense(c, *this, kFeedForward)) {}

  std::unique_ptr<Tape> new_tape() const override { return std::make_unique<LayerTape>(); }

  Status forward(Tape& kept, const MicroBatch&, const float* input, float* output, double&) override {
    auto& tape = static_cast<LayerTape&>(kept);
    tape.x.assign(input, input + context_.boundary());
    PEAL_TRY(compute(tape, output));
    if (context_.recompute != training::Recompute::full) return {};
    LayerTape bare;
    bare.x.swap(tape.x);
    tape = std::move(bare);
    return {};
  }

  Status backward_input(Tape& kept, const MicroBatch&, const float* output_gradient, float* input_gradient) override {
    auto& tape = static_cast<LayerTape&>(kept);
    const GptContext& c = context_;
    if (tape.middle.empty()) {
      Buffer output = floats(c.boundary());
      PEAL_TRY(compute(tape, output.data()));
    }
    tape.norm2.y_gradient = floats(c.boundary());
    PEAL_TRY(feed_forward_->backward_input(*tape.feed_forward, output_gradient, tape.norm2.y_gradient.data()));
    tape.projection_gradient = floats(c.boundary());
    norm_backward_input(c, tape.middle.data(), parameter(kNorm2Gain), tape.norm2, tape.projection_gradient.data());
    add(c.boundary(), output_gradient, tape.projection_gradient.data());
    c.look();
    Buffer attended_gradient = floats(c.rows() * projection_.own_in());
    tape.projection_all = floats(c.cuts_sequence ? c.rows() * c.shape.hidden : 0);
    PEAL_TRY(projection_.backward_input(c.rows(), parameter(kProjection), tape.projection_gradient.data(), tape.projection_all.data(),
                                        attended_gradient.data()));
    tape.qkv_gradient = floats(c.rows() * qkv_.own_out());
    PEAL_TRY(attend_backward(c, attended_gradient.data(), tape.attention, tape.qkv_gradient.data()));
    tape.norm1.y_gradient = floats(c.boundary());
    PEAL_TRY(qkv_.backward_input(c.rows(), parameter(kQkv), tape.qkv_gradient.data(), tape.norm1.y_gradient.data()));
    norm_backward_input(c, tape.x.data(), parameter(kNorm1Gain), tape.norm1, input_gradient);
    add(c.boundary(), tape.projection_gradient.data(), input_gradient);
    c.look();
    return {};
  }

  Status backward_weight(Tape& kept, const MicroBatch&) override {
    const auto& tape = static_cast<const LayerTape&>(kept);
    const GptContext& c = context_;
    feed_forward_->backward_weight(*tape.feed_forward, tape.norm2.y.data());
    norm_backward_weight(c, tape.middle.data(), tape.norm2, gradient(kNorm2Gain), gradient(kNorm2Bias));
    c.look();
    projection_.backward_weight(c.rows(), tape.attended.data(), tape.projection_all.data(), tape.projection_gradient.data(),
                                gradient(kProjection), gradient(kProjectionBias));
    qkv_.backward_weight(c.rows(), (c.cuts_sequence ? tape.all1 : tape.norm1.y).data(), tape.qkv_gradient.data(), gradient(kQkv),
                         gradient(kQkvBias));
    norm_backward_weight(c, tape.x.data(), tape.norm1, gradient(kNorm1Gain), gradient(kNorm1Bias));
    c.look();
    return {};
  }

 private:
  Status compute(LayerTape& tape, float* output) {
    const GptContext& c = context_;
    norm_forward(c, tape.x.data(), parameter(kNorm1Gain), parameter(kNorm1Bias), tape.norm1);
    tape.all1 = floats(c.cuts_sequence ? c.rows() * c.shape.hidden : 0);
    Buffer qkv = floats(c.rows() * qkv_.own_out());
    PEAL_TRY(qkv_.forward(c.rows(), parameter(kQkv), parameter(kQkvBias), tape.norm1.y.data(), tape.all1.data(), qkv.data()));
    c.look();
    tape.attended = floats(c.rows() * projection_.own_in());
    PEAL_TRY(attend(c, qkv.data(), tape.attention, tape.attended.data()));
    tape.middle = floats(c.boundary());
    PEAL_TRY(projection_.forward(c.rows(), parameter(kProjection), parameter(kProjectionBias), tape.attended.data(), tape.middle.data()));
    add(c.boundary(), tape.x.data(), tape.middle.data());
    c.look();
    norm_forward(c, tape.middle.data(), parameter(kNorm2Gain), parameter(kNorm2Bias), tape.norm2);
    tape.feed_forward = feed_forward_->new_tape();
    PEAL_TRY(feed_forward_->forward(*tape.feed_forward, tape.norm2.y.data(), output));
    add(c.boundary(), tape.middle.data(), output);
    c.look();
    return {};
  }

  ColumnLinear qkv_;
  RowLinear projection_;
  std::unique_ptr<FeedForward> feed_forward_;
};

}  // namespace

std::unique_ptr<GptUnit> make_layer(const GptContext& context, int layer) { return std::make_unique<GptLayer>(context, layer); }

}  // namespace peal::parallel
