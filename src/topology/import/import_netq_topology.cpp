// NetQ's topology graph in JSON: a list of {nodes, links}. Nodes come in tiers (`compounded_nodes`) with a device_type; `switch` is a
// switch, everything else (host, discovered_via_lldp) a host. A link joins `src` and `target` by `size` wires.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <topology/import.hpp>
#include <unordered_map>

#include "network_drawing.hpp"

namespace peal::topology {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostLevels = 64;
constexpr int kMostWires = 100'000;
/// Warnings that look for a line in the whole text.
constexpr int kMostSearches = 20;
constexpr std::size_t kMostJsonBytes = 16u << 20;

/// What a scan of the brackets tells without building anything.
struct Shape {
  bool is_too_deep = false;
  std::size_t last_close = 0;      ///< behind the last bracket that closed a value
  std::string open_at_last_close;  ///< brackets that are open there
};

Shape shape_of(std::string_view text) {
  Shape shape;
  std::string open;
  bool is_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      i += c == '\\' ? 1 : 0;
      is_string = c != '"';
      continue;
    }
    is_string = c == '"';
    if (c == '[' || c == '{') open += c;
    if (open.size() > kMostLevels) shape.is_too_deep = true;
    if ((c == ']' || c == '}') && !open.empty()) {
      open.pop_back();
      shape.last_close = i + 1;
      shape.open_at_last_close = open;
    }
  }
  return shape;
}

int line_at(std::string_view text, std::size_t at) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())), '\n'));
}

/// The document; of one that was cut off, what stands before the last complete value (`is_cut`).
Result<Json> parse(std::string_view text, const std::string& name, bool& is_cut, Remarks& remarks) {
  const Shape shape = shape_of(text);
  if (shape.is_too_deep)
    return fail(ErrorCode::corrupt, "{}:1: values are nested more than {} deep: is it NetQ's topology graph?", name, kMostLevels);
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_discarded()) return json;
  std::string repaired(text.substr(0, shape.last_close));
  for (auto it = shape.open_at_last_close.rbegin(); it != shape.open_at_last_close.rend(); ++it) repaired += *it == '[' ? ']' : '}';
  json = Json::parse(repaired, nullptr, false);
  if (json.is_discarded()) return fail(ErrorCode::corrupt, "{}:1: not JSON, and nothing before a cut is", name);
  is_cut = true;
  remarks.add(line_at(text, shape.last_close), "the file is cut off behind this line: what comes before is read");
  return json;
}

std::string text_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? short_name(it->get_ref<const std::string&>()) : std::string();
}

/// The list below a key, or an empty one.
const Json& list_of(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  if (!object.is_object()) return kNone;
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? *it : kNone;
}

class Drawer {
 public:
  Drawer(Graph& graph, Remarks& remarks, std::string_view text, bool is_cut, const std::string& source, WireFigures rate)
      : graph_(graph), remarks_(remarks), text_(text), is_cut_(is_cut), network_(graph, remarks, source), rate_(std::move(rate)) {}
  Status draw(const Json& part);

 private:
  Status add_node(const Json& node);
  Status add_link(const Json& link);
  Result<int> end_of(const std::string& id);
  /// JSON has no line numbers: where the name stands first.
  int line_of(const std::string& name) const { return line_at(text_, std::min(text_.find('"' + name + '"'), text_.size())); }

  Graph& graph_;
  Remarks& remarks_;
  std::string_view text_;
  bool is_cut_;
  NetworkDrawing network_;
  WireFigures rate_;
  std::unordered_map<std::string, int> devices_;  ///< by NetQ's id
  int unknown_ = 0;
};

Status Drawer::add_node(const Json& node) {
  if (!node.is_object()) return {};
  const std::string id = text_of(node, "id");
  const std::string type = text_of(node, "device_type");
  if (id.empty() || devices_.contains(id)) return {};
  std::string name = text_of(node, "name");
  if (name.empty()) name = id;
  const auto attributes = [&] {
    return std::vector<Attribute>{{"netq_id", id, network_.source()}, {"device_type", type.empty() ? "unknown" : type, network_.source()}};
  };
  // Two nodes of one name are two devices.
  const std::string unique = graph_.find(name) < 0 ? name : name + "/" + id;
  PEAL_ASSIGN(const int index,
              type.find("switch") != std::string::npos ? network_.net_switch(unique, attributes()) : network_.host(unique, attributes()));
  devices_.emplace(id, index);
  return {};
}

