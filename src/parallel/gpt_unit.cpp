#include <parallel/gpt_unit.hpp>

namespace peal::parallel {

GptUnit::GptUnit(const GptContext& context, UnitName name) : context_(context) {
  std::array<std::int64_t, kSharings> offsets = {};
  const int spread = context.experts->size(), own = context.shape.experts.count / spread;
  std::vector<ParameterSpec> specs = parameters_of(context.shape, name);
  const bool has_copy = name.kind == UnitName::head && context.shape.ties_embeddings && context.embedding == nullptr;
  if (has_copy) specs.push_back(parameters_of(context.shape, {UnitName::embedding, 0})[kWords]);
  for (ParameterSpec& spec : specs) {
    if (spec.expert >= 0 && spec.expert / own != context.experts->rank()) continue;
    const Sharing sharing = spec.expert >= 0 && spread > 1 ? Sharing::by_copies : Sharing::by_all;
    std::int64_t& offset = offsets[static_cast<std::size_t>(sharing)];
    shards_.push_back({std::move(spec), context.tensor->rank(), context.tensor->size(), offset, sharing, false});
    offset += shards_.back().elements();
  }
  if (has_copy) shards_.back().is_copy = true;
}

void GptUnit::place(Sharing sharing, Zone& zone, std::int64_t first) {
  zones_[static_cast<std::size_t>(sharing)] = &zone;
  for (Shard& shard : shards_)
    if (shard.sharing == sharing) shard.offset += first;
}

std::int64_t GptUnit::elements(Sharing sharing) const {
  std::int64_t sum = 0;
  for (const Shard& shard : shards_)
    if (shard.sharing == sharing) sum += shard.elements();
  return sum;
}

std::unique_ptr<GptUnit> make_unit(const GptContext& context, UnitName name) {
  if (name.kind == UnitName::embedding) return make_embedding(context);
  return name.kind == UnitName::head ? make_head(context) : make_layer(context, name.layer_number);
}

void norm_forward(const GptContext& context, const float* x, const float* gain, const float* bias, NormTape& tape) {
  tape.y = floats(context.boundary());
  tape.mean = floats(context.own_rows());
  tape.rate = floats(context.own_rows());
  context.arithmetic->norm({context.own_rows(), context.shape.hidden}, x, gain, bias, tape.y.data(), tape.mean.data(), tape.rate.data());
}

void norm_backward_input(const GptContext& context, const float* x, const float* gain, const NormTape& tape, float* x_gradient) {
  context.arithmetic->norm_backward({context.own_rows(), context.shape.hidden}, tape.y_gradient.data(), x, gain, tape.mean.data(),
                                    tape.rate.data(), x_gradient);
}

void norm_backward_weight(const GptContext& context, const float* x, const NormTape& tape, float* gain_gradient, float* bias_gradient) {
  const std::int64_t width = context.shape.hidden;
  const float* gradient = tape.y_gradient.data();
  for (std::size_t r = 0; r < tape.mean.size(); ++r, x += width, gradient += width) {
    for (std::int64_t i = 0; i < width; ++i) {
      gain_gradient[i] += gradient[i] * (x[i] - tape.mean[r]) * tape.rate[r];
      bias_gradient[i] += gradient[i];
    }
  }
}

}  // namespace peal::parallel
