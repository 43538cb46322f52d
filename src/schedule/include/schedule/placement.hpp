// Placement: ring orders and groups as plain data. `tuning` computes it from a topology; a schedule never sees a device.
#pragma once

#include <cstdint>
#include <vector>

namespace peal::schedule {

/// Where all switches between ranks reduce and multicast; flags.
enum SwitchLevel : std::uint8_t {
  kSwitchesInside = 1,   ///< those inside every group
  kSwitchesBetween = 2,  ///< those between groups
};

struct Placement {
  std::vector<std::int32_t> ring;   ///< rank at each ring position; empty: rank order
  std::vector<std::int32_t> group;  ///< group (node) of each rank, numbered from 0 by lowest rank; empty: all in one group
  /// Ring orders that run at once, over different wires (as many as machine and ranks have); empty: one ring takes all there are.
  std::vector<std::vector<std::int32_t>> rings;
  /// Of each of `rings`, the parts of the data that it carries: small whole numbers; empty: all the same.
  std::vector<std::int32_t> shares;
  std::uint8_t switches = 0;  ///< SwitchLevel
  bool operator==(const Placement&) const = default;
};

}  // namespace peal::schedule