/// Device of a link's end, or -1. Where the file was cut off before its nodes, an end that it names is taken for a host.
Result<int> Drawer::end_of(const std::string& id) {
  const auto it = devices_.find(id);
  if (it != devices_.end()) return it->second;
  if (!is_cut_ || id.empty()) return -1;
  PEAL_ASSIGN(const int index, network_.host(id, {{"device_type", "unknown", network_.source()}}));
  if (++unknown_ <= kMostSearches) remarks_.add(line_of(id), "what {} is stood in the part that was cut off: it is taken for a host", id);
  devices_.emplace(id, index);
  return index;
}

Status Drawer::add_link(const Json& link) {
  if (!link.is_object()) return {};
  const std::string source = text_of(link, "src");
  const std::string target = text_of(link, "target");
  PEAL_ASSIGN(const int a, end_of(source));
  PEAL_ASSIGN(const int b, end_of(target));
  if (a < 0 || b < 0) {
    if (++unknown_ <= kMostSearches)
      remarks_.add(line_of(source), "a link joins {} and {}, of which one is no node: left out", source, target);
    return {};
  }
  const std::size_t listed = list_of(link, "compounded_links").size();
  const auto size = link.find("size");
  std::int64_t wires = size != link.end() && size->is_number_integer() ? size->get<std::int64_t>() : static_cast<std::int64_t>(listed);
  wires = std::clamp<std::int64_t>(wires, 1, kMostWires);
  if (listed > 0 && static_cast<std::int64_t>(listed) != wires && ++unknown_ <= kMostSearches)
    remarks_.add(line_of(text_of(link, "id")), "{} to {} has {} wires by its size and {} in its list: the list counts", source, target,
                 wires, listed);
  if (listed > 0) wires = static_cast<std::int64_t>(std::min<std::size_t>(listed, kMostWires));
  return network_.join(a, b, LinkKind::ethernet, rate_, static_cast<int>(wires), 0);
}

Status Drawer::draw(const Json& part) {
  for (const Json& tier : list_of(part, "nodes")) {
    const Json& inner = list_of(tier, "compounded_nodes");
    for (const Json& node : inner) PEAL_TRY(add_node(node));
    if (inner.empty() && tier.is_object() && text_of(tier, "node_type") != "tier") PEAL_TRY(add_node(tier));
  }
  for (const Json& link : list_of(part, "links")) PEAL_TRY(add_link(link));
  return {};
}

}  // namespace

Result<Graph> import_netq_topology(std::string_view text, const std::string& name) {
  if (text.size() > kMostJsonBytes)
    return fail(ErrorCode::corrupt, "{}:1: the file has {} bytes, more than 16 MiB: give a part of the network", name, text.size());
  PEAL_ASSIGN(const ImportRates* rates, ImportRates::load());
  PEAL_ASSIGN(WireFigures rate, rates->assumed("ethernet"));
  Graph graph;
  Remarks remarks(graph, name);
  bool is_cut = false;
  PEAL_ASSIGN(const Json root, parse(text, name, is_cut, remarks));
  Drawer drawer(graph, remarks, text, is_cut, fmt::format("NetQ topology graph in {}", name), rate);
  if (root.is_object()) PEAL_TRY(drawer.draw(root));
  if (root.is_array())
    for (const Json& part : root) PEAL_TRY(drawer.draw(part));
  if (graph.device_count() == 0) {
    return fail(ErrorCode::corrupt, "{}:1: no topology graph of NetQ: a list of objects with `nodes` and `links` is needed", name);
  }
  if (graph.link_count() > 0)
    remarks.add(0, "the file does not say how fast links are: {:.6g} GB/s of Ethernet are assumed for each wire", rate.line.gigabytes());
  remarks.finish();
  const auto hosts = graph.devices_of(DeviceKind::cpu).size();
  graph.title = fmt::format("{} hosts, {} switches by NetQ", hosts, static_cast<std::size_t>(graph.device_count()) - hosts);
  return graph;
}

}  // namespace peal::topology
