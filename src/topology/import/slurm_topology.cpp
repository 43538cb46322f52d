#include "slurm_topology.hpp"

#include <unordered_map>

namespace peal::topology {
namespace {

constexpr int kMostRingNodes = 16;

class SlurmDrawer {
 public:
  SlurmDrawer(Graph& graph, Remarks& remarks, const std::string& source, WireFigures rate)
      : graph_(graph), remarks_(remarks), network_(graph, remarks, source), rate_(std::move(rate)) {}
  Status draw_tree(const SlurmTopology& topology);
  Status draw_blocks(const SlurmTopology& topology);
  Status draw_ring(const SlurmTopology::Group& ring);
  Status draw_torus(const SlurmTopology::Torus& torus);

 private:
  Status join(int a, int b, int line) { return network_.join(a, b, LinkKind::ethernet, rate_, 1, line); }
  Result<std::vector<int>> hosts(const std::string& list, int line);
  void check_tree(const SlurmTopology& topology);
  void check_sizes(const SlurmTopology& topology);

  Graph& graph_;
  Remarks& remarks_;
  NetworkDrawing network_;
  WireFigures rate_;
  std::unordered_map<int, int> parents_;  ///< how many switches name a device
};

Result<std::vector<int>> SlurmDrawer::hosts(const std::string& list, int line) {
  std::vector<int> found;
  for (const std::string& name : network_.expand(list, line)) {
    PEAL_ASSIGN(const int host, network_.host(name));
    found.push_back(host);
  }
  return found;
}

Status SlurmDrawer::draw_tree(const SlurmTopology& topology) {
  std::unordered_map<std::string, int> lines;
  for (const SlurmTopology::Switch& one : topology.switches) {
    if (!lines.emplace(one.name, one.line).second) remarks_.add(one.line, "switch {} has a line already: both count", one.name);
    PEAL_TRY(network_.net_switch(one.name));
  }
  for (const SlurmTopology::Switch& one : topology.switches) {
    PEAL_ASSIGN(const int here, network_.net_switch(one.name));
    for (const std::string& name : network_.expand(one.switches, one.line)) {
      if (!network_.has_switch(name)) remarks_.add(one.line, "switch {} has no line of its own: nothing is known to hang below it", name);
      PEAL_ASSIGN(const int below, network_.net_switch(name));
      PEAL_TRY(join(here, below, one.line));
      if (++parents_[below] == 2) remarks_.add(one.line, "switch {} hangs below several switches", name);
    }
    PEAL_ASSIGN(const std::vector<int> below, hosts(one.nodes, one.line));
    for (int host : below) {
      PEAL_TRY(join(here, host, one.line));
      if (++parents_[host] == 2) remarks_.add(one.line, "host {} hangs below several switches", graph_.device(host).id);
    }
  }
  check_tree(topology);
  return {};
}

/// Walks down from the switches that nobody names; what is not reached hangs in a circle.
void SlurmDrawer::check_tree(const SlurmTopology& topology) {
  std::vector<int> roots;
  for (int d : graph_.devices_of(DeviceKind::net_switch))
    if (!parents_.contains(d)) roots.push_back(d);
  if (roots.size() > 1) {
    remarks_.add(0, "{} switches have none above them ({}, {} ...): there is no way between what hangs below them", roots.size(),
                 graph_.device(roots[0]).id, graph_.device(roots[1]).id);
  }
  std::vector<bool> is_reached(static_cast<std::size_t>(graph_.device_count()), false);
  std::vector<int> open = roots;
  for (int root : roots) is_reached[static_cast<std::size_t>(root)] = true;
  while (!open.empty()) {
    const int at = open.back();
    open.pop_back();
    for (int l : graph_.links_of(at)) {
      const int next = graph_.other_end(l, at);
      if (is_reached[static_cast<std::size_t>(next)]) continue;
      is_reached[static_cast<std::size_t>(next)] = true;
      open.push_back(next);
    }
  }
  for (const SlurmTopology::Switch& one : topology.switches) {
    const auto index = network_.net_switch(one.name);
    if (index && !is_reached[static_cast<std::size_t>(*index)]) {
      remarks_.add(one.line, "switch {} hangs below itself: no switch of its part is the highest", one.name);
      return;
    }
  }
}

void SlurmDrawer::check_sizes(const SlurmTopology& topology) {
  const std::vector<int>& sizes = topology.block_sizes;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const int times = sizes[0] > 0 && sizes[i] % sizes[0] == 0 ? sizes[i] / sizes[0] : 0;
    if (times < 1 || (times & (times - 1)) != 0)
      remarks_.add(topology.block_sizes_line, "block size {} is no power of two times the planning size {}", sizes[i], sizes[0]);
  }
  if (sizes.empty()) remarks_.add(0, "there is no BlockSizes: the size of the smallest block would be the planning size");
}

Status SlurmDrawer::draw_blocks(const SlurmTopology& topology) {
  check_sizes(topology);
  std::vector<int> blocks;
  std::unordered_map<int, int> block_of;
  for (const SlurmTopology::Group& block : topology.blocks) {
    if (network_.has_switch(block.name)) remarks_.add(block.line, "block {} has a line already: both count", block.name);
    const bool is_new = !network_.has_switch(block.name);
    PEAL_ASSIGN(const int here, network_.net_switch(block.name));
    if (is_new) blocks.push_back(here);
    PEAL_ASSIGN(const std::vector<int> below, hosts(block.nodes, block.line));
    for (int host : below) {
      PEAL_TRY(join(here, host, block.line));
      if (!block_of.emplace(host, here).second) remarks_.add(block.line, "host {} is in several blocks", graph_.device(host).id);
    }
    if (!topology.block_sizes.empty() && static_cast<int>(below.size()) < topology.block_sizes.front())
      remarks_.add(block.line, "block {} has {} hosts, fewer than the planning size {}", block.name, below.size(),
                   topology.block_sizes.front());
  }
  if (blocks.size() < 2) return {};
  std::string sizes;
  for (int size : topology.block_sizes) sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", size);
  std::vector<Attribute> attributes;
  if (!sizes.empty()) attributes.push_back({"block_sizes", sizes, network_.source()});
  PEAL_ASSIGN(const int above, network_.net_switch("between-blocks", std::move(attributes)));
  for (int block : blocks) PEAL_TRY(join(above, block, 0));
  remarks_.add(0, "what joins the blocks is not said: {} stands for it", graph_.device(above).id);
  return {};
}

Status SlurmDrawer::draw_ring(const SlurmTopology::Group& ring) {
  PEAL_ASSIGN(const std::vector<int> members, hosts(ring.nodes, ring.line));
  if (members.size() > kMostRingNodes)
    remarks_.add(ring.line, "ring {} has {} hosts, Slurm takes at most {}", ring.name, members.size(), kMostRingNodes);
  for (std::size_t i = 0; i + 1 < members.size(); ++i) PEAL_TRY(join(members[i], members[i + 1], ring.line));
  if (members.size() > 2) PEAL_TRY(join(members.back(), members.front(), ring.line));
  return {};
}

Status SlurmDrawer::draw_torus(const SlurmTopology::Torus& torus) {
  PEAL_ASSIGN(const std::vector<int> members, hosts(torus.nodes, torus.line));
  const std::uint64_t places =
      static_cast<std::uint64_t>(torus.x) * static_cast<std::uint64_t>(torus.y) * static_cast<std::uint64_t>(torus.z);
  if (places == 0 || places != members.size()) {
    remarks_.add(torus.line, "torus {} has {} x {} x {} places and {} hosts: its links are left out", torus.name, torus.x, torus.y, torus.z,
                 members.size());
    return {};
  }
  remarks_.add(torus.line, "hosts of torus {} are taken in the order x, then y, then z (assumed)", torus.name);
  const int sizes[] = {torus.x, torus.y, torus.z};
  const int strides[] = {1, torus.x, torus.x * torus.y};
  for (int at = 0; at < static_cast<int>(places); ++at)
    for (int d = 0; d < 3; ++d) {
      const int position = at / strides[d] % sizes[d];
      const bool is_last = position + 1 == sizes[d];
      if (is_last && sizes[d] <= 2) continue;  // the way around would be the same wire
      const int next = is_last ? at - position * strides[d] : at + strides[d];
      PEAL_TRY(join(members[static_cast<std::size_t>(at)], members[static_cast<std::size_t>(next)], torus.line));
    }
  return {};
}

}  // namespace

