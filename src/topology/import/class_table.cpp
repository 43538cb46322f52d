// From the inside out: PIX groups share a PCIe switch, PXB groups a switch above, PHB groups a host bridge, NODE groups a CPU; what
// is SYS apart, or names another NUMA domain, has a CPU of its own.
#include "class_table.hpp"

#include <algorithm>
#include <map>
#include <topology/path.hpp>

#include "disjoint_sets.hpp"

namespace peal::topology {
namespace {

using Group = std::vector<std::size_t>;

/// More CPUs than this are joined in a star, so that their links do not outnumber everything else.
constexpr std::size_t kMostMeshedDomains = 16;

bool is_nearer(const Cell& cell, CellClass than) { return cell.path >= CellClass::pix && cell.path <= than; }

DisjointSets sets_within(const ClassTable& table, CellClass farthest) {
  DisjointSets sets(table.size());
  for (std::size_t i = 0; i < table.size(); ++i)
    for (std::size_t j = i + 1; j < table.size(); ++j)
      if (is_nearer(table.cell(i, j), farthest)) sets.unite(i, j);
  return sets;
}

/// Parts of `group` that `sets` keeps apart.
std::vector<Group> parts_of(DisjointSets& sets, const Group& group) {
  std::map<std::size_t, Group> parts;
  for (std::size_t i : group) parts[sets.find(i)].push_back(i);
  std::vector<Group> out;
  for (auto& [first, members] : parts) out.push_back(std::move(members));
  return out;
}

class Builder {
 public:
  Builder(const ClassTable& table, const TableOptions& options, const ImportRates& rates, Graph& graph, Remarks& remarks)
      : table_(table), options_(options), rates_(rates), graph_(graph), remarks_(remarks) {}

  Status build() {
    PEAL_TRY(add_devices());
    PEAL_TRY(add_direct_links());
    PEAL_ASSIGN(pcie_, rates_.assumed("pcie", most_wires_));
    std::vector<int> cpus;
    for (const Group& domain : domains()) {
      PEAL_ASSIGN(const int cpu, add_domain(domain));
      cpus.push_back(cpu);
    }
    return join_domains(cpus);
  }

 private:
  Status add_devices();
  Status add_direct_links();
  std::vector<Group> domains();
  bool is_placed(const Group& group) const;
  bool are_apart(const Group& a, const Group& b) const;
  std::string key_of(const Group& group) const;
  Group* home_for(const Group& group, const std::string& key, std::vector<Group>& found);
  Result<int> add_domain(const Group& domain);
  Status add_complex(const Group& complex, int cpu, int host_bridge);
  std::vector<Group> switch_groups(const Group& complex) const;
  Status join_domains(const std::vector<int>& cpus);
  Status wire(int from, int to, int host_bridge);
  Result<int> add_part(DeviceKind kind, const std::string& id, std::string name, int numa);

  const ClassTable& table_;
  const TableOptions& options_;
  const ImportRates& rates_;
  Graph& graph_;
  Remarks& remarks_;
  std::vector<int> index_;  ///< of each device of the table in the graph
  WireFigures pcie_;
  int most_wires_ = 0;
  int host_bridges_ = 0;
  int pcie_switches_ = 0;
  int domains_ = 0;
};

Status Builder::add_devices() {
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const TableDevice& from = table_.device(i);
    Device device;
    device.id = from.id;
    device.kind = from.kind;
    device.name = from.name;
    device.node = options_.node;
    device.numa = from.numa;
    device.source = options_.source;
    device.attributes = from.attributes;
    PEAL_ASSIGN(const int index, graph_.add_device(std::move(device)));
    index_.push_back(index);
  }
  return {};
}

Result<int> Builder::add_part(DeviceKind kind, const std::string& id, std::string name, int numa) {
  Device device;
  device.id = free_id(graph_, options_.prefix + id);
  device.kind = kind;
  device.name = std::move(name);
  device.node = options_.node;
  device.numa = numa;
  device.source = "derived from " + options_.source;
  return graph_.add_device(std::move(device));
}

Status Builder::wire(int from, int to, int host_bridge) {
  Link link = pcie_.link(from, to, LinkKind::pcie);
  link.host_bridge = host_bridge;
  PEAL_TRY(graph_.add_link(std::move(link)));
  return {};
}

Status Builder::add_direct_links() {
  const std::vector<int> to_switch = wires_to_switch(table_, rates_, remarks_);
  most_wires_ = most_wires(table_, to_switch);
  int the_switch = -1;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    for (std::size_t j = i + 1; j < table_.size(); ++j) {
      const Cell& cell = table_.cell(i, j);
      const bool is_behind = cell.is_switched || (to_switch[i] > 0 && to_switch[j] > 0 && cell.kind == LinkKind::nvlink);
      if (cell.path != CellClass::direct || is_behind) continue;
      PEAL_ASSIGN(const WireFigures rate, rates_.assumed(cell.rate, most_wires_));
      PEAL_TRY(graph_.add_link(rate.link(index_[i], index_[j], cell.kind, cell.wires)));
    }
    if (to_switch[i] == 0) continue;
    Cell switched;
    for (std::size_t j = 0; j < table_.size(); ++j)
      if (table_.cell(i, j).is_switched) switched = table_.cell(i, j);
    const LinkKind kind = switched.kind;
    if (the_switch < 0) {
      const std::string word = kind == LinkKind::nvlink ? "NVSwitch" : "switch";
      PEAL_ASSIGN(the_switch, add_part(DeviceKind::nvswitch, lower_case(word) + "0", word + " (all of the machine as one)", -1));
    }
    PEAL_ASSIGN(const WireFigures rate, rates_.assumed(switched.rate, most_wires_));
    PEAL_TRY(graph_.add_link(rate.link(index_[i], the_switch, kind, to_switch[i])));
  }
  return {};
}

