#include "column_generation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace peal::tuning {

namespace {

constexpr double kMostWork = 3e8;  // additions of all proofs together
constexpr int kMostPivots = 5000;
constexpr double kPerturbation = 1e-6;  // of capacities, against ties that let the simplex walk in circles
constexpr double kLeastSaving = 1e-7;   // of a shape that is worth a pivot
constexpr double kSmoothing = 0.7;      // how much of the best prices so far is in those that shapes are made for

/// A shape as a column: how often it crosses each wire.
struct Column {
  Shape shape;
  std::vector<std::pair<std::uint16_t, int>> crossings;

  double cost(const std::vector<double>& price) const {
    double sum = 0;
    for (const auto& [wire, times] : crossings) sum += times * price[wire];
    return sum;
  }
};

Column column_of(const ShapeFinder& finder, Shape shape) {
  std::vector<std::uint16_t> wires = finder.wires_of(shape);
  std::sort(wires.begin(), wires.end());
  Column column{std::move(shape), {}};
  for (const std::uint16_t wire : wires) {
    if (column.crossings.empty() || column.crossings.back().first != wire) column.crossings.emplace_back(wire, 0);
    ++column.crossings.back().second;
  }
  return column;
}

double worth_of(const Wiring& wiring, const std::vector<double>& price) {
  double worth = 0;
  for (std::size_t w = 0; w < price.size(); ++w) worth += price[w] * wiring.capacity[w];
  return worth;
}

/// The program so far: the revised simplex method with the inverse of the basis kept whole. Rows are wires; a basis entry is a column, or
/// the room that is left on a wire (-1).
class Program {
 public:
  explicit Program(const Wiring& wiring) : rows_(wiring.capacity.size()) {
    inverse_.resize(rows_ * rows_, 0);
    basis_.assign(rows_, -1);
    for (std::size_t r = 0; r < rows_; ++r) {
      inverse_[r * rows_ + r] = 1;
      value_.push_back(wiring.capacity[r] * (1 + kPerturbation * irregular(r)));
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

  /// With the capacities as they are.
  template <class F>
  void each_rate(const std::vector<double>& capacity, F&& take) const {
    for (std::size_t r = 0; r < rows_; ++r) {
      if (basis_[r] < 0) continue;
      double rate = 0;
      for (std::size_t w = 0; w < rows_; ++w) rate += inverse_[r * rows_ + w] * capacity[w];
      if (rate > kTiny) take(basis_[r], rate);
    }
  }

 private:
  /// Between 0 and 1, alike for no two rows.
  static double irregular(std::size_t row) {
    const double turns = static_cast<double>(row + 1) * 0.6180339887498949;
    return turns - std::floor(turns);
  }

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

/// Columns, and the search for further ones.
class Generator {
 public:
  Generator(const Wiring& wiring, ShapeFinder& finder) : wiring_(wiring), finder_(finder), program_(wiring) {
    for (const double capacity : wiring.capacity) centre_.push_back(1 / capacity);
    mixture_.bound = std::numeric_limits<double>::infinity();
  }

  Mixture run() {
    for (int pivots = 0; pivots < kMostPivots; ++pivots) {
      std::vector<double> price = program_.prices();
      const auto cheapest = std::min_element(price.begin(), price.end());
      if (*cheapest < -kTiny) {
        program_.enter_room_of(static_cast<std::size_t>(cheapest - price.begin()));
        continue;
      }
      for (double& p : price) p = std::max(p, 0.0);
      const int best = best_column(price);
      if (best < 0) break;
      program_.enter(columns_[static_cast<std::size_t>(best)], best);
    }
    return finish();
  }

 private:
  /// The cheapest under these prices of those known, which cost nothing to look at; else of new ones; -1: none is worth a pivot.
  int best_column(const std::vector<double>& price) {
    best_ = -1;
    least_ = 1 - kLeastSaving;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const double cost = columns_[c].cost(price);
      if (cost >= least_) continue;
      least_ = cost;
      best_ = static_cast<int>(c);
    }
    if (best_ < 0) take_cheap_ones(price, kSmoothing);
    if (best_ < 0) take_cheap_ones(price, 0);
    if (best_ >= 0 || work_ > kMostWork) return best_;
    work_ += finder_.work();
    note_bound(price, take(finder_.cheapest(price), price));
    return best_;
  }

  void take_cheap_ones(const std::vector<double>& price, double smoothing) {
    std::vector<double> mixed(price.size());
    for (std::size_t w = 0; w < price.size(); ++w) mixed[w] = smoothing * centre_[w] + (1 - smoothing) * price[w];
    double cost = std::numeric_limits<double>::infinity();
    for (Shape& shape : finder_.cheap_ones(mixed)) {
      cost = std::min(cost, column_of(finder_, shape).cost(mixed));
      take(std::move(shape), price);
    }
    if (finder_.is_sure_of_cheap_ones()) note_bound(mixed, cost);
    if (cost <= kTiny || worth_of(wiring_, mixed) / cost >= centre_worth_) return;
    centre_worth_ = worth_of(wiring_, mixed) / cost;
    for (std::size_t w = 0; w < price.size(); ++w) centre_[w] = mixed[w] / cost;
  }

  /// Keeps a shape that is worth a pivot. Returns its cost.
  double take(Shape shape, const std::vector<double>& price) {
    Column column = column_of(finder_, shape);
    const double cost = column.cost(price);
    if (cost >= 1 - kLeastSaving) return cost;
    if (cost < least_) best_ = static_cast<int>(columns_.size());
    least_ = std::min(least_, cost);
    columns_.push_back(std::move(column));
    if (Shape other = finder_.reversed(std::move(shape)); !other.empty()) columns_.push_back(column_of(finder_, std::move(other)));
    return cost;
  }

  /// Prices over the cheapest shape's cost price every shape at 1 or more: weak duality.
  void note_bound(const std::vector<double>& price, double cost) {
    if (cost <= kTiny || worth_of(wiring_, price) / cost >= mixture_.bound) return;
    mixture_.bound = worth_of(wiring_, price) / cost;
    mixture_.price = price;
    for (double& p : mixture_.price) p /= cost;
  }

  Mixture finish() {
    if (mixture_.price.empty()) mixture_.bound = 0;
    std::vector<bool> is_used(columns_.size(), false);
    std::vector<double> load(wiring_.capacity.size(), 0);
    program_.each_rate(wiring_.capacity, [&](int index, double rate) {
      const Column& column = columns_[static_cast<std::size_t>(index)];
      mixture_.shapes.push_back(column.shape);
      mixture_.rates.push_back(rate);
      is_used[static_cast<std::size_t>(index)] = true;
      for (const auto& [wire, times] : column.crossings) load[wire] += times * rate;
    });
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (!is_used[c]) mixture_.others.push_back(std::move(columns_[c].shape));
    // The basis was found for capacities that are a little larger.
    double most = 1;
    for (std::size_t w = 0; w < load.size(); ++w)
      if (load[w] > 0) most = std::max(most, load[w] / wiring_.capacity[w]);
    for (double& rate : mixture_.rates) mixture_.total += rate /= most;
    return std::move(mixture_);
  }

  const Wiring& wiring_;
  ShapeFinder& finder_;
  Program program_;
  std::vector<Column> columns_;
  Mixture mixture_;
  std::vector<double> centre_;  // the prices under which what the wires are worth came nearest to a bound
  double centre_worth_ = std::numeric_limits<double>::infinity();
  double work_ = 0;
  int best_ = -1;
  double least_ = 1;
};

}  // namespace

Mixture mix(const Wiring& wiring, ShapeFinder& finder) { return Generator(wiring, finder).run(); }

bool has_all_ways(const Wiring& wiring) {
  for (std::int32_t a = 0; a < wiring.ranks; ++a)
    for (std::int32_t b = 0; b < wiring.ranks; ++b)
      if (a != b && wiring.way(a, b) == nullptr) return false;
  return true;
}

std::vector<double> cost_of_ways(const Wiring& wiring, const std::vector<double>& price) {
  std::vector<double> cost(wiring.ways.size(), 0);
  for (std::size_t i = 0; i < cost.size(); ++i)
    for (const std::uint16_t wire : wiring.ways[i].wires) cost[i] += price[wire];
  return cost;
}

}  // namespace peal::tuning
