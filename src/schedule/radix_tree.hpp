// Index arithmetic of k-nomial trees over contiguous ranges of numbers 0 .. n - 1. Private to this room.
//
// A range of m numbers is split into parts of P, the largest power of the radix below m (the last part may be shorter), and so on
// down to single numbers. A range is led by the root where it holds it, else by its first number; leaders of parts are children of
// the range's leader. With radix 2 the splits are those of the canonical order, for every root: summing children bottom-up is canonical.
//
//     n = 6, radix 2, root 0:   [0 1 2 3 | 4 5] -> [0 1 | 2 3] [4 | 5]      0 <- 4 <- 5,  0 <- 2 <- 3,  0 <- 1
#pragma once

#include <cstdint>
#include <vector>

namespace peal::schedule {

/// The largest power of `radix` strictly below m (m >= 2).
constexpr std::int32_t power_below(std::int32_t m, std::int32_t radix) {
  std::int64_t power = 1;
  while (power * radix < m) power *= radix;
  return static_cast<std::int32_t>(power);
}

struct TreeChild {
  std::int32_t number = 0;  ///< the child
  std::int32_t begin = 0;   ///< its subtree is [begin, begin + count)
  std::int32_t count = 0;
};

struct TreeSeat {
  std::int32_t parent = -1;  ///< -1: the root
  std::int32_t begin = 0;    ///< the subtree of this number
  std::int32_t count = 0;
  std::vector<TreeChild> children;  ///< largest subtrees first: the order of a broadcast; a reduction takes them from the back
};

/// The seat of `number` in the tree over 0 .. n - 1. O(radix log n).
TreeSeat tree_seat(std::int32_t n, std::int32_t root, std::int32_t radix, std::int32_t number);

/// What a tree costs, counted in messages; `weighted` ones carry one n-th a number of the subtree (gather, scatter), others all.
/// Critical values let a rank send one message at a time and receive one at a time.
struct TreeTerms {
  double depth = 0;              ///< messages one after another
  double most_children = 0;      ///< of any number
  double most_sent_up_down = 0;  ///< messages of the busiest number when it sends to its parent and to all children
  double down = 0;               ///< critical messages of a broadcast
  double up = 0;                 ///< critical messages of a reduction
  double down_weighted = 0;      ///< critical numbers of a scatter
  double up_weighted = 0;        ///< critical numbers of a gather
  double largest_child = 0;      ///< numbers in the largest subtree that is not the whole
  double most_below = 0;         ///< most numbers that one number sends to its children in a scatter
};
TreeTerms tree_terms(std::int32_t n, std::int32_t root, std::int32_t radix);

}  // namespace peal::schedule
