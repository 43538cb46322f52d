// What /sys says about PCI devices: where they hang, what their links were negotiated to and could do, which errors they count.
#pragma once

#include <discovery/discover.hpp>
#include <string>
#include <vector>

#include "system_files.hpp"

namespace peal::discovery {

/// Lanes and transfers a second as sysfs gives them; 0 where it does not say (virtual devices, parts of the processor).
struct PciRate {
  double speed = 0;  ///< GT/s a lane
  int width = 0;
  bool is_known() const { return speed > 0 && width > 0; }
  /// One direction in GB/s, line rate after encoding; 0 when unknown.
  double gigabytes() const;
};

struct PciDevice {
  std::string address;  ///< "0000:17:00.0"
  std::string folder;   ///< its folder in /sys
  std::string model;    ///< "0x10de:0x2330", empty where it is not said
  PciRate negotiated;
  PciRate capable;
  std::vector<Counter> corrected, nonfatal, fatal;  ///< AER counters that are not zero
  bool redirects = false;                           ///< access control services send requests between its children up to the root complex
  bool is_config_readable = false;                  ///< so `redirects` says something
};

/// Where a device hangs in the PCI tree.
struct PciPlace {
  std::string address;                ///< "0000:17:00.0", empty for a device that is on no PCI bus
  std::string root;                   ///< "pci0000:00", the host bridge
  std::vector<std::string> switches;  ///< upstream ports of the switches from the host bridge down
  std::vector<PciDevice> chain;       ///< from below the host bridge down to the device itself
  int numa = -1;
  double gigabytes = 0;  ///< of the negotiated link, each way; 0 when the system does not say
  std::string source;    ///< of `gigabytes`

  /// The port that the link of chain[i] ends at on the other side; null at the top, and between the ports of a switch, where there is no
  /// link.
  const PciDevice* port_above(std::size_t i) const { return i % 2 == 1 ? &chain[i - 1] : nullptr; }
};

struct GpuFact {
  std::string name;
  PciPlace place;
};

/// One direction of a PCIe link in GB/s, line rate after encoding: "16.0 GT/s PCIe", "16" -> 31.5; 0 when the text is not understood.
double pcie_gigabytes(const std::string& speed, const std::string& width);

/// `device` is the folder (or link to it) of a device in /sys; virtio and other children hang below their PCI device.
/// With Detail::wiring of every PCI device in the chain only its address, folder and negotiated link.
PciPlace find_place(const std::string& device, Detail detail = Detail::all);

std::vector<GpuFact> find_gpus(const Roots& roots, Detail detail = Detail::all);

}  // namespace peal::discovery
