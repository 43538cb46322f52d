#include "choose_shards.hpp"

#include <algorithm>
#include <optional>

namespace peal::training {
namespace {

using Kind = Part::Kind;

class Chooser {
 public:
  Chooser(const Graph& graph, int shards) : graph_(graph), shards_(shards), must_be_whole_(graph.operators.size()) {}

  std::vector<Sharding> choose() {
    // Users of one parameter that want it cut differently have it whole; then others have to be looked at anew.
    do {
      has_conflict_ = false;
      chosen_.assign(graph_.operators.size(), std::nullopt);
      made_.assign(graph_.operators.size(), Sharding());
      for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
        const Operator& op = graph_.operators[i];
        if (op.kind > OperatorKind::parameter) made_[i] = sharding_of(op);
      }
    } while (has_conflict_);
    for (std::size_t i = 0; i < chosen_.size(); ++i)
      if (chosen_[i]) made_[i].makes = *chosen_[i];
    return made_;
  }

 private:
  bool is_parameter(int number) const { return graph_.operators[static_cast<std::size_t>(number)].kind == OperatorKind::parameter; }
  const Shape& shape(int number) const { return graph_.operators[static_cast<std::size_t>(number)].shape; }
  bool divides(std::int64_t size) const { return shards_ > 1 && size % shards_ == 0; }
  Kind kind_of(int number) const { return made_[static_cast<std::size_t>(number)].makes == Kind::columns ? Kind::columns : Kind::whole; }

  bool can_be(int parameter, Kind kind) const {
    const auto number = static_cast<std::size_t>(parameter);
    return kind == Kind::whole || (is_parameter(parameter) && !must_be_whole_[number] && chosen_[number].value_or(kind) == kind);
  }
  void want(int parameter, Kind kind) {
    const auto number = static_cast<std::size_t>(parameter);
    if (chosen_[number].value_or(kind) != kind) must_be_whole_[number] = has_conflict_ = true;
    chosen_[number] = kind;
  }

  Sharding with(const Operator& op, std::vector<Kind> needs, Kind makes) {
    Sharding sharding{std::move(needs), std::vector<bool>(op.inputs.size()), makes};
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (is_parameter(op.inputs[i]))
        want(op.inputs[i], sharding.needs[i]);
      else
        sharding.shares[i] = makes != Kind::whole && sharding.needs[i] == Kind::whole && !is_choice(op.inputs[i]);
    }
    return sharding;
  }
  bool is_choice(int number) const { return graph_.operators[static_cast<std::size_t>(number)].below > 0; }
  Sharding whole(const Operator& op) { return with(op, std::vector<Kind>(op.inputs.size(), Kind::whole), Kind::whole); }

  Sharding matmul(const Operator& op) {
    const int weight = op.inputs[1];
    const Kind by_inner = op.transposes ? Kind::columns : Kind::rows, by_outer = op.transposes ? Kind::rows : Kind::columns;
    if (kind_of(op.inputs[0]) == Kind::columns && !is_parameter(op.inputs[0]) && is_parameter(weight) && can_be(weight, by_inner))
      return with(op, {Kind::columns, by_inner}, Kind::sum);
    if (is_parameter(weight) && divides(op.shape[1]) && can_be(weight, by_outer)) return with(op, {Kind::whole, by_outer}, Kind::columns);
    return whole(op);
  }

  /// Element by element: columns stay columns where all operands are, or are parameters that can be.
  Sharding by_element(const Operator& op) {
    bool has_columns = false;
    for (const int used : op.inputs) {
      const bool is_cut = !is_parameter(used) && kind_of(used) == Kind::columns;
      has_columns = has_columns || is_cut;
      if (!is_cut && !(is_parameter(used) && divides(shape(used).back()) && can_be(used, Kind::columns))) return whole(op);
    }
    return has_columns ? with(op, std::vector<Kind>(op.inputs.size(), Kind::columns), Kind::columns) : whole(op);
  }

  Sharding attention(const Operator& op) {
    const bool are_cut =
        std::all_of(op.inputs.begin(), op.inputs.end(), [&](int used) { return !is_parameter(used) && kind_of(used) == Kind::columns; });
    const std::int64_t shared_heads = shape(op.inputs[1])[1] * op.heads / op.shape[1];
    return are_cut && divides(op.heads) && divides(shared_heads) ? with(op, std::vector<Kind>(3, Kind::columns), Kind::columns) : whole(op);
  }

  Sharding embedding(const Operator& op) {
    const int table = op.inputs[1];
    if (is_parameter(table) && divides(shape(table)[0]) && can_be(table, Kind::rows)) return with(op, {Kind::whole, Kind::rows}, Kind::sum);
    return whole(op);
  }

  Sharding sharding_of(const Operator& op) {
    switch (op.kind) {
      case OperatorKind::matmul: return matmul(op);
      case OperatorKind::embedding: return embedding(op);
      case OperatorKind::attention: return attention(op);
      case OperatorKind::add:
      case OperatorKind::multiply:
      case OperatorKind::relu:
      case OperatorKind::gelu:
      case OperatorKind::silu: return by_element(op);
      default: return whole(op);
    }
  }

  const Graph& graph_;
  int shards_;
  std::vector<bool> must_be_whole_;
  std::vector<std::optional<Kind>> chosen_;  ///< of parameters
  std::vector<Sharding> made_;
  bool has_conflict_ = false;
};

}  // namespace

std::vector<Sharding> choose_shards(const Graph& graph, int shards) { return Chooser(graph, shards).choose(); }

}  // namespace peal::training
