// The whole graph and the cut one on the same numbers.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cut_run.hpp"

namespace peal::training {
namespace {

using Kind = Part::Kind;

constexpr double kMostFlops = 2e9;
constexpr double kMostElements = 2e7;
constexpr double kTolerance = 1e-9;

/// SplitMix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double real() { return static_cast<double>(next() >> 11) * 0x1p-52 - 1; }  ///< -1 to 1

 private:
  std::uint64_t state_;
};

std::vector<Numbers> random_numbers(const Graph& graph, std::uint64_t seed) {
  Random random(seed);
  std::vector<Numbers> numbers(graph.operators.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Operator& op = graph.operators[i];
    if (op.kind > OperatorKind::parameter) continue;
    numbers[i].resize(static_cast<std::size_t>(elements_of(op.shape)));
    for (double& number : numbers[i])
      number = op.below > 0 ? static_cast<double>(random.next() % static_cast<std::uint64_t>(op.below)) : random.real();
  }
  return numbers;
}

/// The graph as a cut of one rank: the same evaluator, no talk.
CutGraph uncut(const Graph& graph) {
  CutGraph one;
  one.stage_of.assign(graph.operators.size(), 0);
  one.ranks.emplace_back();
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    RankOperator op;
    op.op = graph.operators[i];
    op.tensor = static_cast<int>(i);
    one.ranks[0].push_back(std::move(op));
  }
  return one;
}

/// The first difference in the order of the graph, with the largest of all.
class Comparison {
 public:
  Comparison(const Graph& graph, std::string_view what) : graph_(graph), what_(what) {}

  void compare(const Numbers& expected, const Numbers& found, int tensor, const RankOperator& op, std::size_t rank) {
    ++compared_;
    double largest = 1e-300, difference = expected.size() == found.size() ? 0 : 1;
    for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
      largest = std::max(largest, std::fabs(expected[i]));
      difference = std::max(difference, std::fabs(expected[i] - found[i]));
    }
    // Sums that cancel leave rounding that is large beside them and small beside what was added.
    const double share = difference < kTolerance ? std::min(difference, difference / largest) : difference / largest;
    worst_ = std::max(worst_, share);
    if (share <= kTolerance || (first_ >= 0 && first_ <= tensor)) return;
    first_ = tensor;
    sentence_ = fmt::format("{} \"{}\" differs first: on rank {} ({}, after {}) by {:.3g} of its largest element", what_,
                            graph_.operators[static_cast<std::size_t>(tensor)].name, rank, shown(op.part), name_of(op.op.kind), share);
  }
  Status status() const {
    if (first_ < 0) return {};
    return fail(ErrorCode::mismatch, "the cut does not compute what the graph computes: {}", sentence_);
  }
  int compared() const { return compared_; }
  double worst() const { return worst_; }

 private:
  const Graph& graph_;
  std::string_view what_;
  int first_ = -1, compared_ = 0;
  double worst_ = 0;
  std::string sentence_;
};

class Verifier {
 public:
  Verifier(const Graph& graph, const CutGraph& cut, std::uint64_t seed)
      : graph_(graph),
        cut_(cut),
        numbers_(random_numbers(graph, seed)),
        one_(uncut(graph)),
        whole_(graph, one_, numbers_),
        run_(graph, cut, numbers_) {}

  Result<CutProof> verify() {
    PEAL_TRY(check_lists());
    PEAL_TRY(check_all_is_there());
    CutProof proof;
    PEAL_TRY(whole_.forward());
    PEAL_TRY(run_.forward());
    Comparison tensors(graph_, "tensor");
    compare_tensors(tensors);
    PEAL_TRY(tensors.status());
    PEAL_TRY(whole_.backward());
    PEAL_TRY(run_.backward());
    Comparison gradients(graph_, "the gradient of");
    compare_gradients(gradients);
    PEAL_TRY(gradients.status());
    return CutProof{tensors.compared(), gradients.compared(), run_.messages(), std::max(tensors.worst(), gradients.worst())};
  }

 private:
  const Shape& shape(int tensor) const { return graph_.operators[static_cast<std::size_t>(tensor)].shape; }

  /// What running relies on: numbers in range, shapes of parts, calls that name their caller.
  Status check_lists() const {
    for (std::size_t rank = 0; rank < cut_.ranks.size(); ++rank)
      for (std::size_t i = 0; i < cut_.ranks[rank].size(); ++i) {
        const RankOperator& op = cut_.ranks[rank][i];
        const bool is_call = is_communication(op.op.kind) && op.op.kind < OperatorKind::send;
        const bool is_known = op.tensor >= 0 && op.tensor < static_cast<int>(graph_.operators.size());
        const bool looks_back =
            std::all_of(op.op.inputs.begin(), op.op.inputs.end(), [&](int n) { return n >= 0 && n < static_cast<int>(i); });
        const bool names_itself = !is_call || std::count(op.group.begin(), op.group.end(), static_cast<int>(rank)) == 1;
        const bool names_others =
            std::all_of(op.group.begin(), op.group.end(), [&](int n) { return n >= 0 && n < static_cast<int>(cut_.ranks.size()); });
        if (!is_known || !looks_back || !names_itself || !names_others || op.op.shape != shape_of_part(shape(op.tensor), op.part))
          return fail(ErrorCode::mismatch, "operator {} of rank {} (\"{}\") is not one: its inputs, shape or group cannot be", i, rank,
                      op.op.name);
        PEAL_TRY(check_shapes(rank, op));
      }
    return {};
  }

