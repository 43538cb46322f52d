// NVIDIA Topograph's model of a cluster.
//
//   switches: {core: {switches: [leaf1, leaf2]}}
//   blocks:
//   - {switch: leaf1, nodes: ["node[01-18]"], annotations: {accelerator.topology.test/domain: nvl1}}
//
// Older models list the switches with a `name:` each, and name `capacity_blocks:` in them. The accelerator domain of a host (an NVL72
// rack) is an attribute of it: which of its GPUs are wired how, the model does not say.
#include <topology/import.hpp>
#include <topology/yaml_tree.hpp>
#include <unordered_map>

#include "network_drawing.hpp"

namespace peal::topology {
namespace {

/// A word, or the words of a list.
std::vector<const YamlNode*> words_below(const YamlNode& node, std::string_view key) {
  std::vector<const YamlNode*> words;
  const YamlNode* child = child_of(node, key);
  if (child == nullptr) return words;
  if (child->kind == YamlNode::Kind::scalar && !child->text.empty()) words.push_back(child);
  for (const YamlNode& item : child->items)
    if (item.kind == YamlNode::Kind::scalar && !item.text.empty()) words.push_back(&item);
  return words;
}

class TopographDrawer {
 public:
  TopographDrawer(Graph& graph, Remarks& remarks, const std::string& source, WireFigures rate)
      : graph_(graph), remarks_(remarks), network_(graph, remarks, source), rate_(std::move(rate)) {}
  Status draw(const YamlNode& root);

 private:
  Status add_switch(const std::string& name, const YamlNode& node);
  Status add_block(const YamlNode& block);
  std::vector<Attribute> attributes_of(const YamlNode& block) const;
  Status join(int a, int b, int line) { return network_.join(a, b, LinkKind::ethernet, rate_, 1, line); }
  void note_empty_switches();

  Graph& graph_;
  Remarks& remarks_;
  NetworkDrawing network_;
  WireFigures rate_;
  std::unordered_map<std::string, std::string> switch_of_block_;  ///< older models: by name of the capacity block
};

Status TopographDrawer::add_switch(const std::string& name, const YamlNode& node) {
  PEAL_ASSIGN(const int here, network_.net_switch(short_name(name)));
  for (const YamlNode* word : words_below(node, "switches")) {
    PEAL_ASSIGN(const int below, network_.net_switch(short_name(word->text)));
    PEAL_TRY(join(here, below, word->line));
  }
  for (const YamlNode* word : words_below(node, "capacity_blocks")) switch_of_block_.emplace(word->text, name);
  for (const YamlNode* word : words_below(node, "nodes"))
    for (const std::string& host : network_.expand(word->text, word->line)) {
      PEAL_ASSIGN(const int below, network_.host(host));
      PEAL_TRY(join(here, below, word->line));
    }
  return {};
}

std::vector<Attribute> TopographDrawer::attributes_of(const YamlNode& block) const {
  std::vector<Attribute> found;
  const auto add = [&](const char* key, const std::string& value) { found.push_back({key, short_name(value), network_.source()}); };
  for (std::string_view place : {"annotations", "labels"}) {
    const YamlNode* marks = child_of(block, place);
    if (marks == nullptr) continue;
    for (const auto& [key, value] : marks->fields) {
      if (key.find("accelerator") == std::string::npos || value.text.empty()) continue;
      if (key.ends_with("/domain") || key.ends_with("/accelerator")) add("accelerator_domain", value.text);
      if (key.ends_with("/sub-domain")) add("accelerator_sub_domain", value.text);
    }
  }
  for (const YamlNode* word : words_below(block, "nvlink")) add("accelerator_domain", word->text);
  for (const YamlNode* word : words_below(block, "type")) add("accelerator", word->text);
  return found;
}

Status TopographDrawer::add_block(const YamlNode& block) {
  const auto named = words_below(block, "name");
  const auto at = words_below(block, "switch");
  std::string above = at.empty() ? std::string() : short_name(at.front()->text);
  if (above.empty() && !named.empty()) {
    const auto it = switch_of_block_.find(named.front()->text);
    if (it != switch_of_block_.end()) above = short_name(it->second);
  }
  if (above.empty()) remarks_.add(block.line, "this block hangs below no switch");
  const std::vector<Attribute> attributes = attributes_of(block);
  int count = 0;
  for (const YamlNode* word : words_below(block, "nodes"))
    for (const std::string& name : network_.expand(word->text, word->line)) {
      PEAL_ASSIGN(const int host, network_.host(name, attributes));
      ++count;
      if (above.empty()) continue;
      PEAL_ASSIGN(const int over, network_.net_switch(above));
      PEAL_TRY(join(over, host, word->line));
    }
  if (count == 0) remarks_.add(block.line, "this block names no nodes");
  return {};
}

void TopographDrawer::note_empty_switches() {
  std::string names;
  int count = 0;
  for (int d : graph_.devices_of(DeviceKind::net_switch)) {
    if (graph_.links_of(d).size() > 1) continue;
    if (++count <= 8) names += " " + graph_.device(d).id;
  }
  if (count > 0) remarks_.add(0, "{} switches have nothing below them:{}{}", count, names, count > 8 ? " ..." : "");
}

Status TopographDrawer::draw(const YamlNode& root) {
  if (const YamlNode* switches = child_of(root, "switches")) {
    for (const auto& [name, node] : switches->fields) PEAL_TRY(add_switch(name, node));
    for (const YamlNode& node : switches->items) {
      const auto name = words_below(node, "name");
      if (name.empty()) remarks_.add(node.line, "this switch has no `name:`: left out");
      if (!name.empty()) PEAL_TRY(add_switch(name.front()->text, node));
    }
  }
  for (std::string_view key : {"blocks", "capacity_blocks"})
    if (const YamlNode* blocks = child_of(root, key))
      for (const YamlNode& block : blocks->items) PEAL_TRY(add_block(block));
  note_empty_switches();
  return {};
}

}  // namespace

Result<Graph> import_topograph_model(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  PEAL_ASSIGN(const ImportRates* rates, ImportRates::load());
  PEAL_ASSIGN(WireFigures rate, rates->assumed("ethernet"));
  Graph graph;
  Remarks remarks(graph, name);
  PEAL_ASSIGN(const YamlNode root, parse_cut_yaml(text, name, remarks));
  PEAL_TRY(TopographDrawer(graph, remarks, fmt::format("Topograph model in {}", name), rate).draw(root));
  if (graph.device_count() == 0)
    return fail(ErrorCode::corrupt, "{}:1: no model of Topograph: `switches:` and `blocks:` with `nodes:` are needed", name);
  if (graph.link_count() > 0)
    remarks.add(0, "the model does not say how fast links are: {:.6g} GB/s of Ethernet are assumed for each", rate.line.gigabytes());
  remarks.finish();
  const auto hosts = graph.devices_of(DeviceKind::cpu).size();
  graph.title = fmt::format("{} hosts, {} switches by a Topograph model", hosts, static_cast<std::size_t>(graph.device_count()) - hosts);
  return graph;
}

}  // namespace peal::topology
