#include "nccl_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace peal::topology {
namespace {

bool is_gpu_link(LinkKind kind) {
  return kind == LinkKind::nvlink || kind == LinkKind::c2c || kind == LinkKind::xgmi || kind == LinkKind::hccs;
}

bool hangs_below_cpus(DeviceKind kind) { return kind == DeviceKind::gpu || kind == DeviceKind::nic || kind == DeviceKind::pcie_switch; }

class NcclPlanner {
 public:
  explicit NcclPlanner(const Graph& graph) : graph_(graph) {
    const auto n = static_cast<std::size_t>(graph.device_count());
    tree_.parent.assign(n, -1);
    tree_.up_link.assign(n, -1);
    tree_.bus_id.resize(n);
  }

  NcclPlan plan() {
    choose_machines();
    choose_cpus();
    grow(tree_.cpus);
    place_the_rest();
    tell_hosts_apart();
    name_buses();
    return std::move(tree_);
  }

 private:
  int& parent(int d) { return tree_.parent[static_cast<std::size_t>(d)]; }
  const Device& device(int d) const { return graph_.device(d); }
  bool is_here(int d) const { return device(d).node < 0 ? reached_.contains(d) : machines_.contains(device(d).node); }

  /// The first machine that has a GPU, and every one that NVLinks lead to from there (a rack with one NVLink domain).
  void choose_machines() {
    int first = -1;
    for (int d : graph_.devices_of(DeviceKind::gpu))
      if (first < 0 || device(d).node < device(first).node) first = d;
    std::vector<int> open;
    std::map<int, std::vector<int>> members;
    for (int d = 0; d < graph_.device_count(); ++d) members[device(d).node].push_back(d);
    const auto reach = [&](int d) {
      if (!reached_.insert(d).second) return;
      open.push_back(d);
      if (device(d).node < 0 || !machines_.insert(device(d).node).second) return;
      for (int other : members[device(d).node])
        if (reached_.insert(other).second) open.push_back(other);
    };
    if (first >= 0) reach(first);
    while (!open.empty()) {
      const int d = open.back();
      open.pop_back();
      for (int l : graph_.links_of(d))
        if (is_gpu_link(graph_.link(l).kind)) reach(graph_.other_end(l, d));
    }
    tree_.machines.assign(machines_.begin(), machines_.end());
  }

  /// CPUs, and sockets that something hangs on directly.
  void choose_cpus() {
    for (int d = 0; d < graph_.device_count(); ++d) {
      if (!is_here(d)) continue;
      const DeviceKind kind = device(d).kind;
      const auto carries = [&](int l) {
        const LinkKind k = graph_.link(l).kind;
        return (k == LinkKind::pcie || is_gpu_link(k)) && hangs_below_cpus(device(graph_.other_end(l, d)).kind);
      };
      const auto links = graph_.links_of(d);
      if (kind == DeviceKind::cpu || (kind == DeviceKind::package && std::any_of(links.begin(), links.end(), carries)))
        tree_.cpus.push_back(d);
    }
  }

  /// Down the PCIe links, nearest first, so that every device hangs on its shortest way to a CPU.
  void grow(std::vector<int> ring) {
    while (!ring.empty()) {
      std::vector<int> next;
      for (int d : ring) {
        for (int l : graph_.links_of(d)) {
          const int other = graph_.other_end(l, d);
          if (graph_.link(l).kind != LinkKind::pcie || !hangs_below_cpus(device(other).kind) || !is_here(other) || parent(other) != -1)
            continue;
          parent(other) = d;
          tree_.up_link[static_cast<std::size_t>(other)] = l;
          if (device(other).kind == DeviceKind::pcie_switch) next.push_back(other);
        }
      }
      ring = std::move(next);
    }
  }

  /// What no PCIe link joins to a CPU: below the CPU that another link leads to, else that of its NUMA domain, else the machine's first.
  void place_the_rest() {
    for (DeviceKind kind : {DeviceKind::pcie_switch, DeviceKind::gpu, DeviceKind::nic}) {
      for (int d : graph_.devices_of(kind)) {
        if (!is_here(d) || parent(d) != -1) continue;
        parent(d) = cpu_for(d);
        if (kind == DeviceKind::pcie_switch) grow({d});
      }
    }
  }

  int cpu_for(int d) const {
    for (int l : graph_.links_of(d)) {
      const int other = graph_.other_end(l, d);
      if (std::find(tree_.cpus.begin(), tree_.cpus.end(), other) != tree_.cpus.end()) return other;
    }
    int first = NcclPlan::kNoCpu;
    for (int cpu : tree_.cpus) {
      if (device(cpu).node != device(d).node) continue;
      if (device(d).numa >= 0 && device(cpu).numa == device(d).numa) return cpu;
      if (first < 0) first = cpu;
    }
    return first;
  }

