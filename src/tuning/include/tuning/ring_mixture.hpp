// The most that rings through all ranks of a node can carry together, each at a rate of its own: a linear program with a variable for every
// order of the ranks and a row for every wire,
//
//     most sum of rates,   on every wire: sum over rings of rate * crossings <= capacity.
//
// Orders are made as they are needed (column generation): the wires' prices of the program so far make the best further order a shortest
// round trip, found exactly by dynamic programming over subsets (Held and Karp, 1962). When the shortest costs 1 or more no order is
// missing, and the sum is proved to be the most.
#pragma once

#include <tuning/wiring.hpp>
#include <vector>

namespace peal::tuning {

struct RingMixture {
  Rings rings;                ///< those with a rate above zero
  std::vector<double> rates;  ///< GB/s of each
  double total = 0;           ///< GB/s of all together
  double bound = 0;           ///< no mixture carries more than this; equals `total` (to 1e-6) where the search came to its end
  std::vector<double> price;  ///< of each wire: what a further GB/s of it would add; proves the bound

  bool is_proved() const { return bound <= total * (1 + 1e-6); }
};

inline constexpr std::int32_t kMostMixedRanks = 16;

/// Of 3 to kMostMixedRanks ranks that all have ways to each other; else empty. Well below a second for 16 ranks: beyond a limit of work it
/// ends with what it has, and the bound says how far that may be from the most.
RingMixture mix_rings(const Wiring& wiring);

}  // namespace peal::tuning
