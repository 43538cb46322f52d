// Our own YAML form of machines and clusters; the form itself is described in topology/machine.hpp.
#include <charconv>
#include <filesystem>
#include <topology/link_catalogue.hpp>
#include <topology/machine.hpp>

#include <topology/yaml_tree.hpp>
#include "fabric/read_fabric.hpp"
#include "most_figures.hpp"
#include "read_wire_figures.hpp"

namespace peal::topology {
namespace {

constexpr int kMostMachineDevices = 100'000;
constexpr int kMostLinks = 1'000'000;

bool read_index(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc{} && end == text.data() + text.size() && value >= 0 && value <= kMostMachineDevices;
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
    if (ids.size() + static_cast<std::size_t>(last - first) >= kMostMachineDevices) {
      return fail(ErrorCode::corrupt, "{}: '{}' stands for more than {} ids", where, pattern, kMostMachineDevices);
    }
    for (int i = first; i <= last; ++i) ids.push_back(fmt::format("{}{}{}", pattern.substr(0, open), i, pattern.substr(close + 1)));
    if (comma == std::string_view::npos) return ids;
    rest.remove_prefix(comma + 1);
  }
}

template <class Kind>
tl::unexpected<Failure> unknown_kind(const std::string& where, std::string_view word) {
  std::vector<std::string_view> names;
  for (int k = 0; !name_of(static_cast<Kind>(k)).empty(); ++k) names.push_back(name_of(static_cast<Kind>(k)));
  return fail(ErrorCode::corrupt, "{}: '{}' is no kind; known are {}", where, word, fmt::join(names, ", "));
}

Result<DeviceKind> read_device_kind(YamlFields& fields) {
  PEAL_ASSIGN(const std::string word, fields.text("kind"));
  if (const auto kind = device_kind_of(word)) return *kind;
  return unknown_kind<DeviceKind>(fields.where(*fields.find("kind")), word);
}

/// What a link and a port say alike. A generation of data/links that `of:` names fills in what is not written beside it.
struct Wire {
  LinkKind kind = LinkKind::pcie;
  Bandwidth bandwidth;
  Bandwidth usable;
  Nanoseconds latency;
  std::string scope;
  std::string source;
  std::string usable_source;  ///< empty: nothing better than the line rate is known
  std::string latency_source;
};

Result<LinkKind> read_link_kind(YamlFields& fields, const LinkGeneration* of) {
  if (of != nullptr && !fields.has("kind")) return of->kind;
  PEAL_ASSIGN(const std::string word, fields.text("kind"));
  if (const auto kind = link_kind_of(word)) return *kind;
  return unknown_kind<LinkKind>(fields.where(*fields.find("kind")), word);
}

/// Who said the line rate: the file's own source says how it is wired, and where `of:` gives the rate its source is named too.
Result<std::string> read_line_source(YamlFields& fields, const LinkGeneration* of) {
  PEAL_ASSIGN(const std::string own, fields.text("source", ""));
  if (of == nullptr || fields.has("GBps")) return own.empty() ? fmt::format("declared in {}", fields.where()) : own;
  return own.empty() ? of->origin() : fmt::format("{}; {}", own, of->origin());
}

Result<Wire> read_wire(YamlFields& fields) {
  PEAL_ASSIGN(const LinkGeneration* of, read_generation(fields));
  Wire wire;
  PEAL_ASSIGN(wire.kind, read_link_kind(fields, of));
  const bool has_line = of == nullptr || fields.has("GBps");
  const bool has_usable = of == nullptr || fields.has("usable_GBps") || of->usable_source.empty();
  wire.bandwidth = has_line ? Bandwidth{} : of->bandwidth;
  if (has_line) {
    PEAL_ASSIGN(const double line, fields.number("GBps", 1e-6, kMostGBps));
    wire.bandwidth = Bandwidth::gigabytes(line);
  }
  // A wire that is declared slower than its generation cannot carry what the generation carries.
  wire.usable = has_usable ? wire.bandwidth : std::min(of->usable, wire.bandwidth);
  if (fields.has("usable_GBps")) {
    PEAL_ASSIGN(const double usable, fields.number("usable_GBps", 1e-6, kMostGBps));
    wire.usable = Bandwidth::gigabytes(usable);
  }
  PEAL_ASSIGN(wire.latency.value, fields.number("latency_ns", 0, kMostNanoseconds, of == nullptr ? 0 : of->latency.value));
  PEAL_ASSIGN(wire.scope, fields.text("scope", of == nullptr ? std::string() : of->scope));
  PEAL_ASSIGN(wire.source, read_line_source(fields, of));
  PEAL_ASSIGN(wire.usable_source, fields.text("usable_source", has_usable ? std::string() : of->usable_source));
  PEAL_ASSIGN(wire.latency_source,
              fields.text("latency_source", of == nullptr || fields.has("latency_ns") ? std::string() : of->latency_source));
  return wire;
}

Result<Port> read_port(const YamlNode& node, const std::string& file) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "port"));
  PEAL_ASSIGN(Wire wire, read_wire(fields));
  PEAL_TRY(fields.finish());
  if (!is_network(wire.kind)) return fail(ErrorCode::corrupt, "{}: a port is infiniband or ethernet", fields.where());
  if (!wire.usable_source.empty()) wire.source += "; usable: " + wire.usable_source;
  if (!wire.latency_source.empty()) wire.source += "; latency: " + wire.latency_source;
  return Port{wire.kind, wire.bandwidth, wire.usable, wire.latency, std::move(wire.scope), std::move(wire.source)};
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
  PEAL_ASSIGN(device.node, fields.integer("node", -1, kMostMachineDevices, 0));
  PEAL_ASSIGN(device.numa, fields.integer("numa", -1, 4096, -1));
  PEAL_ASSIGN(const int rail, fields.integer("rail", -1, kMostMachineDevices, -1));
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
  if (graph.device_count() + static_cast<int>(ids.size()) > kMostMachineDevices) {
    return fail(ErrorCode::corrupt, "{}: more than {} devices: describe one node and repeat it with `nodes:`", fields.where(),
                kMostMachineDevices);
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

/// Which ends of a link's two lists are wired to each other.
Result<std::vector<std::pair<int, int>>> pairs_of(const std::string& join, const std::vector<int>& a, const std::vector<int>& b,
                                                  std::size_t most, const std::string& where) {
  const bool is_each = join == "each" || join == "mesh";
  if (!is_each && join != "pair" && join != "group") {
    return fail(ErrorCode::corrupt,
                "{}: join is '{}': write each (all with all), pair (first with first), group (equal shares of a with each of b) or mesh "
                "(every two of a)",
                where, join);
  }
  if (join == "pair" && a.size() != b.size())
    return fail(ErrorCode::corrupt, "{}: join: pair needs as many ids in a ({}) as in b ({})", where, a.size(), b.size());
  if (join == "group" && a.size() % b.size() != 0)
    return fail(ErrorCode::corrupt, "{}: join: group needs equal shares, {} ids in a over {} in b leave some over", where, a.size(),
                b.size());
  if (join == "mesh" && a != b)
    return fail(ErrorCode::corrupt, "{}: join: mesh wires the ids of a to each other: write the same in b", where);
  const std::size_t count = join == "each" ? a.size() * b.size() : join == "mesh" ? a.size() * (a.size() - 1) / 2 : a.size();
  if (count > most) {
    return fail(ErrorCode::corrupt, "{}: more than {} links: describe one node and repeat it with `nodes:`", where, kMostLinks);
  }
  std::vector<std::pair<int, int>> pairs;
  pairs.reserve(count);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (join == "pair") pairs.emplace_back(a[i], b[i]);
    if (join == "group") pairs.emplace_back(a[i], b[i / (a.size() / b.size())]);
    for (std::size_t k = join == "mesh" ? i + 1 : 0; is_each && k < b.size(); ++k) pairs.emplace_back(a[i], b[k]);
  }
  return pairs;
}

