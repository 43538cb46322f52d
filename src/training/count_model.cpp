// Parameters and floating-point operations of a model, part by part.
#include <training/model.hpp>

namespace peal::training {
namespace {

std::int64_t norm_parameters(const Transformer& t) { return t.norm == Norm::layer && t.has_biases ? 2 * t.hidden : t.hidden; }

/// Weights of the matrices alone, which is what floating-point operations are counted by.
std::int64_t attention_weights(const Transformer& t) {
  const std::int64_t heads = t.heads;
  if (!t.latent) return t.hidden * t.head_dim * (2 * heads + 2 * static_cast<std::int64_t>(t.kv_heads));
  const LatentAttention& l = *t.latent;
  const std::int64_t query_width = heads * (l.plain + l.rotary);
  const std::int64_t query = l.query_rank > 0 ? (t.hidden + query_width) * l.query_rank : t.hidden * query_width;
  const std::int64_t key_value = t.hidden * (l.key_value_rank + l.rotary) + l.key_value_rank * heads * (l.plain + l.value);
  return query + key_value + heads * l.value * t.hidden;
}

std::int64_t attention_rest(const Transformer& t) {
  std::int64_t rest = norm_parameters(t);
  if (t.latent) return rest + t.latent->query_rank + t.latent->key_value_rank;  // the norms of the short vectors
  if (t.has_biases || t.has_query_key_biases) rest += t.head_dim * (t.heads + 2 * static_cast<std::int64_t>(t.kv_heads));
  if (t.has_biases) rest += t.hidden;
  if (t.has_query_key_norms) rest += 2 * t.head_dim;
  return rest;
}

std::int64_t matrices_of_feed_forward(const Transformer& t) { return t.is_gated ? 3 : 2; }

std::int64_t dense_weights(const Transformer& t, int layer) {
  const std::int64_t matrices = matrices_of_feed_forward(t);
  if (!t.has_experts(layer)) return matrices * t.hidden * t.ffn;
  const Experts& e = t.experts;
  return t.hidden * e.count + e.shared * matrices * t.hidden * e.ffn + (e.has_shared_gate ? t.hidden : 0);
}

std::int64_t dense_rest(const Transformer& t, int layer) {
  const std::int64_t biases = t.has_biases && !t.has_experts(layer) ? (t.is_gated ? 2 : 1) * t.ffn + t.hidden : 0;
  return norm_parameters(t) + biases;
}

/// BERT's masked-token head is a dense layer with its norm and the words' biases; the other is a choice of two.
std::int64_t pre_training_heads(const Transformer& t) {
  const std::int64_t dense = t.hidden * t.hidden + t.hidden;
  return dense + (dense + norm_parameters(t) + t.vocab) + (2 * t.hidden + 2);
}

/// Weights that every token meets, forward.
double weights_of_a_token(const Transformer& t) {
  double weights = static_cast<double>(t.vocab) * static_cast<double>(t.hidden);
  if (t.has_pooler) weights += static_cast<double>(t.hidden * t.hidden);
  for (int layer = 0; layer < t.layers; ++layer)
    weights += static_cast<double>(attention_weights(t) + dense_weights(t, layer) + layer_parameters(t, layer).active_experts);
  return weights;
}

/// Products of scores and of values of one token with `seq_len` others, of all layers, forward.
double attention_products(const Transformer& t, double seq_len) {
  const double width =
      t.latent ? static_cast<double>(t.latent->plain + t.latent->rotary + t.latent->value) : 2.0 * static_cast<double>(t.head_dim);
  return t.layers * static_cast<double>(t.heads) * width * seq_len;
}

}  // namespace

LayerParameters layer_parameters(const Transformer& t, int layer) {
  LayerParameters of;
  of.attention = attention_weights(t) + attention_rest(t);
  of.dense = dense_weights(t, layer) + dense_rest(t, layer);
  if (!t.has_experts(layer)) return of;
  const std::int64_t expert = matrices_of_feed_forward(t) * t.hidden * t.experts.ffn;
  of.experts = t.experts.count * expert;
  of.active_experts = t.experts.chosen * expert;
  return of;
}

std::int64_t embedding_parameters(const Transformer& t) {
  return (t.vocab + t.positions + t.token_types) * t.hidden + (t.has_embedding_norm ? norm_parameters(t) : 0);
}

std::int64_t head_parameters(const Transformer& t) {
  return (t.has_final_norm ? norm_parameters(t) : 0) + (t.ties_embeddings ? 0 : t.vocab * t.hidden) +
         (t.has_pooler ? pre_training_heads(t) : 0);
}

std::int64_t extra_prediction_parameters(const Transformer& t) {
  return t.extra_predictions * (layer_parameters(t, t.layers).total() + 2 * t.hidden * t.hidden + 3 * norm_parameters(t));
}

std::int64_t parameters(const Model& model) {
  std::int64_t sum = 0;
  for (const Convolution& c : model.convolutions)
    sum += c.in * c.out * c.kernel * c.kernel + (c.has_norm ? 2 * c.out : 0) + (c.has_bias ? c.out : 0);
  if (!model.is_transformer()) return sum;
  const Transformer& t = model.transformer;
  for (int layer = 0; layer < t.layers; ++layer) sum += layer_parameters(t, layer).total();
  return sum + embedding_parameters(t) + head_parameters(t);
}

std::int64_t active_parameters(const Model& model) {
  std::int64_t sum = parameters(model);
  for (int layer = 0; layer < model.transformer.layers; ++layer) {
    const LayerParameters of = layer_parameters(model.transformer, layer);
    sum -= of.experts - of.active_experts;
  }
  return sum;
}

double training_flops(const Model& model, std::int64_t seq_len, bool is_causal_halved) {
  constexpr double kForwardAndBackward = 3, kMultiplyAndAdd = 2;
  if (!model.is_transformer()) {
    double products = 0;
    for (const Convolution& c : model.convolutions) products += static_cast<double>(c.in * c.out * c.kernel * c.kernel) * c.side * c.side;
    return kForwardAndBackward * kMultiplyAndAdd * products;
  }
  const Transformer& t = model.transformer;
  const double share = t.is_causal && is_causal_halved ? 0.5 : 1;
  const double tokens = static_cast<double>(seq_len);
  return kForwardAndBackward * kMultiplyAndAdd * tokens * (weights_of_a_token(t) + share * attention_products(t, tokens));
}

}  // namespace peal::training
