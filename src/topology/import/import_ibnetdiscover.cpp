// ibnetdiscover as a graph; how its lines read: ibnetdiscover_lines.hpp.
//
// A switch is a net_switch named by its node description; a channel adapter a NIC of its host, which is a cpu: the first word of "node1
// mlx5_0" is the host. Each wire is listed at both ends and counts once. The link from host to NIC is no part of the file: it is
// assumed to feed the NIC's ports at their rate. Routers count as switches. The aggregation nodes inside switches (SHARP) are left out.
#include <algorithm>
#include <map>
#include <topology/import.hpp>
#include <unordered_map>

#include "ibnetdiscover_lines.hpp"
#include "import_rates.hpp"
#include "text_lines.hpp"

namespace peal::topology {
namespace {

bool is_adapter(const IbNode& node) { return node.guid.starts_with("H-"); }
bool is_aggregation_node(const IbNode& node) { return is_adapter(node) && node.description.find("Aggregation Node") != std::string::npos; }

/// "MF0;leaf1:MQM9700/U1" -> "leaf1"; with the part behind the model where a chassis has several chips ("/L3/U1"); else the whole text.
std::string switch_name(const std::string& description) {
  const auto begin = description.find(';');
  const auto end = begin == std::string::npos ? begin : description.find(':', begin);
  if (end == std::string::npos) return description;
  const auto chip = description.find('/', end);
  std::string name = description.substr(begin + 1, end - begin - 1);
  if (chip != std::string::npos && description.substr(chip) != "/U1") name += description.substr(chip);
  return name;
}

class IbDrawer {
 public:
  IbDrawer(const IbReader& reader, const ImportRates& rates, Graph& graph, Remarks& remarks, std::string source)
      : nodes_(reader.nodes()), wires_(reader.wires()), rates_(rates), graph_(graph), remarks_(remarks), source_(std::move(source)) {}
  Status draw();

 private:
  Status add_node(std::size_t i);
  Status add_adapter(const IbNode& node);
  Result<int> host_of(const std::string& name);
  WireFigures rate_of(const std::string& word, int line);
  Status add_wires();
  Status add_host_links();

