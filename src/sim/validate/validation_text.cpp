#include <algorithm>
#include <base/names.hpp>
#include <cmath>
#include <set>
#include <sim/validate.hpp>

#include "statistics.hpp"

namespace peal::sim {
namespace {

std::string percent(double share) { return fmt::format("{:.{}f}", 100 * share, share < 0.0995 ? 1 : 0); }

/// "1 row", "2 rows"
template <class Count>
std::string counted(Count count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Median and 90th percentile of one range, "4.1/12"; "-" where it has no rows.
std::string pair_of(const Errors& e) { return e.rows == 0 ? std::string("-") : fmt::format("{}/{}", percent(e.median), percent(e.p90)); }

const PredictedRow* worst_row(const PredictedCase& c) {
  const PredictedRow* worst = nullptr;
  for (const PredictedRow& row : c.rows)
    if (row.is_judged() && (worst == nullptr || std::abs(row.signed_error()) > std::abs(worst->signed_error()))) worst = &row;
  return worst;
}

std::string head_text(const Validation& v) {
  std::size_t rows = 0;
  std::size_t answered = 0;
  std::size_t predicted = 0;
  std::set<std::string_view> libraries;
  for (const PredictedCase& c : v.cases) {
    rows += c.rows.size();
    predicted += c.why_not.empty() ? 1 : 0;
    if (c.why_not.empty()) libraries.insert(name_of(c.whose));
    for (const PredictedRow& row : c.rows) answered += row.answer ? 1 : 0;
  }
  return fmt::format("{}: {} cases, {} rows; {} cases and {} rows predicted{}{}, {} rows judged\n", v.file, v.cases.size(), rows, predicted,
                     answered, libraries.empty() ? "" : " as ", fmt::join(libraries, ", "), v.all.rows);
}

std::string cases_text(const Validation& v) {
  std::string text = fmt::format(
      "\nError of the predicted time, percent: median/90th percentile of a case's rows by message size; bias: median with its sign (+: "
      "predicted "
      "too slow)\n{:<34} {:<14} {:>5} {:>5} {:>4}  {:>11} {:>11} {:>11} {:>6}  {}\n",
      "case", "collective", "nodes", "ranks", "rows", "below 1 MiB", "to 16 MiB", "above", "bias", "worst row");
  for (const PredictedCase& c : v.cases) {
    if (!c.why_not.empty()) continue;
    const Errors all = errors_of({&c}, -1);
    if (all.rows == 0) continue;
    const PredictedRow& worst = *worst_row(c);
    text +=
        fmt::format("{:<34} {:<14} {:>5} {:>5} {:>4}  {:>11} {:>11} {:>11} {:>+6.0f}  {:+.0f} % at {} ({}{})\n", c.published.label,
                    name_of(c.published.collective), c.nodes, c.ranks, all.rows, pair_of(errors_of({&c}, 0)), pair_of(errors_of({&c}, 1)),
                    pair_of(errors_of({&c}, 2)), 100 * all.bias, 100 * worst.signed_error(), to_text(worst.measured.bytes),
                    worst.answer->algorithm, worst.answer->protocol.empty() ? "" : " " + worst.answer->protocol);
  }
  return text;
}

std::string classes_text(const Validation& v) {
  std::string text = "\nBy class, percent: median over cases/90th percentile of rows (cases)\n";
  const auto cell = [](const Errors& e) { return e.rows == 0 ? std::string("-") : fmt::format("{} ({})", pair_of(e), e.cases); };
  for (const ErrorClass& c : v.classes)
    text += fmt::format("{:<11} {:<26} {:>16} {:>16} {:>16}  {}\n", c.kind, c.name, cell(c.errors[0]), cell(c.errors[1]), cell(c.errors[2]),
                        fmt::join(c.machines, ", "));
  return text;
}

/// Cases and rows that do not count, each with its reason; rows with one reason on one line.
std::string apart_text(const Validation& v) {
  std::string missing;
  std::string apart;
  for (const PredictedCase& c : v.cases) {
    if (!c.why_not.empty()) {
      missing += fmt::format("  {} ({}, {}): {}\n", c.published.label, c.published.machine, counted(c.rows.size(), "row"), c.why_not);
    }
    std::map<std::string, std::pair<int, int>> reasons;  // rows, first line
    for (const PredictedRow& row : c.rows) {
      if (c.why_not.empty() && !row.answer)
        ++reasons.try_emplace("not predicted: " + row.why_not, 0, row.measured.line).first->second.first;
      if (!row.measured.set_apart.empty()) ++reasons.try_emplace(row.measured.set_apart, 0, row.measured.line).first->second.first;
    }
    for (const auto& [reason, rows] : reasons)
      apart += fmt::format("  {}: {} of {} rows, from line {}: {}\n", c.published.label, rows.first, c.rows.size(), rows.second, reason);
  }
  std::string text;
  if (!missing.empty()) text += "\nNot predicted\n" + missing;
  if (!apart.empty()) text += "\nSet apart: predicted where possible, not counted\n" + apart;
  return text;
}

std::string remarks_text(const Validation& v) {
  std::string text;
  for (const Disagreement& d : v.disagreements)
    text += fmt::format(
        "  {} and {} are one run to the model and differ by more than 25 % in {} of {} rows ({} % in the median): it cannot meet both, "
        "both are counted\n",
        d.a, d.b, d.apart, d.rows, percent(d.difference));
  for (const Tension& t : v.tensions)
    text +=
        fmt::format("  from 16 MiB on {} is predicted {:+.0f} % and {} {:+.0f} % off by {}: no value of it meets both, both are counted\n",
                    t.fast, 100 * t.fastest, t.slow, 100 * t.slowest, t.constant);
  for (const PredictedCase& c : v.cases)
    for (const std::string& remark : c.remarks) text += fmt::format("  {}: {}\n", c.published.label, remark);
  return text.empty() ? text : "\nRemarks\n" + text;
}

std::string constants_text(const Validation& v) {
  const auto alone = std::count_if(v.free.begin(), v.free.end(), [](const auto& c) { return c.machines.size() < 2; });
  std::string text = fmt::format("\nFree constants: {} fitted ones decide these predictions; {} of them rest on one machine or none\n",
                                 v.free.size(), alone);
  for (const topology::LibraryConstant& c : v.free) {
    const std::string rests = c.machines.empty()      ? std::string("no case: its prior")
                              : c.machines.size() < 2 ? fmt::format("{} alone, no evidence for others", c.machines[0])
                                                      : fmt::format("{} cases of {} machines", c.cases.size(), c.machines.size());
    text += fmt::format("  {:<24} {:>8.3g} {}: {}\n", c.name, c.values[0], c.what, rests);
  }
  return text;
}

std::string kept_out_text(const Validation& v) {
  if (v.kept_out.empty()) return {};
  std::string text = fmt::format("\n{:<28} {:>6} {:>14} {:>14} {:>14}\n", "fitted without this machine", "cases", name_of_range(0),
                                 name_of_range(1), name_of_range(2));
  const auto line = [&](const std::string& name, int cases, const ErrorsBySize& errors) {
    text += fmt::format("{:<28} {:>6}", name, cases);
    for (const Errors& e : errors) text += fmt::format(" {:>14}", e.rows == 0 ? std::string("-") : percent(e.median) + " %");
    text += "\n";
  };
  int cases = 0;
  for (const KeptOut& k : v.kept_out) {
    line(k.machine, k.cases, k.errors);
    cases += k.cases;
  }
  line("all of them", cases, v.kept_out_errors);
  return text;
}

std::string summary_text(const Validation& v, const Bounds& bounds) {
  std::string text = fmt::format("\n{:<18} {:>6} {:>6} {:>20} {:>20} {:>8} {:>7}\n", "all cases", "cases", "rows", "median of cases",
                                 "90th pct of rows", "worst", "bias");
  const auto against = [](double value, const std::optional<double>& bound) {
    return bound ? fmt::format("{} % (bound {:g})", percent(value), 100 * *bound) : fmt::format("{} %", percent(value));
  };
  for (int r = 0; r < kSizeRanges; ++r) {
    const auto i = static_cast<std::size_t>(r);
    const Errors& e = v.errors[i];
    if (e.rows == 0)
      text += fmt::format("{:<18} {:>6} {:>6} {:>20}\n", name_of_range(r), 0, 0, "no rows");
    else
      text += fmt::format("{:<18} {:>6} {:>6} {:>20} {:>20} {:>6} % {:>+5.0f} %\n", name_of_range(r), e.cases, e.rows,
                          against(e.median, bounds.median[i]), against(e.p90, bounds.p90[i]), percent(e.worst), 100 * e.bias);
  }
  const std::vector<std::string> above = violations(v, bounds);
  const auto missing = std::count_if(v.cases.begin(), v.cases.end(), [](const PredictedCase& c) { return !c.why_not.empty(); });
  const std::string without = missing > 0 ? fmt::format(" ({} could not be predicted)", counted(missing, "case")) : std::string();
  if (above.empty()) return text + fmt::format("\nWithin the bounds{}\n", without);
  return text + fmt::format("\nAbove the bounds{}: {}\n", without, fmt::join(above, "; "));
}

}  // namespace

std::string validation_text(const Validation& v, const Bounds& bounds) {
  return head_text(v) + cases_text(v) + classes_text(v) + apart_text(v) + remarks_text(v) + constants_text(v) + kept_out_text(v) +
         summary_text(v, bounds);
}

}  // namespace peal::sim
