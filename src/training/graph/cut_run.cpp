#include "cut_run.hpp"

#include <algorithm>

namespace peal::training {
namespace {

bool is_call(OperatorKind kind) {
  return kind == OperatorKind::all_reduce || kind == OperatorKind::all_gather || kind == OperatorKind::share;
}

/// Whether ranks talk in an operator: sums and gathers forward, shares backward, messages both ways.
bool talks(OperatorKind kind, bool is_backward) {
  if (kind == OperatorKind::send || kind == OperatorKind::receive) return true;
  return is_backward ? kind == OperatorKind::share : kind == OperatorKind::all_reduce || kind == OperatorKind::all_gather;
}

void add_to(Numbers& sum, const Numbers& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

Numbers side_by_side(const std::vector<const Numbers*>& parts, std::size_t rows) {
  Numbers all;
  for (std::size_t row = 0; row < rows; ++row)
    for (const Numbers* part : parts) {
      const std::size_t n = part->size() / rows;
      all.insert(all.end(), part->begin() + static_cast<std::ptrdiff_t>(row * n),
                 part->begin() + static_cast<std::ptrdiff_t>((row + 1) * n));
    }
  return all;
}

std::size_t rows_in(const Shape& shape) { return shape.size() == 2 ? static_cast<std::size_t>(shape[0]) : 1; }

}  // namespace

Numbers part_of(const Numbers& whole, const Shape& shape, const Part& part) {
  if (part.kind == Part::Kind::whole || part.kind == Part::Kind::sum) return whole;
  const bool by_rows = part.kind == Part::Kind::rows;
  const std::size_t rows = by_rows ? 1 : rows_in(shape), columns = whole.size() / rows;
  const std::size_t mine = columns / static_cast<std::size_t>(part.count), first = mine * static_cast<std::size_t>(part.index);
  Numbers numbers;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(row * columns + first);
    numbers.insert(numbers.end(), begin, begin + static_cast<std::ptrdiff_t>(mine));
  }
  return numbers;
}

CutRun::CutRun(const Graph& graph, const CutGraph& cut, const std::vector<Numbers>& whole) : graph_(graph), cut_(cut), whole_(whole) {
  for (const std::vector<RankOperator>& list : cut.ranks) {
    made_.emplace_back(list.size());
    gradient_.emplace_back();
    for (const RankOperator& op : list) gradient_.back().emplace_back(static_cast<std::size_t>(elements_of(op.op.shape)));
  }
}

const RankOperator& CutRun::at(std::size_t rank) const { return cut_.ranks[rank][static_cast<std::size_t>(next_[rank])]; }
bool CutRun::is_over(std::size_t rank) const { return next_[rank] < 0 || next_[rank] >= static_cast<int>(cut_.ranks[rank].size()); }
void CutRun::advance(std::size_t rank) { next_[rank] += is_backward_ ? -1 : 1; }

std::vector<Operand> CutRun::operands(std::size_t rank, const RankOperator& op) {
  std::vector<Operand> list;
  for (const int input : op.op.inputs) {
    const auto number = static_cast<std::size_t>(input);
    list.push_back({&made_[rank][number], &cut_.ranks[rank][number].op.shape, &gradient_[rank][number]});
  }
  return list;
}

Status CutRun::forward() {
  next_.assign(cut_.ranks.size(), 0);
  return walk();
}

Status CutRun::backward() {
  is_backward_ = true;
  for (std::size_t rank = 0; rank < cut_.ranks.size(); ++rank) {
    next_[rank] = static_cast<int>(cut_.ranks[rank].size()) - 1;
    // The last operator that made an output holds what all others go by.
    for (const int output : graph_.outputs)
      for (std::size_t i = cut_.ranks[rank].size(); i-- > 0;) {
        const RankOperator& op = cut_.ranks[rank][i];
        if (op.tensor != output || cut_.stage_of[static_cast<std::size_t>(output)] != static_cast<int>(rank) / cut_.shards) continue;
        if (op.op.kind == OperatorKind::send || op.op.kind == OperatorKind::share || op.op.kind == OperatorKind::all_gather) continue;
        std::fill(gradient_[rank][i].begin(), gradient_[rank][i].end(), 1.0);
        break;
      }
  }
  return walk();
}

Status CutRun::walk() {
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t rank = 0; rank < cut_.ranks.size(); ++rank)
      while (!is_over(rank)) {
        PEAL_ASSIGN(const bool moved, step(rank));
        if (!moved) break;
        has_moved = true;
      }
  }
  return everyone_waits();
}

Result<bool> CutRun::step(std::size_t rank) {
  const OperatorKind kind = at(rank).op.kind;
  if (!talks(kind, is_backward_)) {
    compute(rank);
    advance(rank);
    return true;
  }
  return is_call(kind) ? call(rank) : message(rank);
}

