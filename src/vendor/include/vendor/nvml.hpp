// NVIDIA's management library (libnvidia-ml.so.1), loaded at run time. Facts that it does not give are absent, never guessed.
// Interface: NVML API Reference Guide, https://docs.nvidia.com/deploy/nvml-api/
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace peal::vendor {

struct NvmlDevice;  ///< opaque: a device of the library

/// nvmlPciInfo_t
struct NvmlPci {
  char legacy_bus_id[16];
  unsigned domain, bus, device;
  unsigned device_id, subsystem_id;
  char bus_id[32];
};

inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlInvalidArgument = 2;
inline constexpr int kNvmlNotSupported = 3;

/// Error counters of a link, numbered as in nvmlNvLinkErrorCounter_t.
enum class NvmlLinkError : unsigned { replay = 0, recovery = 1, crc_flit = 2, crc_data = 3 };

/// The functions that are used; every one may be null except the first five.
struct NvmlTable {
  int (*init)() = nullptr;                                   // nvmlInit_v2
  int (*shutdown)() = nullptr;                               // nvmlShutdown
  int (*device_count)(unsigned* count) = nullptr;            // nvmlDeviceGetCount_v2
  int (*device_at)(unsigned index, NvmlDevice**) = nullptr;  // nvmlDeviceGetHandleByIndex_v2
  int (*pci)(NvmlDevice*, NvmlPci*) = nullptr;               // nvmlDeviceGetPciInfo_v3
  int (*name)(NvmlDevice*, char* text, unsigned bytes) = nullptr;
  int (*pcie_generation)(NvmlDevice*, unsigned*) = nullptr;
  int (*pcie_width)(NvmlDevice*, unsigned*) = nullptr;
  int (*most_pcie_generation)(NvmlDevice*, unsigned*) = nullptr;
  int (*most_pcie_width)(NvmlDevice*, unsigned*) = nullptr;
  int (*performance_state)(NvmlDevice*, unsigned*) = nullptr;  // 0 the fastest clocks
  int (*link_state)(NvmlDevice*, unsigned link, unsigned* is_active) = nullptr;
  int (*link_version)(NvmlDevice*, unsigned link, unsigned*) = nullptr;
  int (*link_peer)(NvmlDevice*, unsigned link, NvmlPci*) = nullptr;  // nvmlDeviceGetNvLinkRemotePciInfo_v2
  int (*link_errors)(NvmlDevice*, unsigned link, NvmlLinkError, unsigned long long*) = nullptr;
};

/// The library of this host, loaded once; null where there is none. Any thread.
const NvmlTable* load_nvml();

struct NvLinkFact {
  unsigned link = 0;
  bool is_active = false;
  std::optional<unsigned> version;                                            ///< as NVML numbers NVLink's versions
  std::string peer;                                                           ///< PCI address of the other end, empty where it is not said
  std::optional<unsigned long long> replays, recoveries, crc_flit, crc_data;  ///< since the driver was loaded or they were reset
};

struct NvmlGpu {
  std::string name;
  std::string pci;  ///< as in /sys: "0000:17:00.0"
  std::optional<unsigned> pcie_generation, pcie_width;
  std::optional<unsigned> most_pcie_generation, most_pcie_width;  ///< of the GPU in this system: what both ends can
  std::optional<unsigned> performance_state;
  std::vector<NvLinkFact> links;  ///< those that the GPU has, active or not
};

/// What the library says of every GPU; empty when it does not start. At most 256 GPUs with 64 links each are asked for.
std::vector<NvmlGpu> read_gpus(const NvmlTable& nvml);

}  // namespace peal::vendor
