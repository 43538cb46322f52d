// nvidia-smi topo -m
//
//         GPU0    GPU1    mlx5_0  CPU Affinity    NUMA Affinity
//   GPU0   X      NV4     PIX     0-23            0
//   GPU1  NV4      X      SYS     24-47           1
//   mlx5_0 PIX    SYS      X
//
// NICs are columns of their own name, or NIC0 with a legend below.
#include <map>
#include <topology/import.hpp>

#include "class_table.hpp"
#include "text_grid.hpp"

namespace peal::topology {
namespace {

std::size_t smi_cell_length(std::string_view text) {
  if (text.starts_with("NV") && text.size() > 2 && text[2] >= '1' && text[2] <= '9')
    return text.size() > 3 && text[3] >= '0' && text[3] <= '9' ? 4 : 3;
  return word_length(text, {"NODE", "SYS", "SOC", "PHB", "PXB", "PIX", "N/A", "X"});
}

Cell smi_cell_of(std::string_view word) {
  if (word.starts_with("NV")) return {CellClass::direct, LinkKind::nvlink, whole_number(word.substr(2), 99).value_or(1), false};
  if (word == "PIX") return {CellClass::pix};
  if (word == "PXB") return {CellClass::pxb};
  if (word == "PHB") return {CellClass::phb};
  if (word == "NODE") return {CellClass::node};
  if (word == "SYS" || word == "SOC") return {CellClass::sys};
  return {};
}

/// "  NIC0: mlx5_0" lines under "NIC Legend:".
std::map<std::string, std::string> read_legend(LineReader& lines) {
  std::map<std::string, std::string> names;
  bool is_legend = false;
  for (TextLine line; lines.next(line) && names.size() < kMostTableDevices;) {
    const std::string_view text = trim(without_comment_mark(line.text));
    if (text.starts_with("NIC Legend")) is_legend = true;
    const auto colon = text.find(':');
    if (!is_legend || !text.starts_with("NIC") || colon == std::string_view::npos) continue;
    const std::string_view name = trim(text.substr(colon + 1));
    if (!name.empty()) names.emplace(text.substr(0, colon), short_name(name));
  }
  return names;
}

TableDevice device_of(const Grid& grid, std::size_t i, const std::map<std::string, std::string>& legend, const std::string& source) {
  const std::string& column = grid.names[i];
  TableDevice device;
  device.line = grid.line_of(i);
  if (!column.starts_with("GPU")) {
    const auto named = legend.find(column);
    device.kind = DeviceKind::nic;
    device.id = named == legend.end() ? lower_case(column) : named->second;
    return device;
  }
  device.id = lower_case(column);
  for (const std::string& key : grid.columns) {
    const std::string value = grid.trailing_of(i, key);
    if (!value.empty() && value != "N/A") device.attributes.push_back({key, value, source});
  }
  const std::string numa = grid.trailing_of(i, "numa_affinity");
  const std::string cores = grid.trailing_of(i, "cpu_affinity");
  device.numa = whole_number(numa, 4096).value_or(-1);
  if (!numa.empty() && numa != "N/A") {
    device.domain = "NUMA " + numa;
  } else if (!cores.empty() && cores != "N/A") {
    device.domain = "cores " + cores;
  }
  return device;
}

/// The ids of the table must differ, whatever the legend says.
void make_unique(std::vector<TableDevice>& devices, Remarks& remarks) {
  std::map<std::string, int> seen;
  for (TableDevice& device : devices) {
    const int times = ++seen[device.id];
    if (times == 1) continue;
    remarks.add(device.line, "two devices are called {}", device.id);
    while (seen.contains(fmt::format("{}~{}", device.id, seen[device.id]))) ++seen[device.id];
    device.id = fmt::format("{}~{}", device.id, seen[device.id]);
    seen[device.id] = 1;
  }
}

}  // namespace

Result<Graph> import_smi_matrix(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  Graph graph;
  Remarks remarks(graph, name);
  LineReader lines(text);
  PEAL_ASSIGN(const Grid grid, read_only_grid(lines, {smi_cell_length, "X"}, "nvidia-smi topo -m", "GPU", name, remarks));
  const std::string source = fmt::format("nvidia-smi topo -m in {}", name);
  const std::map<std::string, std::string> legend = read_legend(lines);
  std::vector<TableDevice> devices;
  for (std::size_t i = 0; i < grid.size(); ++i) devices.push_back(device_of(grid, i, legend, source));
  make_unique(devices, remarks);
  ClassTable table(std::move(devices));
  for (std::size_t i = 0; i < table.size(); ++i)
    for (std::size_t j = i + 1; j < table.size(); ++j) table.set(i, j, smi_cell_of(grid.either(i, j)));
  PEAL_TRY(draw_class_table(table, {source}, graph, remarks));
  const auto gpus = graph.devices_of(DeviceKind::gpu).size();
  graph.title = fmt::format("{} GPUs, {} NICs by nvidia-smi topo -m", gpus, table.size() - gpus);
  return graph;
}

}  // namespace peal::topology
