#include "verify_values.hpp"

#include <fmt/format.h>

#include <utility>

namespace peal::schedule {

Trees::Trees(std::int32_t ranks) : ranks_(ranks), words_((static_cast<std::size_t>(ranks) + 63) / 64) {
  const auto n = static_cast<std::size_t>(ranks);
  nodes_.assign(2 * n, Node{1, false});
  sets_.assign(2 * n * words_, 0);
  for (std::size_t leaf = 0; leaf < 2 * n; ++leaf) sets_[leaf * words_ + leaf % n / 64] = std::uint64_t{1} << (leaf % n % 64);
}

bool Trees::overlap(TreeId a, TreeId b) const {
  for (std::size_t w = 0; w < words_; ++w)
    if ((set_of(a)[w] & set_of(b)[w]) != 0) return true;
  return false;
}

TreeId Trees::make(TreeId a, TreeId b, bool finished) {
  const auto next = static_cast<TreeId>(nodes_.size());
  const auto [at, is_new] = known_.try_emplace(static_cast<std::uint64_t>(a) << 32 | b, next);
  if (!is_new) return at->second;
  nodes_.push_back({finished ? nodes_[a].leaves : nodes_[a].leaves + nodes_[b].leaves, finished});
  for (std::size_t w = 0; w < words_; ++w) {
    const std::uint64_t other = finished ? 0 : set_of(b)[w];
    sets_.push_back(set_of(a)[w] | other);
  }
  return next;
}

TreeId Trees::sum(TreeId a, TreeId b) {
  if (b < a) std::swap(a, b);
  return make(a, b, false);
}

TreeId Trees::finish(TreeId tree) { return make(tree, kUndefined, true); }

TreeId Trees::canonical_of(std::int32_t first, std::int32_t count) {
  if (count == 1) return scaled(first);
  std::int32_t half = 1;
  while (half * 2 < count) half *= 2;
  const TreeId left = canonical_of(first, half);
  return sum(left, canonical_of(first + half, count - half));
}

TreeId Trees::canonical() { return canonical_of(0, ranks_); }

std::string Trees::text(TreeId tree) const {
  if (tree == kUndefined) return "nothing";
  if (tree == kPoison) return "a wrong value";
  std::string out;
  for (std::int32_t r = 0; r < ranks_; ++r) {
    const auto has = [&](std::int32_t q) {
      return q < ranks_ && (set_of(tree)[static_cast<std::size_t>(q) / 64] >> (static_cast<std::size_t>(q) % 64) & 1) != 0;
    };
    if (!has(r)) continue;
    std::int32_t last = r;
    while (has(last + 1)) ++last;
    out += out.empty() ? "" : ", ";
    out += last == r ? fmt::format("{}", r) : fmt::format("{}-{}", r, last);
    r = last;
  }
  const std::string_view what = nodes_[tree].leaves == 1 ? "rank " : "ranks ";
  return fmt::format("{}{}{}{}", what, out, is_raw(tree) ? " (not scaled)" : "", is_finished(tree) ? " (divided)" : "");
}

}  // namespace peal::schedule