Status read_machine_link(const YamlNode& node, const std::string& file, Graph& graph) {
  PEAL_ASSIGN(YamlFields fields, YamlFields::of(node, file, "link"));
  PEAL_ASSIGN(const std::vector<int> a, ends_of(fields, "a", graph));
  PEAL_ASSIGN(const std::vector<int> b, ends_of(fields, "b", graph));
  Link link;
  PEAL_ASSIGN(Wire wire, read_wire(fields));
  PEAL_ASSIGN(link.count, fields.integer("count", 1, 1'000'000, 1));
  PEAL_ASSIGN(link.is_shared, fields.flag("shared", false));
  PEAL_ASSIGN(link.host_bridge, fields.integer("host_bridge", -1, kMostMachineDevices, -1));
  PEAL_ASSIGN(const std::string join, fields.text("join", "each"));
  PEAL_TRY(fields.finish());
  link.kind = wire.kind;
  link.bandwidth = wire.bandwidth;
  link.usable = wire.usable;
  link.latency = wire.latency;
  link.scope = std::move(wire.scope);
  link.source = std::move(wire.source);
  link.usable_source = wire.usable_source.empty() ? link.source : std::move(wire.usable_source);
  PEAL_ASSIGN(const auto pairs, pairs_of(join, a, b, static_cast<std::size_t>(kMostLinks - graph.link_count()), fields.where()));
  for (const auto& [from, to] : pairs) {
    Link one = link;
    one.a = from;
    one.b = to;
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
    for (const YamlNode& node : links->items) PEAL_TRY(read_machine_link(node, name, graph));
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
