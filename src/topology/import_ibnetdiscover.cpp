// ibnetdiscover
//
//   Switch  41 "S-b83fd20300aa0001"   # "MF0;leaf1:MQM9700/U1" enhanced port 0 lid 1 lmc 0
//   [1]     "H-b83fd20300bb0001"[1](b83fd20300bb0001)   # "node1 mlx5_0" lid 5 4xNDR
//
//   Ca      1 "H-b83fd20300bb0001"    # "node1 mlx5_0"
//   [1](b83fd20300bb0001)  "S-b83fd20300aa0001"[1]   # lid 5 lmc 0 "MF0;leaf1:MQM9700/U1" lid 1 4xNDR
//
// or the ports report (-p), one line an end of a wire:
//
//   CA     5  1 0xb83fd20300bb0001 4x NDR - SW     1  1 0xb83fd20300aa0001 ( 'node1 mlx5_0' - 'leaf1' )
//   SW     1  2 0xb83fd20300aa0001 4x SDR                                    'leaf1'
//
// A switch is a net_switch named by its node description; a channel adapter a NIC of its host, which is a cpu: the first word of "node1
// mlx5_0" is the host. Each wire is listed at both ends and counts once. The link from host to NIC is no part of the file: it is
// assumed to feed the NIC's ports at their rate. Routers count as switches. The aggregation nodes inside switches (SHARP) are left out.
#include <algorithm>
#include <map>
#include <topology/import.hpp>
#include <unordered_map>

#include "import_rates.hpp"
#include "text_lines.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostNodes = kMostTextDevices / 2;  // an adapter becomes two devices
constexpr std::size_t kMostWires = kMostTextLinks;
constexpr int kMostLanes = 48;
constexpr int kMostPort = 100'000;

struct Node {
  std::string guid;         ///< "S-...", "H-...", "R-..."
  std::string description;  ///< what people named it
  int line = 0;
  bool has_block = false;  ///< has a block of its own, not only a line at its neighbour
};

struct Wire {
  int a = 0;  ///< node index
  int port_a = 0;
  int b = 0;
  int port_b = 0;
  std::string rate;  ///< "4xNDR"
  int line = 0;
};

