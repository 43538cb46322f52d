#include <map>
#include <nlohmann/json.hpp>
#include <training/cut_graph.hpp>

namespace peal::training {
namespace {

/// What one rank holds and does.
struct RankSummary {
  int operators = 0;
  std::int64_t parameters = 0;
  double flops = 0;  ///< of a forward pass
  std::map<OperatorKind, int> talks;
  std::int64_t elements = 0;  ///< that all_reduce, all_gather and send move, forward
};

RankSummary summary_of(const std::vector<RankOperator>& list) {
  RankSummary of;
  // A rank's list is a graph by itself but for what it gets from others.
  Graph own;
  for (const RankOperator& op : list) own.operators.push_back(op.op);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Operator& op = list[i].op;
    if (is_communication(op.kind)) {
      ++of.talks[op.kind];
      if (op.kind == OperatorKind::all_reduce || op.kind == OperatorKind::all_gather || op.kind == OperatorKind::send)
        of.elements += elements_of(op.shape);
      continue;
    }
    ++of.operators;
    if (op.kind == OperatorKind::parameter) of.parameters += elements_of(op.shape);
    of.flops += flops_of(own, static_cast<int>(i));
  }
  return of;
}

/// "columns": how the shards of a stage divide each parameter.
std::map<std::string, std::string> parameters_of(const Graph& graph, const CutGraph& cut) {
  constexpr std::string_view kNames[] = {"whole", "rows", "columns", "sum"};
  std::map<std::string, std::string> ways;
  for (const std::vector<RankOperator>& list : cut.ranks)
    for (const RankOperator& op : list)
      if (op.op.kind == OperatorKind::parameter)
        ways[graph.operators[static_cast<std::size_t>(op.tensor)].name] = kNames[static_cast<int>(op.part.kind)];
  return ways;
}

}  // namespace

std::string cut_text(const Graph& graph, const CutGraph& cut) {
  std::string text =
      fmt::format("{} stages of {} shards = {} ranks\n{:>5} {:>6} {:>6} {:>10} {:>12} {:>12} {:>12}  {}\n", cut.stages, cut.shards,
                  cut.ranks.size(), "rank", "stage", "shard", "operators", "parameters", "flops", "elements", "talks");
  for (std::size_t rank = 0; rank < cut.ranks.size(); ++rank) {
    const RankSummary of = summary_of(cut.ranks[rank]);
    std::string talks;
    for (const auto& [kind, count] : of.talks) talks += fmt::format("{}{} {}", talks.empty() ? "" : ", ", count, name_of(kind));
    text += fmt::format("{:5} {:6} {:6} {:10} {:12} {:12.4g} {:12}  {}\n", rank, static_cast<int>(rank) / cut.shards,
                        static_cast<int>(rank) % cut.shards, of.operators, of.parameters, of.flops, of.elements,
                        talks.empty() ? "none" : talks);
  }
  std::map<std::string, int> ways;
  for (const auto& [name, way] : parameters_of(graph, cut)) ++ways[way];
  text += "parameters:";
  for (const auto& [way, count] : ways) text += fmt::format(" {} {}", count, way == "whole" ? "whole on every shard" : "cut by " + way);
  text += "\n";
  const std::string undivided = undivided_text(graph, cut);
  return undivided.empty() ? text : text + fmt::format("Note: {}.\n", undivided);
}

std::string cut_json(const Graph& graph, const CutGraph& cut) {
  nlohmann::ordered_json json{{"schema", "peal.cut/1"}, {"graph", graph.name}, {"stages", cut.stages}, {"shards", cut.shards}};
  if (const std::string undivided = undivided_text(graph, cut); !undivided.empty()) json["undivided"] = undivided;
  for (std::size_t rank = 0; rank < cut.ranks.size(); ++rank) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const RankOperator& op : cut.ranks[rank]) {
      nlohmann::ordered_json item{{"tensor", graph.operators[static_cast<std::size_t>(op.tensor)].name},
                                  {"kind", name_of(op.op.kind)},
                                  {"part", shown(op.part)},
                                  {"shape", op.op.shape},
                                  {"inputs", op.op.inputs}};
      if (!op.group.empty()) item["group"] = op.group;
      if (op.peer >= 0) item["peer"] = op.peer;
      list.push_back(std::move(item));
    }
    json["ranks"].push_back({{"rank", rank}, {"operators", std::move(list)}});
  }
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace peal::training
