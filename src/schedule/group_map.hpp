// Index arithmetic of two-level placements: who is in which group, and where. Private to this room.
#pragma once

#include <cstdint>
#include <memory>
#include <schedule/schedule.hpp>
#include <vector>

namespace peal::schedule {

/// Lists that do not change, held by all who copy them.
class SharedLists {
 public:
  using List = std::vector<std::int32_t>;
  SharedLists() = default;
  explicit SharedLists(std::vector<List> lists) : lists_(std::make_shared<const std::vector<List>>(std::move(lists))) {}
  std::size_t size() const { return lists_->size(); }
  const List& operator[](std::size_t index) const { return (*lists_)[index]; }
  auto begin() const { return lists_->begin(); }
  auto end() const { return lists_->end(); }

 private:
  std::shared_ptr<const std::vector<List>> lists_;
};

/// Groups of a placement; members stand in ring order (rank order where there is none). O(n) to make, O(1) to copy.
struct GroupMap {
  SharedLists members;     ///< of each group
  bool is_equal = true;    ///< all groups have the same size
  bool is_regular = true;  ///< member l of group k is rank k * size + l

  std::int32_t groups() const { return static_cast<std::int32_t>(members.size()); }
  std::int32_t size() const { return static_cast<std::int32_t>(members[0].size()); }  ///< where is_equal
  std::int32_t member(std::int32_t group, std::int32_t local) const {
    return members[static_cast<std::size_t>(group)][static_cast<std::size_t>(local)];
  }
  std::int32_t index_in(std::int32_t group, std::int32_t rank) const;
  std::int32_t largest() const;
};

/// Of the request's placement; what the request holds already where it does (keep_groups).
GroupMap group_map(const Request& request);
/// Works the groups out once for all ranks that are built for this request.
void keep_groups(Request& request);

/// One rank's place in it. Its *rail* is the set of ranks with its local index, one in each group.
struct GroupSeat {
  std::int32_t group = 0;
  std::int32_t local = 0;
};
GroupSeat group_seat(const Request& request, const GroupMap& map, std::int32_t rank);

/// A sum over the ranks first .. first + count - 1 in canonical order, or none.
struct CanonicalNode {
  std::int32_t first = 0;
  std::int32_t count = 0;  ///< 0: not canonical
};
/// a (+) b: canonical where both are, stand side by side and split at the largest power of two below their sum.
CanonicalNode combined(CanonicalNode a, CanonicalNode b);
/// What a k-nomial tree over the nodes gives.
CanonicalNode tree_sum(const std::vector<CanonicalNode>& nodes, std::int32_t root_index, std::int32_t radix);

}  // namespace peal::schedule
