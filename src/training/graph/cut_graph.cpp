#include <algorithm>
#include <map>
#include <set>
#include <training/cut_graph.hpp>
#include <tuple>

#include "choose_shards.hpp"
#include "split_stages.hpp"

namespace peal::training {
namespace {

using Kind = Part::Kind;

/// Writes the ranks' lists. All shards of a stage have the same list but for which part is theirs, so a place in it is known by stage.
class Cutter {
 public:
  Cutter(const Graph& graph, const CutOptions& options, std::vector<int> stage_of)
      : graph_(graph), sharding_(choose_shards(graph, options.shards)) {
    cut_.stages = options.stages;
    cut_.shards = options.shards;
    cut_.ranks.resize(static_cast<std::size_t>(options.stages * options.shards));
    cut_.stage_of = std::move(stage_of);
    users_.resize(graph.operators.size());
    for (std::size_t i = 0; i < graph.operators.size(); ++i)
      for (const int used : graph.operators[i].inputs) users_[static_cast<std::size_t>(used)].insert(cut_.stage_of[i]);
  }

  CutGraph cut() {
    for (int i = 0; i < static_cast<int>(graph_.operators.size()); ++i)
      if (op(i).kind > OperatorKind::parameter) compute(i);
    return std::move(cut_);
  }

 private:
  enum class Form : std::uint8_t { made, whole, shared };  ///< of a tensor on a stage
  using Key = std::tuple<int, int, Form>;                  ///< tensor, stage, form

  const Operator& op(int number) const { return graph_.operators[static_cast<std::size_t>(number)]; }
  Kind made(int number) const { return sharding_[static_cast<std::size_t>(number)].makes; }

  std::vector<int> shards_of(int stage) const {
    std::vector<int> ranks;
    for (int i = 0; i < cut_.shards; ++i) ranks.push_back(stage * cut_.shards + i);
    return ranks;
  }

  /// One operator on every shard of a stage; returns its number in their lists.
  int emit(int stage, int tensor, OperatorKind kind, Kind part, std::vector<int> inputs, const std::vector<int>& group = {},
           int peer_stage = -1) {
    int number = 0;
    for (int shard = 0; shard < cut_.shards; ++shard) {
      std::vector<RankOperator>& list = cut_.ranks[static_cast<std::size_t>(stage * cut_.shards + shard)];
      number = static_cast<int>(list.size());
      RankOperator made;
      made.op = op(tensor);
      made.op.kind = kind;
      made.op.inputs = inputs;
      made.tensor = tensor;
      made.part = part == Kind::whole ? Part() : Part{part, shard, cut_.shards};
      made.op.shape = shape_of_part(op(tensor).shape, made.part);
      if (kind == OperatorKind::attention && part == Kind::columns) made.op.heads /= cut_.shards;
      if (kind == OperatorKind::embedding && part == Kind::sum) made.op.first = shard * op(op(tensor).inputs[1]).shape[0] / cut_.shards;
      made.group = group;
      if (peer_stage >= 0) made.peer = peer_stage * cut_.shards + shard;
      list.push_back(std::move(made));
    }
    return number;
  }

  /// Of an input or a parameter, on the stage that uses it. A parameter of several stages is kept in step by summing its gradients.
  void place(int number, int stage) {
    if (at_.count({number, stage, Form::made}) != 0) return;
    const std::set<int>& stages = users_[static_cast<std::size_t>(number)];
    if (op(number).kind == OperatorKind::input || stages.size() == 1) {
      at_[{number, stage, Form::made}] = emit(stage, number, op(number).kind, made(number), {});
      return;
    }
    for (const int holder : stages) at_[{number, holder, Form::made}] = emit(holder, number, op(number).kind, made(number), {});
    for (const int holder : stages) {
      const int list_number = emit(holder, number, OperatorKind::share, made(number), {at_[{number, holder, Form::made}]});
      for (int shard = 0; shard < cut_.shards; ++shard) {
        RankOperator& shared = cut_.ranks[static_cast<std::size_t>(holder * cut_.shards + shard)][static_cast<std::size_t>(list_number)];
        for (const int other : stages) shared.group.push_back(other * cut_.shards + shard);
      }
      at_[{number, holder, Form::made}] = list_number;
    }
  }

