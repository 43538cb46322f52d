#include "attributes.hpp"

#include <fmt/format.h>

#include <map>

#include "kernel.hpp"

namespace peal::discovery {
namespace {

using Attributes = std::vector<topology::Attribute>;

void add_rate(const PciRate& rate, const char* which, const std::string& folder, const char* file, Attributes& attributes) {
  if (rate.width > 0)
    attributes.push_back(
        {fmt::format("pcie_width{}", which), std::to_string(rate.width), fmt::format("read from {}/{}_link_width", folder, file)});
  if (rate.speed > 0)
    attributes.push_back(
        {fmt::format("pcie_speed{}", which), fmt::format("{:g}", rate.speed), fmt::format("read from {}/{}_link_speed", folder, file)});
}

}  // namespace

void add_pci_attributes(const PciPlace& place, Detail detail, Attributes& attributes) {
  if (place.chain.empty()) return;
  const PciDevice& device = place.chain.back();
  attributes.push_back({"pci", place.address, fmt::format("read from {}", device.folder)});
  if (detail == Detail::wiring) return;
  if (!device.model.empty()) attributes.push_back({"model", device.model, fmt::format("read from {}/vendor and device", device.folder)});
  add_rate(device.negotiated, "", device.folder, "current", attributes);
  add_rate(device.capable, "_capable", device.folder, "max", attributes);
  if (const PciDevice* port = place.port_above(place.chain.size() - 1)) add_rate(port->capable, "_port", port->folder, "max", attributes);
  std::vector<Counter> errors = device.fatal;
  errors.insert(errors.end(), device.nonfatal.begin(), device.nonfatal.end());
  errors.insert(errors.end(), device.corrected.begin(), device.corrected.end());
  if (!errors.empty()) attributes.push_back({"pcie_errors", counters_text(errors), fmt::format("read from {}/aer_dev_*", device.folder)});
}

void add_nic_attributes(const NicFact& nic, Attributes& attributes) {
  const auto add = [&](const char* key, const std::string& value, const char* file) {
    if (!value.empty()) attributes.push_back({key, value, fmt::format("read from {}/{}", nic.folder, file)});
  };
  add("state", nic.is_up ? "up" : "down", nic.is_infiniband ? "state" : "operstate");
  if (nic.is_infiniband) {
    add("ib_state", nic.port.state, "state");
    add("ib_physical", nic.port.physical, "phys_state");
    add("ib_rate", nic.port.rate, "rate");
    add("errors", counters_text(nic.port.errors), "counters");
    return;
  }
  add("mtu", nic.mtu > 0 ? std::to_string(nic.mtu) : std::string(), "mtu");
  add("duplex", nic.duplex, "duplex");
  if (nic.carrier) add("carrier", *nic.carrier ? "1" : "0", "carrier");
  add("errors", counters_text(nic.errors), "statistics");
}

void add_nvml_attributes(const vendor::NvmlGpu& gpu, Attributes& attributes) {
  std::map<std::string, int> peers;
  int active = 0;
  std::vector<Counter> errors;
  for (const vendor::NvLinkFact& link : gpu.links) {
    if (link.is_active) ++active;
    if (!link.peer.empty()) ++peers[link.peer];
    for (const auto& count : {link.replays, link.recoveries, link.crc_flit, link.crc_data})
      if (count.value_or(0) > 0) errors.push_back({fmt::format("link{}", link.link), *count});
  }
  if (!gpu.links.empty()) {
    attributes.push_back({"nvlinks", std::to_string(gpu.links.size()), "NVML: NvLinkState"});
    attributes.push_back({"nvlinks_active", std::to_string(active), "NVML: NvLinkState"});
  }
  std::string text;
  for (const auto& [peer, links] : peers) text += fmt::format("{}{} x{}", text.empty() ? "" : ", ", peer, links);
  if (!text.empty()) attributes.push_back({"nvlink_peers", text, "NVML: NvLinkRemotePciInfo"});
  if (!errors.empty()) attributes.push_back({"errors", counters_text(errors), "NVML: NvLinkErrorCounter"});
  const auto add = [&](const char* key, const std::optional<unsigned>& value, const char* call) {
    if (value) attributes.push_back({key, std::to_string(*value), fmt::format("NVML: {}", call)});
  };
  add("pcie_generation", gpu.pcie_generation, "CurrPcieLinkGeneration");
  add("pcie_generation_capable", gpu.most_pcie_generation, "MaxPcieLinkGeneration");
}

void add_host_attributes(const Roots& roots, Attributes& attributes) {
  if (is_virtual_machine(roots))
    attributes.push_back({"virtual_machine", "yes", fmt::format("read from {}/cpuinfo: flag hypervisor", roots.proc)});
  if (const std::string sign = container_sign(roots); !sign.empty())
    attributes.push_back({"container", "yes", fmt::format("read from {}", sign)});
  if (const CpuQuota quota = cpu_quota(roots); quota.cpus > 0)
    attributes.push_back({"cpu_quota", fmt::format("{:g}", quota.cpus), fmt::format("read from {}", quota.file)});
}

}  // namespace peal::discovery
