#include "split_stages.hpp"

#include <algorithm>
#include <map>

namespace peal::training {
namespace {

/// What cannot be divided between stages: a layer, or an operator of a graph without layers.
struct Unit {
  int layer = 0;
  double flops = 0;
  std::vector<int> operators;
};

std::vector<Unit> units_of(const Graph& graph) {
  std::map<int, Unit> units;
  for (int i = 0; i < static_cast<int>(graph.operators.size()); ++i) {
    const Operator& op = graph.operators[static_cast<std::size_t>(i)];
    if (op.kind <= OperatorKind::parameter) continue;
    Unit& unit = units[graph.has_layers ? op.layer : i];
    unit.layer = op.layer;
    unit.flops += flops_of(graph, i);
    unit.operators.push_back(i);
  }
  std::vector<Unit> list;
  for (auto& [key, unit] : units) list.push_back(std::move(unit));
  return list;
}

int stages_at(const std::vector<Unit>& units, double most) {
  int stages = 1;
  double sum = 0;
  for (const Unit& unit : units) {
    if (sum > 0 && sum + unit.flops > most) ++stages, sum = 0;
    sum += unit.flops;
  }
  return stages;
}

/// The least cost that a costliest stage can have, by bisection.
double least_cost(const std::vector<Unit>& units, int stages) {
  double low = 0, high = 0;
  for (const Unit& unit : units) low = std::max(low, unit.flops), high += unit.flops;
  if (stages_at(units, low) <= stages) return low;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (stages_at(units, middle) <= stages ? high : low) = middle;
  }
  return high;
}

/// First unit of each stage after the first.
std::vector<std::size_t> balanced(const std::vector<Unit>& units, int stages) {
  const double most = least_cost(units, stages);
  std::vector<std::size_t> firsts;
  double sum = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t stages_left = static_cast<std::size_t>(stages) - 1 - firsts.size();
    const bool must = units.size() - i == stages_left;  // every further stage still gets one
    if (i > 0 && stages_left > 0 && (must || sum + units[i].flops > most)) firsts.push_back(i), sum = 0;
    sum += units[i].flops;
  }
  return firsts;
}

Result<std::vector<std::size_t>> as_given(const std::vector<Unit>& units, const CutOptions& options) {
  std::vector<std::size_t> firsts;
  for (const int layer : options.first_layers) {
    const auto it = std::find_if(units.begin(), units.end(), [&](const Unit& unit) { return unit.layer == layer; });
    const auto number = static_cast<std::size_t>(it - units.begin());
    if (it == units.end() || number == 0 || (!firsts.empty() && number <= firsts.back()))
      return fail(ErrorCode::invalid_argument,
                  "no stage can begin with layer {}; give layers after the first, in ascending order, of {} to {}", layer,
                  units.front().layer, units.back().layer);
    firsts.push_back(number);
  }
  return firsts;
}

}  // namespace

Result<std::vector<int>> split_stages(const Graph& graph, const CutOptions& options) {
  const std::vector<Unit> units = units_of(graph);
  const int count = static_cast<int>(units.size());
  if (options.stages < 1 || options.stages > count)
    return fail(ErrorCode::invalid_argument, "a graph of {} {} cannot be cut into {} stages; give from 1 to {}", count,
                graph.has_layers ? "layers" : "operators", options.stages, count);
  if (!options.first_layers.empty() && !graph.has_layers)
    return fail(ErrorCode::invalid_argument, "the graph has no layers to begin stages with; give its operators a \"layer\"");
  if (!options.first_layers.empty() && static_cast<int>(options.first_layers.size()) + 1 != options.stages)
    return fail(ErrorCode::invalid_argument, "{} stages begin with {} layers after the first; give {}", options.stages,
                options.first_layers.size(), options.stages - 1);
  std::vector<std::size_t> firsts = balanced(units, options.stages);
  if (!options.first_layers.empty()) {
    PEAL_ASSIGN(firsts, as_given(units, options));
  }
  std::vector<int> stage_of(graph.operators.size(), -1);
  int stage = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (static_cast<std::size_t>(stage) < firsts.size() && i == firsts[static_cast<std::size_t>(stage)]) ++stage;
    for (const int op : units[i].operators) stage_of[static_cast<std::size_t>(op)] = stage;
  }
  return stage_of;
}

}  // namespace peal::training
