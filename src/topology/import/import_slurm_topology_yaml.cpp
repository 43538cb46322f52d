// topology.yaml: a list of named topologies. The one with `cluster_default: true` (else the first that names hosts) is drawn, the others
// are read and summed up in a warning each, since their switches would mix with those of the first.
#include <topology/import.hpp>
#include <topology/yaml_tree.hpp>

#include "slurm_topology.hpp"

namespace peal::topology {
namespace {

constexpr int kMostSize = 100'000'000;
constexpr int kMostTorusSide = 100'000;

struct Named {
  std::string name;
  int line = 0;
  bool is_default = false;
  SlurmTopology topology;
};

/// Text of a key, a list as one text with commas; empty where there is none.
std::string field_text(const YamlNode& node, std::string_view key) {
  std::string text;
  for (const auto& [name, value] : node.fields) {
    if (name != key) continue;
    text = value.text;
    for (const YamlNode& item : value.items)
      if (item.kind == YamlNode::Kind::scalar) text += (text.empty() ? "" : ",") + item.text;
  }
  return text;
}

/// Items of the list below `key`; warns where there is none.
const std::vector<YamlNode>& items_of(const YamlNode& node, std::string_view key, Remarks& remarks) {
  static const std::vector<YamlNode> kNone;
  const YamlNode* list = child_of(node, key);
  if (list != nullptr && list->kind == YamlNode::Kind::list) return list->items;
  remarks.add(node.line, "there is no list `{}:` here", key);
  return kNone;
}

void note_unknown(const YamlNode& node, std::initializer_list<std::string_view> known, Remarks& remarks) {
  for (const auto& [name, value] : node.fields)
    if (std::find(known.begin(), known.end(), name) == known.end())
      remarks.add(value.line, "key '{}' is not known here: left out", short_name(name, 60));
}

void read_tree(const YamlNode& node, SlurmTopology& topology, Remarks& remarks) {
  for (const YamlNode& item : items_of(node, "switches", remarks)) {
    note_unknown(item, {"switch", "children", "nodes", "link_speed"}, remarks);
    topology.switches.push_back(
        {short_name(field_text(item, "switch")), item.line, field_text(item, "children"), field_text(item, "nodes")});
  }
}

void read_groups(const YamlNode& node, std::string_view list, std::string_view key, std::vector<SlurmTopology::Group>& into,
                 Remarks& remarks) {
  for (const YamlNode& item : items_of(node, list, remarks)) {
    note_unknown(item, {key, "nodes"}, remarks);
    into.push_back({short_name(field_text(item, key)), item.line, field_text(item, "nodes")});
  }
}

void read_block(const YamlNode& node, SlurmTopology& topology, Remarks& remarks) {
  read_groups(node, "blocks", "block", topology.blocks, remarks);
  if (const YamlNode* sizes = child_of(node, "block_sizes")) {
    topology.block_sizes_line = sizes->line;
    for (const YamlNode& size : sizes->items) {
      const auto value = whole_number(size.text, kMostSize);
      if (value && *value > 0) topology.block_sizes.push_back(*value);
      if (!value) remarks.add(size.line, "'{}' is no block size", short_name(size.text, 40));
    }
  }
}

void read_torus(const YamlNode& node, SlurmTopology& topology, Remarks& remarks) {
  for (const YamlNode& item : items_of(node, "toruses", remarks)) {
    note_unknown(item, {"name", "dims", "nodes", "placements"}, remarks);
    const YamlNode* dims = child_of(item, "dims");
    SlurmTopology::Torus torus{short_name(field_text(item, "name")), item.line, 0, 0, 0, field_text(item, "nodes")};
    if (dims != nullptr) {
      torus.x = whole_number(field_text(*dims, "x"), kMostTorusSide).value_or(0);
      torus.y = whole_number(field_text(*dims, "y"), kMostTorusSide).value_or(0);
      torus.z = whole_number(field_text(*dims, "z"), kMostTorusSide).value_or(0);
    }
    topology.toruses.push_back(std::move(torus));
  }
}

Named read_topology(const YamlNode& node, Remarks& remarks) {
  Named named{short_name(field_text(node, "topology")), node.line, field_text(node, "cluster_default") == "true", {}};
  for (const auto& [key, value] : node.fields) {
    if (key == "tree") {
      read_tree(value, named.topology, remarks);
    } else if (key == "block") {
      read_block(value, named.topology, remarks);
    } else if (key == "ring") {
      read_groups(value, "rings", "ring", named.topology.rings, remarks);
    } else if (key == "torus3d") {
      read_torus(value, named.topology, remarks);
    } else if (key != "topology" && key != "cluster_default" && key != "flat") {
      remarks.add(value.line, "key '{}' is not known: tree, block, flat, ring and torus3d are", short_name(key, 60));
    }
  }
  return named;
}

}  // namespace

Result<Graph> import_slurm_topology_yaml(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  Graph graph;
  Remarks remarks(graph, name);
  PEAL_ASSIGN(const YamlNode root, parse_cut_yaml(text, name, remarks));
  std::vector<Named> all;
  for (const YamlNode& item : root.items)
    if (child_of(item, "topology") != nullptr) all.push_back(read_topology(item, remarks));
  const Named* drawn = nullptr;
  for (const Named& one : all)
    if (drawn == nullptr && one.is_default && !one.topology.is_empty()) drawn = &one;
  for (const Named& one : all)
    if (drawn == nullptr && !one.topology.is_empty()) drawn = &one;
  if (drawn == nullptr) {
    return fail(
        ErrorCode::corrupt,
        "{}:1: no topology with hosts: a list such as \"- {{topology: t, tree: {{switches: [{{switch: s, nodes: n[1-4]}}]}}}}\" is needed",
        name);
  }
  for (const Named& one : all)
    if (&one != drawn) remarks.add(one.line, "topology {} ({}) is not drawn: {} is", one.name, one.topology.summary(), drawn->name);
  PEAL_TRY(draw_slurm_topology(drawn->topology, graph, remarks, fmt::format("Slurm topology {} in {}", drawn->name, name)));
  remarks.finish();
  return graph;
}

}  // namespace peal::topology
