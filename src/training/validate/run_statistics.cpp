#include "run_statistics.hpp"

#include <algorithm>
#include <base/percentile.hpp>
#include <cmath>
#include <numeric>

namespace peal::training {

namespace {

using Pairs = std::vector<std::pair<double, double>>;
/// Orders of fewer layouts say nothing.
constexpr std::size_t kFewest = 5;

/// Predictions that three digits do not tell apart say nothing of an order.
constexpr double kTold = 5e-4;

/// Values that are apart by at most `told` of them have one rank.
std::vector<double> ranks_of(const std::vector<double>& values, double told) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i + 1;
    while (end < order.size() && values[order[end]] <= values[order[i]] * (1 + told)) ++end;
    for (std::size_t k = i; k < end; ++k) ranks[order[k]] = 0.5 * static_cast<double>(i + end - 1);
    i = end;
  }
  return ranks;
}

}  // namespace

RunErrors errors_of(const Pairs& pairs) {
  RunErrors errors;
  if (pairs.empty()) return errors;
  std::vector<double> sizes, signed_ones;
  for (const auto& [predicted, measured] : pairs) {
    signed_ones.push_back(predicted / measured - 1);
    sizes.push_back(std::abs(signed_ones.back()));
  }
  errors.rows = static_cast<int>(pairs.size());
  errors.mean = std::accumulate(sizes.begin(), sizes.end(), 0.0) / static_cast<double>(sizes.size());
  errors.median = percentile(sizes, 0.5);
  errors.p90 = percentile(sizes, 0.9);
  errors.bias = percentile(signed_ones, 0.5);
  return errors;
}

double spearman_of(const Pairs& pairs) {
  if (pairs.size() < 2) return 0;
  std::vector<double> a, b;
  for (const auto& [predicted, measured] : pairs) {
    a.push_back(predicted);
    b.push_back(measured);
  }
  a = ranks_of(a, kTold);
  b = ranks_of(b, 0);
  const double mean = 0.5 * static_cast<double>(pairs.size() - 1);
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean) * (b[i] - mean);
    aa += (a[i] - mean) * (a[i] - mean);
    bb += (b[i] - mean) * (b[i] - mean);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

void summarise(TrainingValidation& v) {
  Pairs all, memory;
  std::map<std::string, Pairs> by_source;
  std::map<std::pair<std::string, std::string>, Pairs> by_model;
  for (const PredictedRun& run : v.runs) {
    if (!run.why_not.empty()) continue;
    (run.published.ran_out_of_memory ? v.ran_out : v.ran) += 1;
    if (run.published.ran_out_of_memory) {
      v.called_possible += run.fits ? 1 : 0;
      continue;
    }
    v.judged_to_fit += run.fits ? 1 : 0;
    all.emplace_back(run.predicted, run.measured);
    by_source[run.published.source].push_back(all.back());
    by_model[{run.published.source, run.published.model}].push_back(all.back());
    if (run.published.peak_gib > 0) memory.emplace_back(run.predicted_gib, run.published.peak_gib);
  }
  v.all = errors_of(all);
  v.memory = errors_of(memory);
  for (const auto& [source, pairs] : by_source) v.by_source[source] = errors_of(pairs);
  for (const auto& [model, pairs] : by_model)
    if (pairs.size() >= kFewest) v.orders.push_back({model.first, model.second, static_cast<int>(pairs.size()), spearman_of(pairs)});
}

}  // namespace peal::training
