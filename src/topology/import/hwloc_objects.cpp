#include "hwloc_objects.hpp"

#include <algorithm>

#include "hwloc_sets.hpp"
#include "text_lines.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kMostObjects = 100'000;
constexpr std::size_t kMostInMatrix = 1024;

/// Where an object stands: what is around it.
struct Place {
  int package = -1;
  int cache = -1;
  int core = -1;
  int io = -1;
  pugi::xml_node near;  ///< the nearest object that has PUs
  int depth = 0;
};

struct PciType {
  unsigned pci_class = 0;
  unsigned vendor = 0;
};

/// "0302 [10de:1db1] [10de:1212] a1".
PciType pci_type_of(const pugi::xml_node& node) {
  const std::string_view text = text_of(node, "pci_type");
  PciType type;
  type.pci_class = static_cast<unsigned>(hex_of(text.substr(0, 4)).value_or(0));
  if (text.size() >= 10) type.vendor = static_cast<unsigned>(hex_of(text.substr(6, 4)).value_or(0));
  return type;
}

int small_number(std::string_view text, int otherwise) {
  const auto value = whole_number(text);
  return value && *value >= 0 && *value < 1'000'000 ? static_cast<int>(*value) : otherwise;
}

int cache_level_of(const pugi::xml_node& node) {
  const std::string_view type = text_of(node, "type");
  if (type == "Cache" || type == "L1Cache" || type == "L2Cache" || type == "L3Cache" || type == "L4Cache" || type == "L5Cache")
    return static_cast<int>(std::clamp(whole_of(node, "depth").value_or(0), 0LL, 9LL));
  return 0;
}

class ObjectReader {
 public:
  explicit ObjectReader(XmlFile& file) : file_(file) {}
  Result<HwMachine> read();

 private:
  void visit(const pugi::xml_node& node, Place place);
  void visit_children(const pugi::xml_node& node, const Place& place);
  void add_domain(const pugi::xml_node& node, const Place& place);
  void add_pu(const pugi::xml_node& node, Place& place);
  void add_io(const pugi::xml_node& node, Place& place);
  void add_os_device(const pugi::xml_node& node, const Place& place);
  void describe(const pugi::xml_node& node);
  void settle_domains();
  void place_everything();
  void read_bandwidths(const pugi::xml_node& topology);
  void add_matrix(const pugi::xml_node& matrix, bool is_xgmi);
  std::set<int> domains_of(const pugi::xml_node& near) const;

  XmlFile& file_;
  HwMachine machine_;
  int version_ = 1;
  std::size_t objects_ = 0;
  std::unordered_map<int, int> domain_of_pu_;
  std::unordered_map<long long, int> io_of_gp_;
  std::vector<pugi::xml_node> near_of_io_;
  std::vector<pugi::xml_node> near_of_cache_;
};

Result<HwMachine> ObjectReader::read() {
  pugi::xml_node topology = file_.top().child("topology");
  if (!topology) topology = file_.top().child("root");
  if (!topology) topology = file_.top();  // a piece without the outermost element
  const std::string_view version = text_of(topology, "version");
  if (!version.empty()) version_ = small_number(version.substr(0, version.find('.')), 1);
  if (version_ > 3) file_.warn(topology, fmt::format("version {} of hwloc's XML is newer than what is known here (1 to 3)", version));
  visit_children(topology, {});
  if (objects_ == 0) return fail(ErrorCode::corrupt, "{}:1: no object of hwloc: is this what `lstopo FILE.xml` wrote?", file_.name());
  settle_domains();
  place_everything();
  read_bandwidths(topology);
  return std::move(machine_);
}

void ObjectReader::visit_children(const pugi::xml_node& node, const Place& place) {
  if (place.depth > XmlFile::kMostDepth) {
    file_.warn(node, "objects are nested too deep here; what is inside is not read");
    return;
  }
  for (const pugi::xml_node& child : node.children("object")) {
    if (++objects_ > kMostObjects) {
      if (objects_ == kMostObjects + 1) file_.warn(child, fmt::format("more than {} objects; what follows is not read", kMostObjects));
      return;
    }
    visit(child, place);
  }
}

