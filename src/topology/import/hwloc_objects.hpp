// What an hwloc XML of version 1, 2 or 3 says of a machine, the same for all versions. In version 1 a NUMA node stands above its cores,
// later beside them; caches, kinds of OS devices and distances changed their spelling.
#pragma once

#include <set>
#include <unordered_map>

#include "xml_tree.hpp"

namespace peal::topology {

struct HwPackage {
  pugi::xml_node node;
  int os_index = 0;
};

/// A NUMA node. One whose PUs all belong to earlier ones, or that has none, is memory beside the domains (HBM, CXL, a GPU's own).
struct HwDomain {
  pugi::xml_node node;  ///< null: implied, the file names none
  int os_index = 0;
  int package = -1;
  int beside = -1;  ///< index of the domain whose cores see this memory too, -1: a domain of its own
  bool has_cores = false;
  std::uint64_t memory_bytes = 0;
};

struct HwCache {
  pugi::xml_node node;
  int level = 0;
  std::uint64_t bytes = 0;
  int domain = 0;
};

struct HwCore {
  std::vector<int> pus;
  int cache = -1;
  int domain = 0;
};

enum class HwIoKind : std::uint8_t { host_bridge, bridge, gpu, nic, nvswitch, memory, other };

struct HwIo {
  pugi::xml_node node;
  HwIoKind kind = HwIoKind::other;
  int parent = -1;  ///< index of a bridge, -1: at the CPU
  int domain = 0;
  bool is_near_several = false;  ///< the file places it near several domains; `domain` is the first of them
  double gbps = 0;               ///< of its own end of the link; 0 unknown
  std::string name;              ///< of the OS device, "mlx5_0"
  bool is_infiniband = false;
};

/// A pair of objects that a matrix of bandwidths joins, each pair once; MB/s, the larger of both directions.
struct HwBandwidth {
  int a = -1;  ///< indices of io
  int b = -1;
  double mbps = 0;
  bool is_xgmi = false;
};

struct HwMachine {
  std::string title;
  std::string architecture;
  std::string cpu_vendor;
  int cpu_family = -1;
  int cpu_model = -1;
  std::string cpu_name;
  std::vector<HwPackage> packages;
  std::vector<HwDomain> domains;
  std::vector<HwCache> caches;
  std::vector<HwCore> cores;
  std::vector<HwIo> io;  ///< parents before children
  std::vector<HwBandwidth> bandwidths;
};

/// Fails where the file holds no object.
Result<HwMachine> read_hwloc_objects(XmlFile& file);

/// The value of an <info name="..." value="..."/> child, or an empty view.
std::string_view info_of(const pugi::xml_node& object, std::string_view name);

}  // namespace peal::topology
