// This host as a graph, found with hwloc, /sys, /proc and NVML. Every fact carries who said it: "hwloc", "read from FILE", "NVML",
// "measured ...", or "assumed: ..." where the system does not say.
//
// Attributes of devices (each with its source):
//   pci                                     PCI address, "0000:17:00.0" (GPUs, NICs)
//   pcie_width, pcie_speed                  lanes and GT/s of the link as negotiated ("8", "16")
//   pcie_width_capable, pcie_speed_capable  what the device itself could do
//   pcie_width_port, pcie_speed_port        what the port above it could do; absent at the top and in most virtual machines
//   pcie_errors                             corrected and other errors that AER has counted, "BadTLP 3, RxErr 1"; absent for none
//   model                                   PCI ids or the adapter's type; equal for devices of one kind
//   state                                   NICs: "up", "down"; InfiniBand's own words in ib_state and ib_physical
//   mtu, duplex, carrier                    Ethernet, where the interface says so
//   errors                                  counters of the port or wire that are not zero, "symbol_error 12"; absent for none
//   nvlinks, nvlinks_active, nvlink_peers   NVML: links that the GPU has, those that are up, and addresses at their other ends
//   cpus                                    cores: processors as the system numbers them
//   exchange_ns                             cores, where it was measured: flags shown to other cores, nanoseconds
//   memory_bytes                            NUMA domains
//   virtual_machine, container, cpu_quota   NUMA domains: what shows that others decide about this host; absent where nothing does
//   capacity_source                         who said the device's capacity
#pragma once

#include <cstdint>
#include <string>
#include <topology/graph.hpp>

namespace peal::vendor {
struct NvmlTable;
}

namespace peal::discovery {

/// Where to look. A test points `sys` and `proc` at a recorded tree and names a synthetic or recorded machine for hwloc.
struct Roots {
  std::string sys = "/sys";
  std::string proc = "/proc";
  std::string hwloc_synthetic = {};         ///< hwloc's synthetic text ("numa:2 core:4 pu:1"); empty: this host
  const vendor::NvmlTable* nvml = nullptr;  ///< null: this host's library where `sys` is /sys, else none. Not owned
};

struct HostMeasurements;

/// How much is read. A job asks for the wiring whenever it starts: no vendor's library is loaded, no configuration space, error counter or
/// state of health is read, and devices carry the attributes pci, cpus and memory_bytes only.
enum class Detail : std::uint8_t { wiring, all };

/// Cores, caches, NUMA domains, NICs, PCIe GPUs, with the links that shared memory, loopback and sockets use.
/// Honest where the system does not say (virtual machines): an assumption is marked in `source` and in a warning.
/// Lists the cores that the control group allows, not only those that the calling process is bound to, so that all ranks of a host see the
/// same graph. Ranks are placed on cores: a GPU is listed, but nothing runs on it yet.
/// With `measured` (measure.hpp), its figures take the place of what is assumed of cores, memory and loopback, and every core has an
/// attribute exchange_ns, "core1 62, core2 258".
Result<topology::Graph> discover_host(const Roots& roots = {}, const HostMeasurements* measured = nullptr, Detail detail = Detail::all);

/// What makes two hosts alike for tuning tables: "Intel Xeon @ 2.50GHz | 2 cores, 1 package, 1 NUMA | L1d 32K L2 1M L3 35.8M | Linux 6.1 |
/// kvm".
Result<std::string> host_fingerprint(const Roots& roots = {});

/// When the kernel gives memory transparent huge pages, as its administrator has chosen: "always", "madvise", "never"; empty where it has
/// none.
std::string use_of_huge_pages(const Roots& roots = {});

}  // namespace peal::discovery
