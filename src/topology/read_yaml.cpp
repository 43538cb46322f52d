// Our own YAML form of machines and clusters; the form itself is described in topology/machine.hpp.
#include <charconv>
#include <filesystem>
#include <topology/machine.hpp>

#include "read_fabric.hpp"
#include "yaml_tree.hpp"

namespace peal::topology {
namespace {

constexpr int kMostDevices = 100'000;
constexpr int kMostLinks = 1'000'000;
constexpr double kMostGBps = 1e6;
constexpr double kMostNanoseconds = 1e12;

bool read_index(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc{} && end == text.data() + text.size() && value >= 0 && value <= kMostDevices;
}

/// "gpu[0-3,6]x" -> gpu0x gpu1x gpu2x gpu3x gpu6x.
Result<std::vector<std::string>> expand(const std::string& pattern, const std::string& where) {
  const auto open = pattern.find('[');
  if (open == std::string::npos) return std::vector<std::string>{pattern};
  const auto close = pattern.find(']', open);
  const auto refuse = [&] {
    return fail(ErrorCode::corrupt, "{}: '{}' is no range: write it as gpu[0-7] or gpu[0,2,4-5]", where, pattern);
  };
  if (close == std::string::npos || pattern.find('[', open + 1) != std::string::npos) return refuse();
  std::vector<std::string> ids;
  std::string_view rest = std::string_view(pattern).substr(open + 1, close - open - 1);
  while (true) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto dash = part.find('-');
    int first = 0;
    int last = 0;
    if (!read_index(part.substr(0, dash), first) || !read_index(dash == std::string_view::npos ? part : part.substr(dash + 1), last) ||
        last < first)
      return refuse();
    if (ids.size() + static_cast<std::size_t>(last - first) >= kMostDevices) {
      return fail(ErrorCode::corrupt, "{}: '{}' stands for more than {} ids", where, pattern, kMostDevices);
    }
    for (int i = first; i <= last; ++i) ids.push_back(fmt::format("{}{}{}", pattern.substr(0, open), i, pattern.substr(close + 1)));
    if (comma == std::string_view::npos) return ids;
    rest.remove_prefix(comma + 1);
  }
}

template <class Kind>
tl::unexpected<Failure> unknown_kind(const std::string& where, std::string_view word) {
  std::vector<std::string_view> names;
  for (int k = 0; k < 10; ++k) names.push_back(name_of(static_cast<Kind>(k)));
  return fail(ErrorCode::corrupt, "{}: '{}' is no kind; known are {}", where, word, fmt::join(names, ", "));
}

Result<DeviceKind> read_device_kind(YamlFields& fields) {
  PEAL_ASSIGN(const std::string word, fields.text("kind"));
  if (const auto kind = device_kind_of(word)) return *kind;
  return unknown_kind<DeviceKind>(fields.where(*fields.find("kind")), word);
}

Result<LinkKind> read_link_kind(YamlFields& fields) {
  PEAL_ASSIGN(const std::string word, fields.text("kind"));
  if (const auto kind = link_kind_of(word)) return *kind;
  return unknown_kind<LinkKind>(fields.where(*fields.find("kind")), word);
}

Result<Port> read_port(const YamlNode& node, const std::string& file) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "port"));
  Port port;
  PEAL_ASSIGN(port.kind, read_link_kind(fields));
  if (!is_network(port.kind)) return fail(ErrorCode::corrupt, "{}: a port is infiniband or ethernet", fields.where());
  PEAL_ASSIGN(const double line, fields.number("GBps", 1e-6, kMostGBps));
  PEAL_ASSIGN(const double usable, fields.number("usable_GBps", 1e-6, kMostGBps, line));
  PEAL_ASSIGN(const double latency, fields.number("latency_ns", 0, kMostNanoseconds, 0));
  PEAL_ASSIGN(port.scope, fields.text("scope", ""));
  PEAL_ASSIGN(port.source, fields.text("source", fmt::format("declared in {}", fields.where())));
  for (std::string_view key : {"usable_source", "latency_source"}) {
    PEAL_ASSIGN(const std::string source, fields.text(key, ""));
    if (!source.empty()) port.source += fmt::format("; {}: {}", key.substr(0, key.find('_')), source);
  }
  PEAL_TRY(fields.finish());
  port.bandwidth = Bandwidth::gigabytes(line);
  port.usable = Bandwidth::gigabytes(usable);
  port.latency = {latency};
  return port;
}

