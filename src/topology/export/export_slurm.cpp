// gres.conf: the GPUs of one machine for Slurm.
#include <algorithm>
#include <cctype>
#include <topology/export.hpp>
#include <topology/path.hpp>

#include "slurm_words.hpp"
#include "text_lines.hpp"

namespace peal::topology {
namespace {

constexpr int kMostOfHost = 1'000'000;  // cores of a NUMA domain, device files

std::vector<int> gpus_of_first_machine(const Graph& graph) {
  std::vector<int> gpus = graph.devices_of(DeviceKind::gpu);
  int first = -1;
  for (int d : gpus)
    if (first < 0 || graph.device(d).node < first) first = graph.device(d).node;
  std::erase_if(gpus, [&](int d) { return graph.device(d).node != first; });
  return gpus;
}

/// Links that lead from one GPU to another: those between the two, else those into the switches that both hang on.
int links_between(const Graph& graph, const PathFinder& paths, int a, int b) {
  int direct = 0;
  for (int l : graph.links_of(a)) {
    const LinkKind kind = graph.link(l).kind;
    if (graph.other_end(l, a) == b && kind != LinkKind::pcie && !is_network(kind)) direct += graph.link(l).count;
  }
  if (direct > 0) return direct;
  const Path& path = paths.path(a, b);
  return path.path_class == PathClass::nvl ? path.wires : 0;
}

/// Cores of every NUMA domain of a machine in Slurm's numbering (socket after socket), or nothing when the graph does not say.
/// Where cores are devices they are counted, else the attribute `cores` of the CPUs is taken.
struct Cores {
  int first = 0;
  int count = 0;
};

std::map<int, Cores> cores_of(const Graph& graph, int node) {
  std::map<int, int> counts;
  for (int d : graph.devices_of(DeviceKind::core))
    if (graph.device(d).node == node && graph.device(d).numa >= 0) ++counts[graph.device(d).numa];
  if (counts.empty()) {
    int index = 0;
    for (int d : graph.devices_of(DeviceKind::cpu)) {
      if (graph.device(d).node != node) continue;
      const int numa = numa_of_cpu(graph, d, index++);
      const std::optional<int> cores = whole_number(graph.device(d).attribute("cores"), kMostOfHost);
      if (!cores || *cores < 1) return {};
      counts[numa] = *cores;
    }
  }
  std::map<int, Cores> cores;
  int first = 0;
  for (const auto& [numa, count] : counts) {
    cores[numa] = {first, count};
    first += count;
  }
  return cores;
}

/// "RTX 4090" -> "rtx_4090", as AutoDetect=nvml makes types of the names that NVML gives.
std::string type_of(const std::string& name) {
  std::string type;
  for (char c : name) {
    const bool stays = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    if (stays || (!type.empty() && type.back() != '_'))
      type += stays ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '_';
  }
  while (!type.empty() && type.back() == '_') type.pop_back();
  return type;
}

/// A blank or a # would end the word in gres.conf.
bool is_path(std::string_view text) {
  return text.starts_with('/') && std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c != '#' && c != 0x7f; });
}

struct Files {
  std::string name = "gpu";
  std::string path = "/dev/nvidia";
  int first = 0;
};

Files files_of(const Graph& graph, int gpu) {
  for (int l : graph.links_of(gpu))
    if (graph.link(l).kind == LinkKind::xgmi) return {"gpu", "/dev/dri/renderD", 128};
  if (!graph.device(gpu).attribute("gcn").empty() || !graph.device(gpu).attribute("gfx").empty()) return {"gpu", "/dev/dri/renderD", 128};
  if (graph.device(gpu).name.find("Ascend") != std::string::npos) return {"npu", "/dev/davinci", 0};
  return {};
}

}  // namespace