  Status check_shapes(std::size_t rank, const RankOperator& op) const {
    if (op.op.kind <= OperatorKind::parameter || is_communication(op.op.kind)) return {};
    std::vector<Shape> operands;
    for (const int input : op.op.inputs) operands.push_back(cut_.ranks[rank][static_cast<std::size_t>(input)].op.shape);
    const Result<Shape> made = shape_of(op.op, operands);
    if (!made) return fail(ErrorCode::mismatch, "rank {}: {}", rank, made.error().message);
    if (*made != op.op.shape)
      return fail(ErrorCode::mismatch, "rank {}: \"{}\" makes {}, not {}", rank, op.op.name, shown(*made), shown(op.op.shape));
    return {};
  }

  /// Every output, and every part of every parameter that is used, is on some rank.
  Status check_all_is_there() const {
    std::map<int, std::pair<std::set<int>, int>> parts;  // of a tensor: which, of how many
    for (const std::vector<RankOperator>& list : cut_.ranks)
      for (const RankOperator& op : list) {
        auto& [seen, count] = parts[op.tensor];
        if (op.part.kind == Kind::whole)
          seen.insert(-1);
        else if (op.part.kind != Kind::sum)
          seen.insert(op.part.index), count = op.part.count;
      }
    std::set<int> needed(graph_.outputs.begin(), graph_.outputs.end());
    for (const Operator& op : graph_.operators)
      for (const int used : op.inputs)
        if (graph_.operators[static_cast<std::size_t>(used)].kind == OperatorKind::parameter) needed.insert(used);
    for (const int tensor : needed) {
      const auto& [seen, count] = parts[tensor];
      if (seen.count(-1) == 0 && (count == 0 || static_cast<int>(seen.size()) < count))
        return fail(ErrorCode::mismatch, "the cut lacks {} \"{}\": no ranks have all of it",
                    name_of(graph_.operators[static_cast<std::size_t>(tensor)].kind),
                    graph_.operators[static_cast<std::size_t>(tensor)].name);
    }
    return {};
  }

  void compare_tensors(Comparison& comparison) const {
    for (std::size_t rank = 0; rank < cut_.ranks.size(); ++rank)
      for (std::size_t i = 0; i < cut_.ranks[rank].size(); ++i) {
        const RankOperator& op = cut_.ranks[rank][i];
        if (op.op.kind <= OperatorKind::parameter || op.op.kind == OperatorKind::send) continue;
        const Numbers& whole = whole_.made(0, static_cast<std::size_t>(op.tensor));
        // What adds up to a tensor is compared when it has been added up.
        if (op.part.kind != Kind::sum)
          comparison.compare(part_of(whole, shape(op.tensor), op.part), run_.made(rank, i), op.tensor, op, rank);
      }
  }

  void compare_gradients(Comparison& comparison) const {
    for (std::size_t rank = 0; rank < cut_.ranks.size(); ++rank)
      for (std::size_t i = 0; i < cut_.ranks[rank].size(); ++i) {
        const RankOperator& op = cut_.ranks[rank][i];
        if (op.op.kind != OperatorKind::parameter) continue;
        const Numbers& whole = whole_.gradient(0, static_cast<std::size_t>(op.tensor));
        comparison.compare(part_of(whole, shape(op.tensor), op.part), run_.gradient(rank, i), op.tensor, op, rank);
      }
  }

  const Graph& graph_;
  const CutGraph& cut_;
  std::vector<Numbers> numbers_;
  CutGraph one_;
  CutRun whole_, run_;
};

}  // namespace

std::string shown(const Part& part) {
  constexpr std::string_view kNames[] = {"whole", "rows", "columns", "sum"};
  const std::string_view name = kNames[static_cast<int>(part.kind)];
  return part.kind == Kind::whole ? std::string(name) : fmt::format("{} {} of {}", name, part.index, part.count);
}

Result<CutProof> verify_cut(const Graph& graph, const CutGraph& cut, std::uint64_t seed) {
  double flops = 0, elements = 0;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    flops += flops_of(graph, static_cast<int>(i)) * cut.shards;
    elements += static_cast<double>(elements_of(graph.operators[i].shape)) * cut.shards;
  }
  if (flops > kMostFlops || elements > kMostElements)
    return fail(ErrorCode::invalid_argument,
                "running the graph takes {:.3g} operations on {:.3g} elements; a cut is proved on small shapes, at most {:.0g} and {:.0g}: "
                "give the same graph with fewer rows and columns, or --unproved",
                flops, elements, kMostFlops, kMostElements);
  return Verifier(graph, cut, seed).verify();
}

double gradient_error(const Graph& graph, std::uint64_t seed) {
  constexpr double kStep = 1e-5;
  std::vector<Numbers> numbers = random_numbers(graph, seed);
  const CutGraph one = uncut(graph);
  const auto sum_of_outputs = [&] {
    CutRun run(graph, one, numbers);
    double sum = 0;
    if (run.forward())
      for (const int output : graph.outputs)
        for (const double number : run.made(0, static_cast<std::size_t>(output))) sum += number;
    return sum;
  };
  CutRun run(graph, one, numbers);
  if (!run.forward() || !run.backward()) return 1;
  Random random(seed + 1);
  double worst = 0, largest = 1e-300;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (graph.operators[i].kind != OperatorKind::parameter) continue;
    for (int sample = 0; sample < 3; ++sample) {
      double& element = numbers[i][random.next() % numbers[i].size()];
      const double gradient = run.gradient(0, i)[static_cast<std::size_t>(&element - numbers[i].data())], was = element;
      element = was + kStep;
      const double above = sum_of_outputs();
      element = was - kStep;
      const double below = sum_of_outputs();
      element = was;
      largest = std::max(largest, std::fabs(gradient));
      worst = std::max(worst, std::fabs(gradient - (above - below) / (2 * kStep)));
    }
  }
  return worst / largest;
}

}  // namespace peal::training
