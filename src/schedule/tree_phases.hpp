// Phases of tree algorithms over any list of ranks, written to one strand. Private to this room.
#pragma once

#include <schedule/builder.hpp>

#include "radix_tree.hpp"

namespace peal::schedule {

/// One rank's seat with numbers turned into ranks, and the channel that it uses.
struct TreePlace {
  TreeSeat seat;
  std::uint8_t channel = 0;
};

/// The seat of members[index] in the tree over `members` (empty: ranks 0 .. n - 1 themselves) with members[root_index] as root.
/// Begins and counts of subtrees stay indices into members.
TreePlace place_in_tree(const std::vector<std::int32_t>& members, std::int32_t n, std::int32_t root_index, std::int32_t radix,
                        std::int32_t index, std::uint8_t channel);

/// The seat of members[index] in the chain members[root_index], the next one, ..., the one before the root: a tree in which everybody has
/// one child at most. O(1); its seat knows neighbours, and nothing of subtrees.
TreePlace place_in_chain(const std::vector<std::int32_t>& members, std::int32_t root_index, std::int32_t index, std::uint8_t channel);

/// Sums up the tree: `own` is this rank's addend, sums lie in `sum`; everybody but the root sends its sum to its parent.
/// Returns false where nothing was received (then `own` itself went up, and `sum` holds nothing).
bool tree_reduce(StrandBuilder& strand, const TreePlace& place, Ref own, Ref sum, bool finish);

/// Everybody but the root receives into `data`; `source` is where the root's data lies.
void tree_broadcast(StrandBuilder& strand, const TreePlace& place, Ref source, Ref data);

}  // namespace peal::schedule
