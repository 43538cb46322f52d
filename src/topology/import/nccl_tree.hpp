// The elements of an NCCL topology XML, told apart and numbered, before they become devices: hosts, CPUs, PCI functions with what they are,
// GPUs in the order of ranks, nets without repetition.
#pragma once

#include <map>

#include "xml_tree.hpp"

namespace peal::topology {

/// A bus id as a number: its hex digits, whatever stands between them ("0000:c1:00.0" -> 0x0000c1000).
std::optional<std::uint64_t> bus_number(std::string_view busid);
/// Domain fffffff: what a virtual machine says of a device that it cannot see.
bool is_invisible(std::string_view busid);

struct NcclCpu {
  pugi::xml_node node;  ///< null: implied by a piece of a file that has none
  int host = 0;
  int numa = -1;
  int place = 0;  ///< number for the id: numa where it is said and unique, else counted
};

enum class PciRole : std::uint8_t { bridge, gpu, nic, nvswitch, unknown };

struct NcclPci {
  pugi::xml_node node;
  int parent = -1;  ///< index of a PCI element, -1: at the CPU
  int cpu = 0;
  PciRole role = PciRole::bridge;
  bool is_merged = false;  ///< a Broadcom switch inside its parent: what hangs here hangs on the parent
  bool has_children = false;
  bool has_gpu = false;
  int parts = 0;  ///< GPUs or nets of this function
};

struct NcclGpu {
  pugi::xml_node node;  ///< null: guessed from the PCI class
  int pci = -1;         ///< -1: without a PCI element
  int cpu = 0;
  std::optional<long long> rank;
  std::optional<long long> dev;
  int sm = 0;       ///< 0 unknown, or an AMD GPU
  std::string gfx;  ///< "942"; AMD GPUs
};

struct NcclNet {
  pugi::xml_node node;    ///< null: guessed from the PCI class
  int pci = -1;           ///< -1: no PCI element
  std::vector<int> cpus;  ///< one; several where a net without PCI element is listed under each
  std::optional<long long> dev;
};

struct NcclTree {
  int hosts = 0;
  std::vector<NcclCpu> cpus;
  std::vector<NcclPci> pcis;  ///< parents before children
  std::vector<NcclGpu> gpus;  ///< by host, then rank, then order
  std::vector<NcclNet> nets;
  std::map<std::pair<int, std::uint64_t>, int> pci_at;  ///< host and bus number

  int host_of_pci(int pci) const { return cpus[static_cast<std::size_t>(pcis[static_cast<std::size_t>(pci)].cpu)].host; }
};

/// Fails where the file holds nothing of a topology. Oddities become warnings of the file.
Result<NcclTree> read_nccl_tree(XmlFile& file);

}  // namespace peal::topology
