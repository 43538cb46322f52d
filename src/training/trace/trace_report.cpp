#include <algorithm>
#include <base/names.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <training/execution_trace.hpp>

namespace peal::training {
namespace {

struct Talk {
  int calls = 0;
  double bytes = 0;
};

struct Summary {
  int kinds[kNodeKinds] = {};
  double recorded_us[kNodeKinds] = {};
  std::map<std::string, Talk> talks;  ///< by collective (with its group), or send
};

void add(Summary& summary, const RankTrace& trace) {
  for (const TraceNode& node : trace.nodes) {
    ++summary.kinds[static_cast<int>(node.kind)];
    summary.recorded_us[static_cast<int>(node.kind)] += node.duration_us;
    if (node.kind != NodeKind::collective && node.kind != NodeKind::send) continue;
    std::string name = node.kind == NodeKind::send ? "send"
                       : node.collective           ? std::string(name_of(*node.collective))
                                                   : "collective without a kind";
    if (!node.group.empty()) name += " in " + node.group;
    Talk& talk = summary.talks[name];
    ++talk.calls;
    talk.bytes += node.bytes;
  }
}

std::string shortened(const std::string& name) {
  constexpr std::size_t kMost = 48;
  return name.size() <= kMost ? name : fmt::format("{:.45}...", name);
}

/// The nodes of the chain that took longest, in their order.
std::string chain_text(const RankTrace& trace) {
  constexpr std::size_t kMostShown = 6;
  const LongestChain chain = longest_chain(trace);
  std::vector<std::size_t> longest = chain.nodes;
  std::stable_sort(longest.begin(), longest.end(),
                   [&](std::size_t a, std::size_t b) { return trace.nodes[a].duration_us > trace.nodes[b].duration_us; });
  longest.resize(std::min(longest.size(), kMostShown));
  std::string text =
      fmt::format("longest chain, of rank {}: {} nodes, {:.6g} us recorded\n", trace.rank, chain.nodes.size(), chain.duration_us);
  for (const std::size_t number : chain.nodes)
    if (std::find(longest.begin(), longest.end(), number) != longest.end())
      text += fmt::format("  {:>8}  {:48} {:12} {:>10.6g} us\n", trace.nodes[number].id, shortened(trace.nodes[number].name),
                          name_of(trace.nodes[number].kind), trace.nodes[number].duration_us);
  return text;
}

const RankTrace& slowest(const std::vector<RankTrace>& traces) {
  std::size_t most = 0;
  double longest = -1;
  for (std::size_t i = 0; i < traces.size(); ++i)
    if (const double us = longest_chain(traces[i]).duration_us; us > longest) longest = us, most = i;
  return traces[most];
}

}  // namespace

std::string traces_text(const std::vector<RankTrace>& traces) {
  Summary all;
  int missing = 0;
  std::size_t nodes = 0;
  for (const RankTrace& trace : traces) add(all, trace), missing += trace.missing, nodes += trace.nodes.size();
  std::string text = fmt::format("{} rank{}, {} nodes{}\n", traces.size(), traces.size() == 1 ? "" : "s", nodes,
                                 traces.front().version.empty() ? "" : ", schema " + traces.front().version);
  for (int kind = 0; kind < kNodeKinds; ++kind)
    if (all.kinds[kind] > 0)
      text += fmt::format("  {:14} {:8} nodes {:>14.6g} us recorded\n", name_of(static_cast<NodeKind>(kind)), all.kinds[kind],
                          all.recorded_us[kind]);
  for (const auto& [name, talk] : all.talks) text += fmt::format("  {:40} {:8} calls {:>14.6g} bytes\n", name, talk.calls, talk.bytes);
  if (missing > 0) text += fmt::format("  {} dependencies are on nodes that are not in the traces\n", missing);
  return text + (nodes > 0 ? chain_text(slowest(traces)) : "");
}

std::string traces_json(const std::vector<RankTrace>& traces) {
  nlohmann::ordered_json json{{"schema", "peal.trace/1"}};
  for (const RankTrace& trace : traces) {
    Summary own;
    add(own, trace);
    nlohmann::ordered_json kinds, talks = nlohmann::ordered_json::array();
    for (int kind = 0; kind < kNodeKinds; ++kind)
      if (own.kinds[kind] > 0)
        kinds[std::string(name_of(static_cast<NodeKind>(kind)))] = {{"nodes", own.kinds[kind]}, {"recorded_us", own.recorded_us[kind]}};
    for (const auto& [name, talk] : own.talks) talks.push_back({{"call", name}, {"calls", talk.calls}, {"bytes", talk.bytes}});
    const LongestChain chain = longest_chain(trace);
    nlohmann::ordered_json ids = nlohmann::ordered_json::array();
    for (const std::size_t number : chain.nodes) ids.push_back(trace.nodes[number].id);
    json["ranks"].push_back({{"rank", trace.rank},
                             {"file", trace.file},
                             {"cut_off", trace.cut_off},
                             {"missing_dependencies", trace.missing},
                             {"kinds", std::move(kinds)},
                             {"calls", std::move(talks)},
                             {"longest_chain", {{"recorded_us", chain.duration_us}, {"ids", std::move(ids)}}}});
  }
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace peal::training
