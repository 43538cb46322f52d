// Network interfaces and RDMA ports: against others of the same model, and by what they count.
#include <algorithm>
#include <map>

#include "report.hpp"

namespace peal::discovery {
namespace {

/// Adapters without a known model are held against each other: a system shows the models of all or of none.
using Siblings = std::map<std::string, std::vector<const NicFact*>>;

void compare_speeds(const std::vector<const NicFact*>& siblings, Report& report) {
  const NicFact* best = nullptr;
  for (const NicFact* nic : siblings)
    if (nic->is_up && (best == nullptr || nic->gigabytes > best->gigabytes)) best = nic;
  for (const NicFact* nic : siblings) {
    if (!nic->is_up || nic->gigabytes <= 0 || nic->gigabytes >= best->gigabytes) continue;
    report.add("nic-slow", fmt::format("NIC {}", nic->name),
               fmt::format("{:g} Gb/s, while {} of the same model has {:g}", 8 * nic->gigabytes, best->name, 8 * best->gigabytes),
               nic->source);
  }
}

void compare_packets(const std::vector<const NicFact*>& siblings, Report& report) {
  const NicFact* first = nullptr;
  std::string all;
  bool differ = false;
  for (const NicFact* nic : siblings) {
    if (!nic->is_up || nic->mtu <= 0) continue;
    if (first == nullptr) first = nic;
    differ |= nic->mtu != first->mtu;
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", nic->name, nic->mtu);
  }
  if (differ)
    report.add("nic-mtu", fmt::format("NIC {}", first->name), fmt::format("MTUs of the same model differ ({})", all),
               fmt::format("read from {}/mtu and the others'", first->folder));
}

void look_at_interface(const NicFact& nic, const std::vector<const NicFact*>& siblings, bool any_carrier, Report& report) {
  const std::string name = fmt::format("NIC {}", nic.name);
  if (nic.duplex == "half") report.add("nic-half-duplex", name, "half duplex", fmt::format("read from {}/duplex", nic.folder));
  if (!nic.errors.empty())
    report.add("nic-errors", name, fmt::format("damaged frames since boot: {}", counters_text(nic.errors)),
               fmt::format("read from {}/statistics", nic.folder));
  if (nic.is_up && nic.gigabytes <= 0)
    report.unknown(
        fmt::format("{}: {}/speed says nothing (usual in virtual machines), so it cannot be held against others", name, nic.folder));
  if (nic.carrier.value_or(true)) return;
  // Spare ports of the board are often enabled and empty; one of several alike, or the only way out, is missed.
  const bool is_missed =
      !any_carrier || std::any_of(siblings.begin(), siblings.end(), [](const NicFact* s) { return s->carrier.value_or(false); });
  report.add("nic-no-carrier", name, "enabled and without a signal", fmt::format("read from {}/carrier", nic.folder),
             {{}, {}, is_missed ? Weight::wrong : Weight::note});
}

/// Ranks of one machine ask for another control themselves (docs/decisions/reno-within-a-host.md).
void look_at_pacing(const Roots& roots, Report& report) {
  const std::string control = roots.proc + "/sys/net/ipv4/tcp_congestion_control", discipline = roots.proc + "/sys/net/core/default_qdisc";
  const std::string name = read_line(control).value_or(""), by = read_line(discipline).value_or("");
  if (name.starts_with("bbr") && !by.empty() && by != "fq")
    report.add("tcp-paced", "TCP", fmt::format("congestion control {}, and interfaces come up with {}", name, by),
               fmt::format("read from {} and {}", control, discipline));
}

void look_at_port(const RdmaPort& port, const std::map<std::string, const RdmaPort*>& fastest, Report& report) {
  const std::string name = fmt::format("{} {}", port.is_infiniband() ? "InfiniBand port" : "RoCE port", port.name());
  const std::string state = fmt::format("read from {}/state and phys_state", port.folder);
  if (!port.errors.empty())
    report.add("ib-errors", name, fmt::format("errors of the link: {}", counters_text(port.errors)),
               fmt::format("read from {}/counters", port.folder));
  if (!port.losses.empty())
    report.add("rdma-losses", name, fmt::format("lost or disordered packets: {}", counters_text(port.losses)),
               fmt::format("read from {}/hw_counters", port.folder));
  if (!port.is_infiniband()) return;  // its Ethernet interface says the rest
  if (port.state == "INIT" || port.state == "ARMED") {
    report.add("ib-waiting", name, fmt::format("has a link and waits in {} for a subnet manager", port.state), state);
  } else if (port.state == "DOWN" && port.physical == "Disabled") {
    report.add("ib-disabled", name, "disabled", state);
  } else if (port.state == "DOWN") {
    report.add("ib-down", name, fmt::format("down{}", port.physical.empty() ? "" : fmt::format(" ({})", port.physical)), state);
  } else if (const auto best = fastest.find(port.model);
             port.state == "ACTIVE" && best != fastest.end() && port.gigabytes > 0 && port.gigabytes < best->second->gigabytes) {
    report.add("ib-slow", name, fmt::format("{}, while {} of the same model has {}", port.rate, best->second->name(), best->second->rate),
               fmt::format("read from {}/rate", port.folder));
  }
}

}  // namespace

void examine_nics(const Roots& roots, const std::vector<NicFact>& nics, Report& report) {
  Siblings siblings;
  bool any_carrier = false;
  std::size_t interfaces = 0;
  for (const NicFact& nic : nics) {
    if (nic.is_infiniband) continue;
    ++interfaces;
    siblings[nic.model].push_back(&nic);
    any_carrier |= nic.carrier.value_or(false);
  }
  for (const auto& [model, all] : siblings) {
    compare_speeds(all, report);
    compare_packets(all, report);
    for (const NicFact* nic : all) look_at_interface(*nic, all, any_carrier, report);
  }
  look_at_pacing(roots, report);
  const std::vector<RdmaPort> ports = find_rdma_ports(roots);
  std::map<std::string, const RdmaPort*> fastest;
  for (const RdmaPort& port : ports) {
    if (!port.is_infiniband() || port.state != "ACTIVE") continue;
    const RdmaPort*& best = fastest[port.model];
    if (best == nullptr || port.gigabytes > best->gigabytes) best = &port;
  }
  for (const RdmaPort& port : ports) look_at_port(port, fastest, report);
  report.seen(
      fmt::format("network: {} with hardware, {}", count_text(interfaces, "Ethernet interface"), count_text(ports.size(), "RDMA port")));
}

}  // namespace peal::discovery
