// rocm-smi --showtopo: up to four tables, each of which may be missing.
//
//   ==== Weight between two GPUs ====      15 an xGMI hop, more for every further one and for PCIe
//   ==== Hops between two GPUs ====        1 xGMI, 2 PCIe below one socket, 3 PCIe across sockets
//   ==== Link Type between two GPUs ====   XGMI, PCIE
//   ==== Numa Nodes ====                   GPU[0] : (Topology) Numa Node: 0
//
// amd-smi topology prints the first three as well, under WEIGHT TABLE:, HOPS TABLE: and LINK TYPE TABLE:, and calls the GPUs by their bus
// ids (0000:c1:00.0); here they are numbered in that order.
//
// What the numbers mean: the MI200 tuning guide and the description of weights in AMD SMI (github.com/ROCm/rocm-systems).
#include <map>
#include <topology/import.hpp>

#include "class_table.hpp"
#include "text_grid.hpp"

namespace peal::topology {
namespace {

constexpr int kWeightOfHop = 15;
constexpr int kMostWeightBelowSocket = 40;
constexpr int kMostNumber = 1'000'000;

std::size_t number_length(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size() && i < 9 && text[i] >= '0' && text[i] <= '9') ++i;
  return i > 0 ? i : word_length(text, {"N/A"});
}

std::size_t type_length(std::string_view text) { return word_length(text, {"XGMI", "PCIE", "SELF", "N/A", "0"}); }

struct Tables {
  std::optional<Grid> weight;
  std::optional<Grid> hops;
  std::optional<Grid> type;
  std::map<int, std::string> numa;    ///< by GPU number
  std::map<int, std::string> bus_id;  ///< likewise
  std::map<int, int> lines;           ///< where a GPU was seen first
};

/// "GPU[0]  : (Topology) Numa Node: 1", also "GPU 0 : ...".
void read_numa(std::string_view text, int line, Tables& tables) {
  const auto at = text.find("Numa Node:");
  if (at == std::string_view::npos || !text.starts_with("GPU")) return;
  std::string_view digits = trim(text.substr(3, text.find(':') - 3));
  while (!digits.empty() && (digits.front() == '[' || digits.front() == ' ')) digits.remove_prefix(1);
  const auto number = whole_number(digits.substr(0, digits.find_first_not_of("0123456789")), 65535);
  if (!number || tables.lines.size() >= kMostTableDevices) return;
  tables.numa.emplace(*number, short_name(trim(text.substr(at + 10))));
  tables.lines.emplace(*number, line);
}

/// Number of a column: 3 of GPU3, the place of one named by its bus id; nothing for columns that are no GPUs.
std::optional<int> number_of(const Grid& grid, std::size_t column) {
  const std::string& name = grid.names[column];
  if (name.find(':') != std::string::npos) return static_cast<int>(column);
  return name.starts_with("GPU") ? whole_number(std::string_view(name).substr(3), 999'999) : std::nullopt;
}

void note_gpus(const std::optional<Grid>& grid, Tables& tables) {
  for (std::size_t i = 0; grid && i < grid->size() && tables.lines.size() < kMostTableDevices; ++i) {
    const auto number = number_of(*grid, i);
    if (!number) continue;
    tables.lines.emplace(*number, grid->line_of(i));
    if (grid->names[i].find(':') != std::string::npos) tables.bus_id.emplace(*number, grid->names[i]);
  }
}

Tables read_tables(std::string_view text, Remarks& remarks) {
  Tables tables;
  LineReader lines(text);
  const auto fill = [&](std::optional<Grid>& into, const GridForm& form, const TextLine& title) {
    std::optional<Grid> grid = read_grid(lines, form, title.text.find("TABLE:") != std::string::npos ? "TABLE:" : "====", remarks);
    if (!grid) remarks.add(title.number, "this table has no rows");
    if (grid && into) remarks.add(title.number, "this table comes twice: the first counts");
    if (grid && !into) into = std::move(grid);
  };
  for (TextLine line; lines.next(line);) {
    const std::string_view words = without_comment_mark(line.text);
    if (words.find("Weight between") != std::string_view::npos || words.starts_with("WEIGHT TABLE:"))
      fill(tables.weight, {number_length, "0"}, line);
    if (words.find("Hops between") != std::string_view::npos || words.starts_with("HOPS TABLE:"))
      fill(tables.hops, {number_length, "0"}, line);
    if (words.find("Link Type between") != std::string_view::npos) fill(tables.type, {type_length, "0"}, line);
    if (words.starts_with("LINK TYPE TABLE:")) fill(tables.type, {type_length, "SELF"}, line);
    read_numa(words, line.number, tables);
  }
  for (const std::optional<Grid>* grid : {&tables.type, &tables.hops, &tables.weight}) {
    note_gpus(*grid, tables);
    if (*grid) compare_halves(**grid, remarks);
  }
  return tables;
}

std::string value_of(const std::optional<Grid>& grid, int a, int b) {
  if (!grid) return {};
  std::size_t row = grid->size();
  std::size_t column = grid->size();
  for (std::size_t i = 0; i < grid->size(); ++i) {
    if (number_of(*grid, i) == a) row = i;
    if (number_of(*grid, i) == b) column = i;
  }
  return row < grid->size() && column < grid->size() ? grid->either(row, column) : std::string();
}

Cell cell_of_pair(const Tables& tables, int a, int b, int line, Remarks& remarks) {
  const std::string type = value_of(tables.type, a, b);
  const auto weight = whole_number(value_of(tables.weight, a, b), kMostNumber);
  const auto hops = whole_number(value_of(tables.hops, a, b), kMostNumber);
  const bool is_one_hop = (weight && *weight == kWeightOfHop) || (!weight && hops && *hops == 1);
  if (type == "XGMI" && weight && *weight > kWeightOfHop && *weight % kWeightOfHop == 0) {
    remarks.add(line, "gpu{} to gpu{} is XGMI over {} hops, through other GPUs: no wire of its own is drawn", a, b, *weight / kWeightOfHop);
    return {};
  }
  if (type == "XGMI" || (type.empty() && is_one_hop)) return {CellClass::direct, LinkKind::xgmi, 1, false, "xgmi"};
  if (hops && *hops == 2) return {CellClass::node};
  if (hops && *hops == 3) return {CellClass::sys};
  if (weight && *weight > kWeightOfHop) return {*weight <= kMostWeightBelowSocket ? CellClass::node : CellClass::sys};
  return {};
}

}  // namespace

Result<Graph> import_rocm_topology(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  Graph graph;
  Remarks remarks(graph, name);
  const Tables tables = read_tables(text, remarks);
  if (tables.lines.empty()) {
    return fail(ErrorCode::corrupt, "{}:1: no table of rocm-smi --showtopo: \"Link Type between two GPUs\" or \"Numa Nodes\" is needed",
                name);
  }
  const std::string source = fmt::format("rocm-smi --showtopo in {}", name);
  std::vector<TableDevice> devices;
  std::vector<int> numbers;
  for (const auto& [number, line] : tables.lines) {
    TableDevice device;
    device.id = fmt::format("gpu{}", number);
    device.line = line;
    const auto numa = tables.numa.find(number);
    if (numa != tables.numa.end()) device.numa = whole_number(numa->second, 4096).value_or(-1);
    if (device.numa >= 0) device.domain = fmt::format("NUMA {}", device.numa);
    if (const auto bus = tables.bus_id.find(number); bus != tables.bus_id.end())
      device.attributes.push_back({"busid", bus->second, source});
    devices.push_back(std::move(device));
    numbers.push_back(number);
  }
  if (!tables.type) remarks.add(0, "there is no table of link types: only a weight of 15 or one hop counts as XGMI");
  ClassTable table(std::move(devices));
  for (std::size_t i = 0; i < table.size(); ++i)
    for (std::size_t j = i + 1; j < table.size(); ++j)
      table.set(i, j, cell_of_pair(tables, numbers[i], numbers[j], table.device(i).line, remarks));
  TableOptions options{source};
  options.is_one_host = true;
  PEAL_TRY(draw_class_table(table, options, graph, remarks));
  graph.title = fmt::format("{} GPUs by rocm-smi --showtopo", table.size());
  return graph;
}

}  // namespace peal::topology
