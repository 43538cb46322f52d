#include <algorithm>
#include <base/units.hpp>
#include <training/step.hpp>

#include "step_walk.hpp"

namespace peal::training {

namespace {

/// What the stages stand still for others, as a share of the time.
double bubble_of(const StepTimes& times) {
  double idle = 0;
  for (const StageTimes& stage : times.stages) idle += stage.idle + (times.time - stage.end);
  return times.time > 0 ? idle / (times.time * static_cast<double>(times.stages.size())) : 0;
}

void tell_of_busiest(const StepTimes& times, StepReport& report) {
  const auto busiest = std::max_element(times.stages.begin(), times.stages.end(),
                                        [](const StageTimes& a, const StageTimes& b) { return a.busy() < b.busy(); });
  const StageTimes& stage = *busiest;
  report.busiest = static_cast<int>(busiest - times.stages.begin());
  report.compute = stage.passes.compute * kSecondsOfNanosecond;
  report.optimizer = stage.optimizer * kSecondsOfNanosecond;
  // What follows a stage's last computation (parameters gathered where nothing overlaps) nothing is computed beside.
  const auto dp = static_cast<std::size_t>(Dimension::dp);
  for (std::size_t d = 0; d < kDimensions; ++d) {
    report.exposed[d] = (stage.passes.exposed[d] + stage.waited[d] + (d == dp ? stage.behind : 0)) * kSecondsOfNanosecond;
    report.hidden[d] = (stage.passes.hidden[d] + stage.called[d]) * kSecondsOfNanosecond -
                       (report.exposed[d] - stage.passes.exposed[d] * kSecondsOfNanosecond);
    report.hidden[d] = std::max(0.0, report.hidden[d]);
  }
}

void tell_of_rates(const Model& model, const Processor& processor, const StepTimes& times, StepReport& report) {
  const Layout& l = report.layout;
  const std::int64_t seq_len = model.is_transformer() ? l.seq_len_of(model) : 1;
  report.tokens_per_s = static_cast<double>(l.global_batch) * static_cast<double>(seq_len) / report.time;
  const double peak = processor.tflops[static_cast<std::size_t>(computed_in(processor, l.precision))] * 1e12 * report.time;
  report.model_flops_utilisation = training_flops(model, seq_len) * l.global_batch / (peak * l.gpus());
  for (const StageTimes& stage : times.stages) report.hardware_flops_utilisation += stage.passes.flops / (peak * l.pp);
}

/// What the figures leave out of the machine that was asked for.
void tell_of_limits(const Processor& processor, const topology::Cluster& cluster, sim::Library library, StepReport& report) {
  const Precision wanted = report.layout.precision, had = computed_in(processor, wanted);
  if (had != wanted)
    report.notes.push_back(fmt::format("{} has no {} products: computed in {}", processor.name, name_of(wanted), name_of(had)));
  const bool has_switches = cluster.fabric() != nullptr && cluster.fabric()->name() != "ideal";
  if (has_switches && library != sim::Library::peal)
    report.notes.push_back(
        fmt::format("the formula of {} knows no fabric: calls are as over one that blocks nothing; --library peal "
                    "simulates them over its switches",
                    sim::name_of(library)));
}

}  // namespace

Result<StepStudy> simulate_step(const Model& model, const topology::Cluster& cluster, const Layout& layout, Communication& communication,
                                const StepOptions& options) {
  PEAL_ASSIGN(const Processor processor, processor_of(cluster));
  PEAL_ASSIGN(const ComputeModel compute, ComputeModel::make(model, layout, processor, options.software));
  PEAL_ASSIGN(const StepGraph graph, build_step_graph(model, layout));
  PEAL_ASSIGN(TaskCosts costs, TaskCosts::make(model, layout, compute, communication));
  StepStudy study;
  PEAL_ASSIGN(const StepTimes times, walk_step(graph, costs, options.keeps_trace ? &study.trace : nullptr));
  StepReport& report = study.report;
  report.layout = layout;
  report.overhead = compute.step_overhead().seconds();
  report.time = times.time * kSecondsOfNanosecond + report.overhead;
  report.bubble = bubble_of(times);
  tell_of_busiest(times, report);
  tell_of_rates(model, processor, times, report);
  PEAL_ASSIGN(report.memory, memory_of(model, layout, options.software));
  report.memory_limit = processor.memory_bytes;
  report.evidence = evidence_of(processor, layout, options.software);
  report.notes = notes_of(layout);
  tell_of_limits(processor, cluster, options.whose, report);
  return study;
}

Result<StepStudy> simulate_step(const Model& model, const topology::Cluster& cluster, const Layout& layout, const StepOptions& options) {
  PEAL_ASSIGN(Communication communication, Communication::make(cluster, layout, options.whose));
  return simulate_step(model, cluster, layout, communication, options);
}

}  // namespace peal::training
