// Requests at which tests run every algorithm of the registry.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <base/names.hpp>
#include <numeric>
#include <schedule/registry.hpp>
#include <string>
#include <vector>

namespace peal::schedule {

inline bool can_be_in_place(Collective c) {
  return c != Collective::all_to_all && c != Collective::all_to_all_v && c != Collective::send_recv && c != Collective::barrier;
}

/// 0, n-1, 1, n-2, ...: a ring that is neither rank order nor a rotation of it.
inline std::vector<std::int32_t> folded_ring(std::int32_t n) {
  std::vector<std::int32_t> ring;
  for (std::int32_t i = 0; i < n; ++i) ring.push_back(i % 2 == 0 ? i / 2 : n - 1 - i / 2);
  return ring;
}

/// Groups of `size` consecutive ranks; the last may be smaller.
inline std::vector<std::int32_t> consecutive_groups(std::int32_t n, std::int32_t size) {
  std::vector<std::int32_t> group;
  for (std::int32_t r = 0; r < n; ++r) group.push_back(r / size);
  return group;
}

/// Ranks dealt to `groups` groups in turn.
inline std::vector<std::int32_t> dealt_groups(std::int32_t n, std::int32_t groups) {
  std::vector<std::int32_t> group;
  for (std::int32_t r = 0; r < n; ++r) group.push_back(r % groups);
  return group;
}

/// Rings of every stride that is prime to n, up to four: disjoint orders (of two ranks twice the same).
inline std::vector<std::vector<std::int32_t>> strided_rings(std::int32_t n) {
  std::vector<std::vector<std::int32_t>> rings;
  for (const std::int32_t stride : {1, n - 1, 3, n - 3, 2, n - 2}) {
    if (stride < 1 || std::gcd(stride, n) != 1 || rings.size() == 4) continue;
    std::vector<std::int32_t> ring;
    for (std::int32_t p = 0; p < n; ++p) ring.push_back(p * stride % n);
    if (n == 2 || std::find(rings.begin(), rings.end(), ring) == rings.end()) rings.push_back(std::move(ring));
  }
  return rings;
}

inline std::vector<Placement> placements(std::int32_t n) {
  std::vector<Placement> all{{}};
  if (n > 2) all.push_back({folded_ring(n), {}});
  if (n >= 4) {
    all.push_back({{}, consecutive_groups(n, 2)});
    all.push_back({{}, dealt_groups(n, 2)});
    all.push_back({folded_ring(n), consecutive_groups(n, n % 4 == 0 ? 4 : 3)});
  }
  return all;
}

/// Several rings at once; then with shares that neither divide each other nor their places; in the last, the second ring has edges of the
/// first, and ranks are of several groups.
inline std::vector<Placement> ringed_placements(std::int32_t n) {
  if (n < 2) return {{}};
  std::vector<Placement> all{{{}, {}, strided_rings(n)}};
  Placement& uneven = all.emplace_back(all.front());
  uneven.shares = {3, 2, 5, 1};
  uneven.shares.resize(uneven.rings.size());
  if (n < 4) return all;
  std::vector<std::int32_t> half(static_cast<std::size_t>(n));
  std::iota(half.begin(), half.end(), 0);
  std::reverse(half.begin() + n / 2, half.end());
  all.push_back({{}, consecutive_groups(n, 2), {{}, half, folded_ring(n)}});
  return all;
}

/// All requests for `algorithm` at n ranks: roots (all where `all_roots`, else first, middle, last), in place and not, placements.
inline std::vector<Request> requests_for(const Algorithm& algorithm, std::int32_t n, bool all_roots) {
  std::vector<Request> requests;
  std::vector<std::int32_t> roots{0};
  const bool is_pair = algorithm.collective == Collective::send_recv;
  if (has_root(algorithm.collective) || is_pair) {
    roots.clear();
    for (std::int32_t r = 0; r < n; ++r)
      if (all_roots || r == 0 || r == n / 2 || r == n - 1) roots.push_back(r);
  }
  std::vector<std::int32_t> radices{2};
  if (algorithm.name == "tree") radices = {2, 3, 4};
  for (const Placement& placement : algorithm.name == "multi_ring" ? ringed_placements(n) : placements(n))
    for (const std::int32_t root : roots)
      for (const std::int32_t radix : radices)
        for (int in_place = 0; in_place <= (can_be_in_place(algorithm.collective) ? 1 : 0); ++in_place) {
          Request request;
          request.collective = algorithm.collective;
          request.ranks = n;
          request.root = root;
          request.peer = is_pair ? (root + n / 2) % n : 0;
          request.in_place = in_place == 1;
          request.radix = radix;
          request.placement = placement;
          requests.push_back(request);
        }
  return requests;
}

inline std::string text_of(const Algorithm& algorithm, const Request& request) {
  return std::string(name_of(algorithm.collective)) + " by " + std::string(algorithm.name) + ", ranks " + std::to_string(request.ranks) +
         ", root " + std::to_string(request.root) + (request.in_place ? ", in place" : "") + ", radix " + std::to_string(request.radix) +
         (request.placement.ring.empty() ? "" : ", permuted ring") + (request.placement.shares.empty() ? "" : ", unlike shares") +
         (request.placement.group.empty() ? "" : ", groups of rank 1: " + std::to_string(request.placement.group[1]));
}

}  // namespace peal::schedule
