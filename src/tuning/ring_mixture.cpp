#include <algorithm>
#include <base/index.hpp>
#include <limits>
#include <tuning/mixture.hpp>

#include "column_generation.hpp"

namespace peal::tuning {

namespace {

/// Short round trips through all ranks where each way costs the prices of its wires.
class RoundTrips final : public ShapeFinder {
 public:
  explicit RoundTrips(const Wiring& wiring) : wiring_(wiring), others_(at(wiring.ranks - 1)) {}

  double work() const override { return static_cast<double>(others_ * others_) * static_cast<double>(std::size_t{1} << others_); }

  std::vector<std::uint16_t> wires_of(const Shape& ring) const override {
    std::vector<std::uint16_t> wires;
    for (std::size_t p = 0; p < ring.size(); ++p) {
      const Wiring::Way* way = wiring_.way(ring[p], ring[(p + 1) % ring.size()]);
      wires.insert(wires.end(), way->wires.begin(), way->wires.end());
    }
    return wires;
  }

  Shape reversed(Shape ring) const override {
    std::reverse(ring.begin() + 1, ring.end());
    return ring;
  }

  /// To the nearest from each start, then ranks moved to where they cost least.
  std::vector<Shape> cheap_ones(const std::vector<double>& price) override {
    step_ = cost_of_ways(wiring_, price);
    std::vector<Shape> rings;
    for (std::int32_t start = 0; start < wiring_.ranks; ++start) {
      Shape ring = to_the_nearest(start);
      while (move_one(ring)) {
      }
      std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), 0), ring.end());
      if (std::find(rings.begin(), rings.end(), ring) == rings.end()) rings.push_back(std::move(ring));
    }
    return rings;
  }

  Shape cheapest(const std::vector<double>& price) override {
    step_ = cost_of_ways(wiring_, price);
    const std::size_t n = others_ + 1;
    cost_.assign(others_ << others_, std::numeric_limits<double>::infinity());
    came_.resize(others_ << others_);
    // State (set, last): ranks 1..n-1 that were visited, as bits, and the last of them. Rank 0 is the start.
    for (std::size_t last = 0; last < others_; ++last) cost_[(std::size_t{1} << last) * others_ + last] = step_[last + 1];
    const std::size_t all = (std::size_t{1} << others_) - 1;
    for (std::size_t set = 1; set < all; ++set) {
      for (std::size_t last = 0; last < others_; ++last) {
        const double so_far = cost_[set * others_ + last];
        if (so_far == std::numeric_limits<double>::infinity()) continue;
        const double* const from = step_.data() + (last + 1) * n + 1;
        for (std::size_t next = 0; next < others_; ++next) {
          if ((set >> next & 1) != 0) continue;
          const std::size_t to = (set | std::size_t{1} << next) * others_ + next;
          if (so_far + from[next] >= cost_[to]) continue;
          cost_[to] = so_far + from[next];
          came_[to] = static_cast<std::uint8_t>(last);
        }
      }
    }
    std::size_t last = 0;
    for (std::size_t end = 1; end < others_; ++end)
      if (cost_[all * others_ + end] + step_[(end + 1) * n] < cost_[all * others_ + last] + step_[(last + 1) * n]) last = end;
    Shape ring;
    for (std::size_t set = all; set != 0;) {
      ring.push_back(static_cast<std::int32_t>(last + 1));
      const std::size_t before = came_[set * others_ + last];
      set &= ~(std::size_t{1} << last);
      last = before;
    }
    ring.push_back(0);
    std::reverse(ring.begin(), ring.end());
    return ring;
  }

 private:
  double step(std::int32_t a, std::int32_t b) const { return step_[at(a) * (others_ + 1) + at(b)]; }
  double cost_of(const Shape& ring) const {
    double sum = step(ring.back(), ring.front());
    for (std::size_t p = 0; p + 1 < ring.size(); ++p) sum += step(ring[p], ring[p + 1]);
    return sum;
  }
  Shape to_the_nearest(std::int32_t start) const {
    Shape ring{start};
    std::vector<bool> is_in(others_ + 1, false);
    is_in[at(start)] = true;
    while (ring.size() < is_in.size()) {
      std::int32_t next = -1;
      for (std::int32_t b = 0; b < wiring_.ranks; ++b)
        if (!is_in[at(b)] && (next < 0 || step(ring.back(), b) < step(ring.back(), next))) next = b;
      ring.push_back(next);
      is_in[at(next)] = true;
    }
    return ring;
  }
  /// Takes a rank out and puts it in elsewhere where that shortens the trip.
  bool move_one(Shape& ring) const {
    const std::size_t n = ring.size();
    for (std::size_t p = 0; p < n; ++p) {
      const std::int32_t rank = ring[p], before = ring[(p + n - 1) % n], after = ring[(p + 1) % n];
      const double gain = step(before, rank) + step(rank, after) - step(before, after);
      for (std::size_t q = 0; q < n; ++q) {
        const std::int32_t a = ring[q], b = ring[(q + 1) % n];
        if (a == rank || b == rank || step(a, rank) + step(rank, b) - step(a, b) >= gain - kTiny) continue;
        ring.erase(ring.begin() + static_cast<std::ptrdiff_t>(p));
        ring.insert(std::find(ring.begin(), ring.end(), a) + 1, rank);
        return true;
      }
    }
    return false;
  }

  const Wiring& wiring_;
  std::size_t others_;
  std::vector<double> cost_;
  std::vector<std::uint8_t> came_;
  std::vector<double> step_;
};

}  // namespace

Mixture mix_rings(const Wiring& wiring) {
  if (wiring.ranks < 3 || wiring.ranks > kMostMixedRanks || !has_all_ways(wiring)) return {};
  RoundTrips trips(wiring);
  Mixture mixture = mix(wiring, trips);
  if (mixture.bound == 0) mixture.bound = rate_at_the_ends(wiring);
  return mixture;
}

}  // namespace peal::tuning
