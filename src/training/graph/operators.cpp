// What operators are called, which shapes they take, and what they cost.
#include <array>
#include <map>
#include <training/graph.hpp>

namespace peal::training {
namespace {

constexpr std::string_view kNames[kOperatorKinds] = {
    "input",   "parameter", "matmul",    "add",           "multiply",   "relu",       "gelu",  "silu", "layer_norm", "rms_norm",
    "softmax", "attention", "embedding", "cross_entropy", "all_reduce", "all_gather", "share", "send", "receive"};

std::string all_shown(std::span<const Shape> operands) {
  std::string text;
  for (const Shape& shape : operands) text += fmt::format("{}{}", text.empty() ? "" : ", ", shown(shape));
  return text;
}

std::size_t operands_of(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::relu:
    case OperatorKind::gelu:
    case OperatorKind::silu:
    case OperatorKind::softmax: return 1;
    case OperatorKind::layer_norm:
    case OperatorKind::attention: return 3;
    default: return 2;
  }
}

bool is_row_of(const Shape& row, const Shape& matrix) { return row.size() == 1 && row[0] == matrix.back(); }

/// Groups of heads may share keys and values, which are as many columns fewer.
bool attends(const Operator& op, std::span<const Shape> in) {
  if (in[0].size() != 2 || in[1].size() != 2 || in[1] != in[2] || in[0][0] != in[1][0] || in[0][1] % op.heads != 0) return false;
  const std::int64_t dim = in[0][1] / op.heads;
  return in[1][1] % dim == 0 && op.heads % (in[1][1] / dim) == 0;
}

bool fits(const Operator& op, std::span<const Shape> in) {
  switch (op.kind) {
    case OperatorKind::matmul: return in[0].size() == 2 && in[1].size() == 2 && in[0][1] == in[1][op.transposes ? 1 : 0];
    case OperatorKind::add: return in[0] == in[1] || is_row_of(in[1], in[0]);
    case OperatorKind::multiply: return in[0] == in[1];
    case OperatorKind::layer_norm: return in[0].size() == 2 && is_row_of(in[1], in[0]) && is_row_of(in[2], in[0]);
    case OperatorKind::rms_norm: return in[0].size() == 2 && is_row_of(in[1], in[0]);
    case OperatorKind::softmax: return in[0].size() == 2;
    case OperatorKind::attention: return attends(op, in);
    case OperatorKind::embedding: return in[0].size() == 1 && in[1].size() == 2;
    case OperatorKind::cross_entropy: return in[0].size() == 2 && in[1].size() == 1 && in[1][0] == in[0][0];
    default: return true;
  }
}

std::string_view wants(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::matmul: return "[m, k] and [k, n] (or, with \"transpose\": true, [n, k])";
    case OperatorKind::add: return "two equal shapes, or a matrix and one row of it";
    case OperatorKind::multiply: return "two equal shapes";
    case OperatorKind::layer_norm: return "[m, n], [n], [n]";
    case OperatorKind::rms_norm: return "[m, n], [n]";
    case OperatorKind::attention: return "[m, n], n a multiple of \"heads\", and two equal shapes of it or of a divisor of its heads";
    case OperatorKind::embedding: return "[m] and [rows, columns]";
    case OperatorKind::cross_entropy: return "[m, classes] and [m]";
    default: return "a matrix";
  }
}

}  // namespace

std::string_view name_of(OperatorKind kind) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  return number < std::size(kNames) ? kNames[number] : std::string_view();
}

std::int64_t elements_of(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return elements;
}

std::string shown(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Result<Shape> shape_of(const Operator& op, std::span<const Shape> in) {
  const std::size_t needed = operands_of(op.kind);
  if (in.size() != needed)
    return fail(ErrorCode::invalid_argument, "{} \"{}\" has {} inputs; it takes {}", name_of(op.kind), op.name, in.size(), needed);
  if (!fits(op, in))
    return fail(ErrorCode::invalid_argument, "{} \"{}\" cannot take shapes {}; it takes {}", name_of(op.kind), op.name, all_shown(in),
                wants(op.kind));
  switch (op.kind) {
    case OperatorKind::matmul: return Shape{in[0][0], in[1][op.transposes ? 0 : 1]};
    case OperatorKind::embedding: return Shape{in[0][0], in[1][1]};
    case OperatorKind::cross_entropy: return Shape{1};
    default: return in[0];
  }
}

int Graph::find(std::string_view wanted) const {
  for (std::size_t i = 0; i < operators.size(); ++i)
    if (operators[i].name == wanted) return static_cast<int>(i);
  return -1;
}

double flops_of(const Graph& graph, int number) {
  const Operator& op = graph.operators[static_cast<std::size_t>(number)];
  const auto operand = [&](std::size_t i) -> const Shape& { return graph.operators[static_cast<std::size_t>(op.inputs[i])].shape; };
  const double made = static_cast<double>(elements_of(op.shape));
  switch (op.kind) {
    case OperatorKind::input:
    case OperatorKind::parameter: return 0;
    case OperatorKind::matmul: return 2 * made * static_cast<double>(operand(0)[1]);
    case OperatorKind::attention: return 4 * made * static_cast<double>(op.shape[0]);
    case OperatorKind::cross_entropy: return static_cast<double>(elements_of(operand(0)));
    default: return made;
  }
}

double flops_of(const Graph& graph) {
  double sum = 0;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) sum += flops_of(graph, static_cast<int>(i));
  return sum;
}

std::int64_t parameters(const Graph& graph) {
  std::int64_t sum = 0;
  for (const Operator& op : graph.operators)
    if (op.kind == OperatorKind::parameter) sum += elements_of(op.shape);
  return sum;
}

std::string graph_text(const Graph& graph) {
  std::map<OperatorKind, int> kinds;
  for (const Operator& op : graph.operators) ++kinds[op.kind];
  std::string text = fmt::format("graph {}: {} operators, {} parameters, {:.4g} floating-point operations forward\n", graph.name,
                                 graph.operators.size(), parameters(graph), flops_of(graph));
  for (const auto& [kind, count] : kinds) text += fmt::format("  {:14} {:6}\n", name_of(kind), count);
  for (const int output : graph.outputs) {
    const Operator& op = graph.operators[static_cast<std::size_t>(output)];
    text += fmt::format("  output {} {}\n", op.name, shown(op.shape));
  }
  return text;
}

}  // namespace peal::training
