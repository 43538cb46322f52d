#include "network_drawing.hpp"

#include <algorithm>

namespace peal::topology {
namespace {

constexpr int kMostCutLines = 3;

}  // namespace

Result<int> NetworkDrawing::add(Device device, std::unordered_map<std::string, int>& into, const std::string& name) {
  if (graph_.device_count() >= kMostTextDevices)
    return fail(ErrorCode::unsupported, "{}: more than {} devices: give a part of the network", source_, kMostTextDevices);
  device.source = source_;
  PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
  into.emplace(name, index);
  return index;
}

Result<int> NetworkDrawing::host(const std::string& name, std::vector<Attribute> attributes) {
  if (const auto it = hosts_.find(name); it != hosts_.end()) return it->second;
  Device device;
  device.id = graph_.find(name) < 0 && !name.empty() ? name : free_id(graph_, "host:" + name);
  device.kind = DeviceKind::cpu;
  device.name = "host";
  device.node = static_cast<int>(hosts_.size());
  device.attributes = std::move(attributes);
  return add(std::move(device), hosts_, name);
}

Result<int> NetworkDrawing::net_switch(const std::string& name, std::vector<Attribute> attributes) {
  if (const auto it = switches_.find(name); it != switches_.end()) return it->second;
  Device device;
  device.id = graph_.find(name) < 0 && !name.empty() ? name : free_id(graph_, "switch:" + name);
  device.kind = DeviceKind::net_switch;
  device.name = "switch";
  device.node = -1;
  device.attributes = std::move(attributes);
  return add(std::move(device), switches_, name);
}

Status NetworkDrawing::join(int a, int b, LinkKind kind, const WireFigures& rate, int count, int line) {
  if (a == b) {
    remarks_.add(line, "{} is joined to itself: left out", graph_.device(a).id);
    return {};
  }
  const auto key = (static_cast<std::uint64_t>(std::min(a, b)) << 32) | static_cast<std::uint64_t>(std::max(a, b));
  if (!joined_.insert(key).second) {
    remarks_.add(line, "{} and {} are joined already: left out", graph_.device(a).id, graph_.device(b).id);
    return {};
  }
  if (graph_.link_count() >= kMostTextLinks)
    return fail(ErrorCode::unsupported, "{}: more than {} links: give a part of the network", source_, kMostTextLinks);
  PEAL_TRY(graph_.add_link(rate.link(a, b, kind, count)));
  return {};
}

Result<YamlNode> parse_cut_yaml(std::string_view text, const std::string& name, Remarks& remarks) {
  Result<YamlNode> node = parse_yaml(text, name);
  const Result<YamlNode> whole = node;
  std::string_view rest = text;
  for (int cut = 1; !node && cut <= kMostCutLines; ++cut) {
    while (rest.ends_with('\n')) rest.remove_suffix(1);
    const auto end = rest.rfind('\n');
    if (end == std::string_view::npos) break;
    rest = rest.substr(0, end + 1);
    node = parse_yaml(rest, name);
    if (node)
      remarks.add(static_cast<int>(std::count(rest.begin(), rest.end(), '\n')) + 1, "the file is cut off here: what comes before is read");
  }
  return node ? std::move(node) : whole;
}

}  // namespace peal::topology
