// npu-smi info -t topo
//
//            NPU0   NPU1   CPU Affinity
//   NPU0     X      HCCS   144-167
//   NPU1     HCCS   X      144-167
//
// HCCS joins two NPUs, HCCS_SW runs through a switch, SIO joins the two dies of a chip. NPUs count as GPUs here; newer tools call the
// columns Phy-ID0, and have no CPU column.
#include <topology/import.hpp>

#include "class_table.hpp"
#include "text_grid.hpp"

namespace peal::topology {
namespace {

std::size_t npu_cell_length(std::string_view text) {
  return word_length(text, {"HCCS_SW", "HCCS", "SIO", "SYS", "PHB", "PXB", "PIX", "NA", "X"});
}

/// xGMI stands for HCCS where the graph has no kind of its own for it.
LinkKind hccs_kind() { return link_kind_of("hccs").value_or(LinkKind::xgmi); }

Cell npu_cell_of(std::string_view word) {
  if (word == "HCCS" || word == "SIO") return {CellClass::direct, hccs_kind(), 1, false, "hccs"};
  if (word == "HCCS_SW") return {CellClass::direct, hccs_kind(), 1, true, "hccs"};
  if (word == "PIX") return {CellClass::pix};
  if (word == "PXB") return {CellClass::pxb};
  if (word == "PHB") return {CellClass::phb};
  if (word == "SYS") return {CellClass::sys};
  return {};
}

/// "NPU3" and "Phy-ID3" to "npu3".
std::string id_of(std::string_view column) {
  const auto digits = column.find_first_of("0123456789");
  return "npu" + std::string(column.substr(digits == std::string_view::npos ? column.size() : digits));
}

}  // namespace

Result<Graph> import_npu_topology(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  Graph graph;
  Remarks remarks(graph, name);
  LineReader lines(text);
  const Result<Grid> grid = read_only_grid(lines, {npu_cell_length, "X"}, "npu-smi info -t topo", "NPU", name, remarks);
  if (!grid && text.find("does not support querying topo") != std::string_view::npos) {
    return fail(ErrorCode::unsupported,
                "{}:1: npu-smi says that this device has no topology to query: describe the machine in our YAML form", name);
  }
  if (!grid) return pass_on(grid.error());
  const std::string source = fmt::format("npu-smi info -t topo in {}", name);
  std::vector<TableDevice> devices;
  for (std::size_t i = 0; i < grid->size(); ++i) {
    TableDevice device;
    device.id = id_of(grid->names[i]);
    for (const TableDevice& other : devices)
      if (other.id == device.id) device.id = lower_case(grid->names[i]) + fmt::format("~{}", i);
    device.name = "Ascend NPU";
    device.line = grid->line_of(i);
    const std::string cores = grid->trailing_of(i, "cpu_affinity");
    if (!cores.empty()) device.domain = "cores " + cores;
    if (!cores.empty()) device.attributes.push_back({"cpu_affinity", cores, source});
    devices.push_back(std::move(device));
  }
  ClassTable table(std::move(devices));
  for (std::size_t i = 0; i < table.size(); ++i)
    for (std::size_t j = i + 1; j < table.size(); ++j) {
      const std::string& word = grid->either(i, j);
      table.set(i, j, npu_cell_of(word));
      if (word == "NA")
        remarks.add(grid->line_of(i), "{} to {} is NA: the tool does not know the way", table.device(i).id, table.device(j).id);
    }
  PEAL_TRY(draw_class_table(table, {source}, graph, remarks));
  graph.title = fmt::format("{} NPUs by npu-smi info -t topo", table.size());
  return graph;
}

}  // namespace peal::topology
