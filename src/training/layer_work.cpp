#include "layer_work.hpp"

#include <algorithm>
#include <cmath>

namespace peal::training {

namespace {

double ceil_share(double whole, double parts) { return std::max(1.0, whole / parts); }

}  // namespace

LayerWork::LayerWork(const Model& model, const Layout& layout, const Processor& processor, const Software& software,
                     const KernelFacts& facts)
    : model_(model), t_(model.transformer), layout_(layout), processor_(processor), software_(software), facts_(facts) {
  seq_len_ = static_cast<double>(layout.seq_len_of(model));
  tokens_ = layout.micro_batch * seq_len_ / layout.cp;
  kept_bytes_ = bytes_of(layout.precision);
  between_bytes_ = kept_bytes_ * (kept_bytes_ < 4 ? software.width : 1);
  sequence_cut_ = layout.has_sequence_parallel ? layout.tp : 1;
}

double LayerWork::peak(bool is_low) const {
  const Precision precision = layout_.precision == Precision::fp8 && !is_low ? Precision::bf16 : layout_.precision;
  return processor_.tflops[static_cast<std::size_t>(computed_in(processor_, precision))] * 1e6;  // FLOPs in a microsecond
}

std::vector<LayerWork::Product> LayerWork::products(int layer) const {
  const double h = static_cast<double>(t_.hidden), tp = layout_.tp, heads = t_.heads / tp;
  const double queries = t_.heads * static_cast<double>(t_.head_dim) / tp;
  std::vector<Product> all;
  if (t_.latent) {
    const LatentAttention& l = *t_.latent;
    const double rank = static_cast<double>(l.query_rank), kept = static_cast<double>(l.key_value_rank);
    const double rotary = static_cast<double>(l.rotary), plain = static_cast<double>(l.plain), value = static_cast<double>(l.value);
    if (rank > 0) all.push_back({tokens_, rank, h});
    all.push_back({tokens_, heads * (plain + rotary), rank > 0 ? rank : h});
    all.push_back({tokens_, kept + rotary, h});
    all.push_back({tokens_, heads * (plain + value), kept});
    all.push_back({tokens_, h, heads * value});
  } else {
    const double keys = ceil_share(t_.kv_heads, tp) * static_cast<double>(t_.head_dim);
    all.push_back({tokens_, queries + 2 * keys, h});
    all.push_back({tokens_, h, queries});
  }
  const double gates = t_.is_gated ? 2 : 1;
  const auto feed_forward = [&](double tokens, double ffn, double batch) {
    all.push_back({tokens, gates * ffn / tp, h, batch});
    all.push_back({tokens, h, ffn / tp, batch});
  };
  if (!t_.has_experts(layer)) {
    feed_forward(tokens_, static_cast<double>(t_.ffn), 1);
    return all;
  }
  const Experts& e = t_.experts;
  const double own = static_cast<double>(e.count) / layout_.ep;
  all.push_back({tokens_, static_cast<double>(e.count), h, 1, false});  // router
  feed_forward(ceil_share(tokens_ * e.chosen, own), static_cast<double>(e.ffn), own);
  if (e.shared > 0) feed_forward(tokens_, static_cast<double>(e.ffn) * e.shared, 1);
  return all;
}

double LayerWork::matrix_elements(int layer) const {
  double sum = 0;
  for (const Product& p : products(layer)) sum += p.n * p.k * p.batch;
  return sum;
}

void LayerWork::add(Pass& pass, const Product& p, Part part, double count) const {
  // Gradients of inputs: (m x n)(n x k); of weights: (k x m)(m x n).
  double m = p.m, n = p.n, k = p.k;
  if (part == Part::backward_input) std::swap(n, k);
  if (part == Part::backward_weight) {
    m = p.k;
    k = p.m;
  }
  const bool is_low = p.is_low && layout_.precision == Precision::fp8;
  const double flops = 2 * m * n * k * p.batch;
  const double elements = p.batch * (m * k + k * n + m * n);
  const Cut cut = cut_of(m, n, k, p.batch, processor_, facts_, layout_.precision != Precision::fp32);
  Kernel kernel;
  kernel.kind = is_low ? Kernel::Kind::low_product : Kernel::Kind::product;
  kernel.work_us = count * flops / peak(is_low) / cut.share;
  kernel.memory_us = count * memory_us(elements * kept_bytes_);
  kernel.inner = cut.inner;
  kernel.count = count;
  pass.kernels.push_back(kernel);
  pass.flops += count * flops;
  if (is_low) pass.kernels.push_back({Kernel::Kind::cast, 0, count * memory_us(p.batch * k * (m + n)), 0, count});
}

void LayerWork::add_elementwise(Pass& pass, double bytes) const {
  pass.kernels.push_back({Kernel::Kind::elementwise, 0, memory_us(bytes), 0, 1});
}

void LayerWork::add_core(Pass& pass, bool is_backward) const {
  const double heads = layout_.micro_batch * t_.heads / static_cast<double>(layout_.tp);
  const double rows = seq_len_ / layout_.cp;
  double width = static_cast<double>(t_.head_dim), value = width;
  if (t_.latent) {
    width = static_cast<double>(t_.latent->plain + t_.latent->rotary);
    value = static_cast<double>(t_.latent->value);
  }
  if (software_.is_fused()) {
    // Five products backwards, of two forwards; causal ones leave half of the matrix out.
    const double flops = 2 * heads * rows * seq_len_ * (width + value) * (t_.is_causal ? 0.5 : 1) * (is_backward ? 2.5 : 1);
    const double bytes = heads * rows * (2 * width + 2 * value) * kept_bytes_ * (is_backward ? 2 : 1);
    pass.kernels.push_back(
        {is_backward ? Kernel::Kind::attention_backward : Kernel::Kind::attention, flops / peak(false), memory_us(bytes), 0, 1});
    pass.flops += flops;
    return;
  }
  const Product scores{rows, seq_len_, width, heads, false}, sums{rows, value, seq_len_, heads, false};
  const double cells = heads * rows * seq_len_;
  for (const Product& product : {scores, sums}) {
    if (!is_backward) add(pass, product, Part::forward);
    if (is_backward) add(pass, product, Part::backward_input);
    if (is_backward) add(pass, product, Part::backward_weight);
  }
  add_elementwise(pass, cells * between_bytes_ * (is_backward ? 3 : 2));  // scaled, masked softmax
  // Where Megatron's fused kernel does not take them, scale, mask, cast to fp32, softmax and cast back each read and write the matrix.
  if (std::fmod(heads, facts_.softmax_matrices) > 0 || seq_len_ > facts_.softmax_row) {
    add_elementwise(pass, cells * (4 * between_bytes_ + 3 * 4));
    pass.launches += facts_.softmax;
  }
  add_elementwise(pass, cells * (2 * between_bytes_ + 1));  // dropout and its mask
}

void LayerWork::add_between(Pass& pass, int layer, bool is_backward) const {
  const double h = static_cast<double>(t_.hidden), tp = layout_.tp;
  double ffn_tokens = tokens_ * static_cast<double>(t_.ffn);
  if (t_.has_experts(layer)) {
    const Experts& e = t_.experts;
    ffn_tokens = tokens_ * static_cast<double>(e.ffn) * (e.chosen + e.shared);
    add_elementwise(pass, 4 * tokens_ * e.chosen * h * between_bytes_);  // to the experts and back
  }
  // Two norms (read, write) and two additions to the stream with dropout (read two, write, mask); backward the same with what was kept.
  add_elementwise(pass, tokens_ / sequence_cut_ * h * between_bytes_ * (is_backward ? 16 : 12));
  const double gated = t_.is_gated ? (is_backward ? 5 : 3) : (is_backward ? 3 : 2);
  add_elementwise(pass, ffn_tokens / tp * between_bytes_ * gated);
  if (t_.positions == 0) {  // rotary embeddings
    const double rotated = static_cast<double>(t_.head_dim) * (t_.heads / tp + ceil_share(t_.kv_heads, tp));
    add_elementwise(pass, 2 * tokens_ * rotated * between_bytes_);
  }
}

void LayerWork::add_calls(Pass& pass, int layer, bool is_backward) const {
  const double activations = tokens_ * static_cast<double>(t_.hidden) * kept_bytes_;
  const double share = layout_.overlaps_tensor ? 1 : 0;  // what of it ComputeModel knows
  const auto call = [&](Dimension over, Collective collective, double bytes, int times, double hidden_share) {
    pass.calls.push_back({over, collective, bytes, times, 0, hidden_share});
    pass.launches += times * facts_.call;
  };
  if (layout_.tp > 1 && layout_.has_sequence_parallel) {
    call(Dimension::tp, Collective::all_gather, activations, 2, share);
    call(Dimension::tp, Collective::reduce_scatter, activations, 2, share);
  } else if (layout_.tp > 1) {
    call(Dimension::tp, Collective::all_reduce, activations, 2, share);
  }
  if (layout_.cp > 1) {
    const double kept = t_.latent ? static_cast<double>(t_.latent->key_value_rank + t_.latent->rotary)
                                  : 2 * ceil_share(t_.kv_heads, layout_.tp) * static_cast<double>(t_.head_dim);
    const double bytes = tokens_ * layout_.cp * kept * kept_bytes_;
    call(Dimension::cp, Collective::all_gather, bytes, 1, 0);
    if (is_backward) call(Dimension::cp, Collective::reduce_scatter, bytes, 1, 0);
  }
  if (layout_.ep > 1 && t_.has_experts(layer)) call(Dimension::ep, Collective::all_to_all, activations * t_.experts.chosen, 2, 0);
}

void LayerWork::add_forward(Pass& pass, int layer) const {
  for (const Product& product : products(layer)) add(pass, product, Part::forward);
  add_core(pass, false);
  add_between(pass, layer, false);
  add_calls(pass, layer, false);
  pass.launches += software_.is_fused() ? facts_.fused_forward : facts_.forward;
}

void LayerWork::add_selected(Pass& pass, int layer) const {
  constexpr double kHalf = 0.5;  // of the layers, or of the products
  switch (software_.selection) {
    case Selection::core:
      // Fused attention computes its matrix anew without being asked.
      if (!software_.is_fused()) add_core(pass, false);
      return;
    case Selection::layers: {
      Pass whole;
      add_forward(whole, layer);
      for (Kernel& kernel : whole.kernels) {
        kernel.work_us *= kHalf;
        kernel.memory_us *= kHalf;
        kernel.count *= kHalf;
        pass.kernels.push_back(kernel);
      }
      for (InnerCall& call : whole.calls)
        if (call.times > 1) pass.calls.push_back({call.over, call.collective, call.bytes, call.times / 2, 0, call.hidden_share});
      pass.launches += kHalf * whole.launches;
      pass.flops += kHalf * whole.flops;
      return;
    }
    case Selection::operators:
      for (const Product& product : products(layer)) add(pass, product, Part::forward, kHalf);
      add_between(pass, layer, false);
      pass.launches += kHalf * facts_.fused_forward;
  }
}

Pass LayerWork::forward(int layer) const {
  if (!model_.is_transformer()) return convolution(layer, Part::forward);
  Pass pass;
  add_forward(pass, layer);
  return pass;
}

Pass LayerWork::backward_input(int layer) const {
  if (!model_.is_transformer()) return convolution(layer, Part::backward_input);
  Pass pass;
  for (const Product& product : products(layer)) add(pass, product, Part::backward_input);
  add_core(pass, true);
  add_between(pass, layer, true);
  add_calls(pass, layer, true);
  pass.launches += software_.is_fused() ? facts_.fused_input : facts_.input;
  if (layout_.recompute == Recompute::full) {
    add_forward(pass, layer);
  } else if (layout_.recompute == Recompute::selective) {
    add_selected(pass, layer);
  }
  return pass;
}

Pass LayerWork::backward_weight(int layer) const {
  if (!model_.is_transformer()) return convolution(layer, Part::backward_weight);
  Pass pass;
  for (const Product& product : products(layer)) add(pass, product, Part::backward_weight);
  pass.kernels.push_back({Kernel::Kind::weights, 0, memory_us(matrix_elements(layer)), 0, 1});
  pass.launches += facts_.weight;
  return pass;
}

Pass LayerWork::embedding(bool is_backward) const {
  Pass pass;
  if (!model_.is_transformer()) return pass;
  const double elements = tokens_ * static_cast<double>(t_.hidden);
  // Gathered (read, write); backwards summed into fp32 gradients.
  add_elementwise(pass, elements * (is_backward ? between_bytes_ + 8 : 2 * between_bytes_));
  if (layout_.tp > 1 && !is_backward)
    pass.calls.push_back({Dimension::tp, layout_.has_sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce,
                          elements * kept_bytes_, 1, 0, 0});
  pass.launches += facts_.end;
  return pass;
}

Pass LayerWork::head(bool is_backward) const {
  Pass pass;
  if (!model_.is_transformer()) return pass;
  const double seen = tokens_ * (t_.has_pooler ? facts_.masked : 1);
  const double words = static_cast<double>(t_.vocab) / layout_.tp, h = static_cast<double>(t_.hidden);
  const Product product{seen, words, h, 1, false};
  constexpr double kForwardShare = 1.0 / 3;
  if (!is_backward) add(pass, product, Part::forward);
  if (is_backward) add(pass, product, Part::backward_input);
  if (is_backward) add(pass, product, Part::backward_weight);
  const double share = is_backward ? 1 - kForwardShare : kForwardShare;
  pass.kernels.push_back({Kernel::Kind::logits, 0, memory_us(seen * words * share), 0, 1});
  if (is_backward) pass.kernels.push_back({Kernel::Kind::weights, 0, memory_us(words * h), 0, 1});
  if (layout_.tp > 1 && layout_.has_sequence_parallel)
    pass.calls.push_back(
        {Dimension::tp, is_backward ? Collective::reduce_scatter : Collective::all_gather, tokens_ * h * kept_bytes_, 1, 0, 0});
  if (layout_.tp > 1 && !layout_.has_sequence_parallel && is_backward)
    pass.calls.push_back({Dimension::tp, Collective::all_reduce, tokens_ * h * kept_bytes_, 1, 0, 0});
  pass.launches += facts_.end;
  return pass;
}

Pass LayerWork::convolution(int layer, Part part) const {
  const Convolution& c = model_.convolutions[static_cast<std::size_t>(layer)];
  const double points = static_cast<double>(layout_.micro_batch) * c.side * c.side;
  const double width = static_cast<double>(c.in) * c.kernel * c.kernel, out = static_cast<double>(c.out);
  Pass pass;
  add(pass, {points, out, width, 1, true}, part);
  // An implicit product: what it reads is the input, not the unfolded matrix.
  pass.kernels.back().kind = Kernel::Kind::convolution;
  pass.kernels.back().inner = 0;  // tiles follow one another along millions of points
  pass.kernels.back().memory_us = memory_us((points * (static_cast<double>(c.in) + out) + width * out) * kept_bytes_);
  pass.launches = facts_.convolution;
  if (!c.has_norm || part == Part::backward_weight) return pass;
  // Batch norm with its activation: statistics (read), normalised (read, write); backwards two reads of each, and a write.
  pass.kernels.push_back(
      {Kernel::Kind::image_elementwise, 0, memory_us(points * out * kept_bytes_ * (part == Part::forward ? 3 : 5)), 0, 2});
  return pass;
}

}  // namespace peal::training
