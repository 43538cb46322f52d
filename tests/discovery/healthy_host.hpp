// A host with nothing wrong as a tree like /sys and /proc, and an NVML that agrees with it.
#pragma once

#include <cstring>
#include <string>
#include <vendor/nvml.hpp>

#include "tree.hpp"

namespace peal::discovery {

inline const std::string kRoot = "pci0000:10/0000:10:01.0";
inline const std::string kSwitch = kRoot + "/0000:11:00.0";
inline const std::string kGpu0 = kSwitch + "/0000:12:00.0/0000:13:00.0";
inline const std::string kGpu1 = kSwitch + "/0000:12:01.0/0000:14:00.0";
inline const std::string kEth0 = "pci0000:20/0000:20:01.0/0000:21:00.0";
inline const std::string kEth1 = "pci0000:20/0000:20:02.0/0000:22:00.0";

/// Configuration space with access control services behind another capability; `control` is the low byte of its control register.
inline std::string config_space(unsigned char control) {
  std::string bytes(4096, '\0');
  const auto put = [&](std::size_t at, unsigned value) {
    bytes[at] = static_cast<char>(value & 0xff);
    bytes[at + 1] = static_cast<char>(value >> 8);
  };
  put(0x100, 0x0001);  // error reporting
  put(0x102, 0x1482);  // version 2, next at 0x148
  put(0x148, 0x000d);
  put(0x14a, 0x0001);
  bytes[0x14e] = static_cast<char>(control);
  return bytes;
}

/// Two sockets, two GPUs under one switch, two Ethernet and two InfiniBand ports, and nothing wrong.
class Host : public Tree {
 public:
  Host() {
    add_kernel();
    pci(kRoot, "0x1022", "0x1483", "0x060400");
    pci(kSwitch, "0x1000", "0xc010", "0x060400");
    for (const char* port : {"/0000:12:00.0", "/0000:12:01.0"}) {
      pci(kSwitch + port, "0x1000", "0xc010", "0x060400");
      write("sys/devices/" + kSwitch + port + "/config", config_space(0x11));  // source validation alone
    }
    for (const std::string& gpu : {kGpu0, kGpu1}) {
      pci(gpu, "0x10de", "0x20b0", "0x030200");
      link("sys/bus/pci/devices/" + gpu.substr(gpu.size() - 12), "sys/devices/" + gpu);
    }
    for (const std::string& slot : {kEth0, kEth1}) {
      pci(slot.substr(0, slot.rfind('/')), "0x1022", "0x1483", "0x060400");
      pci(slot, "0x15b3", "0x1017", "0x020000");
    }
    ethernet("eth0", kEth0);
    ethernet("eth1", kEth1);
    infiniband("mlx5_0");
    infiniband("mlx5_1");
  }

 private:
  void add_kernel() {
    write("sys/devices/system/cpu/online", "0-3\n");
    for (const char* cpu : {"0", "1", "2", "3"}) {
      const std::string folder = std::string("sys/devices/system/cpu/cpu") + cpu;
      write(folder + "/topology/core_cpus_list", std::string(cpu) + "\n");
      write(folder + "/topology/physical_package_id", *cpu < '2' ? "0\n" : "1\n");
      write(folder + "/cpufreq/scaling_governor", "performance\n");
      write(folder + "/cpufreq/scaling_driver", "acpi-cpufreq\n");
    }
    for (const char* node : {"0", "1"}) {
      const std::string folder = std::string("sys/devices/system/node/node") + node;
      write(folder + "/cpulist", *node == '0' ? "0-1\n" : "2-3\n");
      write(folder + "/meminfo", std::string("Node ") + node + " MemTotal:       1048576 kB\n");
    }
    write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
    write("proc/self/cgroup", "0::/job\n");
    write("proc/self/status", "CapEff:\t0000000000000000\nSeccomp:\t0\nCpus_allowed_list:\t0-3\n");
    write("proc/sys/kernel/yama/ptrace_scope", "0\n");
    write("proc/sys/vm/memfd_noexec", "0\n");
    write("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n");
    write("proc/sys/net/core/default_qdisc", "fq\n");
    limits("1048576", "unlimited");
  }

