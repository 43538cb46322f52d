#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <vendor/nvml.hpp>

namespace peal::vendor {
namespace {

constexpr unsigned kMostGpus = 256;
constexpr unsigned kMostLinks = 64;

template <class Function>
bool find(void* library, const char* name, Function*& slot) {
  slot = reinterpret_cast<Function*>(::dlsym(library, name));
  return slot != nullptr;
}

std::optional<NvmlTable> open_library() {
  // Stays loaded: the driver's library does not survive being unloaded and loaded again in every version.
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  NvmlTable t;
  const bool is_usable = find(library, "nvmlInit_v2", t.init) && find(library, "nvmlShutdown", t.shutdown) &&
                         find(library, "nvmlDeviceGetCount_v2", t.device_count) &&
                         find(library, "nvmlDeviceGetHandleByIndex_v2", t.device_at) && find(library, "nvmlDeviceGetPciInfo_v3", t.pci);
  if (!is_usable) return std::nullopt;
  find(library, "nvmlDeviceGetName", t.name);
  find(library, "nvmlDeviceGetCurrPcieLinkGeneration", t.pcie_generation);
  find(library, "nvmlDeviceGetCurrPcieLinkWidth", t.pcie_width);
  find(library, "nvmlDeviceGetMaxPcieLinkGeneration", t.most_pcie_generation);
  find(library, "nvmlDeviceGetMaxPcieLinkWidth", t.most_pcie_width);
  find(library, "nvmlDeviceGetPerformanceState", t.performance_state);
  find(library, "nvmlDeviceGetNvLinkState", t.link_state);
  find(library, "nvmlDeviceGetNvLinkVersion", t.link_version);
  find(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", t.link_peer);
  find(library, "nvmlDeviceGetNvLinkErrorCounter", t.link_errors);
  return t;
}

template <class Value, class Function, class... Args>
std::optional<Value> ask(Function* function, Args... args) {
  Value value{};
  if (function == nullptr || function(args..., &value) != kNvmlSuccess) return std::nullopt;
  return value;
}

std::string address_of(const NvmlPci& pci) { return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device); }

std::vector<NvLinkFact> read_links(const NvmlTable& nvml, NvmlDevice* device) {
  std::vector<NvLinkFact> links;
  if (nvml.link_state == nullptr) return links;
  for (unsigned i = 0; i < kMostLinks; ++i) {
    unsigned is_active = 0;
    const int answer = nvml.link_state(device, i, &is_active);
    if (answer == kNvmlInvalidArgument) break;  // beyond what the library knows
    if (answer != kNvmlSuccess) continue;       // a link that this GPU does not have
    NvLinkFact link{.link = i, .is_active = is_active != 0};
    if (link.is_active) {
      link.version = ask<unsigned>(nvml.link_version, device, i);
      if (const auto peer = ask<NvmlPci>(nvml.link_peer, device, i)) link.peer = address_of(*peer);
    }
    const auto errors = [&](NvmlLinkError kind) { return ask<unsigned long long>(nvml.link_errors, device, i, kind); };
    link.replays = errors(NvmlLinkError::replay);
    link.recoveries = errors(NvmlLinkError::recovery);
    link.crc_flit = errors(NvmlLinkError::crc_flit);
    link.crc_data = errors(NvmlLinkError::crc_data);
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace

const NvmlTable* load_nvml() {
  static const std::optional<NvmlTable> table = open_library();
  return table ? &*table : nullptr;
}

std::vector<NvmlGpu> read_gpus(const NvmlTable& nvml) {
  std::vector<NvmlGpu> gpus;
  if (nvml.init() != kNvmlSuccess) return gpus;
  const unsigned count = std::min(kMostGpus, ask<unsigned>(nvml.device_count).value_or(0));
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice* device = nullptr;
    if (nvml.device_at(i, &device) != kNvmlSuccess) continue;  // lost from the bus, or not ours
    const auto pci = ask<NvmlPci>(nvml.pci, device);
    if (!pci) continue;
    NvmlGpu gpu;
    gpu.pci = address_of(*pci);
    char name[97] = "";  // NVML_DEVICE_NAME_V2_BUFFER_SIZE, and an end
    if (nvml.name != nullptr && nvml.name(device, name, sizeof name - 1) == kNvmlSuccess) gpu.name = name;
    gpu.pcie_generation = ask<unsigned>(nvml.pcie_generation, device);
    gpu.pcie_width = ask<unsigned>(nvml.pcie_width, device);
    gpu.most_pcie_generation = ask<unsigned>(nvml.most_pcie_generation, device);
    gpu.most_pcie_width = ask<unsigned>(nvml.most_pcie_width, device);
    gpu.performance_state = ask<unsigned>(nvml.performance_state, device);
    gpu.links = read_links(nvml, device);
    gpus.push_back(std::move(gpu));
  }
  nvml.shutdown();
  return gpus;
}

}  // namespace peal::vendor
