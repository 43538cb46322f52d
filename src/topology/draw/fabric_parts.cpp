#include "fabric_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "export/slurm_words.hpp"

namespace peal::topology {

FabricParts::FabricParts(const Graph& of) : graph(of), tree(plan_slurm_tree(of)), names(machine_names(of)) {
  find_tiers();
  describe_machines();
  for (const SlurmSwitch& s : tree) looks.push_back(looks_of(s));
}

void FabricParts::find_tiers() {
  std::vector<int> ring;
  for (const SlurmSwitch& s : tree)
    if (s.children.empty()) ring.insert(ring.end(), s.members.begin(), s.members.end());
  for (int d : ring) tier.emplace(d, 0);
  for (int t = 1; !ring.empty(); ++t) {
    std::vector<int> next;
    for (int d : ring)
      for (int l : graph.links_of(d)) {
        const int other = graph.other_end(l, d);
        if (is_switch(other) && tier.emplace(other, t).second) next.push_back(other);
      }
    ring = std::move(next);
  }
  for (int d : graph.devices_of(DeviceKind::net_switch)) tier.emplace(d, 0);
  for (const auto& [d, t] : tier) top_tier = std::max(top_tier, t);
}

void FabricParts::describe_machines() {
  machines.resize(names.size());
  const DeviceKind ranks = graph.compute_devices().empty() ? DeviceKind::cpu : graph.device(graph.compute_devices().front()).kind;
  const auto devices = graph.devices();
  const bool has_rails = std::any_of(devices.begin(), devices.end(), [](const Device& d) { return d.rail >= 0; });
  for (const Device& d : devices) {
    if (d.node < 0) continue;
    Machine& m = machines[static_cast<std::size_t>(d.node)];
    if (d.kind == ranks) ++m.compute[d.kind == DeviceKind::core || d.name.empty() ? std::string(name_of(d.kind)) : d.name];
    if (!d.port || (d.rail < 0 && has_rails)) continue;
    ++m.ports;
    m.GBps += d.port->bandwidth.gigabytes();
  }
  for (Machine& m : machines) {
    std::vector<std::string> parts;
    for (const auto& [name, count] : m.compute) parts.push_back(fmt::format("{} x {}", count, name));
    m.lines[0] = fmt::format("{}", fmt::join(parts, ", "));
    if (m.ports > 0) m.lines[1] = fmt::format("{} x {:g} GB/s", m.ports, std::round(m.GBps / m.ports * 100) / 100);
    m.looks = m.lines[0] + "; " + m.lines[1];
  }
}

std::string FabricParts::looks_of(const SlurmSwitch& s) const {
  std::map<std::string, int> parts;
  for (int n : s.machines) ++parts[machines[static_cast<std::size_t>(n)].looks];
  for (int child : s.children) ++parts[looks[static_cast<std::size_t>(child)]];
  std::string text = fmt::format("({} and {} switches", s.members.size(), s.above.size());
  for (const auto& [part, count] : parts) text += fmt::format(" {}x{}", count, part);
  return text + ")";
}

}  // namespace peal::topology
