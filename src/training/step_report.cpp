// What is said of a simulated step: for people, and as JSON.
#include <algorithm>
#include <base/text.hpp>
#include <base/units.hpp>
#include <nlohmann/json.hpp>
#include <numeric>
#include <training/step.hpp>

#include "layout_json.hpp"

namespace peal::training {

namespace {

constexpr std::string_view kWaits[] = {"tensor parallel calls (tp)", "context parallel calls (cp)", "exchange with experts (ep)",
                                       "gradients and parameters (dp)", "transfers between stages (pp)"};

std::string whole(double value) { return with_commas(fmt::format("{:.0f}", value)); }

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

/// Of the busiest stage what neither computes nor waits for a call.
double still_of(const StepReport& report) {
  const double told =
      report.compute + report.optimizer + report.overhead + std::accumulate(std::begin(report.exposed), std::end(report.exposed), 0.0);
  return std::max(0.0, report.time - told);
}

std::string time_text(const StepReport& report) {
  std::string text = report.layout.pp > 1 ? fmt::format("Where the time of the busiest stage ({}) goes\n", report.busiest)
                                          : std::string("Where the time goes\n");
  const auto row = [&](std::string_view what, double seconds, const std::string& more = {}) {
    if (seconds > 1e-6 * report.time)
      text += fmt::format("  {:<38}{:>12}{:>8.1f} %{}\n", what, seconds_text(seconds), 100 * seconds / report.time, more);
  };
  row("computing", report.compute);
  for (std::size_t d = 0; d < kDimensions; ++d) {
    const double hidden = report.hidden[d] < 1e-5 * report.time ? 0 : report.hidden[d];  // rounding
    row(fmt::format("waiting: {}", kWaits[d]), report.exposed[d],
        hidden > 0 ? fmt::format("   {} more beside computing", seconds_text(hidden)) : std::string());
    if (report.exposed[d] <= 0 && hidden > 0)
      text += fmt::format("  {:<38}{:>12}  all beside computing\n", kWaits[d], seconds_text(hidden));
  }
  row("optimiser", report.optimizer);
  row("standing still for other stages", still_of(report));
  row("once a step: data, logging", report.overhead);
  return text;
}

std::string memory_text(const StepReport& report) {
  std::string text =
      fmt::format("Memory of a GPU, GB of {:.1f}\n  {:>5}{:>12}{:>11}{:>11}{:>13}{:>9}{:>9}{:>10}{:>8}\n", report.memory_limit / kGigabyte,
                  "stage", "parameters", "gradients", "optimiser", "activations", "working", "buffers", "reserved", "total");
  for (const StageMemory& m : report.memory)
    text += fmt::format("  {:>5}{:>12.2f}{:>11.2f}{:>11.2f}{:>13.2f}{:>9.2f}{:>9.2f}{:>10.2f}{:>8.2f}{}\n", m.stage,
                        m.parameters / kGigabyte, m.gradients / kGigabyte, m.optimizer / kGigabyte, m.activations / kGigabyte,
                        m.working / kGigabyte, m.buffers / kGigabyte, m.reserved / kGigabyte, m.total() / kGigabyte,
                        m.total() > report.memory_limit ? "  does not fit" : "");
  return text;
}

nlohmann::ordered_json by_dimension(const double (&seconds)[kDimensions]) {
  nlohmann::ordered_json json;
  for (int d = 0; d < kDimensions; ++d) json[std::string(name_of(static_cast<Dimension>(d)))] = seconds[d];
  return json;
}

nlohmann::ordered_json stage_memory_json(const StageMemory& m) {
  return {{"stage", m.stage},         {"parameters", m.parameters},   {"gradients", m.gradients},
          {"optimizer", m.optimizer}, {"activations", m.activations}, {"working", m.working},
          {"buffers", m.buffers},     {"reserved", m.reserved},       {"total", m.total()}};
}

}  // namespace

std::string step_text(const Model& model, const StepReport& report) {
  const Layout& l = report.layout;
  const char* const samples = model.is_transformer() ? "tokens/s" : "images/s";
  std::string text =
      fmt::format("{} on {} GPU{}: {}\n\n", model.title.empty() ? model.name : model.title, l.gpus(), l.gpus() > 1 ? "s" : "", describe(l));
  text += fmt::format("  {:<12}{}\n", "step", seconds_text(report.time));
  text += fmt::format("  {:<12}{} ({} a GPU)\n", samples, whole(report.tokens_per_s), whole(report.tokens_per_s / l.gpus()));
  text += fmt::format("  {:<12}{:.1f} % of the GPUs' peak: what the model needs{}\n", "MFU", 100 * report.model_flops_utilisation,
                      model.is_transformer() ? ", causal attention counted whole" : "");
  if (model.is_transformer())
    text += fmt::format("  {:<12}{:.1f} %: what the GPUs do, with what they compute anew, attention as its kernels do it\n", "HFU",
                        100 * report.hardware_flops_utilisation);
  if (l.pp > 1) text += fmt::format("  {:<12}{:.1f} % of the time, mean over {} stages\n", "bubble", 100 * report.bubble, l.pp);
  text += "\n" + time_text(report) + "\n" + memory_text(report);
  for (const std::string& note : report.notes) text += fmt::format("\nNote: {}.\n", note);
  if (!report.evidence.empty()) text += fmt::format("\nEvidence: {}\n", report.evidence);
  return text;
}

std::string step_json(const Model& model, const StepReport& report) {
  nlohmann::ordered_json json = {{"schema", "peal.step/1"}, {"model", model.name}, {"layout", layout_json(report.layout)}};
  json["time_s"] = report.time;
  json[model.is_transformer() ? "tokens_per_s" : "images_per_s"] = report.tokens_per_s;
  json["model_flops_utilisation"] = report.model_flops_utilisation;
  json["hardware_flops_utilisation"] = report.hardware_flops_utilisation;
  json["bubble"] = report.bubble;
  json["busiest_stage"] = report.busiest;
  json["compute_s"] = report.compute;
  json["optimizer_s"] = report.optimizer;
  json["overhead_s"] = report.overhead;
  json["exposed_s"] = by_dimension(report.exposed);
  json["hidden_s"] = by_dimension(report.hidden);
  json["memory"] = nlohmann::ordered_json::array();
  for (const StageMemory& m : report.memory) json["memory"].push_back(stage_memory_json(m));
  json["memory_limit"] = report.memory_limit;
  json["fits"] = report.fits();
  json["evidence"] = report.evidence;
  json["notes"] = report.notes;
  return json.dump(2);
}

}  // namespace peal::training
