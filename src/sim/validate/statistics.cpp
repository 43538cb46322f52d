#include "statistics.hpp"

#include <algorithm>
#include <base/names.hpp>
#include <charconv>
#include <cmath>
#include <set>

namespace peal::sim {
namespace {

constexpr std::string_view kRanges[kSizeRanges] = {"below 1 MiB", "1 to 16 MiB", "16 MiB and more"};
constexpr std::uint64_t kBegins[kSizeRanges + 1] = {0, 1 << 20, 16 << 20, 1'000'000'000'000'000'000};
constexpr double kMostPercent = 1e6;

using Cases = std::vector<const PredictedCase*>;

std::string wires_of(const PredictedCase& c) { return c.nodes > 1 ? "between nodes" : "inside a node"; }

/// Names of the constants that a case's predictions rest on.
void add_used(const PredictedCase& c, std::set<std::string>& used) {
  for (const PredictedRow& row : c.rows)
    if (row.answer) used.insert(row.answer->constants.begin(), row.answer->constants.end());
}

/// What a case's prediction rests on beside what sources state.
std::string evidence_of(const PredictedCase& c, const Validation& v) {
  std::set<std::string> used;
  add_used(c, used);
  bool is_fitted = false;
  bool is_named = false;
  bool is_of_one = false;
  for (const topology::LibraryConstant& constant : v.free) {
    if (used.count(constant.name) == 0) continue;
    is_fitted = true;
    is_named |= std::find(constant.cases.begin(), constant.cases.end(), c.published.id) != constant.cases.end();
    is_of_one |= constant.machines.size() < 2;
  }
  if (!is_fitted) return "no fitted constant";
  if (!is_named) return "fitted without this case";
  return is_of_one ? "fitted, one machine alone" : "fitted with this case";
}

std::vector<ErrorClass> group(const Validation& v, std::string_view kind, const std::function<std::string(const PredictedCase&)>& key_of) {
  std::map<std::string, Cases> groups;
  for (const PredictedCase& c : v.cases)
    if (c.why_not.empty()) groups[key_of(c)].push_back(&c);
  std::vector<ErrorClass> classes;
  for (const auto& [name, cases] : groups) {
    ErrorClass one{std::string(kind), name, {}, {}};
    std::set<std::string> machines;
    for (const PredictedCase* c : cases) machines.insert(machine_name(c->published));
    one.machines.assign(machines.begin(), machines.end());
    one.errors = errors_by_size(cases);
    classes.push_back(std::move(one));
  }
  return classes;
}

}  // namespace

std::string_view name_of_range(int range) noexcept { return kRanges[static_cast<std::size_t>(range)]; }
Bytes begin_of_range(int range) noexcept { return {kBegins[static_cast<std::size_t>(range)]}; }
int range_of(Bytes size) noexcept {
  int range = 0;
  while (range + 1 < kSizeRanges && size >= begin_of_range(range + 1)) ++range;
  return range;
}

std::string machine_name(const PublishedCase& c) { return c.machine.substr(0, c.machine.find_first_of(": (")); }

Errors errors_of(const Cases& cases, int range) {
  Errors errors;
  std::vector<double> rows;
  std::vector<double> medians;
  std::vector<double> biases;
  for (const PredictedCase* c : cases) {
    std::vector<double> own;
    std::vector<double> with_sign;
    for (const PredictedRow& row : c->rows) {
      if (!row.is_judged() || (range >= 0 && range_of(row.measured.bytes) != range)) continue;
      with_sign.push_back(row.signed_error());
      own.push_back(std::abs(with_sign.back()));
    }
    if (own.empty()) continue;
    rows.insert(rows.end(), own.begin(), own.end());
    medians.push_back(percentile(std::move(own), 0.5));
    biases.push_back(percentile(std::move(with_sign), 0.5));
  }
  if (rows.empty()) return errors;
  errors.cases = static_cast<int>(medians.size());
  errors.rows = static_cast<int>(rows.size());
  errors.worst = *std::max_element(rows.begin(), rows.end());
  errors.p90 = percentile(std::move(rows), 0.9);
  errors.median = percentile(std::move(medians), 0.5);
  errors.bias = percentile(std::move(biases), 0.5);
  return errors;
}

ErrorsBySize errors_by_size(const Cases& cases) {
  ErrorsBySize errors;
  for (int range = 0; range < kSizeRanges; ++range) errors[static_cast<std::size_t>(range)] = errors_of(cases, range);
  return errors;
}

std::vector<const PredictedCase*> pointers_to(const std::vector<PredictedCase>& cases) {
  std::vector<const PredictedCase*> all;
  for (const PredictedCase& c : cases) all.push_back(&c);
  return all;
}

std::vector<ErrorClass> classes_of(const Validation& v) {
  std::vector<ErrorClass> all = group(v, "wires", wires_of);
  const auto add = [&all](std::vector<ErrorClass> more) { std::move(more.begin(), more.end(), std::back_inserter(all)); };
  add(group(v, "collective", [](const PredictedCase& c) { return std::string(peal::name_of(c.published.collective)); }));
  add(group(v, "generation", [](const PredictedCase& c) { return c.generation; }));
  add(group(v, "evidence", [&v](const PredictedCase& c) { return evidence_of(c, v); }));
  return all;
}

void weigh_evidence(Validation& v, const topology::LibraryConstants& constants) {
  std::set<std::string> used;
  for (const PredictedCase& c : v.cases) add_used(c, used);
  for (const topology::LibraryConstant& constant : constants.all())
    if (constant.is_fitted() && used.count(constant.name) > 0) v.free.push_back(constant);
}

Result<Bounds> parse_bounds(std::string_view text) {
  std::vector<double> shares;
  bool is_good = true;
  for (std::string_view rest = text; is_good;) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    double percent = -1;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + end, percent);
    is_good = error == std::errc() && stop == rest.data() + end && percent >= 0 && percent <= kMostPercent && shares.size() < 6;
    shares.push_back(percent / 100);
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  if (!is_good || (shares.size() != 1 && shares.size() != 3 && shares.size() != 6))
    return fail(
        ErrorCode::invalid_argument,
        "--bound {} is not understood: give percents, one (every median), three (medians below 1 MiB, to 16 MiB, above) or six (then the "
        "90th percentiles), as in 20,15,5,50,40,20",
        text.substr(0, 64));
  Bounds bounds;
  for (std::size_t r = 0; r < kSizeRanges; ++r) {
    bounds.median[r] = shares[shares.size() == 1 ? 0 : r];
    bounds.p90[r] = shares.size() == 6 ? std::optional(shares[3 + r]) : std::nullopt;
  }
  return bounds;
}

std::vector<std::string> violations(const Validation& v, const Bounds& bounds) {
  if (v.all.rows == 0) return {"no row could be predicted and judged"};
  std::vector<std::string> found;
  for (std::size_t r = 0; r < kSizeRanges; ++r) {
    const Errors& e = v.errors[r];
    if (e.rows == 0) continue;
    const auto judge = [&](std::string_view what, double value, const std::optional<double>& bound) {
      if (bound && value > *bound)
        found.push_back(fmt::format("{}: {} {:.1f} % is above {:g} %", kRanges[r], what, 100 * value, 100 * *bound));
    };
    judge("median", e.median, bounds.median[r]);
    judge("90th percentile of rows", e.p90, bounds.p90[r]);
  }
  return found;
}

}  // namespace peal::sim
