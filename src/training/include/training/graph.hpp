// A computation graph: operators, the tensors that they make, and who uses them. Each operator makes one tensor and shares its name with
// it.
//
// Tensors have one dimension (numbers of rows' classes, biases, norms) or two: rows (tokens, samples) x columns (features).
// The cut over ranks is cut_graph.hpp's; JSON of the schema peal.graph/1 is explained in docs/guide/models.md.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peal::training {

enum class OperatorKind : std::uint8_t {
  input,       ///< numbers, or (Operator::below) whole numbers that choose rows or classes
  parameter,   ///< that is learnt
  matmul,      ///< [m, k] x [k, n]; with `transposes` the second is [n, k]
  add,         ///< of equal shapes, or the second is one row
  multiply,    ///< of equal shapes, element by element
  relu,        //
  gelu,        ///< with erf
  silu,        //
  layer_norm,  ///< x, gain, bias: over each row, epsilon 1e-5
  rms_norm,    ///< x, gain
  softmax,     ///< over each row
  attention,   ///< queries, keys, values: rows look at rows (`causal`: not at later ones), `heads` side by side, keys and values also fewer
  embedding,   ///< ids, table [rows, columns]
  cross_entropy,  ///< logits, classes: mean over rows, one number
  // What the cut inserts: between ranks.
  all_reduce,  ///< sum of the group's parts; its gradient goes back as it is
  all_gather,  ///< the group's columns side by side; of the gradient each takes its own
  share,       ///< the tensor as it is; the gradient is summed over the group
  send,
  receive,
};
inline constexpr int kOperatorKinds = 19;
std::string_view name_of(OperatorKind kind) noexcept;
/// Joins ranks: all_reduce and what follows it.
constexpr bool is_communication(OperatorKind kind) noexcept { return kind >= OperatorKind::all_reduce; }

using Shape = std::vector<std::int64_t>;
std::int64_t elements_of(const Shape& shape);
std::string shown(const Shape& shape);  ///< "[4, 8]"

struct Operator {
  std::string name;
  OperatorKind kind = OperatorKind::input;
  std::vector<int> inputs;  ///< by number, all smaller than its own
  Shape shape;              ///< of what it makes
  int layer = 0;            ///< operators of a layer stay together in a stage
  std::int64_t below = 0;   ///< input: whole numbers below it; 0: real numbers
  std::int64_t first = 0;   ///< embedding: the whole table's number of this table's first row; ids of other rows give zeros
  int heads = 1;            ///< attention
  bool is_causal = false;   ///< attention
  bool transposes = false;  ///< matmul: the second operand
};

struct Graph {
  std::string name;
  std::vector<Operator> operators;  ///< each after what it uses
  std::vector<int> outputs;         ///< nobody uses them, or they were named
  bool has_layers = false;          ///< some operator named its layer

  int find(std::string_view name) const;  ///< -1: there is none
};

/// Reads JSON of the schema peal.graph/1. Fails with one sentence: a cycle is named operator by operator, a shape by the operator that it
/// does not fit. At most 16 MiB and 100,000 operators.
Result<Graph> read_graph(std::string_view text, const std::string& where);
/// True where a JSON text says that it is such a graph.
bool is_graph_json(std::string_view text);
std::string graph_json(const Graph& graph);

/// What an operator makes of operands of these shapes; fails where they do not fit. Not for input, parameter and what the cut inserts.
Result<Shape> shape_of(const Operator& op, std::span<const Shape> operands);

/// Floating-point operations, forward, of one operator: products of matmul and attention; of others one an element.
double flops_of(const Graph& graph, int number);
double flops_of(const Graph& graph);
std::int64_t parameters(const Graph& graph);

/// Operators by kind, parameters, operations.
std::string graph_text(const Graph& graph);

}  // namespace peal::training
