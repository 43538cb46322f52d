#include <algorithm>
#include <cmath>
#include <limits>
#include <tuning/ring_mixture.hpp>

namespace peal::tuning {

namespace {

constexpr double kTiny = 1e-9;
constexpr double kMostWork = 3e8;  // additions of all round trips together
constexpr int kMostPivots = 4000;
constexpr double kPerturbation = 1e-8;  // of capacities, against ties that let the simplex walk in circles

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

/// A ring as a column: how often it crosses each wire.
struct Column {
  std::vector<std::int32_t> ring;
  std::vector<std::pair<std::uint16_t, int>> crossings;

  double cost(const std::vector<double>& price) const {
    double sum = 0;
    for (const auto& [wire, times] : crossings) sum += times * price[wire];
    return sum;
  }
};

Column column_of(const Wiring& wiring, std::vector<std::int32_t> ring) {
  std::vector<std::uint16_t> wires;
  for (std::size_t p = 0; p < ring.size(); ++p) {
    const Wiring::Way* way = wiring.way(ring[p], ring[(p + 1) % ring.size()]);
    wires.insert(wires.end(), way->wires.begin(), way->wires.end());
  }
  std::sort(wires.begin(), wires.end());
  Column column{std::move(ring), {}};
  for (const std::uint16_t wire : wires) {
    if (column.crossings.empty() || column.crossings.back().first != wire) column.crossings.emplace_back(wire, 0);
    ++column.crossings.back().second;
  }
  return column;
}

/// The shortest round trip through all ranks where each way costs the prices of its wires.
class RoundTrip {
 public:
  explicit RoundTrip(const Wiring& wiring) : wiring_(wiring), others_(at(wiring.ranks - 1)) {
    cost_.resize(others_ << others_);
    came_.resize(others_ << others_);
    step_.resize(at(wiring.ranks) * at(wiring.ranks));
  }

  double work() const { return static_cast<double>(others_ * others_) * static_cast<double>(std::size_t{1} << others_); }

