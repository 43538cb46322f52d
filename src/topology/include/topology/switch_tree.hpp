// Switches that compute between some devices: what a reduction or a multicast by them crosses, and whose constants it takes.
#pragma once

#include <topology/resources.hpp>

namespace peal::topology {

/// Every byte of a reduction crosses `up` of each member that brings it, then all of `cables_up`, and `down` of whoever takes it (all of
/// `cables_down` before); a multicast likewise.
struct SwitchTree {
  std::string scope;                          ///< "nvswitch-3", "quantum-2": constants_for(scope, "switch")
  std::vector<std::vector<ResourceId>> up;    ///< by member
  std::vector<std::vector<ResourceId>> down;  ///< by member
  std::vector<ResourceId> cables_up;
  std::vector<ResourceId> cables_down;
  std::vector<std::uint32_t> switches;  ///< numbers, of switches that serve only `trees_a_switch` trees at a time
  int trees_a_switch = 0;
  int most_trees = 0;    ///< that one job may have; 0: not said
  Nanoseconds latency;   ///< wires, NICs and switches, up and down
  Bandwidth bottleneck;  ///< of one member's ways
};

/// At least two devices. All in one machine: its NVLink switches, where they reduce and all devices hang on them. Each in another: the
/// fabric's, by the devices' own NICs. `number` tells trees of one job apart. Fails with what is missing and what to type instead.
Result<SwitchTree> switch_tree(const Resources& resources, std::span<const int> devices, std::size_t number = 0);

}  // namespace peal::topology
