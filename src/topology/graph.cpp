#include <algorithm>
#include <array>
#include <cmath>
#include <topology/graph.hpp>

namespace peal::topology {
namespace {

constexpr std::array<std::string_view, 10> kDeviceNames = {"gpu", "cpu",      "package",     "core",       "memory",
                                                           "nic", "nvswitch", "pcie_switch", "net_switch", "loopback"};
constexpr std::array<std::string_view, 11> kLinkNames = {"nvlink", "c2c",    "xgmi",     "hccs",       "pcie",    "sys",
                                                         "shm",    "memory", "loopback", "infiniband", "ethernet"};

/// Constants that belong to a kind of link unless the data says otherwise.
std::string_view default_scope(LinkKind kind) {
  switch (kind) {
    case LinkKind::memory:
    case LinkKind::shm: return "shm";
    case LinkKind::loopback: return "tcp-loopback";
    case LinkKind::ethernet: return "tcp";
    case LinkKind::sys: return "pcie";
    default: return name_of(kind);
  }
}

}  // namespace

std::string_view name_of(DeviceKind kind) noexcept {
  return static_cast<std::size_t>(kind) < kDeviceNames.size() ? kDeviceNames[static_cast<std::size_t>(kind)] : std::string_view();
}
std::string_view name_of(LinkKind kind) noexcept {
  return static_cast<std::size_t>(kind) < kLinkNames.size() ? kLinkNames[static_cast<std::size_t>(kind)] : std::string_view();
}

std::optional<DeviceKind> device_kind_of(std::string_view text) noexcept {
  const auto it = std::find(kDeviceNames.begin(), kDeviceNames.end(), text);
  if (it == kDeviceNames.end()) return std::nullopt;
  return static_cast<DeviceKind>(it - kDeviceNames.begin());
}

std::optional<LinkKind> link_kind_of(std::string_view text) noexcept {
  const auto it = std::find(kLinkNames.begin(), kLinkNames.end(), text);
  if (it == kLinkNames.end()) return std::nullopt;
  return static_cast<LinkKind>(it - kLinkNames.begin());
}

bool is_network(LinkKind kind) noexcept { return kind == LinkKind::infiniband || kind == LinkKind::ethernet; }

std::string_view Device::attribute(std::string_view key) const noexcept {
  for (const Attribute& a : attributes)
    if (a.key == key) return a.value;
  return {};
}

Result<int> Graph::add_device(Device device) {
  if (device.id.empty()) return fail(ErrorCode::invalid_argument, "a device of kind {} has no id: give it one", name_of(device.kind));
  const int index = device_count();
  const auto [it, is_new] = by_id_.emplace(device.id, index);
  if (!is_new) {
    return fail(ErrorCode::invalid_argument, "device '{}' is there twice: every device of a graph needs an id of its own", device.id);
  }
  if (device.port && device.port->usable.value <= 0) device.port->usable = device.port->bandwidth;
  if (device.port && device.port->scope.empty()) device.port->scope = default_scope(device.port->kind);
  devices_.push_back(std::move(device));
  links_of_.emplace_back();
  return index;
}

Result<int> Graph::add_link(Link link) {
  const auto is_device = [this](int d) { return d >= 0 && d < device_count(); };
  if (!is_device(link.a) || !is_device(link.b)) {
    return fail(ErrorCode::invalid_argument, "a {} link ends at device {} of {}", name_of(link.kind), is_device(link.a) ? link.b : link.a,
                device_count());
  }
  const std::string& a = device(link.a).id;
  const std::string& b = device(link.b).id;
  if (link.a == link.b) return fail(ErrorCode::invalid_argument, "a {} link joins '{}' to itself: name two devices", name_of(link.kind), a);
  if (link.count < 1) return fail(ErrorCode::invalid_argument, "link {} - {}: count is {}, at least 1 is needed", a, b, link.count);
  if (!(link.bandwidth.value > 0) || !std::isfinite(link.bandwidth.value)) {
    return fail(ErrorCode::invalid_argument, "link {} - {}: bandwidth is {} GB/s, it must be above zero", a, b, link.bandwidth.gigabytes());
  }
  if (!(link.usable.value >= 0) || !std::isfinite(link.usable.value) || !(link.latency.value >= 0) || !std::isfinite(link.latency.value)) {
    return fail(ErrorCode::invalid_argument, "link {} - {}: usable bandwidth and latency cannot be negative", a, b);
  }
  if (link.usable.value == 0) {
    link.usable = link.bandwidth;
    link.usable_source = link.source;
  }
  if (link.scope.empty()) link.scope = default_scope(link.kind);
  const int index = link_count();
  links_of_[static_cast<std::size_t>(link.a)].push_back(index);
  links_of_[static_cast<std::size_t>(link.b)].push_back(index);
  links_.push_back(std::move(link));
  return index;
}

int Graph::find(std::string_view id) const {
  const auto it = by_id_.find(std::string(id));
  return it == by_id_.end() ? -1 : it->second;
}

int Graph::other_end(int link_index, int device_index) const {
  const Link& l = link(link_index);
  return l.a == device_index ? l.b : l.a;
}

std::vector<int> Graph::devices_of(DeviceKind kind) const {
  std::vector<int> found;
  for (int d = 0; d < device_count(); ++d)
    if (device(d).kind == kind) found.push_back(d);
  return found;
}

std::vector<int> Graph::compute_devices() const {
  std::vector<int> found;
  if (rank_kind) found = devices_of(*rank_kind);
  for (DeviceKind kind : {DeviceKind::gpu, DeviceKind::core, DeviceKind::cpu}) {
    if (!found.empty()) break;
    found = devices_of(kind);
  }
  // Ranks fill node after node, whatever the order in which a file lists its devices.
  std::stable_sort(found.begin(), found.end(), [this](int a, int b) { return device(a).node < device(b).node; });
  return found;
}

int Graph::node_count() const {
  int highest = -1;
  for (const Device& d : devices_) highest = std::max(highest, d.node);
  return highest + 1;
}

Bandwidth Graph::total_of(int device_index, LinkKind kind) const {
  Bandwidth sum;
  for (int l : links_of(device_index))
    if (link(l).kind == kind) sum.value += link(l).total().value;
  return sum;
}

}  // namespace peal::topology
