// Symbolic values of the verifier: which ranks' contributions a chunk holds, and in which tree they were summed. Private to this room.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace peal::schedule {

using TreeId = std::uint32_t;
inline constexpr TreeId kUndefined = 0xffffffff;  ///< never written
inline constexpr TreeId kPoison = 0xfffffffe;     ///< follows from a deviation that is already reported

/// What one piece of one chunk holds: an expression over the ranks' contributions of input chunk `chunk`, piece `piece`.
struct Value {
  TreeId tree = kUndefined;
  std::int32_t chunk = -1;
  std::int32_t piece = 0;
  bool operator==(const Value&) const = default;
  bool is_defined() const { return tree != kUndefined; }
  bool is_poison() const { return tree == kPoison; }
};

/// Hash-consed expression trees over ranks: a raw contribution, one scaled by premul_sum, a sum of two trees, a sum divided by avg.
/// Sums are normalised (a + b is b + a), so equal ids mean bitwise equal results. Chunks share the trees.
class Trees {
 public:
  explicit Trees(std::int32_t ranks);

  TreeId raw(std::int32_t rank) const { return static_cast<TreeId>(rank); }
  TreeId scaled(std::int32_t rank) const { return static_cast<TreeId>(ranks_ + rank); }
  bool is_raw(TreeId tree) const { return tree < static_cast<TreeId>(ranks_); }
  bool is_scaled_leaf(TreeId tree) const { return !is_raw(tree) && tree < static_cast<TreeId>(2 * ranks_); }
  bool is_finished(TreeId tree) const { return nodes_[tree].finished; }
  bool is_complete(TreeId tree) const { return nodes_[tree].leaves == ranks_; }
  /// A sum of two contributions or more.
  bool is_sum(TreeId tree) const { return nodes_[tree].leaves > 1; }
  bool overlap(TreeId a, TreeId b) const;

  TreeId sum(TreeId a, TreeId b);
  TreeId finish(TreeId tree);
  /// The canonical tree over all ranks: n ranks split at the largest power of two below n.
  TreeId canonical();

  /// "ranks 0-2, 5" for people.
  std::string text(TreeId tree) const;

 private:
  struct Node {
    std::int32_t leaves = 0;
    bool finished = false;
  };
  TreeId make(TreeId a, TreeId b, bool finished);
  TreeId canonical_of(std::int32_t first, std::int32_t count);
  const std::uint64_t* set_of(TreeId tree) const { return sets_.data() + static_cast<std::size_t>(tree) * words_; }

  std::int32_t ranks_;
  std::size_t words_;
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> sets_;  // words_ a node: the ranks that contribute
  std::unordered_map<std::uint64_t, TreeId> known_;
};

}  // namespace peal::schedule
