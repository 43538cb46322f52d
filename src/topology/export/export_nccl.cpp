// NCCL's topology XML, from the tree of nccl_plan.hpp:
//
//     system > cpu > pci (switch) > pci > gpu > nvlink, xgmi, c2c
//                                 > pci > nic > net
//
// Elements and attributes, and what NCCL makes of them: NCCL 5067397c src/graph/xml.cc and topo.cc; RCCL's additions 0cbce2a7571c.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <topology/cpu_identity.hpp>
#include <topology/export.hpp>
#include <topology/link_catalogue.hpp>

#include "nccl_plan.hpp"

namespace peal::topology {
namespace {

constexpr std::size_t kLongestValue = 255;  // NCCL keeps no more of an attribute
constexpr double kWidestPcieGBps = 500;     // anything faster is no PCIe link: the NIC is a network without a device of its own

constexpr std::array<int, 6> kWidths = {16, 8, 4, 2, 1, 32};

struct Element {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes = {};
  std::vector<Element> children = {};
};

/// NCCL reads bytes up to the closing quote and knows no entities: what could end a value early is replaced.
std::string plain(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, kLongestValue)) {
    const bool is_bad = static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\'' || c == '<' || c == '>' || c == '&' || c == 0x7f;
    out += is_bad ? '_' : c;
  }
  return out;
}

void print(const Element& e, int depth, std::string& out) {
  const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  out += indent + "<" + e.name;
  for (const auto& [key, value] : e.attributes) out += fmt::format(" {}=\"{}\"", key, plain(value));
  if (e.children.empty()) {
    out += "/>\n";
    return;
  }
  out += ">\n";
  for (const Element& child : e.children) print(child, depth + 1, out);
  out += indent + "</" + e.name + ">\n";
}

/// "fabric/gpu0, gpu1, gpu2 and 5 more"
std::string some_of(const std::set<std::string>& ids) {
  std::vector<std::string> shown(ids.begin(), ids.end());
  const std::size_t more = shown.size() > 4 ? shown.size() - 3 : 0;
  if (more > 0) shown.resize(3);
  return more > 0 ? fmt::format("{} and {} more", fmt::join(shown, ", "), more) : fmt::format("{}", fmt::join(shown, ", "));
}

class Export {
 public:
  explicit Export(const Graph& graph) : graph_(graph), tree_(plan_nccl(graph)) {
    for (int d : graph.compute_devices())
      if (is_gpu(d) && tree_.host_of(device(d).node) >= 0) ranks_.emplace(d, static_cast<int>(ranks_.size()));
    for (int d = 0; d < graph.device_count(); ++d) {
      has_given_ranks_ = has_given_ranks_ || (is_gpu(d) && !device(d).attribute("rank").empty());
      has_rails_ = has_rails_ || device(d).rail >= 0;
      is_amd_ = is_amd_ || (is_gpu(d) && is_amd(d));
      const int above = tree_.parent[static_cast<std::size_t>(d)];
      if (above != -1) children_[above].push_back(d);
    }
  }

  Result<std::string> write() {
    if (ranks_.empty())
      return fail(ErrorCode::invalid_argument, "{} has no GPU, and NCCL's topology is one of GPUs: name a machine with GPUs", title());
    for (const Link& l : graph_.links()) {
      if (is_gpu(l.a) && is_gpu(l.b) && name_of(l.kind) == "hccs")
        return fail(ErrorCode::invalid_argument, "the devices of {} are joined by HCCS, which neither NCCL nor RCCL knows", title());
    }
    Element system{.name = "system", .attributes = {{"version", is_amd_ ? "2" : "1"}}};
    for (int cpu : tree_.cpus) system.children.push_back(cpu_element(cpu));
    if (children_.contains(NcclPlan::kNoCpu)) {
      notes_.insert("made up: one CPU above everything, as the description has none");
      Element cpu{.name = "cpu", .attributes = {{"numaid", "-1"}}};
      add_children(NcclPlan::kNoCpu, cpu);
      system.children.push_back(std::move(cpu));
    }
    note_what_is_left_out();
    std::string out = head();
    print(system, 0, out);
    return out;
  }