void ObjectReader::visit(const pugi::xml_node& node, Place place) {
  const std::string_view type = text_of(node, "type");
  ++place.depth;
  if (node.attribute("cpuset")) place.near = node;
  if (const int level = cache_level_of(node); level >= 3 || (level == 2 && place.cache < 0 && node.child("object") != node.last_child())) {
    place.cache = static_cast<int>(machine_.caches.size());
    const long long bytes = std::max(0LL, whole_of(node, "cache_size").value_or(0));
    machine_.caches.push_back({node, level, static_cast<std::uint64_t>(bytes), 0});
    near_of_cache_.push_back(place.near);
  }
  if (type == "Machine" || type == "System") {
    describe(node);
  } else if (type == "Package" || type == "Socket") {
    place.package = static_cast<int>(machine_.packages.size());
    machine_.packages.push_back({node, static_cast<int>(std::clamp(whole_of(node, "os_index").value_or(place.package), 0LL, 1'000'000LL))});
    describe(node);
  } else if (type == "NUMANode" || type == "NUMA" || type == "Node") {
    add_domain(node, place);
  } else if (type == "Core") {
    place.core = static_cast<int>(machine_.cores.size());
    machine_.cores.push_back({{}, place.cache, 0});
  } else if (type == "PU" || type == "P") {
    add_pu(node, place);
  } else if (type == "Bridge" || type == "PCIDev") {
    add_io(node, place);
  } else if (type == "OSDev") {
    add_os_device(node, place);
  }
  visit_children(node, place);
}

/// Who made the machine and its processors; the first object that says it counts.
void ObjectReader::describe(const pugi::xml_node& node) {
  const auto take = [&](std::string& into, std::string_view name) {
    if (into.empty()) into = info_of(node, name).substr(0, 200);
    while (into.ends_with(' ')) into.pop_back();
  };
  take(machine_.title, "DMIProductName");
  take(machine_.title, "PlatformModel");
  take(machine_.architecture, "Architecture");
  take(machine_.cpu_vendor, "CPUVendor");
  take(machine_.cpu_name, "CPUModel");
  if (machine_.cpu_family < 0) machine_.cpu_family = small_number(info_of(node, "CPUFamilyNumber"), -1);
  if (machine_.cpu_model < 0) machine_.cpu_model = small_number(info_of(node, "CPUModelNumber"), -1);
}

void ObjectReader::add_domain(const pugi::xml_node& node, const Place& place) {
  HwDomain domain{.node = node};
  domain.os_index =
      static_cast<int>(std::clamp(whole_of(node, "os_index").value_or(static_cast<long long>(machine_.domains.size())), 0LL, 1'000'000LL));
  domain.package = place.package;
  domain.memory_bytes = static_cast<std::uint64_t>(std::max(0LL, whole_of(node, "local_memory").value_or(0)));
  machine_.domains.push_back(domain);
}

void ObjectReader::add_pu(const pugi::xml_node& node, Place& place) {
  if (place.core < 0) {
    place.core = static_cast<int>(machine_.cores.size());
    machine_.cores.push_back({{}, place.cache, 0});
  }
  const auto os_index = whole_of(node, "os_index");
  if (os_index && *os_index >= 0 && *os_index < kMostPus)
    machine_.cores[static_cast<std::size_t>(place.core)].pus.push_back(static_cast<int>(*os_index));
}

