#include "system_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace peal::discovery {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kLongestLine = 64u << 10;

std::vector<std::string> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// "0000:17:00.0"
bool is_pci_address(const std::string& text) {
  if (text.size() < 12) return false;
  const auto tail = text.substr(text.size() - 12);
  return tail[4] == ':' && tail[7] == ':' && tail[10] == '.';
}

int read_numa(const fs::path& folder) {
  const auto text = read_line((folder / "numa_node").string());
  return text ? std::atoi(text->c_str()) : -1;
}

/// `device` is the folder (or link to it) of a device in /sys; virtio and other children hang below their PCI device.
PciPlace find_place(const fs::path& device) {
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  PciPlace place;
  if (error) return place;
  std::vector<fs::path> chain;  // PCI devices from the host bridge down
  fs::path walked;
  for (const fs::path& part : real) {
    walked /= part;
    const std::string name = part.string();
    if (name.starts_with("pci") && name.find(':') != std::string::npos) place.root = name;
    if (is_pci_address(name)) chain.push_back(walked);
  }
  if (chain.empty()) return place;
  place.address = chain.back().filename().string();
  place.numa = read_numa(chain.back());
  // Root port, then (upstream, downstream) for every switch, then the device.
  for (std::size_t i = 1; i + 2 < chain.size(); i += 2) place.switches.push_back(chain[i].filename().string());
  const auto speed = read_line((chain.back() / "current_link_speed").string());
  const auto width = read_line((chain.back() / "current_link_width").string());
  if (speed && width) place.gigabytes = pcie_gigabytes(*speed, *width);
  if (place.gigabytes > 0) place.source = fmt::format("sysfs {}: {} x{}", (chain.back() / "current_link_speed").string(), *speed, *width);
  return place;
}

std::optional<NicFact> read_infiniband(const fs::path& folder) {
  NicFact nic;
  nic.name = folder.filename().string();
  nic.is_infiniband = true;
  const fs::path port = folder / "ports" / "1";
  const auto layer = read_line((port / "link_layer").string());
  if (layer && *layer != "InfiniBand") return std::nullopt;  // RoCE: its Ethernet interface is listed
  const auto state = read_line((port / "state").string());
  nic.is_up = state && state->find("ACTIVE") != std::string::npos;
  const fs::path rate = port / "rate";
  if (const auto text = read_line(rate.string())) nic.gigabytes = std::strtod(text->c_str(), nullptr) / 8;
  nic.source = fmt::format("sysfs {}", rate.string());
  nic.place = find_place(folder / "device");
  return nic;
}

}  // namespace

std::optional<std::string> read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  char letter = 0;
  while (file.get(letter) && letter != '\n' && line.size() < kLongestLine) line += letter;
  if (line.empty()) return std::nullopt;
  return line;
}

double pcie_gigabytes(const std::string& speed, const std::string& width) {
  const double transfers = std::strtod(speed.c_str(), nullptr);
  const double lanes = std::strtod(width.c_str(), nullptr);
  if (!(transfers > 0 && transfers <= 256) || !(lanes > 0 && lanes <= 32)) return 0;
  // 8b/10b up to 5 GT/s, 128b/130b up to 32, fixed FLITs of 242 payload bytes in 256 beyond.
  const double payload = transfers < 8 ? 0.8 : transfers < 64 ? 128.0 / 130.0 : 242.0 / 256.0;
  return transfers * lanes * payload / 8;
}

std::vector<NicFact> find_nics(const Roots& roots) {
  const fs::path infiniband = fs::path(roots.sys) / "class" / "infiniband";
  const fs::path net = fs::path(roots.sys) / "class" / "net";
  std::vector<NicFact> nics;
  for (const std::string& name : entries_of(infiniband))
    if (auto nic = read_infiniband(infiniband / name)) nics.push_back(std::move(*nic));
  for (const std::string& name : entries_of(net)) {
    const fs::path folder = net / name;
    std::error_code error;
    // Only hardware (or a hypervisor's idea of it) has a device; type 1 is Ethernet, IP over InfiniBand is 32.
    if (!fs::exists(folder / "device", error) || read_line((folder / "type").string()).value_or("") != "1") continue;
    NicFact nic;
    nic.name = name;
    nic.is_up = read_line((folder / "operstate").string()).value_or("") == "up";
    const double megabits = std::strtod(read_line((folder / "speed").string()).value_or("-1").c_str(), nullptr);
    nic.gigabytes = megabits > 0 && megabits < 1e8 ? megabits / 8000 : 0;
    nic.source = fmt::format("sysfs {}", (folder / "speed").string());
    nic.place = find_place(folder / "device");
    nics.push_back(std::move(nic));
  }
  return nics;
}

std::vector<GpuFact> find_gpus(const Roots& roots) {
  const fs::path devices = fs::path(roots.sys) / "bus" / "pci" / "devices";
  std::vector<GpuFact> gpus;
  for (const std::string& name : entries_of(devices)) {
    const std::string kind = read_line((devices / name / "class").string()).value_or("");
    const std::string vendor = read_line((devices / name / "vendor").string()).value_or("");
    // Display controllers and processing accelerators of the makers of GPUs; a server's own VGA chip computes nothing.
    const bool is_maker = vendor == "0x10de" || vendor == "0x1002";
    if (!is_maker || !(kind.starts_with("0x03") || kind.starts_with("0x12"))) continue;
    const std::string device = read_line((devices / name / "device").string()).value_or("?");
    gpus.push_back({fmt::format("{} {}", vendor == "0x10de" ? "NVIDIA" : "AMD", device), find_place(devices / name)});
  }
  return gpus;
}

std::string cpuinfo_value(const Roots& roots, const std::string& key) {
  std::ifstream file(roots.proc + "/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty()) break;  // end of the first processor
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto last = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    if (line.compare(0, last + 1, key) != 0) continue;
    const auto first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? std::string() : line.substr(first);
  }
  return {};
}

bool is_virtual_machine(const Roots& roots) {
  std::istringstream flags(cpuinfo_value(roots, "flags"));
  for (std::string flag; flags >> flag;)
    if (flag == "hypervisor") return true;
  return false;
}

double cpu_quota(const Roots& roots) {
  const auto text = read_line(roots.sys + "/fs/cgroup/cpu.max");
  if (!text || text->starts_with("max")) return 0;
  char* end = nullptr;
  const double quota = std::strtod(text->c_str(), &end);
  const double period = std::strtod(end, nullptr);
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace peal::discovery
