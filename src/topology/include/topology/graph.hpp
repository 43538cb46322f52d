// The wiring of machines as plain data: devices, links between them, and who said each figure.
// A Graph is a value. Indices are dense, in order of insertion, and never change. Not thread-safe while it is being built.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace peal::topology {

enum class DeviceKind : std::uint8_t {
  gpu,
  cpu,      ///< one NUMA domain: its cores, its memory controllers, its host bridges
  package,  ///< a socket, where several NUMA domains share the way out
  core,     ///< one core (a place for a rank on a machine without GPUs)
  memory,   ///< memory or a cache through which cores exchange data
  nic,
  nvswitch,
  pcie_switch,
  net_switch,
  loopback,  ///< the network stack of a host talking to itself
};

/// From near to far: of the links of a path the farthest kind says which constants apply.
enum class LinkKind : std::uint8_t { nvlink, c2c, xgmi, hccs, pcie, sys, shm, memory, loopback, infiniband, ethernet };

std::string_view name_of(DeviceKind kind) noexcept;  ///< "pcie_switch"; empty past the last kind
std::string_view name_of(LinkKind kind) noexcept;    ///< "nvlink"; likewise
std::optional<DeviceKind> device_kind_of(std::string_view text) noexcept;
std::optional<LinkKind> link_kind_of(std::string_view text) noexcept;
bool is_network(LinkKind kind) noexcept;  ///< infiniband, ethernet

/// A further fact about a device ("numa", "sm", "memory_bytes") and where it comes from.
struct Attribute {
  std::string key;
  std::string value;
  std::string source;
};

/// The network side of a NIC: what a fabric is plugged into.
struct Port {
  LinkKind kind = LinkKind::ethernet;
  Bandwidth bandwidth;  ///< line rate, one direction; zero when nobody knows
  Bandwidth usable;     ///< what software gets of it; equals `bandwidth` when nothing better is known
  Nanoseconds latency;  ///< of the NIC itself, once a crossing
  std::string scope;    ///< which constants belong to it ("infiniband", "tcp")
  std::string source;   ///< who said the rate
};

struct Device {
  std::string id;  ///< unique in its graph: "gpu0"; "n3/gpu0" in a cluster
  DeviceKind kind = DeviceKind::cpu;
  std::string name = {};    ///< for people: "A100-SXM4-80GB"
  int node = 0;             ///< machine that it belongs to, -1 for a part of the fabric
  int numa = -1;            ///< NUMA domain, -1 unknown
  int rail = -1;            ///< NICs: which rail of the fabric; -1: not used for collectives (storage, management)
  Bandwidth capacity = {};  ///< all traffic through the device together; zero: never a limit
  std::string source = {};
  std::optional<Port> port = {};  ///< NICs
  std::vector<Attribute> attributes = {};

  /// Value of an attribute, or an empty view.
  std::string_view attribute(std::string_view key) const noexcept;
};

/// `count` equal wires side by side between two devices. Bandwidths are of one wire, one direction.
struct Link {
  int a = -1;
  int b = -1;
  LinkKind kind = LinkKind::pcie;
  Bandwidth bandwidth;    ///< line rate by specification
  Bandwidth usable = {};  ///< what software gets of it (measured or a planner's figure); equals `bandwidth` when nothing is known
  int count = 1;
  Nanoseconds latency = {};        ///< of the wire alone; zero where it is part of the protocol's hop constant
  bool is_shared = false;          ///< both directions share one wire (half duplex, a bus)
  std::string scope = {};          ///< constants that belong to it ("nvlink-a100"); by kind when empty
  std::string source = {};         ///< who said the line rate
  std::string usable_source = {};  ///< who said the usable rate
  int host_bridge = -1;            ///< PCIe links to a CPU: which host bridge, -1 one of its own

  Bandwidth total() const { return {bandwidth.value * count}; }
  Bandwidth usable_total() const { return {usable.value * count}; }
};

class Graph {
 public:
  /// Index of the new device; refuses an id that is already there.
  Result<int> add_device(Device device);
  /// Index of the new link. Refuses unknown ends, a link to itself, a count below one, a rate that is not above zero.
  /// Fills in `usable` and `scope` where they are empty.
  Result<int> add_link(Link link);
  void add_warning(std::string text) { warnings_.push_back(std::move(text)); }

  std::span<const Device> devices() const { return devices_; }
  std::span<const Link> links() const { return links_; }
  std::span<const std::string> warnings() const { return warnings_; }
  const Device& device(int index) const { return devices_[static_cast<std::size_t>(index)]; }
  const Link& link(int index) const { return links_[static_cast<std::size_t>(index)]; }
  int device_count() const { return static_cast<int>(devices_.size()); }
  int link_count() const { return static_cast<int>(links_.size()); }

  /// Device index of an id, or -1.
  int find(std::string_view id) const;
  /// Indices of the links that end at `device`.
  std::span<const int> links_of(int device) const { return links_of_[static_cast<std::size_t>(device)]; }
  /// Device on the other side of `link` as seen from `device`.
  int other_end(int link, int device) const;
  /// Where ranks are placed, in rank order: devices of `rank_kind`; where that is not set the GPUs, else the cores, else the NUMA domains.
  std::vector<int> compute_devices() const;
  /// Devices of one kind, in order.
  std::vector<int> devices_of(DeviceKind kind) const;
  /// Number of machines (highest node number plus one).
  int node_count() const;
  /// Sum of the line rates of the links of one kind at a device, one direction.
  Bandwidth total_of(int device, LinkKind kind) const;

  std::string title = {};  ///< for people: "NVIDIA DGX A100"
  /// What a rank is placed on where that is not the GPUs (a discovered host whose ranks are processes on cores).
  std::optional<DeviceKind> rank_kind = {};

 private:
  std::vector<Device> devices_;
  std::vector<Link> links_;
  std::vector<std::vector<int>> links_of_;
  std::vector<std::string> warnings_;
  std::unordered_map<std::string, int> by_id_;
};

}  // namespace peal::topology
