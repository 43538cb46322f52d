#include "radix_tree.hpp"

#include <algorithm>
#include <map>

namespace peal::schedule {

TreeSeat tree_seat(std::int32_t n, std::int32_t root, std::int32_t radix, std::int32_t number) {
  TreeSeat seat;
  seat.count = n;
  std::int32_t begin = 0;
  std::int32_t size = n;
  const auto leader_of = [root](std::int32_t from, std::int32_t count) { return root >= from && root < from + count ? root : from; };
  while (size > 1) {
    const std::int32_t part_size = power_below(size, radix);
    const std::int32_t parts = (size + part_size - 1) / part_size;
    const std::int32_t mine = (number - begin) / part_size;
    const auto part_begin = [&](std::int32_t part) { return begin + part * part_size; };
    const auto part_count = [&](std::int32_t part) { return std::min(part_size, size - part * part_size); };
    const std::int32_t leader = leader_of(begin, size);
    if (number == leader) {
      for (std::int32_t part = 0; part < parts; ++part)
        if (part != mine) seat.children.push_back({part_begin(part), part_begin(part), part_count(part)});
    } else if (number == leader_of(part_begin(mine), part_count(mine))) {
      seat.parent = leader;
      seat.begin = part_begin(mine);
      seat.count = part_count(mine);
    }
    begin = part_begin(mine);
    size = std::min(part_size, size - mine * part_size);
  }
  return seat;
}

namespace {

// Terms of the subtree below one leader; subtrees that their first number leads depend on their size alone.
class TermsOfSubtrees {
 public:
  explicit TermsOfSubtrees(std::int32_t radix) : radix_(radix) {}

  TreeTerms of(std::int32_t n, std::int32_t root, bool is_whole) {
    const TreeSeat seat = tree_seat(n, root, radix_, root);
    TreeTerms terms;
    const auto children = static_cast<double>(seat.children.size());
    terms.most_children = children;
    terms.most_sent_up_down = children + (is_whole ? 0 : 1);
    double sent = 0;
    double sent_weight = 0;
    for (const TreeChild& child : seat.children) {
      const TreeTerms below = of_size(child.count);
      sent += 1;
      sent_weight += child.count;
      terms.depth = std::max(terms.depth, 1 + below.depth);
      terms.most_children = std::max(terms.most_children, below.most_children);
      terms.most_sent_up_down = std::max(terms.most_sent_up_down, below.most_sent_up_down);
      terms.down = std::max(terms.down, sent + below.down);
      terms.down_weighted = std::max(terms.down_weighted, sent_weight + below.down_weighted);
      terms.largest_child = std::max<double>(terms.largest_child, child.count);
      terms.most_below = std::max(terms.most_below, below.most_below);
    }
    terms.most_below = std::max(terms.most_below, sent_weight);
    for (auto child = seat.children.rbegin(); child != seat.children.rend(); ++child) {
      const TreeTerms below = of_size(child->count);
      terms.up = std::max(terms.up, below.up) + 1;
      terms.up_weighted = std::max(terms.up_weighted, below.up_weighted) + child->count;
    }
    return terms;
  }

 private:
  const TreeTerms& of_size(std::int32_t size) {
    const auto known = sizes_.find(size);
    if (known != sizes_.end()) return known->second;
    const TreeTerms terms = of(size, 0, false);
    return sizes_.emplace(size, terms).first->second;
  }

  std::int32_t radix_;
  std::map<std::int32_t, TreeTerms> sizes_;
};

}  // namespace

TreeTerms tree_terms(std::int32_t n, std::int32_t root, std::int32_t radix) { return TermsOfSubtrees(radix).of(n, root, true); }

}  // namespace peal::schedule