  void take_prices(const std::vector<double>& price) {
    const std::size_t n = others_ + 1;
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        double sum = 0;
        if (a != b)
          for (const std::uint16_t wire : wiring_.way(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b))->wires)
            sum += price[wire];
        step_[a * n + b] = sum;
      }
    }
  }

  /// A short one, without proof: to the nearest from each start, then ranks moved to where they cost least.
  std::vector<std::int32_t> short_one() const {
    std::vector<std::int32_t> best;
    double least = std::numeric_limits<double>::infinity();
    for (std::int32_t start = 0; start < wiring_.ranks; ++start) {
      std::vector<std::int32_t> ring = to_the_nearest(start);
      while (move_one(ring)) {
      }
      const double cost = cost_of(ring);
      if (cost >= least) continue;
      least = cost;
      best = std::move(ring);
    }
    std::rotate(best.begin(), std::find(best.begin(), best.end(), 0), best.end());
    return best;
  }

  /// The shortest, proved.
  std::vector<std::int32_t> shortest() {
    const std::size_t n = others_ + 1;
    std::fill(cost_.begin(), cost_.end(), std::numeric_limits<double>::infinity());
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
    std::vector<std::int32_t> ring;
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
  double cost_of(const std::vector<std::int32_t>& ring) const {
    double sum = step(ring.back(), ring.front());
    for (std::size_t p = 0; p + 1 < ring.size(); ++p) sum += step(ring[p], ring[p + 1]);
    return sum;
  }
  std::vector<std::int32_t> to_the_nearest(std::int32_t start) const {
    std::vector<std::int32_t> ring{start};
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
  bool move_one(std::vector<std::int32_t>& ring) const {
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

/// The program so far: the revised simplex method with the inverse of the basis kept whole. Rows are wires; a basis entry is a column, or
/// the room that is left on a wire (-1).
class Program {
 public:
  explicit Program(const Wiring& wiring) : rows_(wiring.capacity.size()) {
    inverse_.resize(rows_ * rows_, 0);
    basis_.assign(rows_, -1);
    for (std::size_t r = 0; r < rows_; ++r) {
      inverse_[r * rows_ + r] = 1;
      value_.push_back(wiring.capacity[r] * (1 + kPerturbation * static_cast<double>(r % 97 + 1)));
    }
  }

  /// What a further GB/s of each wire is worth.
  std::vector<double> prices() const {
    std::vector<double> price(rows_, 0);
    for (std::size_t r = 0; r < rows_; ++r) {
      if (basis_[r] < 0) continue;
      for (std::size_t w = 0; w < rows_; ++w) price[w] += inverse_[r * rows_ + w];
    }
    return price;
  }

  void enter_room_of(std::size_t wire) {
    std::vector<double> direction(rows_);
    for (std::size_t r = 0; r < rows_; ++r) direction[r] = inverse_[r * rows_ + wire];
    pivot(direction, -1);
  }

  void enter(const Column& column, int index) {
    std::vector<double> direction(rows_, 0);
    for (std::size_t r = 0; r < rows_; ++r)
      for (const auto& [wire, times] : column.crossings) direction[r] += times * inverse_[r * rows_ + wire];
    pivot(direction, index);
  }

  template <class F>
  void each_rate(F&& take) const {
    for (std::size_t r = 0; r < rows_; ++r)
      if (basis_[r] >= 0 && value_[r] > kTiny) take(basis_[r], value_[r]);
  }

 private:
  void pivot(const std::vector<double>& direction, int index) {
    std::size_t leaves = rows_;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (direction[r] <= kTiny) continue;
      if (leaves == rows_ || value_[r] / direction[r] < value_[leaves] / direction[leaves]) leaves = r;
    }
    if (leaves == rows_) return;  // never: every ring crosses a wire, and every wire has an end
    const double step = value_[leaves] / direction[leaves];
    double* const pivot_row = inverse_.data() + leaves * rows_;
    for (std::size_t w = 0; w < rows_; ++w) pivot_row[w] /= direction[leaves];
    for (std::size_t r = 0; r < rows_; ++r) {
      if (r == leaves || direction[r] == 0) continue;
      value_[r] = std::max(0.0, value_[r] - step * direction[r]);
      double* const row = inverse_.data() + r * rows_;
      for (std::size_t w = 0; w < rows_; ++w) row[w] -= direction[r] * pivot_row[w];
    }
    value_[leaves] = step;
    basis_[leaves] = index;
  }

  std::size_t rows_;
  std::vector<double> inverse_;
  std::vector<double> value_;
  std::vector<int> basis_;
};

bool has_all_ways(const Wiring& wiring) {
  for (std::int32_t a = 0; a < wiring.ranks; ++a)
    for (std::int32_t b = 0; b < wiring.ranks; ++b)
      if (a != b && wiring.way(a, b) == nullptr) return false;
  return true;
}

/// Prices over the cheapest order's cost price every order at 1 or more: weak duality.
void note_bound(const Wiring& wiring, const std::vector<double>& price, double cost, RingMixture& mixture) {
  double worth = 0;
  for (std::size_t w = 0; w < price.size(); ++w) worth += price[w] * wiring.capacity[w];
  if (cost <= kTiny || worth / cost >= mixture.bound) return;
  mixture.bound = worth / cost;
  mixture.price = price;
  for (double& p : mixture.price) p /= cost;
}

}  // namespace

RingMixture mix_rings(const Wiring& wiring) {
  RingMixture mixture;
  if (wiring.ranks < 3 || wiring.ranks > kMostMixedRanks || !has_all_ways(wiring)) return mixture;
  Program program(wiring);
  RoundTrip trip(wiring);
  std::vector<Column> columns;
  mixture.bound = std::numeric_limits<double>::infinity();
  double work = 0;
  for (int pivots = 0; pivots < kMostPivots; ++pivots) {
    std::vector<double> price = program.prices();
    const auto cheapest = std::min_element(price.begin(), price.end());
    if (*cheapest < -kTiny) {
      program.enter_room_of(static_cast<std::size_t>(cheapest - price.begin()));
      continue;
    }
    for (double& p : price) p = std::max(p, 0.0);
    // Known orders first: they cost nothing to look at.
    int best = -1;
    double least = 1 - 1e-7;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const double cost = columns[c].cost(price);
      if (cost >= least) continue;
      least = cost;
      best = static_cast<int>(c);
    }
    if (best < 0) {
      trip.take_prices(price);
      std::vector<std::int32_t> ring = trip.short_one();
      Column column = column_of(wiring, ring);
      double cost = column.cost(price);
      if (cost >= 1 - 1e-7) {
        if (work > kMostWork) break;
        work += trip.work();
        ring = trip.shortest();
        column = column_of(wiring, ring);
        cost = column.cost(price);
        note_bound(wiring, price, cost, mixture);
      }
      if (cost >= 1 - 1e-7) break;
      best = static_cast<int>(columns.size());
      columns.push_back(std::move(column));
      std::reverse(ring.begin() + 1, ring.end());
      columns.push_back(column_of(wiring, std::move(ring)));
    }
    program.enter(columns[static_cast<std::size_t>(best)], best);
  }
  if (mixture.price.empty()) mixture.bound = rate_at_the_ends(wiring);
  program.each_rate([&](int column, double rate) {
    mixture.rings.push_back(columns[static_cast<std::size_t>(column)].ring);
    mixture.rates.push_back(rate);
  });
  // The perturbed capacities are a little too large.
  double most = 1;
  std::vector<double> load(wiring.capacity.size(), 0);
  for (std::size_t i = 0; i < mixture.rings.size(); ++i)
    for (const auto& [wire, times] : column_of(wiring, mixture.rings[i]).crossings) load[wire] += times * mixture.rates[i];
  for (std::size_t w = 0; w < load.size(); ++w)
    if (load[w] > 0) most = std::max(most, load[w] / wiring.capacity[w]);
  for (double& rate : mixture.rates) mixture.total += rate /= most;
  return mixture;
}

}  // namespace peal::tuning