/// Something is said about where the group hangs.
bool Builder::is_placed(const Group& group) const {
  for (std::size_t i : group) {
    if (options_.is_one_host || !table_.device(i).domain.empty()) return true;
    for (std::size_t j = 0; j < table_.size(); ++j)
      if (is_nearer(table_.cell(i, j), CellClass::sys)) return true;
  }
  return false;
}

bool Builder::are_apart(const Group& a, const Group& b) const {
  for (std::size_t i : a)
    for (std::size_t j : b)
      if (table_.cell(i, j).path == CellClass::sys) return true;
  return false;
}

std::string Builder::key_of(const Group& group) const {
  for (std::size_t i : group)
    if (!table_.device(i).domain.empty()) return table_.device(i).domain;
  return {};
}

/// The group that names the same domain, else the first one that may be the same for all that the file says, else null.
Group* Builder::home_for(const Group& group, const std::string& key, std::vector<Group>& found) {
  Group* may_be = nullptr;
  for (Group& other : found) {
    const std::string other_key = key_of(other);
    const bool is_apart = are_apart(group, other);
    if (!key.empty() && key == other_key) {
      if (!is_apart) return &other;
      remarks_.add(table_.device(group.front()).line,
                   "{} and {} both name {}, but devices beside them are SYS apart: two CPUs stand for it", table_.device(other.front()).id,
                   table_.device(group.front()).id, key);
    } else if (may_be == nullptr && !is_apart && (key.empty() || other_key.empty())) {
      may_be = &other;
    }
  }
  return may_be;
}

std::vector<Group> Builder::domains() {
  std::vector<Group> found;
  std::string unplaced;
  for (Group& group : sets_within(table_, CellClass::node).groups()) {
    if (!is_placed(group)) {
      unplaced += (unplaced.empty() ? "" : " ") + table_.device(group.front()).id;
      continue;
    }
    const std::string key = key_of(group);
    for (std::size_t i : group) {
      const TableDevice& device = table_.device(i);
      if (device.domain.empty() || device.domain == key) continue;
      remarks_.add(device.line, "{} names {} but is NODE or nearer to devices of {}: one CPU stands for both", device.id, device.domain,
                   key);
      break;
    }
    Group* home = home_for(group, key, found);
    if (home == nullptr) {
      found.push_back(std::move(group));
    } else {
      home->insert(home->end(), group.begin(), group.end());
    }
  }
  if (!unplaced.empty()) remarks_.add(0, "it is not said where these hang, so they have no PCIe link: {}", unplaced);
  for (Group& group : found) std::sort(group.begin(), group.end());
  return found;
}

Result<int> Builder::add_domain(const Group& domain) {
  int numa = -1;
  bool is_one_numa = true;
  std::string affinity;
  for (std::size_t i : domain) {
    const TableDevice& device = table_.device(i);
    if (device.numa >= 0) is_one_numa = is_one_numa && (numa < 0 || numa == device.numa);
    if (device.numa >= 0) numa = device.numa;
    for (const Attribute& a : device.attributes)
      if (a.key == "cpu_affinity" && affinity.empty()) affinity = a.value;
  }
  if (!is_one_numa) numa = -1;
  const std::string id = numa >= 0 ? fmt::format("numa{}", numa) : fmt::format("cpu{}", domains_);
  ++domains_;
  const std::string name = affinity.empty() ? "CPU" : fmt::format("CPU, cores {}", affinity);
  PEAL_ASSIGN(const int cpu, add_part(DeviceKind::cpu, id, name, numa));
  DisjointSets bridges = sets_within(table_, CellClass::phb);
  DisjointSets complexes = sets_within(table_, CellClass::pxb);
  for (const Group& bridge : parts_of(bridges, domain)) {
    const std::vector<Group> below = parts_of(complexes, bridge);
    const int host_bridge = below.size() > 1 ? host_bridges_++ : -1;
    for (const Group& complex : below) PEAL_TRY(add_complex(complex, cpu, host_bridge));
  }
  return cpu;
}

