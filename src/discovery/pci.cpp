#include "pci.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace peal::discovery {
namespace {

namespace fs = std::filesystem;

/// "0000:17:00.0"
bool is_pci_address(const std::string& text) {
  if (text.size() < 12) return false;
  const auto tail = text.substr(text.size() - 12);
  return tail[4] == ':' && tail[7] == ':' && tail[10] == '.';
}

PciRate read_rate(const fs::path& folder, const char* which) {
  PciRate rate;
  // "16.0 GT/s PCIe"; "Unknown" and widths like 0, 63 and 255 stand for a link that is not there.
  const double speed = std::strtod(read_line((folder / fmt::format("{}_link_speed", which)).string()).value_or("").c_str(), nullptr);
  const int width = std::atoi(read_line((folder / fmt::format("{}_link_width", which)).string()).value_or("").c_str());
  if (speed >= 2 && speed <= 256) rate.speed = speed;
  if (width >= 1 && width <= 32) rate.width = width;
  return rate;
}

/// The kernel's lines are "Bad TLP 0" or "BadTLP 0": the last word counts, and the line of the total is left out.
std::vector<Counter> read_counters(const std::string& path) {
  std::vector<Counter> counters;
  for (const std::string& line : read_lines(path)) {
    const auto space = line.find_last_of(" \t");
    if (space == std::string::npos || line.starts_with("TOTAL")) continue;
    const unsigned long long value = std::strtoull(line.c_str() + space, nullptr, 10);
    if (value > 0) counters.push_back({line.substr(0, space), value});
  }
  return counters;
}

/// Access control services, an extended capability of configuration space (PCI Express Base Specification, 7.7.8): of the control register
/// at offset 6, bit 2 redirects peer-to-peer requests to the root complex and bit 3 their completions.
void read_access_control(PciDevice& device) {
  constexpr std::size_t kExtended = 0x100, kEnd = 4096;
  constexpr unsigned kAccessControl = 0x000d;
  const auto text = read_text((fs::path(device.folder) / "config").string());
  if (!text || text->size() < kExtended + 8) return;  // only the first 64 bytes are for everybody
  device.is_config_readable = true;
  const auto byte = [&](std::size_t at) -> unsigned { return at < text->size() ? static_cast<unsigned char>((*text)[at]) : 0u; };
  std::size_t at = kExtended;
  for (int steps = 0; at >= kExtended && at + 8 <= std::min(kEnd, text->size()) && steps < 256; ++steps) {
    const unsigned id = byte(at) | byte(at + 1) << 8;
    if (id == kAccessControl) device.redirects = (byte(at + 6) & 0x0cu) != 0;
    at = ((byte(at + 2) | byte(at + 3) << 8) >> 4) & 0xffcu;
  }
}

PciDevice read_device(const fs::path& folder, Detail detail) {
  PciDevice device{.address = folder.filename().string(), .folder = folder.string()};
  device.negotiated = read_rate(folder, "current");
  if (detail == Detail::wiring) return device;
  const auto vendor = read_line((folder / "vendor").string()), model = read_line((folder / "device").string());
  if (vendor && model) device.model = *vendor + ":" + *model;
  device.capable = read_rate(folder, "max");
  device.corrected = read_counters((folder / "aer_dev_correctable").string());
  device.nonfatal = read_counters((folder / "aer_dev_nonfatal").string());
  device.fatal = read_counters((folder / "aer_dev_fatal").string());
  read_access_control(device);
  return device;
}

}  // namespace

double PciRate::gigabytes() const {
  if (!is_known()) return 0;
  // What data/links/pcie.yaml says of each generation (a test holds them together): a job that starts does not read that file, 1 to 2 ms a
  // rank. 8b/10b up to 5 GT/s, 128b/130b up to 32, FLITs with 242 bytes of data in 256 beyond; tools print speeds with few digits.
  const double coding = speed < 6.5 ? 8.0 / 10 : speed < 48 ? 128.0 / 130 : 242.0 / 256;
  return speed * width * coding / 8;
}

double pcie_gigabytes(const std::string& speed, const std::string& width) {
  const double transfers = std::strtod(speed.c_str(), nullptr);
  const int lanes = std::atoi(width.c_str());
  if (!(transfers > 0 && transfers <= 256) || lanes <= 0 || lanes > 32) return 0;
  return PciRate{transfers, lanes}.gigabytes();
}

PciPlace find_place(const std::string& device, Detail detail) {
  Notes::add(device);
  std::error_code error;
  const fs::path real = fs::canonical(device, error);
  PciPlace place;
  if (error) return place;
  fs::path walked;
  for (const fs::path& part : real) {
    walked /= part;
    const std::string name = part.string();
    if (name.starts_with("pci") && name.find(':') != std::string::npos) place.root = name;
    if (is_pci_address(name)) place.chain.push_back(read_device(walked, detail));
  }
  if (place.chain.empty()) return place;
  const PciDevice& last = place.chain.back();
  place.address = last.address;
  place.numa = static_cast<int>(read_number((fs::path(last.folder) / "numa_node").string()).value_or(-1));
  // Root port, then (upstream, downstream) for every switch, then the device.
  for (std::size_t i = 1; i + 2 < place.chain.size(); i += 2) place.switches.push_back(place.chain[i].address);
  place.gigabytes = last.negotiated.gigabytes();
  if (place.gigabytes > 0)
    place.source =
        fmt::format("read from {}/current_link_speed and _width: {:g} GT/s x{}", last.folder, last.negotiated.speed, last.negotiated.width);
  return place;
}

std::vector<GpuFact> find_gpus(const Roots& roots, Detail detail) {
  const fs::path devices = fs::path(roots.sys) / "bus" / "pci" / "devices";
  std::vector<GpuFact> gpus;
  for (const std::string& name : entries_of(devices.string())) {
    const std::string kind = read_line((devices / name / "class").string()).value_or("");
    const std::string vendor = read_line((devices / name / "vendor").string()).value_or("");
    // Display controllers and processing accelerators of the makers of GPUs; a server's own VGA chip computes nothing.
    const bool is_maker = vendor == "0x10de" || vendor == "0x1002";
    if (!is_maker || !(kind.starts_with("0x03") || kind.starts_with("0x12"))) continue;
    const std::string device = read_line((devices / name / "device").string()).value_or("?");
    gpus.push_back({fmt::format("{} {}", vendor == "0x10de" ? "NVIDIA" : "AMD", device), find_place((devices / name).string(), detail)});
  }
  return gpus;
}

}  // namespace peal::discovery
