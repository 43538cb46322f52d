// The network interfaces of this host and the choice of one, with the reason in words.
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <net/address.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace peal::net {

/// One address of one interface; an interface with several addresses appears several times.
struct Interface {
  std::string name;  ///< "eth0"
  Address address;   ///< port 0
  bool is_up = false;
  bool is_loopback = false;
  std::int64_t megabits = -1;  ///< link speed a second as sysfs says, -1 unknown
};

Result<std::vector<Interface>> list_interfaces();

struct InterfaceChoice {
  Interface interface;
  std::string why;  ///< "eth0 (10.0.0.2): the route to 10.0.0.1 leaves by it"
};

/// `wish` is an interface name or one of this host's addresses (the value of PEAL_INTERFACE) and must exist;
/// when empty, the interface by which packets to `root` leave. Loopback is chosen only when the root is on loopback.
/// Errors list what exists.
Result<InterfaceChoice> choose_interface(std::string_view wish, const Address& root);

}  // namespace peal::net
