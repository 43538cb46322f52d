// Rings through all ranks of a node that run at once, over wires of their own or over their share of them.
#pragma once

#include <tuning/wiring.hpp>

namespace peal::tuning {

using Rings = std::vector<std::vector<std::int32_t>>;

struct RingSet {
  Rings rings;                       ///< the ranks in order
  std::vector<std::int32_t> shares;  ///< parts of the data that each carries; empty: all the same

  std::int32_t share(std::size_t ring) const { return shares.empty() ? 1 : shares[ring]; }
  /// Of all rings together.
  std::int32_t all_shares() const;
};

inline constexpr std::int32_t kMostChunks = 512;  ///< shares of a set that was searched for, times ranks: chunks of an all_reduce

/// Orders of the ranks of one node that together move more than `ring` alone (empty: rank order). Empty where one ring is as good. Equal
/// shares where these come near the most that rings can carry, else the fewest shares that do. A search with a limit and without chance:
/// equal wirings give equal rings.
RingSet find_rings(const Wiring& wiring, const std::vector<std::int32_t>& ring);

/// GB/s that the rings carry together when each moves its share in the same time.
double rate_of(const Wiring& wiring, const RingSet& set);

}  // namespace peal::tuning
