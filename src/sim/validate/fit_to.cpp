// Fits of the library constants to tables of measurements, and what they are worth on machines that they did not see.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sim/fit.hpp>

#include "statistics.hpp"

namespace peal::sim {

namespace {

constexpr std::array<double, kSizeRanges> kWeights = {1, 2.25, 16};

/// The rows of a case, each as the way that the library takes. A case that cannot be placed, or is not NCCL's kind, has none.
std::vector<FitRow> rows_of(const PublishedCase& published, const ValidateOptions& options) {
  std::vector<FitRow> rows;
  if (!published.not_fitted.empty()) return rows;
  const auto placed = place(published, options);
  if (!placed || placed->words.options.whose == Library::peal) return rows;
  const auto model = LibraryModel::make(placed->cluster, placed->device_of_rank, placed->words.options, *options.constants);
  if (!model) return rows;
  std::array<double, kSizeRanges> count{};
  for (const PublishedRow& row : published.rows)
    if (row.set_apart.empty()) ++count[static_cast<std::size_t>(range_of(row.bytes))];
  for (const PublishedRow& row : published.rows) {
    if (!row.set_apart.empty()) continue;
    auto way = model->way({published.collective, row.bytes, placed->words.type, row.is_in_place, 0});
    const auto range = static_cast<std::size_t>(range_of(row.bytes));
    if (way) rows.push_back({*std::move(way), row.time_us, kWeights[range] / count[range], machine_name(published), published.id});
  }
  return rows;
}

/// Cases of one machine share what is odd about it: together they count as the square root of their number.
std::vector<FitRow> all_rows(const std::vector<PublishedCase>& cases, const ValidateOptions& options) {
  std::map<std::string, double> of_machine;
  for (const PublishedCase& published : cases) of_machine[machine_name(published)] += 1;
  std::vector<FitRow> all;
  for (const PublishedCase& published : cases)
    for (FitRow& row : rows_of(published, options)) {
      row.weight /= std::sqrt(of_machine[row.machine]);
      all.push_back(std::move(row));
    }
  return all;
}

/// Predicts with `constants` and says how far off that is.
Result<std::vector<topology::LibraryAccuracy>> accuracy_of(const std::vector<PublishedCase>& cases, ValidateOptions options,
                                                           const topology::LibraryConstants& constants) {
  options.constants = constants;
  PEAL_ASSIGN(Validation v, validate({}, cases, options));
  PEAL_TRY(keep_out(v, cases, options));
  std::vector<topology::LibraryAccuracy> all;
  for (const bool is_between : {false, true}) {
    std::vector<const PredictedCase*> some;
    for (const PredictedCase& c : v.cases)
      if (c.why_not.empty() && (c.nodes > 1) == is_between) some.push_back(&c);
    int most_nodes = 1;
    for (const PredictedCase* c : some) most_nodes = std::max(most_nodes, c->nodes);
    const ErrorsBySize errors = errors_by_size(some);
    const auto begin = [](std::size_t range) { return static_cast<double>(begin_of_range(static_cast<int>(range)).value); };
    for (std::size_t r = 0; r < kSizeRanges; ++r)
      all.push_back(
          {is_between, begin(r), begin(r + 1), errors[r].median, errors[r].p90, v.kept_out_errors[r].median, errors[r].cases, most_nodes});
  }
  return all;
}

}  // namespace

Result<topology::LibraryConstants> fit_to(const std::vector<PublishedCase>& cases, const ValidateOptions& asked) {
  PEAL_ASSIGN(const ValidateOptions options, with_constants(asked));
  const std::vector<FitRow> rows = all_rows(cases, options);
  if (rows.empty()) return fail(ErrorCode::invalid_argument, "the table has no row that NCCL's kind can be fitted to");
  topology::LibraryConstants fitted = fit_constants(rows, *options.constants);
  PEAL_ASSIGN(std::vector<topology::LibraryAccuracy> accuracy, accuracy_of(cases, options, fitted));
  fitted.set_accuracy(std::move(accuracy));
  return fitted;
}

Status keep_out(Validation& validation, const std::vector<PublishedCase>& cases, const ValidateOptions& asked) {
  PEAL_ASSIGN(const ValidateOptions options, with_constants(asked));
  std::map<std::string, std::vector<PublishedCase>> by_machine;
  for (const PublishedCase& c : cases) by_machine[machine_name(c)].push_back(c);
  const std::vector<FitRow> rows = all_rows(cases, options);
  std::vector<PredictedCase> all;
  for (const auto& [machine, own] : by_machine) {
    std::vector<FitRow> others;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(others), [&](const FitRow& row) { return row.machine != machine; });
    ValidateOptions without = options;
    without.progress = {};
    without.constants = fit_constants(others, *options.constants);
    PEAL_ASSIGN(Validation v, validate({}, own, without));
    const auto& known = without.constants->all();
    const auto is_known = [&](const std::string& name) {
      return std::any_of(known.begin(), known.end(),
                         [&](const auto& c) { return c.name == name && (!c.is_fitted() || !c.machines.empty()); });
    };
    std::vector<const PredictedCase*> judged;
    for (const PredictedCase& c : v.cases) {
      const bool is_judged = c.why_not.empty() && std::all_of(c.rows.begin(), c.rows.end(), [&](const PredictedRow& row) {
                               return !row.answer || std::all_of(row.answer->constants.begin(), row.answer->constants.end(), is_known);
                             });
      if (is_judged) judged.push_back(&c);
    }
    if (judged.empty()) continue;
    if (options.progress) options.progress(fmt::format("without {}: {} cases", machine, judged.size()));
    validation.kept_out.push_back({machine, static_cast<int>(judged.size()), errors_by_size(judged)});
    for (const PredictedCase* c : judged) all.push_back(*c);
  }
  validation.kept_out_errors = errors_by_size(pointers_to(all));
  return {};
}

}  // namespace peal::sim
