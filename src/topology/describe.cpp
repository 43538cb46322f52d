// Tables, JSON and the two text exports.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <topology/describe.hpp>
#include <topology/machine.hpp>
#include <topology/path.hpp>
#include <tuple>

namespace peal::topology {
namespace {

/// 31.5, 25, 20.6: up to six digits, no trailing zeros.
std::string number(double value) { return fmt::format("{:.6g}", value); }

/// GB/s without the noise of the last binary digits, so that what is written reads back to the same text.
double clean_gbps(Bandwidth b) { return std::strtod(fmt::format("{:.12g}", b.value / 1e9).c_str(), nullptr); }

/// Folds "gpu0 gpu1 gpu2 nic5" to "gpu0-2 nic5".
std::string fold_ids(const std::vector<std::string>& ids) {
  const auto split = [](const std::string& id) {
    std::size_t digits = id.size();
    while (digits > 0 && id[digits - 1] >= '0' && id[digits - 1] <= '9') --digits;
    const bool is_counted = digits < id.size() && id.size() - digits < 9;
    return std::pair{is_counted ? id.substr(0, digits) : id, is_counted ? std::stoi(id.substr(digits)) : -1};
  };
  std::string text;
  for (std::size_t i = 0; i < ids.size();) {
    const auto [stem, first] = split(ids[i]);
    std::size_t end = i + 1;
    while (first >= 0 && end < ids.size() && split(ids[end]) == std::pair{stem, first + static_cast<int>(end - i)}) ++end;
    text += text.empty() ? "" : " ";
    text += ids[i];
    if (end - i > 1) text += fmt::format("-{}", first + static_cast<int>(end - i) - 1);
    i = end;
  }
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string matrix_cell(const PathFinder& paths, int a, int b) {
  if (a == b) return " X ";
  const Path& path = paths.path(a, b);
  if (path.path_class == PathClass::nvl && path.wires > 0) return fmt::format("NV{}", path.wires);
  return std::string(name_of(path.path_class));
}

std::string_view legend_of(PathClass c) {
  switch (c) {
    case PathClass::shm: return "Cores that exchange through a shared cache or memory";
    case PathClass::sys: return "Connection traversing the interconnect between NUMA domains";
    case PathClass::node: return "Connection traversing several PCIe host bridges of one NUMA domain";
    case PathClass::phb: return "Connection traversing a PCIe host bridge (the CPU)";
    case PathClass::pxb: return "Connection traversing several PCIe switches, no host bridge";
    case PathClass::pix: return "Connection traversing at most one PCIe switch";
    case PathClass::nvl: return "Connection over # bonded NVLinks (NVL: over another direct link)";
    case PathClass::net: return "Connection over the network between machines";
    case PathClass::none: return "No connection";
    default: return "";
  }
}

}  // namespace

std::string describe_text(const Graph& graph) {
  std::string out = fmt::format("{}\n", graph.title.empty() ? "machine" : graph.title);
  out += "\nDevices\n";
  std::vector<std::tuple<DeviceKind, std::string, std::vector<std::string>, std::set<std::string>>> groups;
  for (const Device& d : graph.devices()) {
    const std::string name = d.kind == DeviceKind::core ? std::string() : d.name;  // each core has a name of its own
    auto it = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return std::get<0>(g) == d.kind && std::get<1>(g) == name; });
    if (it == groups.end()) it = groups.insert(groups.end(), {d.kind, name, {}, {}});
    std::get<2>(*it).push_back(d.id);
    std::get<3>(*it).insert(d.source);
  }
  for (const auto& [kind, name, ids, sources] : groups) {
    out += fmt::format("  {:>4} x {:<12} {:<36} {}\n", ids.size(), name_of(kind), name, fold_ids(ids));
    out += fmt::format("         source: {}\n", fmt::join(sources, "; "));
  }
  out += "\nLinks (GB/s of 10^9 bytes, each direction)\n";
  std::map<std::tuple<LinkKind, double, double, double, std::string>, std::pair<int, int>> kinds;
  for (const Link& l : graph.links()) {
    auto& [links, wires] = kinds[{l.kind, l.bandwidth.value, l.usable.value, l.latency.value, l.source}];
    ++links;
    wires += l.count;
  }
  for (const auto& [key, counts] : kinds) {
    const auto& [kind, line, usable, latency, source] = key;
    out += fmt::format("  {:>4} x {:<12} {} GB/s a wire", counts.second, name_of(kind), number(line * 1e-9));
    if (usable != line) out += fmt::format(", usable {}", number(usable * 1e-9));
    if (latency > 0) out += fmt::format(", {} ns", number(latency));
    out += fmt::format("\n         source: {}\n", source);
  }
  const std::vector<int> gpus = graph.devices_of(DeviceKind::gpu);
  if (!gpus.empty() && graph.total_of(gpus.front(), LinkKind::nvlink).value > 0) {
    const double total = graph.total_of(gpus.front(), LinkKind::nvlink).gigabytes();
    out +=
        fmt::format("  {} has {} GB/s of NVLink each way, {} both ways\n", graph.device(gpus.front()).id, number(total), number(2 * total));
  }
  if (!graph.warnings().empty()) out += "\nWarnings\n";
  for (const std::string& w : graph.warnings()) out += fmt::format("  {}\n", w);
  return out;
}