  const std::vector<IbNode>& nodes_;
  const std::vector<IbWire>& wires_;
  const ImportRates& rates_;
  Graph& graph_;
  Remarks& remarks_;
  std::string source_;
  std::vector<int> device_;                     ///< of each node, -1 left out
  std::vector<int> host_;                       ///< of each node, -1 none
  std::unordered_map<std::string, int> hosts_;  ///< device by host name
  std::map<std::string, WireFigures> known_rates_;
  std::unordered_map<int, Bandwidth> port_rate_;  ///< of each NIC, all its ports
};

WireFigures IbDrawer::rate_of(const std::string& word, int line) {
  const auto it = known_rates_.find(word);
  if (it != known_rates_.end()) return it->second;
  const auto x = word.find('x');
  const auto lanes = whole_number(std::string_view(word).substr(0, x == std::string::npos ? 0 : x), kMostLanes);
  const ImportRates::Lane* lane = x == std::string::npos ? nullptr : rates_.lane(std::string_view(word).substr(x + 1));
  WireFigures rate;
  if (lanes && *lanes > 0 && lane != nullptr) {
    rate.line = rate.usable = {lane->rate.value * *lanes};
    rate.source = rate.usable_source = fmt::format("{}: {}; {}", source_, word, lane->source);
  } else {
    rate = rates_.assumed("infiniband").value_or(WireFigures{Bandwidth::gigabytes(1), Bandwidth::gigabytes(1), "assumed", "assumed"});
    const std::string what = word.empty() ? "no rate is named" : fmt::format("'{}' is no rate that is known", word);
    remarks_.add(line, "{}: {:.6g} GB/s are assumed here and wherever else that is so", what, rate.line.gigabytes());
  }
  return known_rates_.emplace(word, rate).first->second;
}

Result<int> IbDrawer::host_of(const std::string& name) {
  if (const auto it = hosts_.find(name); it != hosts_.end()) return it->second;
  Device host;
  host.id = graph_.find(name) < 0 && !name.empty() ? name : free_id(graph_, "host:" + name);
  host.kind = DeviceKind::cpu;
  host.name = "host";
  host.node = static_cast<int>(hosts_.size());
  host.source = source_;
  PEAL_ASSIGN(const int index, graph_.add_device(std::move(host)));
  hosts_.emplace(name, index);
  return index;
}

Status IbDrawer::add_adapter(const IbNode& node) {
  const std::string& text = node.description.empty() ? node.guid : node.description;
  const auto blank = text.find(' ');
  const std::string name = text.substr(0, blank);
  const std::string port = blank == std::string::npos ? node.guid : std::string(trim(std::string_view(text).substr(blank + 1)));
  PEAL_ASSIGN(const int host, host_of(name));
  Device nic;
  const std::string id = name + "/" + port;
  nic.id = graph_.find(id) < 0 ? id : free_id(graph_, id + "/" + node.guid);
  nic.kind = DeviceKind::nic;
  nic.name = "InfiniBand adapter";
  nic.node = graph_.device(host).node;
  nic.source = source_;
  nic.attributes.push_back({"guid", node.guid, source_});
  PEAL_ASSIGN(const int index, graph_.add_device(std::move(nic)));
  device_.push_back(index);
  host_.push_back(host);
  return {};
}

Status IbDrawer::add_node(std::size_t i) {
  const IbNode& node = nodes_[i];
  if (is_aggregation_node(node)) {
    device_.push_back(-1);
    host_.push_back(-1);
    return {};
  }
  if (!node.has_block) remarks_.add(node.line, "{} is named here and has no block of its own: the file may be cut", node.guid);
  if (is_adapter(node)) return add_adapter(node);
  Device device;
  const std::string name = switch_name(node.description.empty() ? node.guid : node.description);
  device.id = graph_.find(name) < 0 && !name.empty() ? name : free_id(graph_, name + "/" + node.guid);
  device.kind = DeviceKind::net_switch;
  device.name = node.description;
  device.node = -1;
  device.source = source_;
  device.attributes.push_back({"guid", node.guid, source_});
  PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
  device_.push_back(index);
  host_.push_back(-1);
  return {};
}

Status IbDrawer::add_wires() {
  using End = std::pair<int, int>;  // node, port
  std::map<End, std::pair<End, int>> joined;
  std::map<std::tuple<int, int, std::string>, int> bundles;
  std::map<std::tuple<int, int, std::string>, int> lines;
  for (const IbWire& wire : wires_) {
    const End a{wire.a, wire.port_a};
    const End b{wire.b, wire.port_b};
    const int from = device_[static_cast<std::size_t>(wire.a)];
    const int to = device_[static_cast<std::size_t>(wire.b)];
    if (from < 0 || to < 0) continue;
    if (from == to) {
      remarks_.add(wire.line, "{} is joined to itself: left out", graph_.device(from).id);
      continue;
    }
    const auto known_a = joined.find(a);
    const auto known_b = joined.find(b);
    if (known_a != joined.end() && known_a->second.first == b) continue;  // the other end's line
    if (known_a != joined.end() || known_b != joined.end()) {
      const auto& known = known_a != joined.end() ? *known_a : *known_b;
      remarks_.add(wire.line, "port {} of {} leads elsewhere in line {}: this line is left out", known.first.second,
                   nodes_[static_cast<std::size_t>(known.first.first)].guid, known.second.second);
      continue;
    }
    joined[a] = {b, wire.line};
    joined[b] = {a, wire.line};
    const std::tuple bundle{std::min(from, to), std::max(from, to), wire.rate};
    ++bundles[bundle];
    lines.emplace(bundle, wire.line);
  }
  for (const auto& [bundle, count] : bundles) {
    const auto& [a, b, word] = bundle;
    const WireFigures rate = rate_of(word, lines[bundle]);
    PEAL_TRY(graph_.add_link(rate.link(a, b, LinkKind::infiniband, count)));
    port_rate_[a].value += rate.line.value * count;
    port_rate_[b].value += rate.line.value * count;
  }
  return {};
}

Status IbDrawer::add_host_links() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (host_[i] < 0) continue;
    const Bandwidth ports = port_rate_[device_[i]];
    if (ports.value <= 0) {
      remarks_.add(nodes_[i].line, "no port of {} is listed: nothing is joined to it", graph_.device(device_[i]).id);
      continue;
    }
    const std::string source = "assumed: the host feeds its adapter as fast as the ports are";
    const WireFigures rate{ports, ports, source, source};
    PEAL_TRY(graph_.add_link(rate.link(host_[i], device_[i], LinkKind::pcie)));
  }
  return {};
}

Status IbDrawer::draw() {
  int aggregation = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    PEAL_TRY(add_node(i));
    aggregation += is_aggregation_node(nodes_[i]) ? 1 : 0;
  }
  if (aggregation > 0) remarks_.add(0, "{} aggregation nodes of switches (SHARP) are left out: they are no hosts", aggregation);
  PEAL_TRY(add_wires());
  return add_host_links();
}

}  // namespace

Result<Graph> import_ibnetdiscover(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  PEAL_ASSIGN(const ImportRates* rates, ImportRates::load());
  Graph graph;
  Remarks remarks(graph, name);
  IbReader reader(remarks);
  reader.read(text);
  PEAL_TRY(IbDrawer(reader, *rates, graph, remarks, fmt::format("ibnetdiscover in {}", name)).draw());
  if (graph.device_count() == 0) {
    return fail(ErrorCode::corrupt, "{}:1: no output of ibnetdiscover: blocks such as Switch 41 \"S-...\" with port lines below are needed",
                name);
  }
  remarks.finish();
  const auto count = [&](DeviceKind kind) { return graph.devices_of(kind).size(); };
  graph.title = fmt::format("{} hosts, {} adapters, {} switches by ibnetdiscover", count(DeviceKind::cpu), count(DeviceKind::nic),
                            count(DeviceKind::net_switch));
  return graph;
}

}  // namespace peal::topology
