#include "nccl_tree.hpp"

#include <algorithm>
#include <set>

namespace peal::topology {
namespace {

constexpr std::size_t kMostDevices = 100'000;
constexpr std::size_t kMostCpus = 4096;

constexpr std::uint64_t kGen4Switch = 0x1000'c010'1000'a000;
constexpr std::uint64_t kGen5Parent = 0x1000'c030'1000'0000;
constexpr std::uint64_t kGen5Child = 0x1000'c030'1000'1000;

/// "942" of "gfx942" or "942".
std::string gfx_of(std::string_view gcn) {
  if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
  return std::string(gcn);
}

class TreeReader {
 public:
  explicit TreeReader(XmlFile& file) : file_(file) {}
  Result<NcclTree> read();

 private:
  void visit_top(const pugi::xml_node& node, int depth);
  void visit_cpu(const pugi::xml_node& node, int depth);
  void visit_children(const pugi::xml_node& node, int parent, int cpu, int depth);
  void visit_pci(const pugi::xml_node& node, int parent, int cpu, int depth);
  void add_gpu(const pugi::xml_node& node, int pci, int cpu);
  void add_net(const pugi::xml_node& node, int pci, int cpu);
  bool is_full(const pugi::xml_node& node);
  void unknown(const pugi::xml_node& node);
  int host_of(const pugi::xml_node& cpu);
  int implied_cpu(const pugi::xml_node& near);
  void settle_role(int index);
  void merge_broadcom_switches();
  void sort_gpus();
  void tell_guesses();

