#include "trace_node.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace peal::training {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kKinds[kNodeKinds] = {"unknown", "metadata", "memory load", "memory store",
                                                 "compute", "send",     "receive",     "collective"};

/// Chakra's CollectiveCommType, by number. Its reduce_scatter_block is MPI's word for equal blocks.
constexpr std::optional<Collective> kCollectives[] = {
    Collective::all_reduce, Collective::reduce,     Collective::all_gather,     Collective::gather,         Collective::scatter,
    Collective::broadcast,  Collective::all_to_all, Collective::reduce_scatter, Collective::reduce_scatter, std::nullopt};

double within(double number, double most) { return number >= 0 && number <= most ? number : -1; }

std::vector<std::uint64_t> ids_in(const Json& json, std::initializer_list<const char*> keys) {
  std::vector<std::uint64_t> ids;
  for (const char* key : keys) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_array()) continue;
    for (const Json& id : *it)
      if (id.is_number_unsigned()) ids.push_back(id.get<std::uint64_t>());
  }
  return ids;
}

}  // namespace

std::string_view name_of(NodeKind kind) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  return number < kNodeKinds ? kKinds[number] : std::string_view();
}

void set_kind(TraceNode& node, double number) {
  node.kind = within(number, kNodeKinds - 1) < 0 ? NodeKind::unknown : static_cast<NodeKind>(static_cast<int>(number));
}

void set_number(TraceNode& node, std::string_view attribute, double number) {
  constexpr double kMostRanks = 1 << 24, kMostBytes = 1e18;
  if (std::isnan(number)) return;
  if (attribute == "is_cpu_op") node.is_on_cpu = number != 0;
  if (attribute == "comm_size" && within(number, kMostBytes) >= 0) node.bytes = number;
  if ((attribute == "comm_src" || attribute == "comm_dst") && (attribute == "comm_src") == (node.kind == NodeKind::receive))
    node.peer = static_cast<int>(within(number, kMostRanks));
  if (attribute == "comm_tag" && std::fabs(number) < kMostBytes) node.tag = static_cast<std::int64_t>(number);
  // Sends and receives have a number of another meaning there.
  if (attribute == "comm_type" && node.kind == NodeKind::collective && within(number, std::size(kCollectives) - 1) >= 0)
    node.collective = kCollectives[static_cast<std::size_t>(number)];
}

void set_text(TraceNode& node, std::string_view attribute, const std::string& text) {
  if (attribute == "pg_name") node.group = text;
}

Result<RankTrace> read_trace_json(std::string_view text, RankTrace trace) {
  constexpr std::size_t kMostBytes = 256u << 20;
  if (text.size() > kMostBytes) return fail(ErrorCode::corrupt, "{}: more than 256 MiB of JSON; give the .et form", trace.file);
  const Json json = Json::parse(text, nullptr, false);
  const auto list = json.is_object() ? json.find("workload_graph") : json.end();
  if (!json.is_object()) return fail(ErrorCode::corrupt, "{}: not JSON, or cut off; nothing was read of it", trace.file);
  if (list == json.end() || !list->is_array())
    return fail(ErrorCode::corrupt, "{}: neither a graph (\"schema\": \"peal.graph/1\") nor a Chakra trace (\"workload_graph\": [...])",
                trace.file);
  std::set<std::uint64_t> ids;
  for (const Json& item : *list) {
    TraceNode node;
    const auto id = item.is_object() ? item.find("Id") : item.end();
    if (!item.is_object() || id == item.end() || !id->is_number_unsigned())
      return fail(ErrorCode::corrupt, "{}: node {} has no \"Id\"", trace.file, trace.nodes.size());
    node.id = id->get<std::uint64_t>();
    if (!ids.insert(node.id).second) return fail(ErrorCode::corrupt, "{}: two nodes have the id {}", trace.file, node.id);
    if (const auto name = item.find("Name"); name != item.end() && name->is_string()) node.name = name->get<std::string>();
    if (const auto kind = item.find("NodeType"); kind != item.end() && kind->is_number()) set_kind(node, kind->get<double>());
    if (const auto time = item.find("runtime"); time != item.end() && time->is_number())
      node.duration_us = std::max(0.0, time->get<double>());
    node.after = ids_in(item, {"ctrlDeps", "ctrl_deps", "dataDeps", "data_deps"});
    for (const auto& [key, value] : item.items()) {
      if (value.is_string())
        set_text(node, key, value.get_ref<const std::string&>());
      else if (value.is_boolean())
        set_number(node, key, value.get<bool>() ? 1 : 0);
      else if (value.is_number())
        set_number(node, key, value.get<double>());
    }
    trace.nodes.push_back(std::move(node));
  }
  return trace;
}

}  // namespace peal::training
