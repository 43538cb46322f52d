// What the data-parallel ranks of a stage tell one another: units of layers that are gathered, buckets of gradients. Private to this room.
#pragma once

#include <training/step_graph.hpp>

namespace peal::training {

/// Layers of one chunk that travel together.
struct Bucket {
  int chunk = 0;
  LayerRange layers;
  bool has_embedding = false;
  bool has_head = false;
  std::int64_t elements = 0;  ///< as Task::elements
  std::int64_t expert_elements = 0;
  std::int32_t calls = 1;
};

/// Of a chunk, in the order of the forward pass. With ZeRO 3 one a layer, else as few as largest_bucket() allows.
std::vector<Bucket> buckets_of(const Model& model, const Layout& layout, int chunk);

/// Of the word embedding, as one tensor-parallel rank holds it: what tied embeddings share.
std::int64_t embedding_elements(const Model& model, const Layout& layout);

}  // namespace peal::training