Result<std::string> export_slurm_gres(const Graph& graph) {
  std::vector<int> gpus = gpus_of_first_machine(graph);
  if (gpus.empty()) {
    return fail(ErrorCode::invalid_argument, "{} has no GPU, so there is nothing to write to gres.conf: name a machine with GPUs",
                graph.title.empty() ? "the machine" : graph.title);
  }
  const auto bus_of = [&](int d) { return graph.device(d).attribute("busid"); };
  const bool has_buses = std::all_of(gpus.begin(), gpus.end(), [&](int d) { return !bus_of(d).empty(); });
  if (has_buses) std::stable_sort(gpus.begin(), gpus.end(), [&](int a, int b) { return is_bus_before(bus_of(a), bus_of(b)); });
  const std::map<int, Cores> cores = cores_of(graph, graph.device(gpus.front()).node);
  const PathFinder paths(graph);

  std::string out = fmt::format("# gres.conf for each machine of: {}\n", one_line(graph.title));
  out += fmt::format("# Written by peal. One line a GPU, in the order of {}.\n",
                     has_buses ? "their bus ids" : "the description, which gives no bus ids: they must ascend in it");
  out +=
      "# Links= lists the number of links from this GPU to each GPU in that order, -1 in its own place, 0 where there are none.\n"
      "# slurm.conf needs GresTypes=gpu, and Gres=gpu:TYPE:COUNT on the machines' lines.\n";
  const bool is_switched = !graph.devices_of(DeviceKind::nvswitch).empty();
  if (is_switched)
    out +=
        "# Behind NVSwitches every link leads to every other GPU. AutoDetect=nvml counts links that end at a GPU and finds 0 here; as all\n"
        "# entries are equal either way, Slurm's choice is the same.\n";
  if (cores.empty()) out += "# Cores= is left out: the description does not say how many cores each NUMA domain has.\n";
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Device& gpu = graph.device(gpus[i]);
    const Files files = files_of(graph, gpus[i]);
    const std::string type = type_of(gpu.name);
    const std::optional<int> minor = whole_number(gpu.attribute("minor"), kMostOfHost);
    std::string file = fmt::format("{}{}", files.path, minor ? *minor : files.first + static_cast<int>(i));
    if (is_path(gpu.attribute("device_file"))) file = std::string(gpu.attribute("device_file"));
    out += fmt::format("Name={}{} File={}", files.name, type.empty() ? "" : " Type=" + type, file);
    if (const auto it = cores.find(gpu.numa); it != cores.end())
      out += fmt::format(" Cores={}-{}", it->second.first, it->second.first + it->second.count - 1);
    std::vector<int> links;
    for (int other : gpus) links.push_back(other == gpus[i] ? -1 : links_between(graph, paths, gpus[i], other));
    out += fmt::format(" Links={}\n", fmt::join(links, ","));
  }
  return out;
}

Result<std::string> export_nvlink_status(const Graph& graph) {
  std::string out;
  int index = 0;
  int node = -1;
  bool has_links = false;
  const std::vector<std::string> machines = machine_names(graph);
  for (int d : graph.compute_devices()) {
    const Device& gpu = graph.device(d);
    if (gpu.kind != DeviceKind::gpu) continue;
    if (gpu.node != node) index = 0;
    if (machines.size() > 1 && gpu.node != node && gpu.node >= 0) out += fmt::format("{}\n", machines[static_cast<std::size_t>(gpu.node)]);
    node = gpu.node;
    const std::string uuid = gpu.attribute("uuid").empty() ? "" : fmt::format(" (UUID: {})", gpu.attribute("uuid"));
    out += fmt::format("GPU {}: {}{}\n", index++, gpu.name.empty() ? gpu.id : gpu.name, uuid);
    int number = 0;
    for (int l : graph.links_of(d)) {
      const Link& link = graph.link(l);
      if (link.kind != LinkKind::nvlink) continue;
      for (int i = 0; i < link.count; ++i) out += fmt::format("\t Link {}: {:.6g} GB/s\n", number++, link.bandwidth.gigabytes());
    }
    has_links = has_links || number > 0;
  }
  if (!has_links)
    return fail(ErrorCode::invalid_argument, "{} has no NVLink, so there is no status of one: `peal topo --links` lists the links it has",
                graph.title.empty() ? "the machine" : graph.title);
  return out;
}

}  // namespace peal::topology