std::string describe_matrix(const Graph& graph) {
  const PathFinder paths(graph);
  std::vector<int> rows = graph.compute_devices();
  const std::size_t places = rows.size();
  for (int nic : graph.devices_of(DeviceKind::nic)) rows.push_back(nic);
  std::vector<std::string> names;
  std::map<DeviceKind, int> counted;
  for (int d : rows) {
    const DeviceKind kind = graph.device(d).kind;
    const std::string_view word = kind == DeviceKind::gpu    ? "GPU"
                                  : kind == DeviceKind::nic  ? "NIC"
                                  : kind == DeviceKind::core ? "CORE"
                                                             : "CPU";
    names.push_back(fmt::format("{}{}", word, counted[kind]++));
  }
  std::string out;
  for (const std::string& name : names) out += "\t" + name;
  out += "\tNUMA Affinity\n";
  std::set<PathClass> used;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += names[i];
    for (int column : rows) {
      out += "\t" + matrix_cell(paths, rows[i], column);
      if (rows[i] != column) used.insert(paths.path(rows[i], column).path_class);
    }
    const int numa = graph.device(rows[i]).numa;
    out += fmt::format("\t{}\n", numa < 0 || i >= places ? std::string() : std::to_string(numa));
  }
  out += "\nLegend:\n\n  X    = Self\n";
  for (PathClass c : {PathClass::shm, PathClass::net, PathClass::sys, PathClass::node, PathClass::phb, PathClass::pxb, PathClass::pix,
                      PathClass::nvl, PathClass::none})
    if (used.contains(c)) out += fmt::format("  {:<4} = {}\n", c == PathClass::nvl ? "NV#" : name_of(c), legend_of(c));
  if (rows.size() > places) out += "\nNIC Legend:\n\n";
  for (std::size_t i = places; i < rows.size(); ++i) out += fmt::format("  {}: {}\n", names[i], graph.device(rows[i]).id);
  return out;
}

std::string describe_links(const Graph& graph) {
  std::size_t width = 8;
  for (const Device& d : graph.devices()) width = std::max(width, d.id.size());
  std::string out = fmt::format("{:<{}}  {:<{}}  {:<10}  {:>5}  {:>9}  {:>9}  {:>10}  {}\n", "a", width, "b", width, "kind", "count",
                                "GB/s", "usable", "latency ns", "source");
  for (const Link& l : graph.links()) {
    out += fmt::format("{:<{}}  {:<{}}  {:<10}  {:>5}  {:>9}  {:>9}  {:>10}  {}\n", graph.device(l.a).id, width, graph.device(l.b).id,
                       width, name_of(l.kind), l.count, number(l.bandwidth.gigabytes()), number(l.usable.gigabytes()),
                       number(l.latency.value), l.source);
  }
  return out + "GB/s: one wire, one direction, by specification; usable: what software gets of it\n";
}

