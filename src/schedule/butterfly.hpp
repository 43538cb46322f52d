// Index arithmetic of butterflies: pairwise exchanges at doubling or halving distances. Private to this room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "radix_tree.hpp"

namespace peal::schedule {

/// One exchange in which two neighbouring ranges of ranks tell each other what they hold: `mine` is the range of this rank,
/// `other` the one next to it. Ranges are the nodes of the canonical tree: [left: a power of two | right: the rest].
/// Where the right range is shorter, its ranks tell several of the left: targets first_target, + stride, ... (`targets` of them).
struct Exchange {
  std::int32_t mine_begin = 0;
  std::int32_t mine_count = 0;
  std::int32_t other_begin = 0;
  std::int32_t other_count = 0;
  std::int32_t source = 0;
  std::int32_t targets = 0;
  std::int32_t first_target = 0;
  std::int32_t stride = 0;
};

/// The exchanges of one rank, smallest ranges first; after the last one every rank knows all. At most ceil(log2 n) of them.
inline std::vector<Exchange> doubling_exchanges(std::int32_t n, std::int32_t rank) {
  std::vector<Exchange> steps;
  std::int32_t begin = 0;
  std::int32_t size = n;
  while (size > 1) {
    const std::int32_t left = power_below(size, 2);
    const std::int32_t right = size - left;
    const std::int32_t at = rank - begin;
    if (at < left) {
      steps.push_back({begin, left, begin + left, right, begin + left + at % right, at < right ? 1 : 0, begin + left + at, right});
      size = left;
    } else {
      const std::int32_t j = at - left;
      steps.push_back({begin + left, right, begin, left, begin + j, (left - j + right - 1) / right, begin + j, right});
      begin += left;
      size = right;
    }
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

/// Rounds in which what each rank knows can double until it knows of all n: ceil(log2 n).
constexpr std::int32_t rounds_for(std::int32_t n) {
  std::int32_t rounds = 0;
  for (std::int64_t reach = 1; reach < n; reach *= 2) ++rounds;
  return rounds;
}

/// The largest power of two that is at most n.
constexpr std::int32_t power_within(std::int32_t n) { return n == 1 ? 1 : power_below(n + 1, 2); }

/// n ranks folded to a power of two of *seats*: the first n - seats pairs of ranks share a seat, of which one rank sits and the other
/// stands by; the rest have a seat each. Seats hold contiguous ranks in order.
struct Fold {
  std::int32_t ranks = 1;
  std::int32_t seats = 1;
  std::int32_t shared = 0;          ///< seats with two ranks
  std::int32_t sits_for_sure = -1;  ///< this rank sits, whatever its number (the root of a reduce)

  std::int32_t seat_of(std::int32_t rank) const { return rank < 2 * shared ? rank / 2 : rank - shared; }
  std::int32_t begin(std::int32_t seat) const { return seat < shared ? 2 * seat : seat + shared; }
  std::int32_t sitting(std::int32_t seat) const {
    if (seat < shared && sits_for_sure == 2 * seat + 1) return sits_for_sure;
    return begin(seat);
  }
  bool is_shared(std::int32_t seat) const { return seat < shared; }
  /// The other rank of a shared seat.
  std::int32_t standing(std::int32_t seat) const { return sitting(seat) == 2 * seat ? 2 * seat + 1 : 2 * seat; }
};

inline Fold fold(std::int32_t n, std::int32_t sits_for_sure = -1) {
  const std::int32_t seats = power_within(n);
  return {n, seats, n - seats, sits_for_sure};
}

/// True where summing seats pairwise (distance 1, 2, 4, ...) is the canonical order of the ranks: each range of seats that is summed
/// must split where its range of ranks does.
inline bool fold_is_canonical(const Fold& f, std::int32_t first, std::int32_t size) {
  if (size == 1 || first >= f.shared || first + size <= f.shared) return true;
  const std::int32_t middle = first + size / 2;
  const std::int32_t ranks = f.begin(first + size) - f.begin(first);
  if (f.begin(middle) - f.begin(first) != power_below(ranks, 2)) return false;
  return fold_is_canonical(f, first, size / 2) && fold_is_canonical(f, middle, size / 2);
}
inline bool fold_is_canonical(const Fold& f) { return fold_is_canonical(f, 0, f.seats); }

}  // namespace peal::schedule
