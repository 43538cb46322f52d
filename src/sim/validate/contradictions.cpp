#include "contradictions.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "statistics.hpp"

namespace peal::sim {
namespace {

constexpr double kDisagreement = 0.25;
constexpr int kLeastFar = 3;
constexpr int kShareFar = 10;  // one row in ten
constexpr double kTension = 0.2;

std::map<std::pair<std::uint64_t, bool>, double> times_of(const PredictedCase& c) {
  std::map<std::pair<std::uint64_t, bool>, double> times;
  for (const PredictedRow& row : c.rows)
    if (row.measured.set_apart.empty()) times[{row.measured.bytes.value, row.measured.is_in_place}] = row.measured.time_us;
  return times;
}

std::optional<Disagreement> disagreement_of(const PredictedCase& a, const PredictedCase& b) {
  const auto before = times_of(a);
  std::vector<double> differences;
  for (const auto& [size, time] : times_of(b))
    if (const auto it = before.find(size); it != before.end())
      differences.push_back(std::abs(time - it->second) / std::min(time, it->second));
  const auto far = std::count_if(differences.begin(), differences.end(), [](double d) { return d > kDisagreement; });
  const int rows = static_cast<int>(differences.size());
  if (far < kLeastFar || far * kShareFar < rows) return std::nullopt;
  return Disagreement{a.published.label, b.published.label, rows, static_cast<int>(far), percentile(std::move(differences), 0.5)};
}

/// Constants that scale a rate, not a latency.
bool is_rate(const std::string& constant) {
  return constant.starts_with("share.") || constant.find(".share.") != std::string::npos || constant.find(".copy.") != std::string::npos;
}

/// Of each rate the signed errors of a case's rows from 16 MiB on that rest on it.
std::map<std::string, std::vector<double>> errors_by_rate(const PredictedCase& c) {
  std::map<std::string, std::vector<double>> errors;
  for (const PredictedRow& row : c.rows) {
    if (!row.is_judged() || range_of(row.measured.bytes) != kSizeRanges - 1) continue;
    for (const std::string& constant : row.answer->constants)
      if (is_rate(constant)) errors[constant].push_back(row.signed_error());
  }
  return errors;
}

}  // namespace

std::vector<Disagreement> disagreements_of(const std::vector<PredictedCase>& cases) {
  std::map<std::string, std::vector<const PredictedCase*>> by_setting;
  for (const PredictedCase& c : cases)
    if (!c.setting.empty()) by_setting[c.setting].push_back(&c);
  std::vector<Disagreement> found;
  for (const auto& [setting, same] : by_setting) {
    for (std::size_t i = 1; i < same.size(); ++i)
      if (auto one = disagreement_of(*same[i - 1], *same[i])) found.push_back(*std::move(one));
  }
  return found;
}

std::vector<Tension> tensions_of(const std::vector<PredictedCase>& cases) {
  std::map<std::string, Tension> by_rate;
  for (const PredictedCase& c : cases)
    for (auto& [constant, errors] : errors_by_rate(c)) {
      const double error = percentile(std::move(errors), 0.5);
      Tension& t = by_rate.try_emplace(constant, Tension{constant, c.published.label, c.published.label, error, error}).first->second;
      if (error < t.fastest) t.fast = c.published.label, t.fastest = error;
      if (error > t.slowest) t.slow = c.published.label, t.slowest = error;
    }
  std::vector<Tension> found;
  for (auto& [constant, t] : by_rate) {
    if (t.slowest - t.fastest <= kTension) continue;
    const auto same = std::find_if(found.begin(), found.end(), [&](const Tension& f) { return f.fast == t.fast && f.slow == t.slow; });
    if (same == found.end())
      found.push_back(std::move(t));
    else
      same->constant += " x " + constant;  // a rate of two shares
  }
  return found;
}

}  // namespace peal::sim
