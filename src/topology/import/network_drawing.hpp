// A network of hosts and switches as a graph, for files that say who is joined to whom.
//
// A host is one device of kind cpu with a node number of its own: a place for a rank. A switch is a net_switch, which belongs to no node.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <topology/graph.hpp>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <topology/yaml_tree.hpp>
#include "import_rates.hpp"
#include "name_lists.hpp"
#include "text_lines.hpp"

namespace peal::topology {

class NetworkDrawing {
 public:
  NetworkDrawing(Graph& graph, Remarks& remarks, std::string source)
      : graph_(graph), remarks_(remarks), lists_(remarks), source_(std::move(source)) {}

  /// Index of the host or switch of that name, which is added where it is not there yet. Fails beyond 100,000 devices.
  /// `attributes` are those of a device that is new.
  Result<int> host(const std::string& name, std::vector<Attribute> attributes = {});
  Result<int> net_switch(const std::string& name, std::vector<Attribute> attributes = {});
  bool has_switch(const std::string& name) const { return switches_.contains(name); }
  /// Joins two devices by `count` wires. What is joined already, or would be joined to itself, is left out with a warning.
  Status join(int a, int b, LinkKind kind, const WireFigures& rate, int count, int line);
  std::vector<std::string> expand(std::string_view list, int line) { return lists_.expand(list, line); }
  const std::string& source() const { return source_; }

 private:
  Result<int> add(Device device, std::unordered_map<std::string, int>& into, const std::string& name);
  Graph& graph_;
  Remarks& remarks_;
  NameLists lists_;
  std::string source_;
  std::unordered_map<std::string, int> hosts_;
  std::unordered_map<std::string, int> switches_;
  std::unordered_set<std::uint64_t> joined_;
};

/// parse_yaml; a file that was cut off in its last lines is read without them, with a warning.
Result<YamlNode> parse_cut_yaml(std::string_view text, const std::string& name, Remarks& remarks);

}  // namespace peal::topology