std::string SlurmTopology::summary() const {
  std::string out;
  const auto add = [&](std::size_t count, std::string_view form, std::string_view what) {
    if (count > 0) out += fmt::format("{}{} of {} {}", out.empty() ? "" : ", ", form, count, what);
  };
  add(switches.size(), "tree", "switches");
  add(blocks.size(), "block", "blocks");
  add(rings.size(), "ring", "rings");
  add(toruses.size(), "torus3d", "toruses");
  return out.empty() ? "flat: it names no hosts" : out;
}

Status draw_slurm_topology(const SlurmTopology& topology, Graph& graph, Remarks& remarks, const std::string& source) {
  PEAL_ASSIGN(const ImportRates* rates, ImportRates::load());
  PEAL_ASSIGN(WireFigures rate, rates->assumed("ethernet"));
  SlurmDrawer drawer(graph, remarks, source, rate);
  if (!topology.switches.empty()) PEAL_TRY(drawer.draw_tree(topology));
  if (!topology.blocks.empty()) PEAL_TRY(drawer.draw_blocks(topology));
  for (const SlurmTopology::Group& ring : topology.rings) PEAL_TRY(drawer.draw_ring(ring));
  for (const SlurmTopology::Torus& torus : topology.toruses) PEAL_TRY(drawer.draw_torus(torus));
  if (graph.link_count() > 0)
    remarks.add(0, "the file does not say how fast links are: {:.6g} GB/s of Ethernet are assumed for each", rate.line.gigabytes());
  const auto switches = graph.devices_of(DeviceKind::net_switch).size();
  graph.title = fmt::format("{} hosts, {} switches by Slurm", static_cast<std::size_t>(graph.device_count()) - switches, switches);
  return {};
}

}  // namespace peal::topology
