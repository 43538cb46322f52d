// What /sys says about network interfaces and about the ports of InfiniBand and RoCE adapters.
#pragma once

#include "pci.hpp"

namespace peal::discovery {

/// One port of an RDMA adapter.
struct RdmaPort {
  std::string device;  ///< "mlx5_0"
  int number = 1;
  std::string folder;           ///< /sys/class/infiniband/mlx5_0/ports/1
  std::string model;            ///< "MT4129", or the PCI ids; empty where it is not said
  std::string layer;            ///< "InfiniBand" or "Ethernet"
  std::string state;            ///< "ACTIVE", "DOWN", "INIT", "ARMED"
  std::string physical;         ///< "LinkUp", "Polling", "Disabled"
  std::string rate;             ///< "400 Gb/sec (4X NDR)"
  double gigabytes = 0;         ///< of `rate`, each way; 0 when unknown
  std::vector<Counter> errors;  ///< of the link itself, not zero
  std::vector<Counter> losses;  ///< packets that did not arrive or came out of order, not zero
  std::string name() const { return number == 1 ? device : device + ":" + std::to_string(number); }
  bool is_infiniband() const { return layer == "InfiniBand" || layer.empty(); }
};

struct NicFact {
  std::string name;  ///< "eth0", "mlx5_0", "mlx5_0:2"
  bool is_infiniband = false;
  bool is_up = false;
  double gigabytes = 0;  ///< line rate, each way; 0 when the system does not say
  std::string source;
  std::string folder;  ///< in /sys
  std::string model;   ///< equal for adapters of one kind; empty where it is not said
  PciPlace place;
  // Ethernet only
  bool is_enabled = false;      ///< somebody wants it up
  std::optional<bool> carrier;  ///< nothing while it is not enabled
  std::string duplex;           ///< "full", "half", "unknown" or empty
  int mtu = 0;                  ///< 0 unknown
  std::vector<Counter> errors;  ///< of the wire, not zero
  RdmaPort port;                ///< InfiniBand only
};

/// Every port of every RDMA adapter, RoCE's too, in order of names.
/// With Detail::wiring nothing is counted.
std::vector<RdmaPort> find_rdma_ports(const Roots& roots, Detail detail = Detail::all);
/// InfiniBand ports (the first of each adapter, and others that are active), then Ethernet interfaces of hardware.
std::vector<NicFact> find_nics(const Roots& roots, Detail detail = Detail::all);

}  // namespace peal::discovery
