// topology.conf: SwitchName= lines (tree), BlockName= and BlockSizes= lines (block), RingName= lines (ring). Nothing in the file names
// the form; the keys tell.
#include <topology/import.hpp>

#include "slurm_lines.hpp"
#include "slurm_topology.hpp"

namespace peal::topology {
namespace {

constexpr int kMostHostsOfBlock = 100'000'000;

void read_sizes(std::string_view text, int line, SlurmTopology& topology, Remarks& remarks) {
  if (!topology.block_sizes.empty()) remarks.add(line, "BlockSizes comes twice: the first counts");
  const bool is_first = topology.block_sizes.empty();
  topology.block_sizes_line = is_first ? line : topology.block_sizes_line;
  while (is_first && !text.empty()) {
    const auto comma = text.find(',');
    const std::string_view word = trim(text.substr(0, comma));
    if (const auto size = whole_number(word, kMostHostsOfBlock); size && *size > 0 && topology.block_sizes.size() < 64) {
      topology.block_sizes.push_back(*size);
    } else {
      remarks.add(line, "'{}' is no block size: a number from 1 is needed", short_name(word, 40));
    }
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
}

void read_line(const SlurmLine& line, SlurmTopology& topology, Remarks& remarks) {
  note_unknown_keys(line, {"switchname", "switches", "nodes", "linkspeed", "blockname", "blocksizes", "ringname", "include"}, remarks);
  const std::string nodes(line.value("nodes"));
  const auto need_nodes = [&](std::string_view what, std::string_view name) {
    if (nodes.empty()) remarks.add(line.number, "{} {} names no nodes", what, name);
  };
  if (line.has("switchname")) {
    const std::string name = short_name(line.value("switchname"));
    topology.switches.push_back({name, line.number, std::string(line.value("switches")), nodes});
    if (!line.has("switches")) need_nodes("switch", name);
  } else if (line.has("blockname")) {
    topology.blocks.push_back({short_name(line.value("blockname")), line.number, nodes});
    need_nodes("block", topology.blocks.back().name);
  } else if (line.has("ringname")) {
    topology.rings.push_back({short_name(line.value("ringname")), line.number, nodes});
    need_nodes("ring", topology.rings.back().name);
  } else if (!line.has("blocksizes")) {
    remarks.add(line.number, "this line has no SwitchName, BlockName, RingName or BlockSizes: left out");
  }
  if (line.has("blocksizes")) read_sizes(line.value("blocksizes"), line.number, topology, remarks);
}

}  // namespace

Result<Graph> import_slurm_topology(std::string_view text, const std::string& name) {
  PEAL_TRY(check_text_size(text, name));
  Graph graph;
  Remarks remarks(graph, name);
  SlurmTopology topology;
  LineReader lines(text);
  for (SlurmLine line; next_slurm_line(lines, line, remarks);) read_line(line, topology, remarks);
  if (topology.is_empty()) {
    return fail(ErrorCode::corrupt,
                "{}:1: no topology of Slurm: a line such as \"SwitchName=s0 Nodes=node[01-16]\", BlockName= or RingName= is needed", name);
  }
  const int forms = (topology.switches.empty() ? 0 : 1) + (topology.blocks.empty() ? 0 : 1) + (topology.rings.empty() ? 0 : 1);
  if (forms > 1) remarks.add(0, "the file mixes {}: Slurm reads only one of them", topology.summary());
  PEAL_TRY(draw_slurm_topology(topology, graph, remarks, fmt::format("Slurm topology in {}", name)));
  remarks.finish();
  return graph;
}

}  // namespace peal::topology
