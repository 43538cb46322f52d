#include "trace_order.hpp"

#include <algorithm>
#include <unordered_map>

namespace peal::training {

TraceOrder order_of(const RankTrace& trace) {
  TraceOrder order;
  std::unordered_map<std::uint64_t, std::size_t> numbers;
  for (std::size_t i = 0; i < trace.nodes.size(); ++i) numbers.emplace(trace.nodes[i].id, i);
  order.after.resize(trace.nodes.size());
  order.before.resize(trace.nodes.size());
  std::vector<std::size_t> waits(trace.nodes.size());
  for (std::size_t i = 0; i < trace.nodes.size(); ++i)
    for (const std::uint64_t id : trace.nodes[i].after) {
      const auto it = numbers.find(id);
      if (it == numbers.end()) continue;
      order.after[i].push_back(it->second);
      order.before[it->second].push_back(i);
      ++waits[i];
    }
  for (std::size_t i = 0; i < waits.size(); ++i)
    if (waits[i] == 0) order.sequence.push_back(i);
  for (std::size_t next = 0; next < order.sequence.size(); ++next)
    for (const std::size_t user : order.before[order.sequence[next]])
      if (--waits[user] == 0) order.sequence.push_back(user);
  return order;
}

Status check_order(const RankTrace& trace) {
  const TraceOrder order = order_of(trace);
  if (order.sequence.size() == trace.nodes.size()) return {};
  std::vector<bool> can_end(trace.nodes.size());
  for (const std::size_t number : order.sequence) can_end[number] = true;
  // Of those that cannot, each waits for another: going back from any comes round.
  const auto first = static_cast<std::size_t>(std::find(can_end.begin(), can_end.end(), false) - can_end.begin());
  std::vector<std::size_t> way;
  std::vector<int> place(trace.nodes.size(), -1);
  std::size_t at = first;
  for (; place[at] < 0;) {
    place[at] = static_cast<int>(way.size());
    way.push_back(at);
    at = *std::find_if(order.after[at].begin(), order.after[at].end(), [&](std::size_t used) { return !can_end[used]; });
  }
  way.erase(way.begin(), way.begin() + place[at]);
  way.push_back(at);
  constexpr std::size_t kMostShown = 8;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(way.size(), kMostShown); ++i)
    names.push_back(fmt::format("{} (\"{}\")", trace.nodes[way[i]].id, trace.nodes[way[i]].name));
  if (way.size() > kMostShown) names.emplace_back("...");
  return fail(ErrorCode::invalid_argument, "{}: {} nodes wait for one another in a circle: {}; such a job cannot have run", trace.file,
              way.size() - 1, fmt::join(names, " waits for "));
}

LongestChain longest_chain(const RankTrace& trace) {
  const TraceOrder order = order_of(trace);
  double recorded = 0;
  for (const TraceNode& node : trace.nodes) recorded += node.duration_us;
  std::vector<double> until(trace.nodes.size());
  std::vector<std::size_t> from(trace.nodes.size(), trace.nodes.size());
  std::size_t last = trace.nodes.size();
  for (const std::size_t number : order.sequence) {
    for (const std::size_t used : order.after[number])
      if (until[used] > until[number] || from[number] == trace.nodes.size()) until[number] = until[used], from[number] = used;
    until[number] += recorded > 0 ? trace.nodes[number].duration_us : 1;
    if (last == trace.nodes.size() || until[number] > until[last]) last = number;
  }
  LongestChain chain;
  for (std::size_t at = last; at < trace.nodes.size(); at = from[at]) {
    chain.nodes.push_back(at);
    chain.duration_us += trace.nodes[at].duration_us;
  }
  std::reverse(chain.nodes.begin(), chain.nodes.end());
  return chain;
}

}  // namespace peal::training