  /// CPUs of one machine that only NVLink joins, each with GPUs, are hosts of their own: NCCL joins all CPUs of a host.
  void tell_hosts_apart() {
    std::vector<int> part(tree_.cpus.size(), -1);
    std::set<int> with_gpus;
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (part[i] < 0) mark(i, tree_.hosts++, part);
    }
    for (int d : graph_.devices_of(DeviceKind::gpu)) {
      if (!is_here(d)) continue;
      const auto cpu = std::find(tree_.cpus.begin(), tree_.cpus.end(), cpu_above(d));
      if (cpu != tree_.cpus.end()) with_gpus.insert(part[static_cast<std::size_t>(cpu - tree_.cpus.begin())]);
    }
    if (static_cast<int>(with_gpus.size()) != tree_.hosts) {
      for (std::size_t i = 0; i < part.size(); ++i) part[i] = tree_.host_of(device(tree_.cpus[i]).node);
      tree_.hosts = static_cast<int>(tree_.machines.size());
    }
    tree_.host = std::move(part);
  }

  /// A CPU and all CPUs that links inside a machine lead to.
  void mark(std::size_t first, int host, std::vector<int>& part) {
    std::set<int> seen{tree_.cpus[first]};
    std::vector<int> open{tree_.cpus[first]};
    while (!open.empty()) {
      const int d = open.back();
      open.pop_back();
      const auto cpu = std::find(tree_.cpus.begin(), tree_.cpus.end(), d);
      if (cpu != tree_.cpus.end()) part[static_cast<std::size_t>(cpu - tree_.cpus.begin())] = host;
      for (int l : graph_.links_of(d)) {
        const LinkKind kind = graph_.link(l).kind;
        const int other = graph_.other_end(l, d);
        const bool is_inside = !is_gpu_link(kind) && !is_network(kind) && device(other).node == device(d).node;
        if (is_inside && seen.insert(other).second) open.push_back(other);
      }
    }
  }

  int cpu_above(int d) const {
    while (d >= 0 && hangs_below_cpus(device(d).kind)) d = tree_.parent[static_cast<std::size_t>(d)];
    return d;
  }

  void name_buses() {
    for (int d = 0; d < graph_.device_count(); ++d) {
      if (!is_here(d)) continue;
      const std::string_view given = device(d).attribute("busid");
      if (!given.empty()) taken_.emplace(given);
      tree_.bus_id[static_cast<std::size_t>(d)] = std::string(given);
    }
    for (DeviceKind kind : {DeviceKind::gpu, DeviceKind::nic, DeviceKind::pcie_switch})
      for (int d : graph_.devices_of(kind))
        if (is_here(d)) name_way_down(d);
    for (int d : graph_.devices_of(DeviceKind::nvswitch))
      if (is_here(d)) name(d);
    for (int cpu : tree_.cpus) {
      const auto links = graph_.links_of(cpu);
      if (std::any_of(links.begin(), links.end(), [&](int l) { return graph_.link(l).kind == LinkKind::nvlink; })) name(cpu);
    }
  }

  /// Switches before what hangs on them, as a bus scan numbers them.
  void name_way_down(int d) {
    std::vector<int> way;
    for (int at = d; at >= 0 && hangs_below_cpus(device(at).kind); at = parent(at)) way.push_back(at);
    for (auto it = way.rbegin(); it != way.rend(); ++it) name(*it);
  }

  void name(int d) {
    std::string& id = tree_.bus_id[static_cast<std::size_t>(d)];
    if (!id.empty()) return;
    const int host = std::max(0, tree_.host_of(device(d).node));
    int& bus = next_bus_[host];
    do {
      ++bus;
      id = fmt::format("{:04x}:{:02x}:00.0", host * 256 + bus / 256, bus % 256);
    } while (!taken_.insert(id).second);
    tree_.has_made_up_ids = true;
  }

  const Graph& graph_;
  NcclPlan tree_;
  std::set<int> machines_;
  std::set<int> reached_;
  std::set<std::string> taken_;
  std::map<int, int> next_bus_;
};

}  // namespace

int NcclPlan::host_of(int node) const {
  const auto it = std::find(machines.begin(), machines.end(), node);
  return it == machines.end() ? -1 : static_cast<int>(it - machines.begin());
}

NcclPlan plan_nccl(const Graph& graph) { return NcclPlanner(graph).plan(); }

}  // namespace peal::topology