 private:
  const Device& device(int d) const { return graph_.device(d); }
  bool is_gpu(int d) const { return device(d).kind == DeviceKind::gpu; }
  std::string title() const { return graph_.title.empty() ? "the machine" : graph_.title; }
  const std::string& bus_id(int d) const { return tree_.bus_id[static_cast<std::size_t>(d)]; }

  bool is_amd(int d) const {
    if (!device(d).attribute("gcn").empty() || !device(d).attribute("gfx").empty()) return true;
    const auto links = graph_.links_of(d);
    return std::any_of(links.begin(), links.end(), [&](int l) { return graph_.link(l).kind == LinkKind::xgmi; });
  }

  /// Adds the attribute where the device has it; true when it was there, empty or not.
  bool copy(int d, std::string_view key, Element& e, std::string_view as = {}) const {
    for (const Attribute& a : device(d).attributes) {
      if (a.key != key) continue;
      e.attributes.emplace_back(as.empty() ? key : as, a.value);
      return true;
    }
    return false;
  }

  Element cpu_element(int cpu) {
    Element e{.name = "cpu"};
    const auto place = std::find(tree_.cpus.begin(), tree_.cpus.end(), cpu);
    const int host = place == tree_.cpus.end() ? 0 : tree_.host[static_cast<std::size_t>(place - tree_.cpus.begin())];
    if (!copy(cpu, "host_hash", e) && tree_.hosts > 1) {
      e.attributes.emplace_back("host_hash", fmt::format("{:#x}", host + 1));
      notes_.insert("made up: host_hash");
    }
    if (!copy(cpu, "numaid", e)) e.attributes.emplace_back("numaid", std::to_string(numa_of(cpu)));
    copy(cpu, "affinity", e);
    CpuIdentity known;
    if (device(cpu).attribute("arch").empty()) {
      std::vector<std::string_view> names = {device(cpu).name};
      for (int l : graph_.links_of(cpu)) {
        const Device& other = device(graph_.other_end(l, cpu));
        if (other.kind == DeviceKind::package) names.push_back(other.name);
      }
      known = identify_cpu(names);
      if (known.arch.empty())
        notes_.insert("not known, and so not written: which CPU it is (arch, vendor); NCCL fills it in on the machine");
    }
    const auto put = [&](std::string_view key, std::string_view attribute, const std::string& otherwise) {
      if (!copy(cpu, attribute, e, key) && !otherwise.empty()) e.attributes.emplace_back(key, otherwise);
    };
    put("arch", "arch", known.arch);
    put("vendor", device(cpu).attribute("vendor").empty() ? "cpu_vendor" : "vendor", known.vendor);
    put("familyid", "familyid", known.family);
    put("modelid", "modelid", known.model);
    add_children(cpu, e);
    // A network without a device of its own stands below every CPU that it is joined to.
    for (int l : graph_.links_of(cpu)) {
      const int nic = graph_.other_end(l, cpu);
      if (device(nic).kind == DeviceKind::nic && tree_.parent[static_cast<std::size_t>(nic)] != cpu && is_without_device(nic) &&
          is_used(nic))
        e.children.push_back({.name = "nic", .children = {net_element(nic)}});
    }
    return e;
  }

  /// The CPU's own NUMA number, else that of a device below it, else the number at the end of its id; one that no other CPU of the
  /// machine has.
  int numa_of(int cpu) {
    int numa = device(cpu).numa;
    const std::function<void(int)> look_below = [&](int d) {
      for (int child : children_[d]) {
        if (numa < 0) numa = device(child).numa;
        if (numa < 0) look_below(child);
      }
    };
    if (numa < 0) look_below(cpu);
    const std::string& id = device(cpu).id;
    const std::size_t digits = id.find_last_not_of("0123456789") + 1;
    if (numa < 0 && digits < id.size() && id.size() - digits < 6) numa = std::stoi(id.substr(digits));
    auto& taken = numas_[device(cpu).node];
    if (numa >= 0 && taken.insert(numa).second) return numa;
    numa = 0;
    while (!taken.insert(numa).second) ++numa;
    return numa;
  }