void CutRun::compute(std::size_t rank) {
  const RankOperator& op = at(rank);
  const auto number = static_cast<std::size_t>(next_[rank]);
  Numbers& made = made_[rank][number];
  const std::vector<Operand> in = operands(rank, op);
  if (!is_backward_) {
    if (op.op.kind <= OperatorKind::parameter) {
      const auto tensor = static_cast<std::size_t>(op.tensor);
      made = part_of(whole_[tensor], graph_.operators[tensor].shape, op.part);
    } else {
      made = op.op.kind == OperatorKind::share ? *in[0].numbers : evaluate_forward(op.op, in);
    }
    return;
  }
  const Numbers& gradient = gradient_[rank][number];
  if (op.op.kind == OperatorKind::all_reduce) {
    add_to(*in[0].gradient, gradient);
  } else if (op.op.kind == OperatorKind::all_gather) {
    const auto self = std::find(op.group.begin(), op.group.end(), static_cast<int>(rank));
    const Part own{Part::Kind::columns, static_cast<int>(self - op.group.begin()), static_cast<int>(op.group.size())};
    add_to(*in[0].gradient, part_of(gradient, op.op.shape, own));
  } else if (op.op.kind > OperatorKind::parameter) {
    evaluate_backward(op.op, in, made, gradient);
  }
}

/// A call goes on when all of its group stand at it.
Result<bool> CutRun::call(std::size_t rank) {
  const RankOperator& own = at(rank);
  for (const int other : own.group) {
    const auto peer = static_cast<std::size_t>(other);
    if (is_over(peer) || at(peer).op.kind != own.op.kind || at(peer).group != own.group) return false;
    if (at(peer).op.shape != own.op.shape)
      return fail(ErrorCode::mismatch, "ranks {} and {} call {} with \"{}\" {} and \"{}\" {}: sizes differ", rank, other,
                  name_of(own.op.kind), own.op.name, shown(own.op.shape), at(peer).op.name, shown(at(peer).op.shape));
  }
  finish_call(own.group);
  return true;
}

void CutRun::finish_call(const std::vector<int>& group) {
  std::vector<const Numbers*> parts;
  const RankOperator& first = at(static_cast<std::size_t>(group[0]));
  for (const int member : group) {
    const auto rank = static_cast<std::size_t>(member);
    const auto input = static_cast<std::size_t>(at(rank).op.inputs[0]);
    parts.push_back(is_backward_ ? &gradient_[rank][static_cast<std::size_t>(next_[rank])] : &made_[rank][input]);
  }
  Numbers together;
  if (first.op.kind == OperatorKind::all_gather) {
    together = side_by_side(parts, rows_in(first.op.shape));
  } else {
    together.assign(parts[0]->size(), 0);
    for (const Numbers* part : parts) add_to(together, *part);
  }
  for (const int member : group) {
    const auto rank = static_cast<std::size_t>(member);
    if (is_backward_)
      add_to(gradient_[rank][static_cast<std::size_t>(at(rank).op.inputs[0])], together);
    else
      made_[rank][static_cast<std::size_t>(next_[rank])] = together;
    advance(rank);
  }
  messages_ += static_cast<int>(group.size()) - 1;
}

/// Rendezvous: neither end goes on alone. Forward a send gives, backward its receive does.
Result<bool> CutRun::message(std::size_t rank) {
  const RankOperator& own = at(rank);
  const auto peer = static_cast<std::size_t>(own.peer);
  const OperatorKind wanted = own.op.kind == OperatorKind::send ? OperatorKind::receive : OperatorKind::send;
  if (peer >= cut_.ranks.size() || is_over(peer) || at(peer).op.kind != wanted || at(peer).peer != static_cast<int>(rank)) return false;
  const std::size_t sender = wanted == OperatorKind::receive ? rank : peer, receiver = sender == rank ? peer : rank;
  const RankOperator &send = at(sender), &receive = at(receiver);
  if (send.op.shape != receive.op.shape)
    return fail(ErrorCode::mismatch, "rank {} sends \"{}\" {} where rank {} waits for \"{}\" {}: sizes differ", sender, send.op.name,
                shown(send.op.shape), receiver, receive.op.name, shown(receive.op.shape));
  const auto source = static_cast<std::size_t>(send.op.inputs[0]), target = static_cast<std::size_t>(next_[receiver]);
  if (is_backward_)
    add_to(gradient_[sender][source], gradient_[receiver][target]);
  else
    made_[receiver][target] = made_[sender][source];
  advance(sender);
  advance(receiver);
  ++messages_;
  return true;
}

Status CutRun::everyone_waits() const {
  constexpr std::size_t kMostShown = 4;
  std::vector<std::string> waiting;
  for (std::size_t rank = 0; rank < cut_.ranks.size() && waiting.size() < kMostShown; ++rank) {
    if (is_over(rank)) continue;
    const RankOperator& op = at(rank);
    const std::string others = op.peer >= 0 ? fmt::format("rank {}", op.peer) : fmt::format("ranks {}", fmt::join(op.group, ", "));
    waiting.push_back(fmt::format("rank {} in {} of \"{}\" for {}", rank, name_of(op.op.kind), op.op.name, others));
  }
  if (waiting.empty()) return {};
  return fail(ErrorCode::mismatch, "the cut cannot finish its {} pass; for ever wait {}", is_backward_ ? "backward" : "forward",
              fmt::join(waiting, "; "));
}

}  // namespace peal::training
