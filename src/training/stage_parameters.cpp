#include "stage_parameters.hpp"

#include <algorithm>

namespace peal::training {

StageParameters stage_parameters(const Model& model, const Layout& layout, int stage) {
  StageParameters s;
  if (!model.is_transformer()) {
    s.dense = static_cast<double>(parameters(model)) / layout.pp;
    return s;
  }
  const Transformer& t = model.transformer;
  const double tp = layout.tp, h = static_cast<double>(t.hidden);
  for (int chunk = stage; chunk < layout.chunks(); chunk += layout.pp) {
    const LayerRange range = layers_of(model, layout, chunk);
    for (int layer = range.first; layer < range.first + range.count; ++layer) {
      const LayerParameters p = layer_parameters(t, layer);
      const double dense = static_cast<double>(p.attention + p.dense) / tp, experts = static_cast<double>(p.experts) / tp / layout.ep;
      s.dense += dense;
      s.experts += experts;
      s.largest_layer = std::max(s.largest_layer, dense + experts);
    }
    if (chunk == 0) s.embedding += static_cast<double>(embedding_parameters(t)) / tp;
    if (chunk < layout.chunks() - 1) continue;
    s.embedding += static_cast<double>(head_parameters(t)) / tp;
    // A tied head on another stage holds the embedding again.
    if (t.ties_embeddings && chunk > 0) s.embedding += h * static_cast<double>(t.vocab) / tp;
  }
  s.dense += s.embedding;
  s.largest_matrix = (t.is_gated ? 2 : 1) * h * static_cast<double>(t.ffn) / tp;
  return s;
}

}  // namespace peal::training
