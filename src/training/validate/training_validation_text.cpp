#include <algorithm>
#include <base/csv.hpp>
#include <nlohmann/json.hpp>

#include "run_statistics.hpp"

namespace peal::training {

namespace {

using json = nlohmann::ordered_json;

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string line_of(const std::string& name, const RunErrors& e) {
  return fmt::format("  {:<42} {:>5} {:>7} {:>7} {:>7} {:>+7.1f}\n", name.substr(0, 42), e.rows, percent(e.mean), percent(e.median),
                     percent(e.p90), 100 * e.bias);
}

std::string errors_text(std::string_view title, const std::map<std::string, RunErrors>& by_source, const RunErrors& all) {
  std::string text =
      fmt::format("\n{}\n  {:<42} {:>5} {:>7} {:>7} {:>7} {:>7}\n", title, "source", "rows", "mean", "median", "p90", "bias");
  for (const auto& [source, errors] : by_source) text += line_of(source, errors);
  return text + line_of("all", all);
}

std::string apart_text(const TrainingValidation& v) {
  std::map<std::string, std::vector<std::string>> reasons;
  for (const PredictedRun& run : v.runs)
    if (!run.why_not.empty()) reasons[run.why_not].push_back(run.published.id);
  std::string text;
  for (const auto& [why, ids] : reasons)
    text += fmt::format("  {} row{} ({}{}): {}\n", ids.size(), ids.size() == 1 ? "" : "s", ids.front(), ids.size() > 1 ? ", ..." : "", why);
  return text.empty() ? text : "\nNot predicted\n" + text;
}

std::string orders_text(const TrainingValidation& v) {
  std::string text = "\nOrder of layouts within one model (Spearman)\n";
  for (const ModelOrder& o : v.orders)
    text += fmt::format("  {:<42} {:<30} {:>5} {:.3f}\n", o.source.substr(0, 42), o.model, o.rows, o.spearman);
  return text;
}

std::string memory_verdict(const TrainingValidation& v) {
  int near = 0;
  for (const PredictedRun& run : v.runs)
    if (run.why_not.empty() && run.published.peak_gib > 0 && std::abs(run.predicted_gib / run.published.peak_gib - 1) <= 0.05) ++near;
  return fmt::format(
      "\nMemory of the fullest GPU: {} rows, mean error {} %, median {} %, within 5 % in {}\n"
      "Possible: {} of {} rows that ran are said to fit; {} of {} rows that ran out of memory are said to fit\n",
      v.memory.rows, percent(v.memory.mean), percent(v.memory.median), near, v.judged_to_fit, v.ran, v.called_possible, v.ran_out);
}

std::string constants_text(const TrainingValidation& v) {
  const auto alone = std::count_if(v.free.begin(), v.free.end(), [](const auto& c) { return c.machines.size() < 2; });
  std::string text =
      fmt::format("\nFree constants: {} decide these predictions; {} of them rest on one source or none\n", v.free.size(), alone);
  for (const topology::LibraryConstant& c : v.free)
    text += fmt::format("  {:<32} {:>9.4g}  prior {:>7g}  {}\n", c.name, c.values[0], c.prior,
                        c.machines.empty() ? std::string("no run decides it: its prior") : fmt::format("{}", fmt::join(c.machines, ", ")));
  return text;
}

json errors_tree(const RunErrors& e) {
  return {{"rows", e.rows}, {"mean", e.mean}, {"median", e.median}, {"p90", e.p90}, {"bias", e.bias}};
}

json by_source_tree(const std::map<std::string, RunErrors>& by_source) {
  json tree = json::object();
  for (const auto& [source, errors] : by_source) tree[source] = errors_tree(errors);
  return tree;
}

json row_tree(const PredictedRun& run) {
  json tree = {{"case", run.published.id}, {"line", run.published.line}, {"source", run.published.source}};
  if (!run.why_not.empty()) {
    tree["not_predicted"] = run.why_not;
    return tree;
  }
  tree["measured_s"] = run.measured;
  tree["predicted_s"] = run.predicted;
  tree["error"] = run.error();
  tree["predicted_gib"] = run.predicted_gib;
  if (run.published.peak_gib > 0) tree["measured_gib"] = run.published.peak_gib;
  tree["fits"] = run.fits;
  if (!run.assumptions.empty()) tree["assumed"] = run.assumptions;
  return tree;
}

}  // namespace

std::vector<std::string> violations(const TrainingValidation& v, const TrainingBounds& bounds) {
  std::vector<std::string> all;
  if (v.all.rows == 0) all.push_back("nothing was predicted");
  if (v.all.mean > bounds.mean_error)
    all.push_back(
        fmt::format("the mean error of step times is {} %, and {} % is the bound", percent(v.all.mean), percent(bounds.mean_error)));
  for (const ModelOrder& o : v.orders)
    if (o.spearman < bounds.spearman)
      all.push_back(fmt::format("layouts of {} ({}) are ordered with a correlation of {:.3f}, below {:g}", o.model, o.source, o.spearman,
                                bounds.spearman));
  if (v.memory.rows > 0 && v.memory.mean > bounds.memory)
    all.push_back(fmt::format("the mean error of memory is {} %, and {} % is the bound", percent(v.memory.mean), percent(bounds.memory)));
  if (v.ran > 0 && v.judged_to_fit < (1 - bounds.misjudged) * v.ran)
    all.push_back(fmt::format("{} of {} rows that ran are said not to fit", v.ran - v.judged_to_fit, v.ran));
  if (v.ran_out > 0 && v.called_possible > bounds.misjudged * v.ran_out)
    all.push_back(fmt::format("{} of {} rows that ran out of memory are said to fit", v.called_possible, v.ran_out));
  return all;
}

std::string training_validation_text(const TrainingValidation& v, const TrainingBounds& bounds) {
  std::string text = fmt::format("{}: {} training runs, {} predicted\n", v.file, v.runs.size(), v.all.rows + v.ran_out);
  text += errors_text("Error of the step time, percent of the measured one (bias +: predicted too slow)", v.by_source, v.all);
  if (!v.kept_out.empty())
    text += errors_text("The same, each source predicted by constants that were fitted without it", v.kept_out, v.kept_out_all);
  text += orders_text(v) + memory_verdict(v) + constants_text(v) + apart_text(v);
  const std::vector<std::string> above = violations(v, bounds);
  for (const std::string& one : above) text += "\nOut of bounds: " + one;
  return text + (above.empty() ? "\nAll within bounds\n" : "\n");
}

std::string training_validation_json(const TrainingValidation& v, const TrainingBounds& bounds) {
  json tree = {
      {"schema", "peal.validate_training/1"}, {"file", v.file}, {"all", errors_tree(v.all)}, {"by_source", by_source_tree(v.by_source)}};
  if (!v.kept_out.empty()) tree["kept_out"] = {{"all", errors_tree(v.kept_out_all)}, {"by_source", by_source_tree(v.kept_out)}};
  for (const ModelOrder& o : v.orders)
    tree["orders"].push_back({{"source", o.source}, {"model", o.model}, {"rows", o.rows}, {"spearman", o.spearman}});
  tree["memory"] = errors_tree(v.memory);
  tree["possible"] = {
      {"ran", v.ran}, {"said_to_fit", v.judged_to_fit}, {"ran_out", v.ran_out}, {"of_those_said_to_fit", v.called_possible}};
  for (const topology::LibraryConstant& c : v.free)
    tree["constants"].push_back(
        {{"name", c.name}, {"value", c.values[0]}, {"prior", c.prior}, {"spread", c.spread}, {"sources", c.machines}});
  tree["out_of_bounds"] = violations(v, bounds);
  tree["rows"] = json::array();
  for (const PredictedRun& run : v.runs) tree["rows"].push_back(row_tree(run));
  return tree.dump(1);
}

std::string training_validation_csv(const TrainingValidation& v) {
  std::string text = "case_id,source_group,model,gpus,measured_s,predicted_s,error,measured_gib,predicted_gib,fits,assumed,not_predicted\n";
  for (const PredictedRun& run : v.runs) {
    const PublishedRun& p = run.published;
    text += fmt::format("{},{},{},{},", csv_cell(p.id), csv_cell(p.source), csv_cell(p.model), p.gpus);
    if (run.why_not.empty())
      text += fmt::format("{:.6g},{:.6g},{:.4f},{},{:.2f},{},{},\n", run.measured, run.predicted, run.error(),
                          p.peak_gib > 0 ? fmt::format("{:.2f}", p.peak_gib) : std::string(), run.predicted_gib, run.fits ? "yes" : "no",
                          csv_cell(fmt::format("{}", fmt::join(run.assumptions, "; "))));
    else
      text += fmt::format(",,,,,,,{}\n", csv_cell(run.why_not));
  }
  return text;
}

}  // namespace peal::training
