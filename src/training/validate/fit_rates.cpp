#include "fit_rates.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuning/positive_definite.hpp>

namespace peal::training {

namespace {

/// What published times differ by where nothing that a row says differs.
constexpr double kNoise = 0.07;
constexpr int kRounds = 12;
constexpr double kStep = 1e-3;     // of a logarithm, for derivatives
constexpr double kMostStep = 0.5;  // of a logarithm, in a round
constexpr double kEnough = 1e-4;   // a round that moves nothing more is the last
constexpr double kDecides = 0.02;  // a run decides a constant where 1 % of it moves its time by 2 % of that

class Fit {
 public:
  Fit(const std::vector<const FitRun*>& runs, topology::LibraryConstants& constants) : runs_(runs), constants_(constants) {
    std::map<std::string, int> of_source;
    for (const FitRun* run : runs_) ++of_source[run->source];
    for (const FitRun* run : runs_) weights_.push_back(1 / (kNoise * kNoise * std::sqrt(static_cast<double>(of_source[run->source]))));
    for (const FitRun* run : runs_)
      for (const int place : places_of(run->open.keys))
        if (constants.at(place).is_fitted()) places_.insert(place);
    order_.assign(places_.begin(), places_.end());
    for (std::size_t i = 0; i < order_.size(); ++i) column_[order_[i]] = i;
  }

  void run() {
    for (int round = 0; round < kRounds; ++round)
      if (improve() < kEnough) break;
    name_witnesses();
  }

 private:
  double residual(const FitRun& run) const { return std::log(estimate(run.open, rates_of(constants_, run.open.keys)) / run.seconds); }

  double slope(const FitRun& run, int place, double at) {
    double& value = constants_.at(place).values[0];
    const double kept = value;
    value = kept * std::exp(kStep);
    const double moved = residual(run);
    value = kept;
    return (moved - at) / kStep;
  }

  /// One Gauss-Newton step; returns the largest move.
  double improve() {
    const std::size_t n = order_.size();
    std::vector<double> a(n * n), step(n);
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      const double at = residual(*runs_[r]);
      std::vector<std::pair<std::size_t, double>> row;
      for (const int place : places_of(runs_[r]->open.keys))
        if (const auto column = column_.find(place); column != column_.end()) row.emplace_back(column->second, slope(*runs_[r], place, at));
      for (const auto& [i, x] : row) {
        step[i] -= weights_[r] * x * at;
        for (const auto& [j, y] : row) a[i * n + j] += weights_[r] * x * y;
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      const topology::LibraryConstant& c = constants_.at(order_[i]);
      const double hold = 1 / (c.spread * c.spread);
      a[i * n + i] += hold;
      step[i] -= hold * std::log(c.values[0] / c.prior);
    }
    if (!tuning::solve_positive_definite(std::move(a), step)) return 0;
    double most = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double move = std::clamp(step[i], -kMostStep, kMostStep);
      constants_.at(order_[i]).values[0] *= std::exp(move);
      most = std::max(most, std::abs(move));
    }
    return most;
  }

  void name_witnesses() {
    constexpr std::size_t kNamed = 6;
    for (const int place : order_) {
      std::set<std::string> sources, cases;
      for (const FitRun* run : runs_) {
        const std::vector<int> own = places_of(run->open.keys);
        if (std::find(own.begin(), own.end(), place) == own.end() || std::abs(slope(*run, place, residual(*run))) < kDecides) continue;
        sources.insert(run->source);
        if (cases.size() < kNamed) cases.insert(run->id);
      }
      constants_.at(place).machines.assign(sources.begin(), sources.end());
      constants_.at(place).cases.assign(cases.begin(), cases.end());
    }
  }

  const std::vector<const FitRun*>& runs_;
  topology::LibraryConstants& constants_;
  std::vector<double> weights_;
  std::set<int> places_;
  std::vector<int> order_;
  std::map<int, std::size_t> column_;
};

}  // namespace

topology::LibraryConstants fit_rates(const std::vector<const FitRun*>& runs, topology::LibraryConstants constants) {
  for (std::size_t i = 0; i < constants.all().size(); ++i) {
    topology::LibraryConstant& c = constants.at(static_cast<int>(i));
    if (!c.is_fitted()) continue;
    c.values = {c.prior};
    c.machines.clear();
    c.cases.clear();
  }
  if (!runs.empty()) Fit(runs, constants).run();
  return constants;
}

}  // namespace peal::training
