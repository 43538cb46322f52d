// What a number of shards leaves whole that another would divide.
#include <algorithm>
#include <numeric>
#include <training/cut_graph.hpp>

#include "choose_shards.hpp"

namespace peal::training {
namespace {

/// What every shard has and does whole.
struct Whole {
  std::vector<int> matrices, attentions;  ///< by number in the graph
  double cost = 0;                        ///< operations, and elements of matrices
};

Whole whole_of(const Graph& graph, int shards) {
  const std::vector<Sharding> sharding = choose_shards(graph, shards);
  Whole whole;
  for (int i = 0; i < static_cast<int>(sharding.size()); ++i) {
    const Operator& op = graph.operators[static_cast<std::size_t>(i)];
    if (sharding[static_cast<std::size_t>(i)].makes != Part::Kind::whole) continue;
    if (op.kind == OperatorKind::attention) whole.attentions.push_back(i);
    if (op.kind == OperatorKind::matmul || op.kind == OperatorKind::attention) whole.cost += flops_of(graph, i);
    if (op.kind != OperatorKind::parameter || op.shape.size() < 2) continue;
    whole.matrices.push_back(i);
    whole.cost += static_cast<double>(elements_of(op.shape));
  }
  return whole;
}

int missing_from(const std::vector<int>& some, const std::vector<int>& others) {
  return static_cast<int>(
      std::count_if(some.begin(), some.end(), [&](int i) { return !std::binary_search(others.begin(), others.end(), i); }));
}

}  // namespace

std::string undivided_text(const Graph& graph, const CutGraph& cut) {
  if (cut.shards == 1) return {};
  constexpr int kNear = 64, kMost = 4096;
  constexpr std::size_t kNamed = 4;
  std::vector<int> numbers(kNear - 1);
  std::iota(numbers.begin(), numbers.end(), 2);
  for (int power = 2 * kNear; power <= kMost; power *= 2) numbers.push_back(power);
  const Whole here = whole_of(graph, cut.shards);
  Whole best = here;
  std::vector<int> better;
  for (const int number : numbers) {
    Whole there = whole_of(graph, number);
    if (there.cost > best.cost || there.cost >= here.cost) continue;
    if (there.cost < best.cost) better.clear();
    better.push_back(number);
    best = std::move(there);
  }
  if (better.empty()) return {};
  std::stable_sort(better.begin(), better.end(), [&](int a, int b) { return std::abs(a - cut.shards) < std::abs(b - cut.shards); });
  better.resize(std::min(better.size(), kNamed));
  std::sort(better.begin(), better.end());
  std::vector<std::string> what;
  if (const int count = missing_from(here.matrices, best.matrices); count > 0) {
    const auto first = std::find_if(here.matrices.begin(), here.matrices.end(),
                                    [&](int i) { return !std::binary_search(best.matrices.begin(), best.matrices.end(), i); });
    const Operator& op = graph.operators[static_cast<std::size_t>(*first)];
    what.push_back(fmt::format("{} matri{} ({}{}, {})", count, count > 1 ? "ces" : "x", count > 1 ? "first " : "", op.name,
                               fmt::join(op.shape, " x ")));
  }
  if (const int count = missing_from(here.attentions, best.attentions); count > 0)
    what.push_back(fmt::format("the heads of {} attention{}", count, count > 1 ? "s" : ""));
  return fmt::format("{} shards do not divide {}, which are whole on every shard; {} divide{} all that can be", cut.shards,
                     fmt::join(what, " and "), fmt::join(better, ", "), better.size() == 1 ? "s" : "");
}

}  // namespace peal::training
