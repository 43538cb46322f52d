// A computation graph cut over ranks: by layers into stages, by tensors into shards, with what ranks have to tell one another inserted.
// Rank = stage * shards + shard.
//
//   x (whole) -- share --> matmul, columns of W1 --> gelu --> matmul, rows of W2 --> (sum) -- all_reduce --> whole -- send/receive -->
//
// Every rank's list is a part of one order of all that happens, in which the two ends of a message, and all ranks of a call, are one
// event. So nobody waits for ever, forward or (in the opposite order) backward. verify_cut() believes none of this and tries.
#pragma once

#include <functional>
#include <training/graph.hpp>

namespace peal::training {

/// What a rank has of a tensor of the whole graph.
struct Part {
  enum class Kind : std::uint8_t { whole, rows, columns, sum };  ///< sum: what the parts of all shards add up to is the tensor
  Kind kind = Kind::whole;
  int index = 0;  ///< of `count` equal parts
  int count = 1;
};
Shape shape_of_part(const Shape& whole, const Part& part);
std::string shown(const Part& part);  ///< "columns 1 of 2"

struct RankOperator {
  Operator op;             ///< inputs by number in the rank's list; the shape is the part's
  int tensor = -1;         ///< the whole graph's, of which it makes a part
  Part part;               //
  std::vector<int> group;  ///< ranks, ascending, of all_reduce, all_gather and share
  int peer = -1;           ///< of send and receive
};

struct CutGraph {
  int stages = 1;
  int shards = 1;
  std::vector<std::vector<RankOperator>> ranks;
  std::vector<int> stage_of;  ///< by operator of the whole graph; -1: inputs and parameters, which are where they are used
};

struct CutOptions {
  int stages = 1;
  int shards = 1;
  /// The first layer of each stage after the first; empty: such that the costliest stage costs least (a graph without layers is cut
  /// between any operators).
  std::vector<int> first_layers;
};

/// Fails where there are no ranks, or more than can be listed.
Status check_ranks(const CutOptions& options);

/// Fails with one sentence where there are fewer layers than stages, or no such layer. What does not divide among shards is whole
/// on each; where nothing divides, it fails with the nearest number that does.
Result<CutGraph> cut_graph(const Graph& graph, const CutOptions& options);

/// One sentence on what is whole on every shard and would be divided by other numbers of shards, with the nearest of those; empty: nothing
/// is.
std::string undivided_text(const Graph& graph, const CutGraph& cut);

/// Stages, operators, parameters of each rank, the calls that were inserted, and what was left whole.
std::string cut_text(const Graph& graph, const CutGraph& cut);
/// Schema peal.cut/1.
std::string cut_json(const Graph& graph, const CutGraph& cut);

/// What a verification saw.
struct CutProof {
  int tensors = 0;    ///< that ranks made and that were compared
  int gradients = 0;  ///< of parameters, likewise
  int messages = 0;   ///< between ranks, forward and backward
  double worst = 0;   ///< difference, as a share of the tensor's largest element
};

/// Runs the whole graph and the cut one, all ranks in turn, on the same random numbers (`seed`), forward and backward (from the sum of all
/// outputs), in double precision. A send waits for its receive, a call for all of its group. Fails naming the first tensor that differs by
/// more than 1e-9 and 1e-9 of its largest element, or what every rank waits for where all do. At most 2e9 operations and 2e7 elements, of
/// all shards: give small shapes.
Result<CutProof> verify_cut(const Graph& graph, const CutGraph& cut, std::uint64_t seed = 1);

/// How far the gradients that cuts are held against are from central differences, as a share of the largest: three elements of each
/// parameter of a small graph are tried.
double gradient_error(const Graph& graph, std::uint64_t seed = 1);

}  // namespace peal::training
