// The builders behind the registry: for each algorithm its supports, layouts, build, cost and is_canonical functions, as a set of
// registry rows. Private to this room.
#pragma once

#include <schedule/registry.hpp>
#include <vector>

namespace peal::schedule {

std::vector<Algorithm> ring_algorithms();                // build_ring.cpp
std::vector<Algorithm> bidirectional_ring_algorithms();  // build_bidirectional_ring.cpp
std::vector<Algorithm> multi_ring_algorithms();          // build_multi_ring.cpp
std::vector<Algorithm> direct_algorithms();              // build_direct.cpp: one_shot, two_shot, all_pairs, star
std::vector<Algorithm> recursive_algorithms();           // build_recursive.cpp: doubling, halving, dissemination
std::vector<Algorithm> bruck_algorithms();               // build_bruck.cpp
std::vector<Algorithm> pat_algorithms();                 // build_pat.cpp
std::vector<Algorithm> rabenseifner_algorithms();        // build_rabenseifner.cpp
std::vector<Algorithm> tree_algorithms();                // build_tree.cpp: k-nomial
std::vector<Algorithm> binary_tree_algorithms();         // build_binary_tree.cpp
std::vector<Algorithm> double_binary_tree_algorithms();  // build_double_binary_tree.cpp
std::vector<Algorithm> hierarchical_algorithms();        // build_hierarchical.cpp: hierarchical, leader_chain
std::vector<Algorithm> grid_algorithms();                // build_grid.cpp: grid; hierarchical all_to_all
std::vector<Algorithm> nvls_algorithms();                // build_nvls.cpp: what switches inside a group compute
std::vector<Algorithm> point_to_point_algorithms();      // build_point_to_point.cpp

// Answers for rows. Of `supports`, where one message carries so many blocks (a reference counts them with 16 bits); `else_use`: another
// algorithm.
inline Status blocks_fit(std::int32_t blocks, std::string_view else_use) {
  constexpr std::int32_t kMostBlocks = 65535;
  if (blocks <= kMostBlocks) return {};
  return fail(ErrorCode::unsupported, "a message would carry {} blocks, at most {} fit; use {}", blocks, kMostBlocks, else_use);
}
// Of `is_canonical`:
inline bool without_reduction(const Request&) { return true; }
inline bool is_pair(const Request& request) { return request.ranks <= 2; }
/// Of chains that end in their root: three ranks are summed ((0, 1), 2) in canonical order.
inline bool is_pair_or_three_to_the_last(const Request& request) { return request.ranks <= 2 || (request.ranks == 3 && request.root == 2); }
// Of `suits_traits`: everybody sends before anybody receives, or a fused op stands on either side, so no send may wait for its receive.
inline bool has_slots(const Request&, const ProtocolTraits& protocol) { return !protocol.rendezvous; }
/// The same, and room that was sent from is written again in the next step, so messages must be taken when they are sent; two ranks have
/// no next step.
inline bool has_snapshots_or_is_pair(const Request& request, const ProtocolTraits& protocol) {
  return !protocol.rendezvous && (protocol.snapshots || request.ranks == 2);
}

// build_grid.cpp: all_reduce by grid
void build_grid_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder);
CostTerms grid_all_reduce_cost(const Request& request);

CostTerms hierarchical_cost(const Request& request);  // cost_hierarchical.cpp
bool hierarchical_is_canonical(const Request& request);
CostTerms leader_chain_cost(const Request& request);
bool leader_chain_is_canonical(const Request& request);

}  // namespace peal::schedule
