// gres.conf: GPUs of a node or of many.
//
//   NodeName=gpu[1-2] Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-15 Links=-1,4,4,4
//
// `Links` lists how many wires lead to each device in PCI bus order; -1 stands at the device itself and so says where in that order it is.
// GPUs with the same `Cores` hang on one CPU; all GPUs of a node hang on some CPU.
#include <algorithm>
#include <map>
#include <topology/import.hpp>

#include "class_table.hpp"
#include "name_lists.hpp"
#include "slurm_lines.hpp"

namespace peal::topology {
namespace {

constexpr int kMostGresWires = 1000;

struct GresGpu {
  int line = 0;
  std::string type;
  std::string file;
  std::string cores;
  std::vector<int> links;  ///< empty: not said
  int order = -1;          ///< place in PCI bus order, -1 unknown
};

using Nodes = std::map<std::string, std::vector<GresGpu>>;  ///< by node name; "" where the file names none

std::vector<int> read_links(std::string_view text, int line, Remarks& remarks) {
  std::vector<int> links;
  while (!text.empty() && links.size() < kMostTableDevices) {
    const auto comma = text.find(',');
    const std::string_view word = trim(text.substr(0, comma));
    const auto wires = word == "-1" ? std::optional<int>(-1) : whole_number(word, kMostGresWires);
    if (!wires) remarks.add(line, "'{}' is no number of links: 0 to {}, or -1 for the device itself", short_name(word, 40), kMostGresWires);
    links.push_back(wires.value_or(0));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return links;
}

/// Files of one line; where there are none, as many empty names as Count says.
std::vector<std::string> files_of(const SlurmLine& line, NameLists& lists, Remarks& remarks) {
  const std::string_view list = line.has("multiplefiles") ? line.value("multiplefiles") : line.value("file");
  if (list.empty()) {
    const auto count = whole_number(line.value("count"), 1'000'000);
    if (line.has("count") && !count) remarks.add(line.number, "'{}' is no count: one GPU is taken", short_name(line.value("count"), 40));
    if (count && *count > static_cast<int>(kMostTableDevices))
      remarks.add(line.number, "{} GPUs in one line: {} are taken", *count, kMostTableDevices);
    return std::vector<std::string>(std::min<std::size_t>(static_cast<std::size_t>(count.value_or(1)), kMostTableDevices));
  }
  std::vector<std::string> files = lists.expand(list, line.number);
  const std::size_t most = line.has("multiplefiles") ? 1 : kMostTableDevices;
  if (files.size() > most) files.resize(most);
  return files;
}

std::vector<GresGpu> gpus_of(const SlurmLine& line, NameLists& lists, Remarks& remarks) {
  std::vector<GresGpu> gpus;
  const std::vector<std::string> files = files_of(line, lists, remarks);
  std::vector<int> links = read_links(line.value("links"), line.number, remarks);
  if (files.size() > 1 && !links.empty()) {
    remarks.add(line.number, "Links belongs to lines with one device and this one has {}: left out", files.size());
    links.clear();
  }
  std::string cores(line.has("cores") ? line.value("cores") : line.value("cpus"));
  std::erase_if(cores, [](char c) { return c == '[' || c == ']'; });
  for (const std::string& file : files) {
    GresGpu gpu{line.number, short_name(line.value("type"), 60), short_name(file), short_name(cores), links, -1};
    const auto self = std::find(links.begin(), links.end(), -1);
    if (self != links.end()) gpu.order = static_cast<int>(self - links.begin());
    if (!links.empty() && self == links.end()) remarks.add(line.number, "Links has no -1 for the device itself: left out");
    if (std::count(links.begin(), links.end(), -1) > 1) remarks.add(line.number, "Links has -1 more than once: the first counts");
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

Nodes read_nodes(std::string_view text, Remarks& remarks) {
  Nodes nodes;
  NameLists lists(remarks);
  std::size_t total = 0;
  LineReader lines(text);
  for (SlurmLine line; next_slurm_line(lines, line, remarks);) {
    note_unknown_keys(line, {"nodename", "name", "type", "file", "multiplefiles", "cores", "cpus", "count", "flags", "links", "autodetect"},
                      remarks);
    if (!line.has("name")) {
      if (!line.has("autodetect")) remarks.add(line.number, "this line has no Name=: left out");
      continue;
    }
    if (lower_case(line.value("name")) != "gpu") {
      remarks.add(line.number, "{} is no GPU: left out", short_name(line.value("name"), 60));
      continue;
    }
    const std::vector<GresGpu> gpus = gpus_of(line, lists, remarks);
    if (gpus.empty()) continue;
    std::vector<std::string> names = {""};
    if (line.has("nodename")) names = lists.expand(line.value("nodename"), line.number);
    for (const std::string& name : names) {
      std::vector<GresGpu>& of_node = nodes[name];
      if (of_node.size() + gpus.size() > kMostTableDevices || total + gpus.size() > kMostTextDevices) {
        remarks.add(line.number, "more than {} GPUs in a node or {} in all: the rest is left out", kMostTableDevices, kMostTextDevices);
        break;
      }
      of_node.insert(of_node.end(), gpus.begin(), gpus.end());
      total += gpus.size();
    }
  }
  std::erase_if(nodes, [](const auto& node) { return node.second.empty(); });
  return nodes;
}

/// Wires from `gpu` to the device at `order`.
int wires_to(const GresGpu& gpu, int order) {
  if (gpu.order < 0 || order < 0 || static_cast<std::size_t>(order) >= gpu.links.size()) return 0;
  return std::max(gpu.links[static_cast<std::size_t>(order)], 0);
}

void set_links(const std::vector<GresGpu>& gpus, ClassTable& table, Remarks& remarks) {
  for (std::size_t i = 0; i < gpus.size(); ++i)
    for (std::size_t j = i + 1; j < gpus.size(); ++j) {
      if (gpus[i].order >= 0 && gpus[i].order == gpus[j].order)
        remarks.add(gpus[j].line, "Links gives {} the place of {} in PCI bus order", table.device(j).id, table.device(i).id);
      const int there = wires_to(gpus[i], gpus[j].order);
      const int back = wires_to(gpus[j], gpus[i].order);
      if (there != back && gpus[i].order >= 0 && gpus[j].order >= 0)
        remarks.add(gpus[j].line, "{} to {} has {} links there and {} back: {} are drawn", table.device(i).id, table.device(j).id, there,
                    back, std::max(there, back));
      const bool is_amd = lower_case(gpus[i].type).starts_with("mi");
      const int wires = std::max(there, back);
      if (wires > 0 && gpus[i].order != gpus[j].order)
        table.set(i, j, {CellClass::direct, is_amd ? LinkKind::xgmi : LinkKind::nvlink, wires, false, is_amd ? "xgmi" : "nvlink"});
    }
}

ClassTable table_of(const std::string& prefix, const std::vector<GresGpu>& gpus, const std::string& source, Remarks& remarks) {
  std::vector<TableDevice> devices;
  for (const GresGpu& gpu : gpus) {
    TableDevice device;
    device.id = fmt::format("{}gpu{}", prefix, devices.size());
    device.name = gpu.type;
    device.line = gpu.line;
    if (!gpu.cores.empty()) device.domain = "cores " + gpu.cores;
    if (!gpu.cores.empty()) device.attributes.push_back({"cpu_affinity", gpu.cores, source});
    if (!gpu.file.empty()) device.attributes.push_back({"file", gpu.file, source});
    if (gpu.order >= 0) device.attributes.push_back({"pci_order", std::to_string(gpu.order), source});
    devices.push_back(std::move(device));
  }
  ClassTable table(std::move(devices));
  set_links(gpus, table, remarks);
  return table;
}

}  // namespace

Result<Graph> import_slurm_gres(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  PEAL_ASSIGN(const ImportRates* rates, ImportRates::load());
  Graph graph;
  Remarks remarks(graph, name);
  const Nodes nodes = read_nodes(text, remarks);
  if (nodes.empty()) {
    return fail(ErrorCode::corrupt,
                "{}:1: no GPUs of gres.conf: a line such as \"Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-31\" is needed", name);
  }
  if (nodes.contains("") && nodes.size() > 1)
    remarks.add(0, "lines without NodeName, which belong to every node, are drawn as a node of their own");
  TableOptions options{fmt::format("gres.conf in {}", name)};
  options.is_one_host = true;
  for (const auto& [node, gpus] : nodes) {
    options.prefix = node.empty() ? std::string() : node + "/";
    const ClassTable table = table_of(options.prefix, gpus, options.source, remarks);
    if (graph.device_count() > kMostTextDevices)
      return fail(ErrorCode::unsupported, "{}: more than {} devices: give fewer nodes", name, kMostTextDevices);
    PEAL_TRY(add_class_table(table, options, *rates, graph, remarks));
    ++options.node;
  }
  note_assumed_rates(graph, remarks);
  remarks.finish();
  graph.title = fmt::format("{} GPUs in {} nodes by gres.conf", graph.devices_of(DeviceKind::gpu).size(), nodes.size());
  return graph;
}

}  // namespace peal::topology
