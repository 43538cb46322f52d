// peal sim step: one training step on a cluster that need not be there.
#include <CLI/CLI.hpp>
#include <cli/cluster_words.hpp>
#include <cli/commands.hpp>
#include <cli/layout_words.hpp>
#include <memory>
#include <training/step.hpp>

namespace peal::cli {

namespace {

struct StepWords {
  std::string model, whose, software, json, trace, svg;
  ClusterWords cluster;
  LayoutWords layout;
};

Result<sim::Library> library_for(const StepWords& words, const topology::Cluster& cluster) {
  if (words.whose.empty()) return sim::library_of(cluster, cluster.device_of_rank(0));
  return sim::parse_library(words.whose);
}

Status draw_step(const StepWords& words, const training::Model& model, const std::string& machine, const training::StepStudy& study) {
  if (!words.trace.empty()) PEAL_TRY(study.trace.write(words.trace));
  if (words.svg.empty()) return {};
  const training::StepReport& report = study.report;
  const std::string lines[] = {training::describe(report.layout),
                               fmt::format("on {}: {:.1f} ms a step, bubble {:.1f} %, MFU {:.1f} %; calls inside layers are in their tasks",
                                           machine, report.time * 1e3, 100 * report.bubble, 100 * report.model_flops_utilisation)};
  return write_output(words.svg, training::step_svg("A training step of " + (model.title.empty() ? model.name : model.title), lines,
                                                    study.trace, report.layout.pp));
}

Result<int> show_step(const StepWords& words) {
  for (const std::string& path : {words.json, words.trace, words.svg}) PEAL_TRY(can_write(path));
  PEAL_ASSIGN(const training::Model model, training::find_model(words.model));
  PEAL_ASSIGN(const topology::Cluster cluster, cluster_of(words.cluster));
  PEAL_ASSIGN(const training::Processor processor, training::processor_of(cluster));
  PEAL_ASSIGN(const training::Layout layout, layout_of(words.layout, model, cluster.ranks()));
  training::StepOptions options;
  PEAL_ASSIGN(options.whose, library_for(words, cluster));
  options.software = words.software;
  options.keeps_trace = !words.trace.empty() || !words.svg.empty();
  PEAL_ASSIGN(const training::StepStudy study, training::simulate_step(model, cluster, layout, options));
  const std::string machine = fmt::format("{} x {}", cluster.nodes(), cluster.machine().title);
  PEAL_TRY(write_report(
      fmt::format("{}, calls as {} makes them\n", machine, sim::name_of(options.whose)) + training::step_text(model, study.report),
      words.json, [&] { return training::step_json(model, study.report); }));
  PEAL_TRY(draw_step(words, model, machine, study));
  if (study.report.fits()) return 0;
  if (const Status fits = training::fits(model, layout, processor, words.software); !fits)
    fmt::print(stderr, "peal: {}\n", fits.error().message);
  return 1;
}

}  // namespace

void add_sim_step(CLI::App& sim, Action& action) {
  auto words = std::make_shared<StepWords>();
  CLI::App* command = sim.add_subcommand(
      "step",
      "Simulate one training step: its time, tokens a second, utilisation, bubble, communication that is waited for, memory.\n"
      "Example: peal sim step --model llama3-70b --machine dgx-h100 --nodes 8 --tp 8 --pp 4 --zero 1 "
      "--sequence-parallel --recompute selective --svg step.svg\n"
      "Exit code 1: the layout does not fit the GPUs' memory.");
  command->add_option("--model", words->model, "A model of `peal models`, a model file, or a Hugging Face config.json")->required();
  add_cluster_options(*command, words->cluster);
  add_layout_options(*command, words->layout);
  command->add_option("--library", words->whose,
                      "Whose calls: nccl, rccl or hccl (formulas; default: the GPU maker's), or peal (its schedules, simulated)");
  command->add_option("--software", words->software, "Whose kernels: megatron-2021, torchtitan, ... (default: today's)");
  command->add_option("--json", words->json, "Write the report as JSON to a file, or - for standard output");
  command->add_option("--trace", words->trace, "Write the timeline for https://ui.perfetto.dev");
  command->add_option("--svg", words->svg, "Draw the timeline, a row a stage");
  sim.get_option("collective")->required(false);
  command->callback([words, &action] { action = [words] { return show_step(*words); }; });
}

}  // namespace peal::cli
