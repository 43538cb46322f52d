#include <algorithm>
#include <base/units.hpp>
#include <nlohmann/json.hpp>
#include <training/planner.hpp>

#include "layout_json.hpp"

namespace peal::training {

namespace {

double memory_of_fullest(const StepReport& report) { return report.memory.empty() ? 0 : fullest(report.memory).total(); }

double exposed_in_all(const StepReport& report) {
  double sum = 0;
  for (const double part : report.exposed) sum += part;
  return sum;
}

int batch_of(const Model& model, const LayoutSpace& space) {
  return space.global_batch > 0 ? space.global_batch : usual_batch(model, space);
}

std::string replay_of(const std::string& replay, const StepReport& report) { return replay + " " + options_of(report.layout); }

std::string heading(const Model& model, const LayoutSpace& space, const LayoutPlan& plan) {
  std::string samples = "samples";
  if (model.is_transformer()) {
    Layout layout;
    layout.seq_len = space.seq_len;
    samples = fmt::format("samples of {} tokens", layout.seq_len_of(model));
  }
  return fmt::format(
      "{} on {} GPUs: {} {} a step{}, {}\n{} layouts looked at, {} divide, {} fit, {} simulated with orders of their ranks, in {:.1f} "
      "s\n\n",
      model.title, space.gpus, batch_of(model, space), samples, space.global_batch > 0 ? "" : " (chosen; --global-batch says another)",
      name_of(space.precision), plan.looked_at, plan.divide, plan.fit, plan.simulated, plan.seconds);
}

using OrderedJson = nlohmann::ordered_json;

OrderedJson report_json(const StepReport& report, const std::string& replay) {
  OrderedJson exposed;
  for (int d = 0; d < kDimensions; ++d) exposed[std::string(name_of(static_cast<Dimension>(d)))] = report.exposed[d];
  return {{"layout", layout_json(report.layout)},
          {"step_s", report.time},
          {"tokens_per_s", report.tokens_per_s},
          {"mfu", report.model_flops_utilisation},
          {"bubble", report.bubble},
          {"memory_GB", memory_of_fullest(report) / kGigabyte},
          {"memory_limit_GB", report.memory_limit / kGigabyte},
          {"exposed_s", std::move(exposed)},
          {"replay", replay_of(replay, report)}};
}

std::string_view word_of(RejectedFamily::Why why) {
  constexpr std::string_view kWords[] = {"does not divide", "does not fit", "slower"};
  return kWords[static_cast<std::size_t>(why)];
}

}  // namespace

std::string plan_text(const Model& model, const LayoutSpace& space, const LayoutPlan& plan, const std::string& replay) {
  std::string out = heading(model, space, plan);
  out += fmt::format("{:>3} {:>9} {:>12} {:>6} {:>7} {:>9} {:>10}  {}\n", "", "step s", "tokens/s", "MFU %", "bubble", "memory GB",
                     "exposed s", "layout");
  for (std::size_t i = 0; i < plan.best.size(); ++i) {
    const StepReport& r = plan.best[i];
    out += fmt::format("{:>3} {:>9.4g} {:>12.0f} {:>6.1f} {:>6.1f}% {:>9.1f} {:>10.3g}  {}\n", i + 1, r.time, r.tokens_per_s,
                       100 * r.model_flops_utilisation, 100 * r.bubble, memory_of_fullest(r) / kGigabyte, exposed_in_all(r),
                       describe(r.layout));
    out += fmt::format("    {}\n", replay_of(replay, r));
  }
  out += "\nWhere the dimensions of the best sit\n";
  for (const std::string& sentence : plan.placement) out += fmt::format("  {}\n", sentence);
  out += "\nNot chosen\n";
  for (const RejectedFamily& family : plan.rejected) out += fmt::format("  {}: {}\n", family.choice, family.reason);
  return out;
}

std::string plan_json(const Model& model, const LayoutSpace& space, const LayoutPlan& plan, const std::string& replay) {
  OrderedJson out = {{"schema", "peal.layout/1"},   {"model", model.name},     {"gpus", space.gpus},
                     {"looked_at", plan.looked_at}, {"divide", plan.divide},   {"fit", plan.fit},
                     {"simulated", plan.simulated}, {"seconds", plan.seconds}, {"global_batch", batch_of(model, space)}};
  out["best"] = OrderedJson::array();
  for (const StepReport& report : plan.best) out["best"].push_back(report_json(report, replay));
  out["placement"] = plan.placement;
  out["rejected"] = OrderedJson::array();
  for (const RejectedFamily& family : plan.rejected) {
    OrderedJson one = {{"choice", family.choice}, {"why", word_of(family.why)}, {"reason", family.reason}};
    if (family.best) one["best"] = report_json(*family.best, replay);
    out["rejected"].push_back(std::move(one));
  }
  return out.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace peal::training