  /// Devices with the same given bus id share one `pci` (the ports of a card, the partitions of a GPU), also that of the switch above them.
  void add_children(int above, Element& into) {
    std::map<std::string, std::size_t> by_bus;
    for (int d : children_[above]) {
      if (device(d).kind == DeviceKind::nic && is_without_device(d)) {
        if (is_used(d)) into.children.push_back({.name = "nic", .children = {net_element(d)}});
        continue;
      }
      if (above >= 0 && bus_id(above) == bus_id(d)) {
        add_function(d, into);
        continue;
      }
      const auto [it, is_new] = by_bus.emplace(bus_id(d), into.children.size());
      if (is_new) into.children.push_back(pci_element(d));
      add_function(d, into.children[it->second]);
    }
  }

  void add_function(int d, Element& pci) {
    if (is_gpu(d)) pci.children.push_back(gpu_element(d));
    if (device(d).kind == DeviceKind::nic) add_nic(d, pci);
    if (device(d).kind != DeviceKind::pcie_switch) return;
    add_children(d, pci);
    add_peer_switches(d, pci);
  }

  bool is_without_device(int nic) const {
    if (!device(nic).attribute("busid").empty()) return false;
    const int up = tree_.up_link[static_cast<std::size_t>(nic)];
    return up < 0 || graph_.link(up).bandwidth.gigabytes() > kWidestPcieGBps;
  }

  Element pci_element(int d) {
    Element e{.name = "pci", .attributes = {{"busid", bus_id(d)}}};
    if (!copy(d, "class", e)) e.attributes.emplace_back("class", class_of(d));
    if (!copy(d, "vendor", e)) {
      const std::string& name = device(d).name;
      const bool is_mellanox =
          device(d).kind == DeviceKind::nic && (name.starts_with("ConnectX") || device(d).id.find("mlx5") != std::string::npos);
      if (is_gpu(d) && is_amd(d)) e.attributes.emplace_back("vendor", "0x1002");
      if (is_gpu(d) && !is_amd(d) && !device(d).attribute("sm").empty()) e.attributes.emplace_back("vendor", "0x10de");
      if (is_mellanox) e.attributes.emplace_back("vendor", "0x15b3");
    }
    for (std::string_view key : {"device", "subsystem_vendor", "subsystem_device"}) copy(d, key, e);
    const auto [speed, width] = pcie_words(d);
    if (!copy(d, "link_speed", e)) e.attributes.emplace_back("link_speed", speed);
    if (!copy(d, "link_width", e)) e.attributes.emplace_back("link_width", width);
    return e;
  }

  std::string class_of(int d) const {
    if (is_gpu(d)) return is_amd(d) ? "0x120000" : "0x030200";
    if (device(d).kind != DeviceKind::nic) return "0x060400";
    return device(d).port && device(d).port->kind == LinkKind::infiniband ? "0x020700" : "0x020000";
  }

  /// Speed and lanes of the link upward. Several generations give nearly one rate (x16 of one is x8 of the next): NCCL reads the same.
  std::pair<std::string, std::string> pcie_words(int d) {
    const int up = tree_.up_link[static_cast<std::size_t>(d)];
    if (up < 0) return {"", "0"};
    const Link& link = graph_.link(up);
    const double line = link.total().gigabytes();
    const auto nearest = [](const auto& off) {
      std::pair<double, std::pair<std::string, std::string>> best = {INFINITY, {}};
      for (int width : kWidths)
        for (const LinkGeneration* lane : pcie_generations())
          if (const double o = std::abs(std::log(off(*lane, width))); o < best.first - 1e-3)
            best = {o, {fmt::format("{:.1f} GT/s PCIe", lane->lane_gbps), std::to_string(width)}};  // as sysfs spells it
      return best;
    };
    const auto exact = nearest([&](const LinkGeneration& lane, int width) { return lane.bandwidth.gigabytes() * width / line; });
    if (exact.first < 0.02) return exact.second;
    // No generation has this rate: the one that NCCL would take for what software gets of it.
    odd_links_.insert(device(d).id);
    return nearest([&](const LinkGeneration& lane, int width) { return lane.usable.gigabytes() * width / link.usable_total().gigabytes(); })
        .second;
  }