  int whole(int tensor, int stage) {
    if (made(tensor) != Kind::columns) return at_[{tensor, stage, Form::made}];
    const Key key{tensor, stage, Form::whole};
    if (at_.count(key) == 0) {
      const int number = emit(stage, tensor, OperatorKind::all_gather, Kind::whole, {at_[{tensor, stage, Form::made}]}, shards_of(stage));
      at_[key] = number;
    }
    return at_[key];
  }

  int shared(int tensor, int stage) {
    const Key key{tensor, stage, Form::shared};
    if (at_.count(key) == 0) {
      const int number = emit(stage, tensor, OperatorKind::share, Kind::whole, {whole(tensor, stage)}, shards_of(stage));
      at_[key] = number;
    }
    return at_[key];
  }

  int operand(int tensor, int stage, Kind need, bool shares) {
    if (op(tensor).kind <= OperatorKind::parameter) place(tensor, stage);
    if (shares) return shared(tensor, stage);
    const bool is_parameter = op(tensor).kind == OperatorKind::parameter;
    return need == Kind::whole && !is_parameter ? whole(tensor, stage) : at_[{tensor, stage, Form::made}];
  }

  void compute(int number) {
    const Sharding& sharding = sharding_[static_cast<std::size_t>(number)];
    const int stage = cut_.stage_of[static_cast<std::size_t>(number)];
    std::vector<int> inputs;
    for (std::size_t i = 0; i < op(number).inputs.size(); ++i)
      inputs.push_back(operand(op(number).inputs[i], stage, sharding.needs[i], sharding.shares[i]));
    int made_at = emit(stage, number, op(number).kind, sharding.makes, inputs);
    Kind part = sharding.makes;
    if (part == Kind::sum) made_at = emit(stage, number, OperatorKind::all_reduce, part = Kind::whole, {made_at}, shards_of(stage));
    at_[{number, stage, Form::made}] = made_at;
    for (const int user : users_[static_cast<std::size_t>(number)]) {
      if (user == stage) continue;
      emit(stage, number, OperatorKind::send, part, {made_at}, {}, user);
      at_[{number, user, Form::made}] = emit(user, number, OperatorKind::receive, part, {}, {}, stage);
    }
  }

  const Graph& graph_;
  std::vector<Sharding> sharding_;
  std::vector<std::set<int>> users_;  ///< stages, by tensor
  std::map<Key, int> at_;             ///< number in the lists of a stage's ranks
  CutGraph cut_;
};

/// Whether some parameter is divided among so many shards.
bool can_cut(const Graph& graph, int shards) {
  const std::vector<Sharding> sharding = choose_shards(graph, shards);
  for (std::size_t i = 0; i < sharding.size(); ++i)
    if (graph.operators[i].kind == OperatorKind::parameter && sharding[i].makes != Kind::whole) return true;
  return false;
}

Status check_shards(const Graph& graph, int shards) {
  if (shards == 1 || can_cut(graph, shards)) return {};
  constexpr int kFarthest = 64;
  int fewer = shards - 1, more = shards + 1;
  // Near ones first; beyond them powers of two, of which sizes are made.
  while (fewer > 1 && !can_cut(graph, fewer)) fewer = shards - fewer < kFarthest ? fewer - 1 : fewer / 2;
  while (more < shards + kFarthest && !can_cut(graph, more)) ++more;
  return fail(ErrorCode::invalid_argument, "nothing of {} divides among {} shards; give {}{}", graph.name, shards, fewer,
              can_cut(graph, more) ? fmt::format(" or {}", more) : "");
}

}  // namespace

Shape shape_of_part(const Shape& whole, const Part& part) {
  Shape shape = whole;
  if (part.kind == Kind::rows) shape.front() /= part.count;
  if (part.kind == Kind::columns) shape.back() /= part.count;
  return shape;
}

Status check_ranks(const CutOptions& options) {
  constexpr int kMostRanks = 4096;
  if (options.stages >= 1 && options.shards >= 1 && options.shards <= kMostRanks && options.stages <= kMostRanks / options.shards)
    return {};
  return fail(ErrorCode::invalid_argument, "--stages {} of --shards {} cannot be; give 1 or more of each, and at most {} ranks in all",
              options.stages, options.shards, kMostRanks);
}

Result<CutGraph> cut_graph(const Graph& graph, const CutOptions& options) {
  PEAL_TRY(check_ranks(options));
  PEAL_TRY(check_shards(graph, options.shards));
  PEAL_ASSIGN(std::vector<int> stage_of, split_stages(graph, options));
  return Cutter(graph, options, std::move(stage_of)).cut();
}

}  // namespace peal::training
