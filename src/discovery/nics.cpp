#include "nics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace peal::discovery {
namespace {

namespace fs = std::filesystem;

/// "4: ACTIVE" -> "ACTIVE"
std::string after_colon(const std::string& text) {
  const auto colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

std::string line_of(const fs::path& path) { return read_line(path.string()).value_or(""); }

std::vector<Counter> counters_of(const fs::path& folder, std::initializer_list<const char*> names) {
  std::vector<Counter> counters;
  for (const char* name : names) {
    const double value = read_number((folder / name).string()).value_or(0);
    if (value >= 1 && value < 1.8e19) counters.push_back({name, static_cast<unsigned long long>(value)});
  }
  return counters;
}

std::string pci_model(const fs::path& device) {
  const std::string vendor = line_of(device / "vendor"), model = line_of(device / "device");
  return vendor.empty() || model.empty() ? std::string() : vendor + ":" + model;
}

RdmaPort read_port(const fs::path& adapter, const std::string& number, Detail detail) {
  const fs::path folder = adapter / "ports" / number;
  RdmaPort port{.device = adapter.filename().string(), .number = std::atoi(number.c_str()), .folder = folder.string()};
  port.model = line_of(adapter / "hca_type");
  if (port.model.empty()) port.model = pci_model(adapter / "device");
  port.layer = line_of(folder / "link_layer");
  port.state = after_colon(line_of(folder / "state"));
  port.physical = after_colon(line_of(folder / "phys_state"));
  port.rate = line_of(folder / "rate");
  const double gigabits = std::strtod(port.rate.c_str(), nullptr);
  if (gigabits > 0 && gigabits < 1e5) port.gigabytes = gigabits / 8;
  if (detail == Detail::wiring) return port;
  port.errors = counters_of(folder / "counters",
                            {"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
                             "local_link_integrity_errors", "excessive_buffer_overrun_errors", "port_xmit_discards"});
  port.losses = counters_of(folder / "hw_counters",
                            {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "rx_icrc_encapsulated"});
  return port;
}

NicFact nic_of(RdmaPort port, const fs::path& adapter, Detail detail) {
  NicFact nic{.name = port.name(), .is_infiniband = true, .is_up = port.state == "ACTIVE", .gigabytes = port.gigabytes};
  nic.source = fmt::format("read from {}/rate", port.folder);
  nic.folder = port.folder;
  nic.model = port.model;
  nic.place = find_place((adapter / "device").string(), detail);
  nic.port = std::move(port);
  return nic;
}

NicFact read_interface(const fs::path& folder, Detail detail) {
  NicFact nic{.name = folder.filename().string()};
  nic.folder = folder.string();
  nic.is_up = line_of(folder / "operstate") == "up";
  const double megabits = read_number((folder / "speed").string()).value_or(-1);
  nic.gigabytes = megabits > 0 && megabits < 1e8 ? megabits / 8000 : 0;
  nic.source = fmt::format("read from {}", (folder / "speed").string());
  nic.place = find_place((folder / "device").string(), detail);
  if (detail == Detail::wiring) return nic;
  nic.model = pci_model(folder / "device");
  constexpr unsigned long kEnabled = 1;  // IFF_UP
  nic.is_enabled = (std::strtoul(line_of(folder / "flags").c_str(), nullptr, 16) & kEnabled) != 0;
  if (const auto carrier = read_number((folder / "carrier").string())) nic.carrier = *carrier != 0;
  nic.duplex = line_of(folder / "duplex");
  nic.mtu = static_cast<int>(std::clamp(read_number((folder / "mtu").string()).value_or(0), 0.0, 1e6));
  nic.errors = counters_of(folder / "statistics", {"rx_crc_errors", "rx_frame_errors", "tx_carrier_errors"});
  return nic;
}

}  // namespace

std::vector<RdmaPort> find_rdma_ports(const Roots& roots, Detail detail) {
  const fs::path all = fs::path(roots.sys) / "class" / "infiniband";
  std::vector<RdmaPort> ports;
  for (const std::string& adapter : entries_of(all.string()))
    for (const std::string& number : entries_of((all / adapter / "ports").string()))
      ports.push_back(read_port(all / adapter, number, detail));
  return ports;
}

std::vector<NicFact> find_nics(const Roots& roots, Detail detail) {
  const fs::path infiniband = fs::path(roots.sys) / "class" / "infiniband";
  const fs::path net = fs::path(roots.sys) / "class" / "net";
  std::vector<NicFact> nics;
  for (RdmaPort& port : find_rdma_ports(roots, detail)) {
    // RoCE: its Ethernet interface is listed. Second ports are often not plugged in.
    if (!port.is_infiniband() || (port.number != 1 && port.state != "ACTIVE")) continue;
    const fs::path adapter = infiniband / port.device;
    nics.push_back(nic_of(std::move(port), adapter, detail));
  }
  for (const std::string& name : entries_of(net.string())) {
    std::error_code error;
    // Only hardware (or a hypervisor's idea of it) has a device; type 1 is Ethernet, IP over InfiniBand is 32.
    if (fs::exists(net / name / "device", error) && line_of(net / name / "type") == "1") nics.push_back(read_interface(net / name, detail));
  }
  return nics;
}

}  // namespace peal::discovery