  Element gpu_element(int d) {
    Element e{.name = "gpu"};
    int& count = gpus_of_[device(d).node];
    if (!copy(d, "dev", e)) e.attributes.emplace_back("dev", std::to_string(local_index(d, count)));
    ++count;
    const std::string_view gfx = device(d).attribute("gfx");
    if (!copy(d, "sm", e)) {
      if (gfx.size() == 3) {
        e.attributes.emplace_back("sm", std::string(gfx.substr(0, 2)));
      } else {
        notes_.insert("not known, and so not written: the compute capability (sm) of some GPUs; NCCL fills it in on the machine");
      }
    }
    copy(d, "mlopart", e);
    if (!copy(d, "gcn", e) && !gfx.empty()) e.attributes.emplace_back("gcn", fmt::format("gfx{}", gfx));
    copy(d, "arch", e);
    if (!copy(d, "rank", e) && !has_given_ranks_) e.attributes.emplace_back("rank", std::to_string(ranks_.at(d)));
    if (!copy(d, "gdr", e)) {
      e.attributes.emplace_back("gdr", "1");
      notes_.insert("made up: that GPUs support GPUDirect RDMA (gdr)");
    }
    add_gpu_links(d, e);
    return e;
  }

  /// Index of a GPU on its machine, in the order of ranks.
  int local_index(int d, int otherwise) const {
    const auto it = ranks_.find(d);
    if (it == ranks_.end()) return otherwise;
    return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
      return device(entry.first).node == device(d).node && entry.second < it->second;
    }));
  }

  void add_gpu_links(int d, Element& e) {
    std::map<std::pair<std::string, int>, std::size_t> rows;
    for (int l : graph_.links_of(d)) {
      const Link& link = graph_.link(l);
      const int other = graph_.other_end(l, d);
      const DeviceKind kind = device(other).kind;
      const bool is_cpu = kind == DeviceKind::cpu || kind == DeviceKind::package;
      const std::string name(name_of(link.kind));
      if (link.kind == LinkKind::c2c && is_cpu) {
        e.children.push_back(
            {.name = name, .attributes = {{"bw", fmt::format("{:.0f}", link.usable.value / 1e6)}, {"count", std::to_string(link.count)}}});
        continue;
      }
      const bool is_written =
          link.kind == LinkKind::xgmi ? kind == DeviceKind::gpu : link.kind == LinkKind::nvlink && !bus_id(other).empty();
      if (!is_written) continue;
      written_.insert(l);
      const auto [row, is_new] = rows.emplace(std::pair{name, other}, e.children.size());
      if (is_new) {
        const std::string target_class = kind == DeviceKind::nvswitch ? "0x068000" : is_cpu ? "0x068001" : class_name(other);
        e.children.push_back({.name = name, .attributes = {{"target", bus_id(other)}, {"count", "0"}, {"tclass", target_class}}});
      }
      std::string& count = e.children[row->second].attributes[1].second;
      count = std::to_string(std::stol(count) + link.count);
    }
  }

  std::string class_name(int d) const {
    const std::string_view given = device(d).attribute("class");
    return given.empty() ? class_of(d) : std::string(given);
  }

  void add_nic(int d, Element& pci) {
    if (!is_used(d)) {
      unused_nics_.insert(device(d).id);
      return;
    }
    const auto is_nic = [](const Element& child) { return child.name == "nic"; };
    auto nic = std::find_if(pci.children.begin(), pci.children.end(), is_nic);
    if (nic == pci.children.end()) nic = pci.children.insert(nic, {.name = "nic"});
    nic->children.push_back(net_element(d));
  }

  /// In a machine whose NICs have rails, one without is for storage or management. One with a bus id and without a number was read from
  /// a file that does not use it.
  bool is_used(int nic) const {
    if (device(nic).rail >= 0 || !device(nic).attribute("dev").empty()) return true;
    return !has_rails_ && device(nic).attribute("busid").empty();
  }

  Element net_element(int d) {
    Element e{.name = "net",
              .attributes = {{"name", device(d).attribute("name").empty() ? device(d).id : std::string(device(d).attribute("name"))}}};
    const auto [number, is_new] = net_numbers_.emplace(d, nets_of_[device(d).node]);
    if (is_new) ++nets_of_[device(d).node];
    if (!copy(d, "dev", e)) e.attributes.emplace_back("dev", std::to_string(number->second));
    const auto& port = device(d).port;
    if (!copy(d, "latency", e) && port) e.attributes.emplace_back("latency", fmt::format("{:g}", port->latency.value / 1e3));
    if (!copy(d, "speed", e) && port && port->bandwidth.value > 0)
      e.attributes.emplace_back("speed", fmt::format("{:.0f}", port->bandwidth.value * 8 / 1e6));
    for (std::string_view key : {"port", "guid", "maxconn"}) copy(d, key, e);
    if (!copy(d, "gdr", e)) {
      e.attributes.emplace_back("gdr", port && port->kind == LinkKind::infiniband ? "1" : "0");
      notes_.insert("made up: that InfiniBand ports, and no others, reach GPU memory (gdr)");
    }
    for (std::string_view key : {"coll", "net", "gin", "rma", "rail", "plane"}) copy(d, key, e);
    return e;
  }

  /// PCIe links between switches beside the tree.
  void add_peer_switches(int d, Element& pci) {
    for (int l : graph_.links_of(d)) {
      const int other = graph_.other_end(l, d);
      if (graph_.link(l).kind != LinkKind::pcie || device(other).kind != DeviceKind::pcie_switch) continue;
      if (tree_.up_link[static_cast<std::size_t>(d)] == l || tree_.up_link[static_cast<std::size_t>(other)] == l) continue;
      written_.insert(l);
      pci.children.push_back({.name = "pcilink", .attributes = {{"target", bus_id(other)}}});
    }
  }

  void note_what_is_left_out() {
    if (tree_.has_made_up_ids) notes_.insert("made up: bus ids");
    if (!odd_links_.empty())
      notes_.insert(fmt::format("no PCIe generation has the rate of {}: written as the nearest", some_of(odd_links_)));
    if (!unused_nics_.empty()) notes_.insert(fmt::format("without net, not being used for collectives: {}", some_of(unused_nics_)));
    std::set<std::string> rest;
    for (int l = 0; l < graph_.link_count(); ++l) {
      const Link& link = graph_.link(l);
      if (!is_gpu(link.a) && !is_gpu(link.b)) continue;
      const bool is_up = tree_.up_link[static_cast<std::size_t>(link.a)] == l || tree_.up_link[static_cast<std::size_t>(link.b)] == l;
      const bool is_c2c = link.kind == LinkKind::c2c && is_gpu(link.a) != is_gpu(link.b);
      const bool is_elsewhere = tree_.host_of(device(link.a).node) < 0 && tree_.host_of(device(link.b).node) < 0;
      if (!is_up && !is_c2c && !is_elsewhere && !written_.contains(l))
        rest.insert(fmt::format("{} - {} ({})", device(link.a).id, device(link.b).id, name_of(link.kind)));
    }
    if (!rest.empty()) notes_.insert(fmt::format("left out, having no word in this form: {}", some_of(rest)));
    if (graph_.node_count() > static_cast<int>(tree_.machines.size()) && !tree_.machines.empty())
      notes_.insert(
          fmt::format("the first {} of {} machines; NCCL joins the others by their nets", tree_.machines.size(), graph_.node_count()));
  }

  /// A comment may not hold two hyphens in a row.
  std::string head() const {
    std::string text = title() + ", written by peal";
    for (const std::string& note : notes_) text += "\n  " + note;
    for (std::size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at)) text[at + 1] = ' ';
    return fmt::format("<!-- {} -->\n", text);
  }

  const Graph& graph_;
  NcclPlan tree_;
  std::map<int, int> ranks_;  // by device
  std::map<int, std::vector<int>> children_;
  std::map<int, std::set<int>> numas_;    // given out, by machine
  std::map<int, int> gpus_of_, nets_of_;  // counted, by machine
  std::map<int, int> net_numbers_;        // by device
  std::set<int> written_;                 // links
  std::set<std::string> notes_, odd_links_, unused_nics_;
  bool has_given_ranks_ = false;
  bool has_rails_ = false;
  bool is_amd_ = false;
};

}  // namespace

Result<std::string> export_nccl_topology(const Graph& graph) { return Export(graph).write(); }

}  // namespace peal::topology