/// PIX groups of one complex. GPUs of which only a direct link is known may share a switch with whom they are not PXB from.
std::vector<Group> Builder::switch_groups(const Group& complex) const {
  DisjointSets pix = sets_within(table_, CellClass::pix);
  std::vector<Group> groups;
  for (Group& part : parts_of(pix, complex)) {
    Group* home = nullptr;
    for (Group& other : groups) {
      bool may_join = true;
      for (std::size_t i : part)
        for (std::size_t j : other) may_join = may_join && !is_nearer(table_.cell(i, j), CellClass::none);
      if (may_join && home == nullptr) home = &other;
    }
    if (home == nullptr) {
      groups.push_back(std::move(part));
    } else {
      home->insert(home->end(), part.begin(), part.end());
    }
  }
  return groups;
}

Status Builder::add_complex(const Group& complex, int cpu, int host_bridge) {
  if (complex.size() == 1) return wire(index_[complex.front()], cpu, host_bridge);
  std::vector<Group> groups = switch_groups(complex);
  // The largest group sits on the switch next to the CPU, the others on switches below it.
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.size() > b.size(); });
  int top = -1;
  for (const Group& group : groups) {
    PEAL_ASSIGN(const int here,
                add_part(DeviceKind::pcie_switch, fmt::format("pcie-switch{}", pcie_switches_++), "PCIe switch", graph_.device(cpu).numa));
    PEAL_TRY(wire(here, top < 0 ? cpu : top, top < 0 ? host_bridge : -1));
    if (top < 0) top = here;
    for (std::size_t i : group) PEAL_TRY(wire(index_[i], here, -1));
  }
  return {};
}

Status Builder::join_domains(const std::vector<int>& cpus) {
  if (cpus.size() < 2) return {};
  PEAL_ASSIGN(const WireFigures rate, rates_.assumed("sys"));
  for (std::size_t i = 0; i < cpus.size(); ++i)
    for (std::size_t j = i + 1; j < cpus.size(); ++j)
      if (i == 0 || cpus.size() <= kMostMeshedDomains) PEAL_TRY(graph_.add_link(rate.link(cpus[i], cpus[j], LinkKind::sys)));
  return {};
}

std::string cell_text(const Cell& cell) {
  switch (cell.path) {
    case CellClass::direct: return cell.kind == LinkKind::nvlink ? fmt::format("NV{}", cell.wires) : "NVL";
    case CellClass::pix: return "PIX";
    case CellClass::pxb: return "PXB";
    case CellClass::phb: return "PHB";
    case CellClass::node: return "NODE";
    case CellClass::sys: return "SYS";
    default: return {};
  }
}

}  // namespace

Status add_class_table(const ClassTable& table, const TableOptions& options, const ImportRates& rates, Graph& graph, Remarks& remarks) {
  return Builder(table, options, rates, graph, remarks).build();
}

Status draw_class_table(const ClassTable& table, const TableOptions& options, Graph& graph, Remarks& remarks) {
  PEAL_ASSIGN(const ImportRates* rates, ImportRates::load());
  PEAL_TRY(add_class_table(table, options, *rates, graph, remarks));
  compare_classes(table, graph, remarks);
  note_assumed_rates(graph, remarks);
  remarks.finish();
  return {};
}

void note_assumed_rates(const Graph& graph, Remarks& remarks) {
  if (graph.link_count() > 0) remarks.add(0, "the file names paths and no rates: those of the links are assumed, see their sources");
}

void compare_classes(const ClassTable& table, const Graph& graph, Remarks& remarks) {
  const PathFinder paths(graph);
  for (std::size_t i = 0; i < table.size(); ++i)
    for (std::size_t j = i + 1; j < table.size(); ++j) {
      const std::string said = cell_text(table.cell(i, j));
      if (said.empty()) continue;
      const Path& path = paths.path(graph.find(table.device(i).id), graph.find(table.device(j).id));
      const bool is_nvlink = path.path_class == PathClass::nvl && path.wires > 0;
      const std::string given = is_nvlink ? fmt::format("NV{}", path.wires) : std::string(name_of(path.path_class));
      if (given != said)
        remarks.add(table.device(i).line, "{} to {} is {}, which fits no graph together with the other cells: the graph gives {}",
                    table.device(i).id, table.device(j).id, said, given);
    }
}

}  // namespace peal::topology
