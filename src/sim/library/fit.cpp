#include <sim/fit.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuning/positive_definite.hpp>

namespace peal::sim {

namespace {

constexpr double kScale = 0.05;
constexpr double kPriorWeight = 0.05;
constexpr int kMostRounds = 60;
constexpr double kStep = 1e-5;  // of the logarithm, for derivatives

using Vector = std::vector<double>;

class Fit {
 public:
  Fit(std::span<const FitRow> rows, topology::LibraryConstants start) : rows_(rows), constants_(std::move(start)) {
    std::vector<bool> is_used(constants_.all().size());
    for (const FitRow& row : rows) {
      for (const LibraryWay::Limit& limit : row.way.limits)
        if (limit.share >= 0) is_used[static_cast<std::size_t>(limit.share)] = true;
      for (const int used : constants_of(row.way, constants_)) is_used[static_cast<std::size_t>(used)] = true;
    }
    for (std::size_t i = 0; i < is_used.size(); ++i) {
      topology::LibraryConstant& constant = constants_.at(static_cast<int>(i));
      if (!constant.is_fitted()) continue;
      constant.values[0] = constant.prior;
      if (is_used[i]) free_.push_back(static_cast<int>(i));
    }
  }

  topology::LibraryConstants run() {
    double damping = 1e-3;
    double loss = this->loss();
    for (int round = 0; round < kMostRounds && damping < 1e9; ++round) {
      Vector normal, gradient;
      linearise(normal, gradient);
      const Vector before = position();
      bool is_better = false;
      while (!is_better && damping < 1e9) {
        const double now = try_step(normal, gradient, before, damping);
        is_better = now < loss;
        damping = is_better ? damping * 0.3 : damping * 4;
        if (!is_better) continue;
        const bool is_done = loss - now < 1e-7 * loss;
        loss = now;
        if (is_done) return finish();
      }
      if (!is_better) set(before);
    }
    return finish();
  }

 private:
  Vector position() const {
    Vector x;
    for (const int i : free_) x.push_back(std::log(constants_.value(i)));
    return x;
  }

  void set(const Vector& x) {
    for (std::size_t i = 0; i < free_.size(); ++i) constants_.at(free_[i]).values[0] = std::exp(x[i]);
  }

  double residual(const FitRow& row) const { return std::log(time_of(row.way, constants_).microseconds() / row.measured_us); }

  double prior_residual(std::size_t i) const {
    const topology::LibraryConstant& c = constants_.all()[static_cast<std::size_t>(free_[i])];
    return kPriorWeight * std::log(c.values[0] / c.prior) / c.spread;
  }

  double loss() const {
    double sum = 0;
    for (const FitRow& row : rows_) {
      const double r = std::sqrt(row.weight) * residual(row) / kScale;
      sum += kScale * kScale * 2 * (std::sqrt(1 + r * r) - 1);
    }
    for (std::size_t i = 0; i < free_.size(); ++i) sum += prior_residual(i) * prior_residual(i);
    return sum;
  }

  /// J'WJ and J'Wr, reweighted by the loss's slope.
  void linearise(Vector& normal, Vector& gradient) {
    const std::size_t n = free_.size();
    normal.assign(n * n, 0);
    gradient.assign(n, 0);
    Vector slope(n);
    for (const FitRow& row : rows_) {
      const double r = residual(row);
      const double scaled = std::sqrt(row.weight) * r / kScale;
      const double weight = row.weight / std::sqrt(1 + scaled * scaled);
      std::vector<std::size_t> used;
      for (std::size_t i = 0; i < n; ++i) {
        slope[i] = derivative(row, i, r);
        if (slope[i] != 0) used.push_back(i);
      }
      for (const std::size_t i : used) {
        gradient[i] += weight * slope[i] * r;
        for (const std::size_t j : used) normal[i * n + j] += weight * slope[i] * slope[j];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      const topology::LibraryConstant& c = constants_.all()[static_cast<std::size_t>(free_[i])];
      const double stiff = kPriorWeight / c.spread;
      gradient[i] += stiff * prior_residual(i);
      normal[i * n + i] += stiff * stiff;
    }
  }

  double derivative(const FitRow& row, std::size_t i, double at) {
    double& value = constants_.at(free_[i]).values[0];
    const double kept = std::exchange(value, value * std::exp(kStep));
    const double moved = residual(row);
    value = kept;
    return (moved - at) / kStep;
  }

  double try_step(const Vector& normal, const Vector& gradient, const Vector& before, double damping) {
    Vector a = normal;
    Vector step = gradient;
    const std::size_t n = step.size();
    for (std::size_t i = 0; i < n; ++i) a[i * n + i] *= 1 + damping;
    if (!tuning::solve_positive_definite(std::move(a), step)) return std::numeric_limits<double>::infinity();
    Vector x = before;
    for (std::size_t i = 0; i < n; ++i) x[i] -= std::clamp(step[i], -1.0, 1.0);
    set(x);
    return loss();
  }

  /// Notes what each constant rests on: where a rate is not the narrowest, it decided nothing.
  topology::LibraryConstants finish() {
    std::vector<std::set<std::string>> machines(constants_.all().size()), cases(constants_.all().size());
    for (const FitRow& row : rows_)
      for (const int used : constants_of(row.way, constants_)) {
        machines[static_cast<std::size_t>(used)].insert(row.machine);
        cases[static_cast<std::size_t>(used)].insert(row.id);
      }
    for (std::size_t i = 0; i < machines.size(); ++i) {
      topology::LibraryConstant& constant = constants_.at(static_cast<int>(i));
      if (!constant.is_fitted()) continue;
      constant.machines.assign(machines[i].begin(), machines[i].end());
      constant.cases.assign(cases[i].begin(), cases[i].end());
    }
    return std::move(constants_);
  }

  std::span<const FitRow> rows_;
  topology::LibraryConstants constants_;
  std::vector<int> free_;
};

}  // namespace

topology::LibraryConstants fit_constants(std::span<const FitRow> rows, topology::LibraryConstants start) {
  return Fit(rows, std::move(start)).run();
}

}  // namespace peal::sim
