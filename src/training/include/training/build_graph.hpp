// The computation graph of a transformer of the catalogue, of one sequence.
#pragma once

#include <training/graph.hpp>
#include <training/model.hpp>

namespace peal::training {

/// Embedding (layer 0), layers from 1, final norm, head and loss (the last). Queries, keys and values are matrices of their own; rotary
/// positions, ALiBi and dropout, which have no parameters and cut nothing, are left out. Fails for what has no operators here: experts,
/// latent attention, norms of queries and keys, BERT's heads, convolutions.
Result<Graph> build_graph(const Model& model, std::int64_t rows);

/// A model of the same form that is small enough to prove cuts on: two columns a head, few layers, at most, and widths that divide among
/// `shards` where the model's do.
Model small_model(const Model& model, int stages, int shards);

}  // namespace peal::training