/// Text between the first two quotes at or after `from`; moves `from` behind it.
std::optional<std::string_view> next_quoted(std::string_view text, std::size_t& from, char quote = '"') {
  const auto begin = text.find(quote, from);
  const auto end = begin == std::string_view::npos ? begin : text.find(quote, begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  from = end + 1;
  return text.substr(begin + 1, end - begin - 1);
}

/// "[12]" at or after `from`.
std::optional<int> next_port(std::string_view text, std::size_t from) {
  const auto open = text.find('[', from);
  const auto close = open == std::string_view::npos ? open : text.find(']', open);
  if (close == std::string_view::npos) return std::nullopt;
  return whole_number(trim(text.substr(open + 1, close - open - 1)), kMostPort);
}

/// The last word of a port line that reads WIDTHxSPEED.
std::string rate_word(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  for (auto it = words.rbegin(); it != words.rend(); ++it) {
    const auto x = it->find('x');
    if (x != std::string_view::npos && whole_number(it->substr(0, x), kMostLanes)) return short_name(*it, 20);
  }
  return {};
}

class Reader {
 public:
  explicit Reader(Remarks& remarks) : remarks_(remarks) {}
  void read(std::string_view text) {
    LineReader lines(text);
    for (TextLine line; lines.next(line);) read_line(line);
  }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Wire>& wires() const { return wires_; }

 private:
  void read_line(const TextLine& line);
  void read_port(std::string_view text, int line);
  void read_report(std::string_view text, int line);
  void add_wire(Wire wire, std::string_view peer, std::string_view description);
  /// Index, or -1 when there are too many nodes.
  int node(std::string_view guid, int line);

  Remarks& remarks_;
  std::vector<Node> nodes_;
  std::vector<Wire> wires_;
  std::unordered_map<std::string, int> index_;
  int current_ = -1;
};

int Reader::node(std::string_view guid, int line) {
  const auto [it, is_new] = index_.emplace(short_name(guid, 64), static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back({it->first, {}, line, false});
  return it->second;
}

void Reader::read_line(const TextLine& line) {
  const std::string_view text = trim(line.text);
  const bool is_block = text.starts_with("Switch") || text.starts_with("Ca\t") || text.starts_with("Ca ") || text.starts_with("Rt\t") ||
                        text.starts_with("Rt ");
  if (!is_block) {
    if (text.starts_with('[')) read_port(text, line.number);
    if (text.starts_with("CA ") || text.starts_with("SW ") || text.starts_with("RT ")) read_report(text, line.number);
    return;
  }
  std::size_t at = 0;
  const auto guid = next_quoted(text, at);
  current_ = -1;
  if (!guid || guid->empty()) {
    remarks_.add(line.number, "this block has no name in quotes: its ports are left out");
    return;
  }
  if (nodes_.size() >= kMostNodes) {
    remarks_.add(line.number, "more than {} nodes: the rest is left out", kMostNodes);
    return;
  }
  current_ = node(*guid, line.number);
  Node& here = nodes_[static_cast<std::size_t>(current_)];
  if (here.has_block) remarks_.add(line.number, "{} has a block already: both count", here.guid);
  here.has_block = true;
  here.line = line.number;
  if (const auto description = next_quoted(text, at)) here.description = short_name(trim(*description));
}

void Reader::read_port(std::string_view text, int line) {
  if (current_ < 0) return;
  const auto port = next_port(text, 0);
  std::size_t at = 0;
  const auto guid = next_quoted(text, at);
  const auto peer_port = next_port(text, at);
  if (!port || !guid || guid->empty() || !peer_port) {
    remarks_.add(line, "this port line is cut or not understood: [PORT] \"GUID\"[PORT] is expected");
    return;
  }
  // In a switch's block the peer's description follows; in an adapter's, the lid of its own port comes before it.
  const std::string_view description = next_quoted(text, at).value_or(std::string_view());
  add_wire({current_, *port, -1, *peer_port, rate_word(text.substr(std::min(at, text.size()))), line}, *guid, description);
}

/// `wire.b` is `peer`, which is new here or has been named before.
void Reader::add_wire(Wire wire, std::string_view peer, std::string_view description) {
  const bool is_new_node = !index_.contains(short_name(peer, 64));
  if (wires_.size() >= kMostWires || (is_new_node && nodes_.size() >= kMostNodes)) {
    remarks_.add(wire.line, "more than {} nodes or {} port lines: the rest is left out", kMostNodes, kMostWires);
    return;
  }
  wire.b = node(peer, wire.line);
  Node& there = nodes_[static_cast<std::size_t>(wire.b)];
  if (there.description.empty()) there.description = short_name(trim(description));
  wires_.push_back(std::move(wire));
}

/// A line of the ports report. Ports that lead nowhere have no " - " and no second end.
void Reader::read_report(std::string_view text, int line) {
  const std::vector<std::string_view> words = words_of(text.substr(0, text.find('\'')), 12);
  const auto key = [&](std::size_t i) {  // as the blocks write it: "H-b83fd20300bb0001"
    const std::string_view guid = words[i + 3];
    return std::string(words[i] == "CA" ? "H-" : words[i] == "RT" ? "R-" : "S-") += guid.substr(guid.starts_with("0x") ? 2 : 0);
  };
  std::size_t at = 0;
  const auto name = next_quoted(text, at, '\'');  // older tools print the name of a port that leads nowhere without quotes
  const auto port = words.size() < 6 ? std::nullopt : whole_number(words[2], kMostPort);
  const bool is_joined = words.size() >= 11 && words[6] == "-";
  const auto peer_port = is_joined ? whole_number(words[9], kMostPort) : std::nullopt;
  if (!port || (is_joined && !(name && peer_port))) {
    remarks_.add(line,
                 "this line is cut or not understood: CA LID PORT GUID WIDTH SPEED - SW LID PORT GUID ( 'NAME' - 'NAME' ) is expected");
    return;
  }
  if (nodes_.size() >= kMostNodes) return;
  const int here = node(key(0), line);
  nodes_[static_cast<std::size_t>(here)].has_block = true;
  std::string& description = nodes_[static_cast<std::size_t>(here)].description;
  if (description.empty() && (name || words.size() > 6))
    description = short_name(name ? trim(*name) : text.substr(static_cast<std::size_t>(words[6].data() - text.data())));
  if (!is_joined) return;
  const auto peer = next_quoted(text, at, '\'');
  add_wire({here, *port, -1, *peer_port, std::string(words[4]) += words[5], line}, key(7), peer.value_or(std::string_view()));
}

bool is_adapter(const Node& node) { return node.guid.starts_with("H-"); }
bool is_aggregation_node(const Node& node) { return is_adapter(node) && node.description.find("Aggregation Node") != std::string::npos; }

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

class Drawer {
 public:
  Drawer(const Reader& reader, const ImportRates& rates, Graph& graph, Remarks& remarks, std::string source)
      : nodes_(reader.nodes()), wires_(reader.wires()), rates_(rates), graph_(graph), remarks_(remarks), source_(std::move(source)) {}
  Status draw();

 private:
  Status add_node(std::size_t i);
  Status add_adapter(const Node& node);
  Result<int> host_of(const std::string& name);
  WireFigures rate_of(const std::string& word, int line);
  Status add_wires();
  Status add_host_links();

  const std::vector<Node>& nodes_;
  const std::vector<Wire>& wires_;
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

WireFigures Drawer::rate_of(const std::string& word, int line) {
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

Result<int> Drawer::host_of(const std::string& name) {
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

Status Drawer::add_adapter(const Node& node) {
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

Status Drawer::add_node(std::size_t i) {
  const Node& node = nodes_[i];
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

Status Drawer::add_wires() {
  using End = std::pair<int, int>;  // node, port
  std::map<End, std::pair<End, int>> joined;
  std::map<std::tuple<int, int, std::string>, int> bundles;
  std::map<std::tuple<int, int, std::string>, int> lines;
  for (const Wire& wire : wires_) {
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

Status Drawer::add_host_links() {
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

Status Drawer::draw() {
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
  Reader reader(remarks);
  reader.read(text);
  PEAL_TRY(Drawer(reader, *rates, graph, remarks, fmt::format("ibnetdiscover in {}", name)).draw());
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