void ObjectReader::add_io(const pugi::xml_node& node, Place& place) {
  HwIo io{.node = node};
  io.parent = place.io;
  const double gbps = number_of(text_of(node, "pci_link_speed")).value_or(0);
  io.gbps = gbps > 0 && gbps < 1e4 ? gbps : 0;
  const PciType type = pci_type_of(node);
  if (text_of(node, "type") == "Bridge") {
    io.kind = text_of(node, "bridge_type").starts_with("0-") ? HwIoKind::host_bridge : HwIoKind::bridge;
  } else if (text_of(node, "subtype") == "NVSwitch" || (type.pci_class == 0x0680 && type.vendor == 0x10de)) {
    io.kind = HwIoKind::nvswitch;
  } else if (type.pci_class == 0x0302 || type.pci_class == 0x0380 || type.pci_class >> 8 == 0x12 ||
             (type.pci_class == 0x0300 && type.vendor == 0x10de)) {
    io.kind = HwIoKind::gpu;
  } else if (type.pci_class >> 8 == 0x02 || type.pci_class == 0x0c06) {
    io.kind = HwIoKind::nic;
    io.is_infiniband = type.pci_class == 0x0207 || type.pci_class == 0x0c06;
  } else if (type.pci_class == 0x0502) {
    io.kind = HwIoKind::memory;
  }
  place.io = static_cast<int>(machine_.io.size());
  if (const auto gp = whole_of(node, "gp_index")) io_of_gp_.emplace(*gp, place.io);
  machine_.io.push_back(std::move(io));
  near_of_io_.push_back(place.near);
}

/// An OS device gives its PCI device a name, and says what it is where the PCI class does not.
void ObjectReader::add_os_device(const pugi::xml_node& node, const Place& place) {
  if (place.io < 0) return;
  HwIo& io = machine_.io[static_cast<std::size_t>(place.io)];
  if (io.kind == HwIoKind::bridge || io.kind == HwIoKind::host_bridge) return;
  if (const auto gp = whole_of(node, "gp_index")) io_of_gp_.emplace(*gp, place.io);
  const long long kind = whole_of(node, "osdev_type").value_or(-1);
  // Numbers until version 2, bits since version 3.
  const bool is_network = version_ >= 3 ? (kind & 16) != 0 : kind == 2;
  const bool is_fabric = version_ >= 3 ? (kind & 32) != 0 : kind == 3;
  const std::string_view name = text_of(node, "name");
  const std::string_view subtype = text_of(node, "subtype");
  for (std::string_view known : {"cuda", "nvml", "rsmi", "opencl", "ze"})
    if (name.starts_with(known) && io.kind == HwIoKind::other) io.kind = HwIoKind::gpu;
  // A display adapter that can render: a GPU of AMD's, and no console of a management controller.
  if (name.starts_with("renderD") && io.kind == HwIoKind::other && pci_type_of(io.node).vendor == 0x1002) io.kind = HwIoKind::gpu;
  if (subtype == "CXLMem") io.kind = HwIoKind::memory;
  if ((is_network || is_fabric) && io.kind == HwIoKind::other) io.kind = HwIoKind::nic;
  // The name for verbs says more than that of the socket interface beside it.
  const bool takes_name = io.kind == HwIoKind::nic ? is_fabric || (is_network && io.name.empty()) : io.name.empty();
  if (takes_name) io.name = name;
}

/// Each PU belongs to the first NUMA node that lists it.
void ObjectReader::settle_domains() {
  for (std::size_t d = 0; d < machine_.domains.size(); ++d) {
    HwDomain& domain = machine_.domains[d];
    const std::vector<int> pus = set_bits(domain.node.attribute("cpuset").value());
    for (int pu : pus) {
      const auto [it, is_new] = domain_of_pu_.emplace(pu, static_cast<int>(d));
      domain.has_cores = domain.has_cores || is_new;
      if (!is_new && domain.beside < 0) domain.beside = it->second;
    }
    if (domain.has_cores) domain.beside = -1;
  }
  const bool has_any = std::any_of(machine_.domains.begin(), machine_.domains.end(), [](const HwDomain& d) { return d.has_cores; });
  if (has_any) return;
  HwDomain domain;
  domain.has_cores = true;
  if (!machine_.packages.empty()) domain.package = 0;
  const pugi::xml_node machine = file_.top().child("topology").child("object");
  domain.memory_bytes = static_cast<std::uint64_t>(std::max(0LL, whole_of(machine, "local_memory").value_or(0)));
  machine_.domains.insert(machine_.domains.begin(), domain);
}

std::set<int> ObjectReader::domains_of(const pugi::xml_node& near) const {
  std::set<int> domains;
  for (int pu : set_bits(near.attribute("cpuset").value()))
    if (const auto it = domain_of_pu_.find(pu); it != domain_of_pu_.end()) domains.insert(it->second);
  return domains;
}