std::string describe_json(const Graph& graph) {
  nlohmann::ordered_json root;
  root["devices"] = nlohmann::ordered_json::array();
  root["links"] = nlohmann::ordered_json::array();
  root["warnings"] = nlohmann::ordered_json::array();
  for (const Device& d : graph.devices()) {
    nlohmann::ordered_json device = {{"id", d.id}, {"kind", name_of(d.kind)}, {"name", d.name}, {"node", d.node}};
    if (d.numa >= 0) device["numa"] = d.numa;
    if (d.rail >= 0) device["rail"] = d.rail;
    if (d.capacity.value > 0) device["capacity_GBps"] = clean_gbps(d.capacity);
    if (d.port) {
      device["port"] = {{"kind", name_of(d.port->kind)},
                        {"GBps", clean_gbps(d.port->bandwidth)},
                        {"usable_GBps", clean_gbps(d.port->usable)},
                        {"latency_ns", d.port->latency.value},
                        {"source", d.port->source}};
    }
    for (const Attribute& a : d.attributes) device["attributes"][a.key] = a.value;
    for (const Attribute& a : d.attributes)
      if (!a.source.empty()) device["attribute_sources"][a.key] = a.source;
    device["source"] = d.source;
    root["devices"].push_back(std::move(device));
  }
  for (const Link& l : graph.links()) {
    root["links"].push_back({{"a", graph.device(l.a).id},
                             {"b", graph.device(l.b).id},
                             {"kind", name_of(l.kind)},
                             {"GBps", clean_gbps(l.bandwidth)},
                             {"count", l.count},
                             {"latency_ns", l.latency.value},
                             {"source", l.source},
                             {"usable_GBps", clean_gbps(l.usable)},
                             {"usable_source", l.usable_source}});
  }
  for (const std::string& w : graph.warnings()) root["warnings"].push_back(w);
  // Names come from files and from the system: bytes that are no UTF-8 are replaced instead of failing the whole output.
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<std::string> describe_machines() {
  PEAL_ASSIGN(const std::vector<MachineEntry> entries, list_machines());
  std::size_t width = 20;
  for (const MachineEntry& e : entries) width = std::max(width, e.name.size());
  std::string out;
  for (const MachineEntry& e : entries) out += fmt::format("{:<{}} {}\n", e.name, width, e.title);
  return out;
}

std::string export_dot(const Graph& graph) {
  std::string out = "graph machine {\n  node [shape=box];\n";
  for (const Device& d : graph.devices())
    out += fmt::format("  {} [label={}];\n", quoted(d.id), quoted(d.name.empty() ? d.id : d.id + "\n" + d.name));
  for (const Link& l : graph.links()) {
    const double width = std::clamp(std::log2(1 + l.total().gigabytes() / 8), 0.5, 6.0);
    out += fmt::format("  {} -- {} [label={}, penwidth={:.2f}];\n", quoted(graph.device(l.a).id), quoted(graph.device(l.b).id),
                       quoted(fmt::format("{} x{} {} GB/s", name_of(l.kind), l.count, number(l.total().gigabytes()))), width);
  }
  return out + "}\n";
}

std::string export_yaml(const Graph& graph) {
  std::string out = fmt::format("title: {}\n", quoted(graph.title.empty() ? "machine" : graph.title));
  if (graph.rank_kind) out += fmt::format("ranks: {}\n", name_of(*graph.rank_kind));
  out += "\ndevices:\n";
  for (const Device& d : graph.devices()) {
    out += fmt::format("  - {{id: {}, kind: {}", quoted(d.id), name_of(d.kind));
    if (!d.name.empty()) out += fmt::format(", name: {}", quoted(d.name));
    if (d.node != 0) out += fmt::format(", node: {}", d.node);
    if (d.numa >= 0) out += fmt::format(", numa: {}", d.numa);
    if (d.rail >= 0 && d.port) out += fmt::format(", rail: {}", d.rail);
    if (d.capacity.value > 0) out += fmt::format(", capacity_GBps: {}", clean_gbps(d.capacity));
    if (d.port) {
      out += fmt::format(", port: {{kind: {}, GBps: {}, usable_GBps: {}, latency_ns: {}, scope: {}, source: {}}}", name_of(d.port->kind),
                         clean_gbps(d.port->bandwidth), clean_gbps(d.port->usable), d.port->latency.value, quoted(d.port->scope),
                         quoted(d.port->source));
    }
    if (!d.attributes.empty()) {
      out += ", attributes: {";
      for (std::size_t i = 0; i < d.attributes.size(); ++i)
        out += fmt::format("{}{}: {}", i == 0 ? "" : ", ", quoted(d.attributes[i].key), quoted(d.attributes[i].value));
      out += "}";
    }
    if (!d.source.empty()) out += fmt::format(", source: {}", quoted(d.source));
    out += "}\n";
  }
  if (graph.link_count() > 0) out += "\nlinks:\n";
  for (const Link& l : graph.links()) {
    out +=
        fmt::format("  - {{a: {}, b: {}, kind: {}, GBps: {}, usable_GBps: {}, count: {}, latency_ns: {}", quoted(graph.device(l.a).id),
                    quoted(graph.device(l.b).id), name_of(l.kind), clean_gbps(l.bandwidth), clean_gbps(l.usable), l.count, l.latency.value);
    if (l.is_shared) out += ", shared: true";
    if (l.host_bridge >= 0) out += fmt::format(", host_bridge: {}", l.host_bridge);
    out += fmt::format(", scope: {}", quoted(l.scope));
    if (!l.source.empty()) out += fmt::format(", source: {}", quoted(l.source));
    if (!l.usable_source.empty()) out += fmt::format(", usable_source: {}", quoted(l.usable_source));
    out += "}\n";
  }
  if (!graph.warnings().empty()) out += "\nwarnings:\n";
  for (const std::string& w : graph.warnings()) out += fmt::format("  - {}\n", quoted(w));
  return out;
}

}  // namespace peal::topology
