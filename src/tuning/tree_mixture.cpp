#include <algorithm>
#include <base/index.hpp>
#include <limits>
#include <tuning/mixture.hpp>

#include "column_generation.hpp"

namespace peal::tuning {

namespace {

constexpr double kTinyRate = 1e-12;

/// Cheap trees from a root to all ranks where each way costs the prices of its wires.
class Arborescences final : public ShapeFinder {
 public:
  Arborescences(const Wiring& wiring, std::int32_t root) : wiring_(wiring), root_(root) {}

  double work() const override { return static_cast<double>(wiring_.ranks) * wiring_.ranks * wiring_.ranks; }

  std::vector<std::uint16_t> wires_of(const Shape& tree) const override {
    std::vector<std::uint16_t> wires;
    for (std::int32_t rank = 0; rank < wiring_.ranks; ++rank) {
      if (rank == root_) continue;
      const Wiring::Way* way = wiring_.way(tree[at(rank)], rank);
      wires.insert(wires.end(), way->wires.begin(), way->wires.end());
    }
    return wires;
  }

  std::vector<Shape> cheap_ones(const std::vector<double>& price) override { return {cheapest(price)}; }
  bool is_sure_of_cheap_ones() const override { return true; }

  Shape cheapest(const std::vector<double>& price) override { return least(wiring_.ranks, root_, cost_of_ways(wiring_, price)); }

 private:
  /// Every rank takes its cheapest way in. Ranks that then run in a circle become one, whose ways in cost what they add to it; the tree of
  /// what is left says where the circle opens.
  static Shape least(std::int32_t n, std::int32_t root, const std::vector<double>& cost) {
    const auto cost_at = [&](std::int32_t a, std::int32_t b) { return cost[at(a) * at(n) + at(b)]; };
    Shape parent(at(n), -1);
    for (std::int32_t b = 0; b < n; ++b)
      for (std::int32_t a = 0; a < n && b != root; ++a)
        if (a != b && (parent[at(b)] < 0 || cost_at(a, b) < cost_at(parent[at(b)], b) - kTinyRate)) parent[at(b)] = a;
    const std::vector<std::int32_t> circle = circle_of(parent, root);
    if (circle.empty()) return parent;
    // Numbers after the circle became one: others in order, the circle last.
    std::vector<bool> is_in(at(n), false);
    for (const std::int32_t rank : circle) is_in[at(rank)] = true;
    std::vector<std::int32_t> others;
    for (std::int32_t rank = 0; rank < n; ++rank)
      if (!is_in[at(rank)]) others.push_back(rank);
    const auto one = static_cast<std::int32_t>(others.size());
    const std::size_t size = others.size() + 1;
    std::vector<double> left(size * size, 0);
    std::vector<std::int32_t> leaves(others.size()), enters(others.size());
    for (std::size_t i = 0; i < others.size(); ++i) {
      for (std::size_t j = 0; j < others.size(); ++j) left[i * size + j] = cost_at(others[i], others[j]);
      const auto adds = [&](std::int32_t rank) { return cost_at(others[i], rank) - cost_at(parent[at(rank)], rank); };
      enters[i] = *std::min_element(circle.begin(), circle.end(), [&](std::int32_t a, std::int32_t b) { return adds(a) < adds(b); });
      leaves[i] = *std::min_element(circle.begin(), circle.end(),
                                    [&](std::int32_t a, std::int32_t b) { return cost_at(a, others[i]) < cost_at(b, others[i]); });
      left[i * size + at(one)] = adds(enters[i]);
      left[at(one) * size + i] = cost_at(leaves[i], others[i]);
    }
    const auto new_root = static_cast<std::int32_t>(std::find(others.begin(), others.end(), root) - others.begin());
    const Shape rest = least(one + 1, new_root, left);
    for (std::size_t i = 0; i < others.size(); ++i)
      if (others[i] != root) parent[at(others[i])] = rest[i] == one ? leaves[i] : others[at(rest[i])];
    const std::int32_t before = rest[at(one)];
    parent[at(enters[at(before)])] = others[at(before)];
    return parent;
  }

  static std::vector<std::int32_t> circle_of(const Shape& parent, std::int32_t root) {
    std::vector<std::int32_t> walk(parent.size(), -1);  // which walk came by
    for (std::int32_t start = 0; at(start) < parent.size(); ++start) {
      std::int32_t rank = start;
      while (rank != root && walk[at(rank)] < 0) {
        walk[at(rank)] = start;
        rank = parent[at(rank)];
      }
      if (rank == root || walk[at(rank)] != start) continue;
      std::vector<std::int32_t> circle{rank};
      for (std::int32_t next = parent[at(rank)]; next != rank; next = parent[at(next)]) circle.push_back(next);
      return circle;
    }
    return {};
  }

  const Wiring& wiring_;
  std::int32_t root_;
};

}  // namespace

Mixture mix_trees(const Wiring& wiring, std::int32_t root) {
  if (wiring.ranks < 2 || root < 0 || root >= wiring.ranks || !has_all_ways(wiring)) return {};
  Arborescences trees(wiring, root);
  return mix(wiring, trees);
}

}  // namespace peal::tuning
