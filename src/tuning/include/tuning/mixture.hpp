// The most that rings through all ranks of a node, or trees that reach all of them, can carry together, each at a rate of its own: a linear
// program with a variable for every shape and a row for every wire,
//
//     most sum of rates,   on every wire: sum over shapes of rate * crossings <= capacity.
//
// Shapes are made as they are needed (column generation): under the wires' prices of the program so far the best further shape is the
// cheapest one. When the cheapest costs 1 or more no shape is missing, and the sum is proved to be the most. Prices are smoothed on the way
// (Wentges, "Weighted Dantzig-Wolfe decomposition", 1997): those of the program alone jump about.
#pragma once

#include <tuning/wiring.hpp>
#include <vector>

namespace peal::tuning {

using Shape = std::vector<std::int32_t>;  ///< a ring: the ranks in order; a tree: the parent of each rank, of the root -1

struct Mixture {
  std::vector<Shape> shapes;  ///< those with a rate above zero
  std::vector<double> rates;  ///< GB/s of each
  std::vector<Shape> others;  ///< at a rate of zero: what the search came by
  double total = 0;           ///< GB/s of all together
  double bound = 0;           ///< no mixture carries more than this; equals `total` (to 1e-6) where the search came to its end
  std::vector<double> price;  ///< of each wire: what a further GB/s of it would add; proves the bound

  bool is_proved() const { return bound > 0 && bound <= total * (1 + 1e-6); }
};

inline constexpr std::int32_t kMostMixedRanks = 16;

/// Rings of 3 to kMostMixedRanks ranks that all have ways to each other; else empty. The cheapest is a shortest round trip, found exactly
/// by dynamic programming over subsets (Held and Karp, 1962). Well below a second for 16 ranks: beyond a limit of work it ends with what it
/// has, and the bound says how far that may be from the most.
Mixture mix_rings(const Wiring& wiring);

/// Trees from `root` to all other ranks, where all ranks have ways to each other; else empty. The cheapest is a least arborescence (Chu and
/// Liu, 1965; Edmonds, 1967). Where each pair has a wire of its own the most is the least of the maximum flows from the root to another
/// rank (Edmonds, "Edge-disjoint branchings", 1973).
Mixture mix_trees(const Wiring& wiring, std::int32_t root);

}  // namespace peal::tuning