  XmlFile& file_;
  NcclTree tree_;
  std::map<std::uint64_t, int> hosts_;
  std::map<int, std::set<int>> cpu_places_;
  std::map<std::tuple<int, long long, std::string>, int> nets_;
  std::set<std::pair<int, std::uint64_t>> repeated_;
  bool is_cut_ = false;
  int implied_ = -1;
};

Result<NcclTree> TreeReader::read() {
  for (const pugi::xml_node& node : file_.top().children()) visit_top(node, 0);
  if (tree_.cpus.empty())
    return fail(ErrorCode::corrupt, "{}:1: no cpu, pci, gpu or nic element: nothing of a topology is described", file_.name());
  for (int i = 0; i < static_cast<int>(tree_.pcis.size()); ++i) settle_role(i);
  merge_broadcom_switches();
  tell_guesses();
  sort_gpus();
  tree_.hosts = std::max(1, static_cast<int>(hosts_.size()));
  return std::move(tree_);
}

void TreeReader::visit_top(const pugi::xml_node& node, int depth) {
  if (node.type() != pugi::node_element || depth > XmlFile::kMostDepth) return;
  const std::string_view name = node.name();
  if (name == "system") {
    const std::string_view version = text_of(node, "version");
    if (version != "1" && version != "2") file_.warn(node, fmt::format("version=\"{}\": 1 (NCCL) and 2 (RCCL) are known", version));
    for (const pugi::xml_node& child : node.children()) visit_top(child, depth + 1);
  } else if (name == "cpu") {
    visit_cpu(node, depth);
  } else if (name == "pci") {
    visit_pci(node, -1, implied_cpu(node), depth);
  } else if (name == "gpu") {
    add_gpu(node, -1, implied_cpu(node));
  } else if (name == "nic") {
    for (const pugi::xml_node& net : node.children("net")) add_net(net, -1, implied_cpu(node));
  } else if (name == "net") {
    add_net(node, -1, implied_cpu(node));
  } else {
    unknown(node);
  }
}

void TreeReader::visit_cpu(const pugi::xml_node& node, int depth) {
  if (tree_.cpus.size() >= kMostCpus) {
    file_.warn(node, fmt::format("more than {} cpu elements; this one is not read", kMostCpus));
    return;
  }
  NcclCpu cpu{.node = node, .host = host_of(node)};
  if (const auto numa = whole_of(node, "numaid"); numa && *numa >= -1 && *numa < 1 << 20) cpu.numa = static_cast<int>(*numa);
  // Places are given once a host: the domain's own number, or the next above all.
  std::set<int>& places = cpu_places_[cpu.host];
  cpu.place = std::max(cpu.numa, 0);
  if (!places.insert(cpu.place).second) {
    if (cpu.numa >= 0) file_.warn(node, fmt::format("a second cpu with numaid {} of one host; it is kept apart", cpu.numa));
    cpu.place = *places.rbegin() + 1;
    places.insert(cpu.place);
  }
  const int index = static_cast<int>(tree_.cpus.size());
  tree_.cpus.push_back(cpu);
  visit_children(node, -1, index, depth + 1);
}

void TreeReader::visit_children(const pugi::xml_node& node, int parent, int cpu, int depth) {
  if (depth > XmlFile::kMostDepth) {
    file_.warn(node, "elements are nested too deep here; what is inside is not read");
    return;
  }
  for (const pugi::xml_node& child : node.children()) {
    if (child.type() != pugi::node_element) continue;
    const std::string_view name = child.name();
    if (name == "pci") {
      visit_pci(child, parent, cpu, depth);
    } else if (name == "gpu") {
      add_gpu(child, parent, cpu);
    } else if (name == "nic") {
      for (const pugi::xml_node& net : child.children("net")) add_net(net, parent, cpu);
    } else if (name == "net") {
      add_net(child, parent, cpu);
    } else if (name == "cpu") {
      file_.warn(child, "a cpu inside of another element: was a closing tag lost? It is read as a cpu of its own");
      visit_cpu(child, depth);
    } else if (name != "pcilink") {
      unknown(child);
    }
  }
}

void TreeReader::visit_pci(const pugi::xml_node& node, int parent, int cpu, int depth) {
  const int index = static_cast<int>(tree_.pcis.size());
  if (tree_.pcis.size() >= kMostDevices) {
    if (!is_cut_) file_.warn(node, fmt::format("more than {} PCI elements; what follows is not read", kMostDevices));
    is_cut_ = true;
    return;
  }
  const std::string_view busid = text_of(node, "busid");
  const int host = tree_.cpus[static_cast<std::size_t>(cpu)].host;
  if (const auto bus = bus_number(busid)) {
    const std::pair key{host, *bus};
    if (!tree_.pci_at.emplace(key, index).second && repeated_.insert(key).second) {
      file_.warn(node, fmt::format("bus id {} is there before, in line {}; NVLink rows lead to the first", busid,
                                   file_.line_of(tree_.pcis[static_cast<std::size_t>(tree_.pci_at[key])].node)));
    }
  } else {
    file_.warn(node, busid.empty() ? std::string("a pci element without busid") : fmt::format("busid=\"{}\" is no bus id", busid));
  }
  if (parent >= 0) tree_.pcis[static_cast<std::size_t>(parent)].has_children = true;
  tree_.pcis.push_back({.node = node, .parent = parent, .cpu = cpu});
  visit_children(node, index, cpu, depth + 1);
}

bool TreeReader::is_full(const pugi::xml_node& node) {
  if (tree_.gpus.size() + tree_.nets.size() < kMostDevices) return false;
  if (!is_cut_) file_.warn(node, fmt::format("more than {} GPUs and nets; what follows is not read", kMostDevices));
  is_cut_ = true;
  return true;
}

void TreeReader::add_gpu(const pugi::xml_node& node, int pci, int cpu) {
  if (is_full(node)) return;
  NcclGpu gpu{.node = node, .pci = pci, .cpu = cpu, .rank = whole_of(node, "rank"), .dev = whole_of(node, "dev"), .sm = 0, .gfx = {}};
  gpu.gfx = gfx_of(text_of(node, "gcn"));
  // RCCL writes the number of compute units as sm.
  if (const auto sm = whole_of(node, "sm"); sm && gpu.gfx.empty() && *sm > 0 && *sm < 10'000) gpu.sm = static_cast<int>(*sm);
  if (!gpu.rank) file_.warn(node, "a gpu without rank: NCCL leaves it out, here it is part of the machine");
  if (pci >= 0) {
    ++tree_.pcis[static_cast<std::size_t>(pci)].parts;
    tree_.pcis[static_cast<std::size_t>(pci)].has_gpu = true;
  }
  tree_.gpus.push_back(std::move(gpu));
}

/// The sockets of a container are listed under every CPU with one dev: they count once.
void TreeReader::add_net(const pugi::xml_node& node, int pci, int cpu) {
  if (is_full(node)) return;
  NcclNet net{.node = node, .pci = pci, .cpus = {cpu}, .dev = whole_of(node, "dev")};
  const std::string name(text_of(node, "name"));
  const int host = tree_.cpus[static_cast<std::size_t>(cpu)].host;
  if (net.dev) {
    const auto [it, is_new] = nets_.emplace(std::tuple{host, *net.dev, name}, static_cast<int>(tree_.nets.size()));
    if (!is_new) {
      NcclNet& first = tree_.nets[static_cast<std::size_t>(it->second)];
      const bool is_socket = first.pci < 0 && pci < 0 && first.cpus.back() != cpu && first.cpus.size() < kMostCpus;
      if (is_socket) first.cpus.push_back(cpu);
      file_.warn(node, fmt::format("net {} (dev {}) again, first in line {}: it counts once", name, *net.dev, file_.line_of(first.node)));
      return;
    }
  } else {
    file_.warn(node, fmt::format("net {} without dev: NCCL does not use it", name));
  }
  if (pci >= 0) ++tree_.pcis[static_cast<std::size_t>(pci)].parts;
  tree_.nets.push_back(std::move(net));
}

void TreeReader::unknown(const pugi::xml_node& node) {
  if (node.type() == pugi::node_element)
    file_.warn(node, fmt::format("<{}> is no element of a topology; it is skipped", std::string_view(node.name()).substr(0, 40)));
}

int TreeReader::host_of(const pugi::xml_node& cpu) {
  const std::uint64_t hash = hex_of(text_of(cpu, "host_hash")).value_or(0);
  return hosts_.emplace(hash, static_cast<int>(hosts_.size())).first->second;
}

int TreeReader::implied_cpu(const pugi::xml_node& near) {
  if (implied_ < 0) {
    file_.warn(near, fmt::format("<{}> without a cpu around it: a piece of a file? One cpu is added", near.name()));
    // At the limit the last cpu stands in.
    visit_cpu({}, 0);
    implied_ = static_cast<int>(tree_.cpus.size()) - 1;
  }
  return implied_;
}

/// What NCCL tells by children and class; a leaf without either stays unknown.
void TreeReader::settle_role(int index) {
  NcclPci& pci = tree_.pcis[static_cast<std::size_t>(index)];
  const std::string_view text = text_of(pci.node, "class");
  if (pci.has_gpu) {
    pci.role = PciRole::gpu;
  } else if (pci.parts > 0) {
    pci.role = PciRole::nic;
  } else if (text.starts_with("0x068000")) {
    pci.role = PciRole::nvswitch;
  } else if (pci.has_children || text.starts_with("0x06") || text.starts_with("0x08")) {
    pci.role = PciRole::bridge;
  } else if (text.starts_with("0x03") || text.starts_with("0x12")) {
    pci.role = PciRole::gpu;
    tree_.gpus.push_back({.node = {}, .pci = index, .cpu = pci.cpu, .rank = {}, .dev = {}, .sm = 0, .gfx = {}});
    pci.parts = 1;
  } else if (text.starts_with("0x02")) {
    pci.role = PciRole::nic;
    tree_.nets.push_back({.node = {}, .pci = index, .cpus = {pci.cpu}, .dev = {}});
    pci.parts = 1;
  } else {
    pci.role = PciRole::unknown;
  }
}

void TreeReader::merge_broadcom_switches() {
  const auto id_of = [this](int i) {
    const pugi::xml_node& node = tree_.pcis[static_cast<std::size_t>(i)].node;
    std::uint64_t id = 0;
    for (const char* part : {"vendor", "device", "subsystem_vendor", "subsystem_device"})
      id = id << 16 | (hex_of(text_of(node, part)).value_or(0) & 0xffff);
    return id & ~std::uint64_t{0xfff};
  };
  for (int i = 0; i < static_cast<int>(tree_.pcis.size()); ++i) {
    NcclPci& child = tree_.pcis[static_cast<std::size_t>(i)];
    if (child.parent < 0 || child.role != PciRole::bridge) continue;
    const NcclPci& parent = tree_.pcis[static_cast<std::size_t>(child.parent)];
    if (parent.is_merged || parent.role != PciRole::bridge) continue;
    const std::uint64_t above = id_of(child.parent);
    const std::uint64_t here = id_of(i);
    child.is_merged = (above == kGen4Switch && here == kGen4Switch) || (above == kGen5Parent && here == kGen5Child);
  }
}

void TreeReader::tell_guesses() {
  const auto tell = [this](const auto& parts, std::string_view what, std::string_view lacks) {
    int count = 0;
    pugi::xml_node first;
    for (const auto& part : parts)
      if (!part.node && count++ == 0) first = tree_.pcis[static_cast<std::size_t>(part.pci)].node;
    if (count > 0) file_.warn(first, fmt::format("{} told by its PCI class only ({} in the file): {}", what, count, lacks));
  };
  tell(tree_.gpus, "a GPU", "without a gpu element neither its compute capability nor its NVLinks are known");
  tell(tree_.nets, "a NIC", "without a net element neither its name nor its speed is known");
  int count = 0;
  pugi::xml_node first;
  for (const NcclPci& pci : tree_.pcis)
    if (pci.role == PciRole::unknown && count++ == 0) first = pci.node;
  if (count > 0) {
    file_.warn(first, fmt::format(
                          "a PCI endpoint without class, gpu or net ({} in the file): it may be a GPU, a NIC or a switch, which NCCL finds "
                          "out on the machine itself; add a class to have it counted",
                          count));
  }
}

void TreeReader::sort_gpus() {
  const auto key = [this](const NcclGpu& gpu) {
    return std::tuple{tree_.cpus[static_cast<std::size_t>(gpu.cpu)].host, !gpu.rank.has_value(), gpu.rank.value_or(0)};
  };
  std::stable_sort(tree_.gpus.begin(), tree_.gpus.end(), [&](const NcclGpu& a, const NcclGpu& b) { return key(a) < key(b); });
}

}  // namespace

std::optional<std::uint64_t> bus_number(std::string_view busid) {
  std::uint64_t number = 0;
  int digits = 0;
  for (char c : busid) {
    if (c == ':' || c == '.') continue;
    const auto digit = hex_of(std::string_view(&c, 1));
    if (!digit || ++digits > 16) return std::nullopt;
    number = number << 4 | *digit;
  }
  if (digits < 4) return std::nullopt;
  return number;
}

bool is_invisible(std::string_view busid) { return busid.starts_with("fffffff:") || busid.starts_with("FFFFFFF:"); }

Result<NcclTree> read_nccl_tree(XmlFile& file) { return TreeReader(file).read(); }

}  // namespace peal::topology
