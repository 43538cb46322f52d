#include "gradient_buckets.hpp"

#include <algorithm>
#include <cmath>

namespace peal::training {

namespace {

std::int64_t share(std::int64_t whole, int parts) { return (whole + parts - 1) / parts; }

std::int64_t elements_of(const Convolution& c) {
  return c.in * c.out * c.kernel * c.kernel + (c.has_norm ? 2 * c.out : 0) + (c.has_bias ? c.out : 0);
}

Bucket layer_of(const Model& model, const Layout& layout, int layer) {
  Bucket bucket;
  bucket.layers = {layer, 1};
  if (!model.is_transformer()) {
    bucket.elements = elements_of(model.convolutions[static_cast<std::size_t>(layer)]);
    return bucket;
  }
  const LayerParameters parameters = layer_parameters(model.transformer, layer);
  bucket.elements = share(parameters.attention + parameters.dense, layout.tp);
  bucket.expert_elements = share(parameters.experts, layout.tp * layout.ep);
  return bucket;
}

void join(Bucket& bucket, const Bucket& next) {
  bucket.layers.count += next.layers.count;
  bucket.has_embedding |= next.has_embedding;
  bucket.has_head |= next.has_head;
  bucket.elements += next.elements;
  bucket.expert_elements += next.expert_elements;
}

}  // namespace

std::vector<Bucket> buckets_of(const Model& model, const Layout& layout, int chunk) {
  std::vector<Bucket> layers;
  const LayerRange range = layers_of(model, layout, chunk);
  for (int i = 0; i < range.count; ++i) {
    layers.push_back(layer_of(model, layout, range.first + i));
    layers.back().chunk = chunk;
  }
  // The embedding alone, or the head alone.
  if (layers.empty()) {
    layers.emplace_back().layers = range;
    layers.back().chunk = chunk;
  }
  if (model.is_transformer() && chunk == 0) {
    layers.front().has_embedding = true;
    layers.front().elements += share(embedding_parameters(model.transformer), layout.tp);
  }
  if (model.is_transformer() && chunk == layout.chunks() - 1) {
    layers.back().has_head = true;
    // A tied head on another stage holds the embedding again.
    const bool is_copy = model.transformer.ties_embeddings && chunk > 0;
    layers.back().elements += share(head_parameters(model.transformer), layout.tp) + (is_copy ? embedding_elements(model, layout) : 0);
  }
  const double most = largest_bucket(layout) / bytes_of(layout.precision);
  std::vector<Bucket> buckets;
  // Buckets fill in the order of the backward pass.
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const auto held = [](const Bucket& b) { return static_cast<double>(b.elements + b.expert_elements); };
    const bool is_new = buckets.empty() || layout.zero == 3 || held(buckets.back()) + held(*layer) > most;
    if (is_new) {
      buckets.push_back(*layer);
    } else {
      join(*layer, buckets.back());
      buckets.back() = *layer;
    }
  }
  std::reverse(buckets.begin(), buckets.end());
  if (layout.zero == 3) return buckets;
  for (Bucket& bucket : buckets)
    bucket.calls = std::max(1, static_cast<std::int32_t>(std::lround(std::max<double>(bucket.elements, bucket.expert_elements) / most)));
  return buckets;
}

std::int64_t embedding_elements(const Model& model, const Layout& layout) {
  return share(model.transformer.vocab * model.transformer.hidden, layout.tp);
}

}  // namespace peal::training