void ObjectReader::place_everything() {
  // Objects share few places, so that each place is looked up once.
  std::unordered_map<const void*, std::pair<int, bool>> known;
  int first = 0;
  while (!machine_.domains[static_cast<std::size_t>(first)].has_cores) ++first;
  const auto place_of = [&](const pugi::xml_node& near) {
    const auto [it, is_new] = known.emplace(near.internal_object(), std::pair{first, false});
    if (is_new) {
      const std::set<int> domains = domains_of(near);
      if (!domains.empty()) it->second = {*domains.begin(), domains.size() > 1};
    }
    return it->second;
  };
  for (HwCore& core : machine_.cores)
    for (int pu : core.pus)
      if (const auto it = domain_of_pu_.find(pu); it != domain_of_pu_.end()) core.domain = it->second;
  for (std::size_t i = 0; i < machine_.caches.size(); ++i) machine_.caches[i].domain = place_of(near_of_cache_[i]).first;
  for (std::size_t i = 0; i < machine_.io.size(); ++i)
    std::tie(machine_.io[i].domain, machine_.io[i].is_near_several) = place_of(near_of_io_[i]);
  // A NUMA node of version 1 stands above its package.
  for (HwDomain& domain : machine_.domains) {
    if (domain.package >= 0 || !domain.has_cores) continue;
    const int index = static_cast<int>(&domain - machine_.domains.data());
    for (std::size_t p = 0; p < machine_.packages.size() && domain.package < 0; ++p)
      if (place_of(machine_.packages[p].node).first == index) domain.package = static_cast<int>(p);
  }
}

void ObjectReader::read_bandwidths(const pugi::xml_node& topology) {
  for (const pugi::xml_node& child : topology.children()) {
    const std::string_view element = child.name();
    if (element != "distances2" && element != "distances2hetero") continue;
    const std::string_view name = text_of(child, "name");
    if (machine_.bandwidths.size() > kMostInMatrix * kMostInMatrix) break;
    if (name == "NVLinkBandwidth") add_matrix(child, false);
    if (name == "XGMIBandwidth") add_matrix(child, true);
  }
}

void ObjectReader::add_matrix(const pugi::xml_node& matrix, bool is_xgmi) {
  std::vector<int> objects;
  std::vector<double> values;
  for (const pugi::xml_node& part : matrix.children("indexes")) {
    for (std::string_view word : words_of(part.text().get(), kMostInMatrix + 1)) {
      const std::string_view number = word.substr(word.find(':') == std::string_view::npos ? 0 : word.find(':') + 1);
      const auto it = io_of_gp_.find(whole_number(number).value_or(-1));
      objects.push_back(it == io_of_gp_.end() ? -1 : it->second);
    }
  }
  const std::size_t n = objects.size();
  for (const pugi::xml_node& part : matrix.children("u64values")) {
    if (n > kMostInMatrix || values.size() > n * n) break;
    for (std::string_view word : words_of(part.text().get(), n * n + 1)) values.push_back(number_of(word).value_or(0));
  }
  if (n == 0 || n > kMostInMatrix || values.size() != n * n) {
    file_.warn(matrix,
               fmt::format("the matrix {} has {} objects and {} values; it is left out", text_of(matrix, "name"), n, values.size()));
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double mbps = std::max(values[i * n + j], values[j * n + i]);
      if (!(mbps > 0) || mbps > 1e9 || objects[i] < 0 || objects[j] < 0 || objects[i] == objects[j]) continue;
      machine_.bandwidths.push_back({objects[i], objects[j], mbps, is_xgmi});
    }
  }
}

}  // namespace

std::string_view info_of(const pugi::xml_node& object, std::string_view name) {
  for (const pugi::xml_node& info : object.children("info"))
    if (name == info.attribute("name").value()) return text_of(info, "value");
  return {};
}

Result<HwMachine> read_hwloc_objects(XmlFile& file) { return ObjectReader(file).read(); }

}  // namespace peal::topology
