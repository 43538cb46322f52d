#include "ibnetdiscover_lines.hpp"

#include <algorithm>

namespace peal::topology {
namespace {

constexpr std::size_t kMostNodes = kMostTextDevices / 2;  // an adapter becomes two devices
constexpr std::size_t kMostWires = kMostTextLinks;
constexpr int kMostPort = 100'000;

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

}  // namespace

void IbReader::read(std::string_view text) {
  LineReader lines(text);
  for (TextLine line; lines.next(line);) read_line(line);
}

int IbReader::node(std::string_view guid, int line) {
  const auto [it, is_new] = index_.emplace(short_name(guid, 64), static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back({it->first, {}, line, false});
  return it->second;
}

void IbReader::read_line(const TextLine& line) {
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
  IbNode& here = nodes_[static_cast<std::size_t>(current_)];
  if (here.has_block) remarks_.add(line.number, "{} has a block already: both count", here.guid);
  here.has_block = true;
  here.line = line.number;
  if (const auto description = next_quoted(text, at)) here.description = short_name(trim(*description));
}

void IbReader::read_port(std::string_view text, int line) {
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
void IbReader::add_wire(IbWire wire, std::string_view peer, std::string_view description) {
  const bool is_new_node = !index_.contains(short_name(peer, 64));
  if (wires_.size() >= kMostWires || (is_new_node && nodes_.size() >= kMostNodes)) {
    remarks_.add(wire.line, "more than {} nodes or {} port lines: the rest is left out", kMostNodes, kMostWires);
    return;
  }
  wire.b = node(peer, wire.line);
  IbNode& there = nodes_[static_cast<std::size_t>(wire.b)];
  if (there.description.empty()) there.description = short_name(trim(description));
  wires_.push_back(std::move(wire));
}

/// A line of the ports report. Ports that lead nowhere have no " - " and no second end.
void IbReader::read_report(std::string_view text, int line) {
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

}  // namespace peal::topology
