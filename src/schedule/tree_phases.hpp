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

/// The same to two children and more, each by a strand of its own, so that all are served at once. What comes first waits for `ready`,
/// where that is an event. `sent`, where given, gets an event of each child that tells when it has been sent to, after the data has come.
void tree_broadcast_at_once(RankBuilder& builder, const TreePlace& place, Ref source, Ref data, std::int32_t ready,
                            std::vector<std::int32_t>* sent = nullptr);

}  // namespace peal::schedule
