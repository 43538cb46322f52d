// Index arithmetic of two complementary binary trees over numbers 0 .. m - 1: who has children in one has none in the other.
// Private to this room.
//
// The first tree is in order: a range of numbers is led by the one behind its largest perfect left part, and even numbers are leaves.
// The second is the first mirrored (m even) or shifted by one (m odd), so that even numbers lead in it.
//
//     m = 6, first:     3                second:     2
//                     .-+-.                        .-+-.
//                     1   5                        0   4
//                    .+.  |                        |  .+.
//                    0 2  4                        1  3 5
#pragma once

#include <algorithm>
#include <cstdint>

#include "butterfly.hpp"
#include "tree_phases.hpp"

namespace peal::schedule {

inline constexpr std::int32_t kTwins = 2;

/// Leads 0 .. m - 1 in the first tree: behind a perfect left part of 2^j - 1 numbers.
constexpr std::int32_t top_in_order(std::int32_t m) { return power_within(m) - 1; }

/// The place in the first tree that `number` has in tree `twin`, and back.
constexpr std::int32_t twin_place(std::int32_t m, std::int32_t twin, std::int32_t number) {
  if (twin == 0) return number;
  return m % 2 == 0 ? m - 1 - number : (number + 1) % m;
}
constexpr std::int32_t twin_number(std::int32_t m, std::int32_t twin, std::int32_t place) {
  if (twin == 0) return place;
  return m % 2 == 0 ? m - 1 - place : (place + m - 1) % m;
}

/// The number that leads tree `twin`.
constexpr std::int32_t twin_top(std::int32_t m, std::int32_t twin) { return twin_number(m, twin, top_in_order(m)); }

/// The seat of `number` in tree `twin`: its parent and its children, the larger subtree first. O(log m).
TreeSeat twin_seat(std::int32_t m, std::int32_t twin, std::int32_t number);

/// Messages one after another from the top to the last number: floor(log2 m).
constexpr std::int32_t twin_depth(std::int32_t m) { return rounds_for(m + 1) - 1; }

/// The same where a number sends to, or receives from, one child at a time.
inline std::int32_t twin_critical(std::int32_t m) {
  if (m <= 1) return 0;
  const std::int32_t left = top_in_order(m);
  const std::int32_t right = m - 1 - left;
  return std::max(1 + twin_critical(left), right > 0 ? 2 + twin_critical(right) : 0);
}

}  // namespace peal::schedule
