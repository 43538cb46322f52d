// nvidia-smi topo -p2p r|w|n|a|p: the same square as topo -m, with what a pair may do instead of the path.
//
// It says who may reach whom and not over which wires, so the graph has GPUs and no links; each GPU says whom it reaches.
#include <map>
#include <topology/import.hpp>

#include "class_table.hpp"
#include "text_grid.hpp"

namespace peal::topology {
namespace {

std::size_t p2p_cell_length(std::string_view text) { return word_length(text, {"CNS", "GNS", "TNS", "OK", "NS", "DR", "U", "X"}); }

std::string_view meaning_of(std::string_view word) {
  if (word == "CNS") return "the chipset does not support it";
  if (word == "GNS") return "the GPU does not support it";
  if (word == "TNS") return "the topology does not support it";
  if (word == "NS") return "not supported";
  if (word == "DR") return "disabled by a registry key of the driver";
  return "unknown";
}

}  // namespace

Result<Graph> import_smi_p2p(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  Graph graph;
  Remarks remarks(graph, name);
  LineReader lines(text);
  PEAL_ASSIGN(const Grid grid, read_only_grid(lines, {p2p_cell_length, "X"}, "nvidia-smi topo -p2p", "GPU", name, remarks));
  const std::string source = fmt::format("nvidia-smi topo -p2p in {}", name);
  std::map<std::string, std::string> refused;  // pairs by status
  for (std::size_t i = 0; i < grid.size(); ++i) {
    Device device;
    device.id = free_id(graph, lower_case(grid.names[i]));
    device.kind = DeviceKind::gpu;
    device.source = source;
    std::string reached;
    for (std::size_t j = 0; j < grid.size(); ++j) {
      const std::string& cell = grid.either(i, j);
      if (i == j || cell.empty()) continue;
      if (cell == "OK") reached += (reached.empty() ? "" : " ") + lower_case(grid.names[j]);
      std::string& pairs = refused[cell];
      if (cell != "OK" && i < j && pairs.size() < 1000)
        pairs += fmt::format("{}{}-{}", pairs.empty() ? "" : " ", lower_case(grid.names[i]), lower_case(grid.names[j]));
    }
    device.attributes.push_back({"peer_access", reached.empty() ? "none" : reached, source});
    PEAL_TRY(graph.add_device(std::move(device)));
  }
  for (const auto& [word, pairs] : refused)
    if (!pairs.empty()) remarks.add(grid.header_line, "no peer access ({}, {}): {}", word, meaning_of(word), pairs);
  remarks.add(grid.header_line,
              "the table says who may reach whom and not over which wires: there are no links; nvidia-smi topo -m has the paths");
  remarks.finish();
  graph.title = fmt::format("{} GPUs by nvidia-smi topo -p2p", graph.device_count());
  return graph;
}

}  // namespace peal::topology
