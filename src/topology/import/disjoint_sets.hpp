// Sets of small numbers that grow together. The lowest member stands for its set.
#pragma once

#include <numeric>
#include <utility>
#include <vector>

namespace peal::topology {

class DisjointSets {
 public:
  explicit DisjointSets(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void unite(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    if (a > b) std::swap(a, b);
    parent_[b] = a;
  }
  /// Members of each set in order, sets by their lowest member.
  std::vector<std::vector<std::size_t>> groups() {
    std::vector<std::vector<std::size_t>> all(parent_.size());
    for (std::size_t i = 0; i < parent_.size(); ++i) all[find(i)].push_back(i);
    std::erase_if(all, [](const auto& group) { return group.empty(); });
    return all;
  }

 private:
  std::vector<std::size_t> parent_;
};

}  // namespace peal::topology