 public:
  void limits(const std::string& files, const std::string& locked) {
    write("proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \nMax open files            " +
                                  files + "    1048576    files     \nMax locked memory         " + locked +
                                  "    unlimited    bytes     \n");
  }
  void pci(const std::string& device, const std::string& vendor, const std::string& model, const std::string& kind) {
    pcie(device, "16.0", "16", "16.0", "16");
    write("sys/devices/" + device + "/vendor", vendor + "\n");
    write("sys/devices/" + device + "/device", model + "\n");
    write("sys/devices/" + device + "/class", kind + "\n");
    write("sys/devices/" + device + "/numa_node", "0\n");
    write("sys/devices/" + device + "/aer_dev_correctable", "RxErr 0\nBadTLP 0\nNonFatalErr 0\nTOTAL_ERR_COR 0\n");
    write("sys/devices/" + device + "/aer_dev_nonfatal", "Undefined 0\nTLP 0\nTOTAL_ERR_NONFATAL 0\n");
    write("sys/devices/" + device + "/aer_dev_fatal", "Undefined 0\nDLP 0\nTOTAL_ERR_FATAL 0\n");
  }
  void ethernet(const std::string& name, const std::string& device) {
    nic(name, device, "100000");
    const std::string folder = "sys/class/net/" + name;
    write(folder + "/flags", "0x1003\n");
    write(folder + "/carrier", "1\n");
    write(folder + "/duplex", "full\n");
    write(folder + "/mtu", "9000\n");
    write(folder + "/statistics/rx_crc_errors", "0\n");
  }
  static std::string port(const std::string& name) { return "sys/class/infiniband/" + name + "/ports/1/"; }
  void infiniband(const std::string& name) {
    write("sys/class/infiniband/" + name + "/hca_type", "MT4123\n");
    write(port(name) + "link_layer", "InfiniBand\n");
    write(port(name) + "state", "4: ACTIVE\n");
    write(port(name) + "phys_state", "5: LinkUp\n");
    write(port(name) + "rate", "200 Gb/sec (4X HDR)\n");
    write(port(name) + "counters/symbol_error", "0\n");
    write(port(name) + "counters/link_downed", "0\n");
    write(port(name) + "hw_counters/out_of_sequence", "0\n");
  }
};

// A library that sees both GPUs, with two NVLinks each; what is said of the second one differs from test to test.
struct Library {
  unsigned links_up = 2;
  unsigned long long replays = 0;
  unsigned width = 16, performance_state = 8;
};
inline Library library;
inline unsigned index_of(vendor::NvmlDevice* device) { return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)) - 1; }
inline int nothing() { return vendor::kNvmlSuccess; }
inline int two(unsigned* count) { return *count = 2, vendor::kNvmlSuccess; }
inline int device_at(unsigned index, vendor::NvmlDevice** device) {
  return *device = reinterpret_cast<vendor::NvmlDevice*>(static_cast<std::uintptr_t>(index) + 1), vendor::kNvmlSuccess;
}
inline int pci_of(vendor::NvmlDevice* device, vendor::NvmlPci* pci) {
  *pci = {};
  pci->bus = 0x13 + index_of(device);
  return vendor::kNvmlSuccess;
}
inline int name_of_gpu(vendor::NvmlDevice*, char* text, unsigned bytes) { return std::strncpy(text, "A100", bytes), vendor::kNvmlSuccess; }
inline int width(vendor::NvmlDevice* device, unsigned* value) {
  return *value = index_of(device) == 1 ? library.width : 16, vendor::kNvmlSuccess;
}
inline int most_width(vendor::NvmlDevice*, unsigned* value) { return *value = 16, vendor::kNvmlSuccess; }
inline int performance_state(vendor::NvmlDevice*, unsigned* value) { return *value = library.performance_state, vendor::kNvmlSuccess; }
inline int link_state(vendor::NvmlDevice* device, unsigned link, unsigned* is_active) {
  if (link >= 2) return vendor::kNvmlInvalidArgument;
  return *is_active = index_of(device) == 0 || link < library.links_up ? 1 : 0, vendor::kNvmlSuccess;
}
inline int link_errors(vendor::NvmlDevice* device, unsigned link, vendor::NvmlLinkError kind, unsigned long long* count) {
  *count = index_of(device) == 1 && link == 1 && kind == vendor::NvmlLinkError::replay ? library.replays : 0;
  return vendor::kNvmlSuccess;
}
inline const vendor::NvmlTable kNvml = {.init = nothing,
                                        .shutdown = nothing,
                                        .device_count = two,
                                        .device_at = device_at,
                                        .pci = pci_of,
                                        .name = name_of_gpu,
                                        .pcie_width = width,
                                        .most_pcie_width = most_width,
                                        .performance_state = performance_state,
                                        .link_state = link_state,
                                        .link_errors = link_errors};

}  // namespace peal::discovery