Status read_attributes(const YamlNode& node, const std::string& file, const std::string& source, Device& device) {
  if (node.kind != YamlNode::Kind::map)
    return fail(ErrorCode::corrupt, "{}:{}: attributes are a mapping such as {{sm: 80}}", file, node.line);
  for (const auto& [key, value] : node.fields) {
    if (value.kind != YamlNode::Kind::scalar)
      return fail(ErrorCode::corrupt, "{}:{}: attribute '{}' must be one word or number", file, value.line, key);
    device.attributes.push_back({key, value.text, source});
  }
  return {};
}

Status read_device(const YamlNode& node, const std::string& file, Graph& graph) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "device"));
  PEAL_ASSIGN(const std::string pattern, fields.text("id"));
  PEAL_ASSIGN(const std::vector<std::string> ids, expand(pattern, fields.where()));
  Device device;
  PEAL_ASSIGN(device.kind, read_device_kind(fields));
  PEAL_ASSIGN(device.name, fields.text("name", ""));
  PEAL_ASSIGN(device.node, fields.integer("node", -1, kMostDevices, 0));
  PEAL_ASSIGN(device.numa, fields.integer("numa", -1, 4096, -1));
  PEAL_ASSIGN(const int rail, fields.integer("rail", -1, kMostDevices, -1));
  PEAL_ASSIGN(const double capacity, fields.number("capacity_GBps", 0, kMostGBps, 0));
  device.capacity = Bandwidth::gigabytes(capacity);
  PEAL_ASSIGN(device.source, fields.text("source", fmt::format("declared in {}", fields.where())));
  if (const YamlNode* port = fields.find("port")) {
    PEAL_ASSIGN(device.port, read_port(*port, file));
  }
  if (const YamlNode* attributes = fields.find("attributes")) PEAL_TRY(read_attributes(*attributes, file, device.source, device));
  PEAL_TRY(fields.finish());
  if (rail >= 0 && (device.kind != DeviceKind::nic || !device.port)) {
    return fail(ErrorCode::corrupt, "{}: '{}' has a rail but no port: add `port: {{kind: ethernet, GBps: 12.5}}` to a device of kind nic",
                fields.where(), pattern);
  }
  if (graph.device_count() + static_cast<int>(ids.size()) > kMostDevices) {
    return fail(ErrorCode::corrupt, "{}: more than {} devices: describe one node and repeat it with `nodes:`", fields.where(),
                kMostDevices);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Device copy = device;
    copy.id = ids[i];
    copy.rail = rail < 0 ? -1 : rail + static_cast<int>(i);
    if (auto added = graph.add_device(std::move(copy)); !added)
      return fail(ErrorCode::corrupt, "{}: {}", fields.where(), added.error().message);
  }
  return {};
}

Result<std::vector<int>> ends_of(YamlFields& fields, std::string_view key, const Graph& graph) {
  PEAL_ASSIGN(const std::string pattern, fields.text(key));
  const std::string where = fields.where(*fields.find(key));
  PEAL_ASSIGN(const std::vector<std::string> ids, expand(pattern, where));
  std::vector<int> ends;
  for (const std::string& id : ids) {
    ends.push_back(graph.find(id));
    if (ends.back() < 0)
      return fail(ErrorCode::corrupt, "{}: no device is called '{}': list it under `devices:` or correct the id", where, id);
  }
  return ends;
}

Status read_link(const YamlNode& node, const std::string& file, Graph& graph) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "link"));
  PEAL_ASSIGN(const std::vector<int> a, ends_of(fields, "a", graph));
  PEAL_ASSIGN(const std::vector<int> b, ends_of(fields, "b", graph));
  Link link;
  PEAL_ASSIGN(link.kind, read_link_kind(fields));
  PEAL_ASSIGN(const double line, fields.number("GBps", 1e-6, kMostGBps));
  PEAL_ASSIGN(const double usable, fields.number("usable_GBps", 1e-6, kMostGBps, line));
  PEAL_ASSIGN(const double latency, fields.number("latency_ns", 0, kMostNanoseconds, 0));
  PEAL_ASSIGN(link.count, fields.integer("count", 1, 1'000'000, 1));
  PEAL_ASSIGN(link.is_shared, fields.flag("shared", false));
  PEAL_ASSIGN(link.scope, fields.text("scope", ""));
  PEAL_ASSIGN(link.host_bridge, fields.integer("host_bridge", -1, kMostDevices, -1));
  PEAL_ASSIGN(link.source, fields.text("source", fmt::format("declared in {}", fields.where())));
  PEAL_ASSIGN(link.usable_source, fields.text("usable_source", link.source));
  PEAL_ASSIGN(const std::string join, fields.text("join", "each"));
  PEAL_TRY(fields.finish());
  if (join != "each" && join != "pair")
    return fail(ErrorCode::corrupt, "{}: join is '{}': write each (all with all) or pair (first with first)", fields.where(), join);
  if (join == "pair" && a.size() != b.size()) {
    return fail(ErrorCode::corrupt, "{}: join: pair needs as many ids in a ({}) as in b ({})", fields.where(), a.size(), b.size());
  }
  link.bandwidth = Bandwidth::gigabytes(line);
  link.usable = Bandwidth::gigabytes(usable);
  link.latency = {latency};
  const std::size_t count = join == "pair" ? a.size() : a.size() * b.size();
  if (static_cast<std::size_t>(graph.link_count()) + count > kMostLinks) {
    return fail(ErrorCode::corrupt, "{}: more than {} links: describe one node and repeat it with `nodes:`", fields.where(), kMostLinks);
  }
  for (std::size_t i = 0; i < count; ++i) {
    Link one = link;
    one.a = join == "pair" ? a[i] : a[i / b.size()];
    one.b = join == "pair" ? b[i] : b[i % b.size()];
    if (auto added = graph.add_link(std::move(one)); !added)
      return fail(ErrorCode::corrupt, "{}: {}", fields.where(), added.error().message);
  }
  return {};
}

}  // namespace

