// What /sys and /proc say about PCI devices and network interfaces, as plain facts. Missing files are missing facts, never errors.
#pragma once

#include <discovery/discover.hpp>
#include <optional>
#include <string>
#include <vector>

namespace peal::discovery {

/// First line of a small file without the newline; nothing when it cannot be read.
std::optional<std::string> read_line(const std::string& path);

/// Where a device hangs in the PCI tree.
struct PciPlace {
  std::string address;                ///< "0000:17:00.0", empty for a device that is on no PCI bus
  std::string root;                   ///< "pci0000:00", the host bridge
  std::vector<std::string> switches;  ///< upstream ports of the switches from the host bridge down
  int numa = -1;
  double gigabytes = 0;  ///< of the negotiated link, each way; 0 when the system does not say
  std::string source;    ///< of `gigabytes`
};

struct NicFact {
  std::string name;  ///< "eth0", "mlx5_0"
  bool is_infiniband = false;
  bool is_up = false;
  double gigabytes = 0;  ///< line rate, each way; 0 when the system does not say
  std::string source;
  PciPlace place;
};

struct GpuFact {
  std::string name;
  PciPlace place;
};

/// One direction of a PCIe link in GB/s, line rate after encoding: "16.0 GT/s PCIe", "16" -> 31.5; 0 when the text is not understood.
double pcie_gigabytes(const std::string& speed, const std::string& width);

std::vector<NicFact> find_nics(const Roots& roots);
std::vector<GpuFact> find_gpus(const Roots& roots);

/// Value of a key of /proc/cpuinfo ("model name"), first processor.
std::string cpuinfo_value(const Roots& roots, const std::string& key);
bool is_virtual_machine(const Roots& roots);
/// CPUs' worth of time that the control group grants, 0 when it sets no limit.
double cpu_quota(const Roots& roots);

}  // namespace peal::discovery
