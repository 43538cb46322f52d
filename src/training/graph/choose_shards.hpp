// How the tensors of a graph are divided among the shards of a stage: parameters decide, what is computed follows.
#pragma once

#include <training/cut_graph.hpp>

namespace peal::training {

/// Of one operator that computes.
struct Sharding {
  std::vector<Part::Kind> needs;  ///< of each operand
  std::vector<bool> shares;       ///< a whole operand of which each shard makes a part of something: its gradient comes in parts
  Part::Kind makes = Part::Kind::whole;
};

/// By operator of the graph; inputs are whole, a parameter has its kind in `makes`. Matrices are cut by columns where what goes in is
/// whole, and by rows where it is cut by columns, so that pairs need one sum (arXiv 1909.08053, section 3).
std::vector<Sharding> choose_shards(const Graph& graph, int shards);

}  // namespace peal::training