Result<Cluster> build_cluster(Graph machine, int nodes, std::string_view fabric) {
  PEAL_ASSIGN(const FabricText text, fabric.empty() ? FabricText{} : fabric_of_words(fabric));
  if (nodes < 1 || nodes > kMostLinks)
    return fail(ErrorCode::invalid_argument, "{} nodes: a number from 1 to {} is needed", nodes, kMostLinks);
  const std::string title = machine.title;
  return join_nodes(std::move(machine), nodes, text, title);
}

Result<Cluster> read_cluster_text(std::string_view text, const std::string& name) {
  PEAL_ASSIGN(const YamlNode root, parse_yaml(text, name));
  PEAL_ASSIGN(YamlFields top, YamlFields::of(root, name, "cluster file"));
  PEAL_ASSIGN(const int nodes, top.integer("nodes", 1, kMostLinks, 1));
  FabricText fabric;
  if (const YamlNode* node = top.find("fabric")) {
    PEAL_ASSIGN(fabric, read_fabric(*node, name));
  }
  PEAL_TRY(top.text("name", ""));
  PEAL_ASSIGN(const std::string title, top.text("title", ""));
  PEAL_ASSIGN(const std::string ranks, top.text("ranks", ""));
  PEAL_ASSIGN(const YamlNode* devices, top.list("devices"));
  PEAL_ASSIGN(const YamlNode* links, top.list("links"));
  PEAL_ASSIGN(const YamlNode* warnings, top.list("warnings"));
  Graph graph;
  if (const YamlNode* node = top.find("machine")) {
    PEAL_ASSIGN(const std::string machine, top.text("machine"));
    if (devices != nullptr || links != nullptr) {
      return fail(ErrorCode::corrupt, "{}: `machine:` takes its devices from the catalogue: drop it, or drop `devices:` and `links:`",
                  top.where(*node));
    }
    auto loaded = load_machine(machine);
    if (!loaded) return fail(loaded.error().code, "{}: {}", top.where(*node), loaded.error().message);
    graph = std::move(*loaded);
  } else if (devices == nullptr || devices->items.empty()) {
    PEAL_TRY(top.finish());
    return fail(ErrorCode::corrupt, "{}: nothing is described: write `machine: NAME` (see `peal machines`), or `devices:` and `links:`",
                top.where());
  }
  PEAL_TRY(top.finish());
  if (!ranks.empty()) graph.rank_kind = device_kind_of(ranks);
  if (!ranks.empty() && !graph.rank_kind) return unknown_kind<DeviceKind>(top.where(*top.find("ranks")), ranks);
  if (!title.empty() || graph.title.empty()) graph.title = title.empty() ? std::filesystem::path(name).stem().string() : title;
  if (devices != nullptr)
    for (const YamlNode& node : devices->items) PEAL_TRY(read_device(node, name, graph));
  if (links != nullptr)
    for (const YamlNode& node : links->items) PEAL_TRY(read_link(node, name, graph));
  if (warnings != nullptr)
    for (const YamlNode& node : warnings->items) graph.add_warning(node.text);
  return join_nodes(std::move(graph), nodes, fabric, top.where());
}

Result<Cluster> read_cluster_file(const std::string& path) {
  PEAL_ASSIGN(const std::string text, read_small_file(path));
  return read_cluster_text(text, path);
}

Result<Graph> read_graph_file(const std::string& path) {
  PEAL_ASSIGN(const Cluster cluster, read_cluster_file(path));
  return cluster.graph();
}

}  // namespace peal::topology
