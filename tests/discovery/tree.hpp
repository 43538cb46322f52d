// A small tree like /sys and /proc in a temporary folder.
#pragma once

#include <cstdlib>
#include <discovery/discover.hpp>
#include <filesystem>
#include <fstream>
#include <string>

namespace peal::discovery {

/// Gone at the end of the test.
class Tree {
 public:
  Tree() {
    // Hundreds of small files: in memory where that can be had.
    for (const std::filesystem::path& folder : {std::filesystem::path("/dev/shm"), std::filesystem::temp_directory_path()}) {
      std::string name = (folder / "peal-discovery-XXXXXX").string();
      if (::mkdtemp(name.data()) == nullptr) continue;
      root_ = name;
      break;
    }
    if (root_.empty()) std::abort();
    std::filesystem::create_directories(root_ / "sys");
    std::filesystem::create_directories(root_ / "proc/sys/kernel");
    write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU 9000\nflags\t\t: fpu sse2\n\nprocessor\t: 1\nflags\t: hypervisor\n");
    write("proc/sys/kernel/osrelease", "6.1.0-test\n");
  }
  ~Tree() { std::filesystem::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  const std::filesystem::path& path() const { return root_; }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << text;
  }
  void link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::filesystem::create_directory_symlink(root_ / target, root_ / path);
  }
  void remove(const std::string& path) { std::filesystem::remove_all(root_ / path); }
  /// An Ethernet interface whose device is `device` below sys/devices.
  void nic(const std::string& name, const std::string& device, const std::string& speed, const std::string& state = "up") {
    std::filesystem::create_directories(root_ / "sys/devices" / device);
    link("sys/class/net/" + name + "/device", "sys/devices/" + device);
    write("sys/class/net/" + name + "/type", "1\n");
    write("sys/class/net/" + name + "/speed", speed + "\n");
    write("sys/class/net/" + name + "/operstate", state + "\n");
  }
  /// The link of a PCI device below sys/devices, as negotiated and as capable.
  void pcie(const std::string& device, const std::string& speed, const std::string& width, const std::string& most_speed,
            const std::string& most_width) {
    write("sys/devices/" + device + "/current_link_speed", speed + " GT/s PCIe\n");
    write("sys/devices/" + device + "/current_link_width", width + "\n");
    write("sys/devices/" + device + "/max_link_speed", most_speed + " GT/s PCIe\n");
    write("sys/devices/" + device + "/max_link_width", most_width + "\n");
  }
  /// A GPU of NVIDIA at the end of `device`, a path below sys/devices, over 8 of its 16 lanes of PCIe 4.
  void gpu(const std::string& device, const std::string& model) {
    pcie(device, "16.0", "8", "16.0", "16");
    write("sys/devices/" + device + "/class", "0x030200\n");
    write("sys/devices/" + device + "/vendor", "0x10de\n");
    write("sys/devices/" + device + "/device", model + "\n");
    write("sys/devices/" + device + "/aer_dev_correctable", "RxErr 4\nBadTLP 0\nTOTAL_ERR_COR 4\n");
    link("sys/bus/pci/devices/" + device.substr(device.rfind('/') + 1), "sys/devices/" + device);
  }
  Roots roots(const std::string& machine) const { return {(root_ / "sys").string(), (root_ / "proc").string(), machine}; }

 private:
  std::filesystem::path root_;
};

}  // namespace peal::discovery
