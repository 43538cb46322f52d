// peal layout: the best layouts of a model on a cluster, and why the others are not.
#include <unistd.h>

#include <chrono>
#include <CLI/CLI.hpp>
#include <cli/cluster_words.hpp>
#include <cli/commands.hpp>
#include <cli/library_words.hpp>
#include <memory>
#include <training/model.hpp>
#include <training/planner.hpp>

namespace peal::cli {

namespace {

struct PlanWords {
  ClusterWords cluster;
  std::string model, precision, recompute, pipeline, whose, json, svg;
  training::LayoutSpace space;
  training::PlanOptions options;
};

Result<training::LayoutSpace> space_of(const PlanWords& words, const topology::Cluster& cluster) {
  training::LayoutSpace space = words.space;
  space.gpus = cluster.ranks();
  space.gpus_per_node = cluster.ranks_per_node();
  PEAL_ASSIGN(const training::Processor processor, training::processor_of(cluster));
  const bool has_bf16 = processor.tflops[static_cast<std::size_t>(training::Precision::bf16)] > 0;
  space.precision = has_bf16 ? training::Precision::bf16 : training::Precision::fp16;
  if (!words.precision.empty()) {
    PEAL_ASSIGN(space.precision, training::parse_precision(words.precision));
  }
  if (!words.recompute.empty()) {
    PEAL_ASSIGN(space.recompute, training::parse_recompute(words.recompute));
  }
  if (!words.pipeline.empty()) {
    PEAL_ASSIGN(space.pipeline, training::parse_pipeline(words.pipeline));
  }
  return space;
}

Status check_layout_words(const PlanWords& words) {
  if (words.model.empty())
    return fail(ErrorCode::invalid_argument, "the model was not said; add --model gpt3-175b, or the path of a config.json");
  if (words.cluster.machine.empty() && words.cluster.file.empty())
    return fail(ErrorCode::invalid_argument, "the machine was not said; add --machine dgx-h100 --nodes 16 (`peal machines` lists them)");
  if (words.space.global_batch < 0)
    return fail(ErrorCode::invalid_argument, "--global-batch {} is no number of samples; give 1 or more", words.space.global_batch);
  for (const auto& [option, value] : {std::pair{"--tp", words.space.tp},
                                      {"--cp", words.space.cp},
                                      {"--pp", words.space.pp},
                                      {"--ep", words.space.ep},
                                      {"--vpp", words.space.vpp},
                                      {"--micro-batch", words.space.micro_batch}})
    if (value && *value < 1)
      return fail(ErrorCode::invalid_argument, "{} {} is no number of parts or samples; give 1 or more", option, *value);
  if (words.options.best < 1 || words.options.threads < 0)
    return fail(ErrorCode::invalid_argument,
                "--best {} and --threads {} cannot be; give 1 layout or more, and 0 threads (one a processor) or more", words.options.best,
                words.options.threads);
  PEAL_TRY(can_write(words.json));
  return can_write(words.svg);
}

/// Said at most once a second on a terminal, every ten elsewhere.
std::function<void(const std::string&)> layout_progress() {
  const double pause = ::isatty(STDERR_FILENO) != 0 ? 1 : 10;
  auto said = std::make_shared<std::chrono::steady_clock::time_point>(std::chrono::steady_clock::now());
  return [pause, said](const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    if (std::chrono::duration<double>(now - *said).count() < pause) return;
    *said = now;
    std::fprintf(stderr, "%s\n", text.c_str());
  };
}

std::string replay_words(const PlanWords& words) {
  std::string replay = "peal sim step --model " + words.model;
  if (!words.cluster.machine.empty()) replay += " --machine " + words.cluster.machine;
  if (!words.cluster.file.empty()) replay += " --file " + words.cluster.file;
  if (words.cluster.nodes > 1) replay += fmt::format(" --nodes {}", words.cluster.nodes);
  if (!words.cluster.fabric.empty()) replay += " --fabric " + words.cluster.fabric;
  if (!words.whose.empty()) replay += " --library " + words.whose;
  return replay;
}

Result<int> answer_layout(const PlanWords& words) {
  PEAL_TRY(check_layout_words(words));
  PEAL_ASSIGN(const training::Model model, training::find_model(words.model));
  PEAL_ASSIGN(const topology::Cluster cluster, cluster_of(words.cluster));
  PEAL_ASSIGN(const training::LayoutSpace space, space_of(words, cluster));
  sim::Library whose = sim::library_of(cluster, cluster.device_of_rank(0));
  if (!words.whose.empty()) {
    PEAL_ASSIGN(whose, sim::parse_library(words.whose));
  }
  PEAL_ASSIGN(const training::LayoutEvaluator evaluator, training::make_evaluator(model, cluster, whose));
  training::PlanOptions options = words.options;
  options.progress = layout_progress();
  PEAL_ASSIGN(const training::LayoutPlan plan, training::plan_layouts(model, space, evaluator, options));
  const std::string replay = replay_words(words);
  if (words.json != "-" && words.svg != "-") PEAL_TRY(write_output("-", training::plan_text(model, space, plan, replay)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, training::plan_json(model, space, plan, replay) + "\n"));
  if (!words.svg.empty()) PEAL_TRY(write_output(words.svg, training::plan_svg(model, plan)));
  return 0;
}

}  // namespace

void add_layout(CLI::App& app, Action& action) {
  auto words = std::make_shared<PlanWords>();
  CLI::App* command =
      app.add_subcommand("layout",
                         "The ten best ways to cut a model's training over a cluster, each with the command that simulates it\n"
                         "again, where its dimensions sit, and why the other choices are not taken. What is given is fixed.\n"
                         "Example: peal layout --model llama3-70b --machine dgx-h100 --nodes 16");
  training::LayoutSpace& space = words->space;
  command->add_option("--model", words->model, "A model of the catalogue, a model file, or a Hugging Face config.json");
  add_cluster_options(*command, words->cluster);
  command->add_option("--global-batch", space.global_batch, "Samples of a step (default: about four million tokens)");
  command->add_option("--seq", space.seq_len, "Tokens of a sample (default: the model's)");
  command->add_option("--precision", words->precision, "fp32, tf32, fp16, bf16, fp8 (default: 16 bits)");
  command->add_option("--tp", space.tp, "Tensor-parallel ranks");
  command->add_option("--cp", space.cp, "Context-parallel ranks");
  command->add_option("--pp", space.pp, "Pipeline stages");
  command->add_option("--ep", space.ep, "Expert-parallel ranks");
  command->add_option("--vpp", space.vpp, "Pieces of the model that a stage holds");
  command->add_option("--zero", space.zero, "ZeRO stage, 0 to 3");
  command->add_option("--micro-batch", space.micro_batch, "Samples at a time");
  command->add_option("--recompute", words->recompute, "none, selective, full");
  command->add_option("--pipeline", words->pipeline, "gpipe, 1f1b, interleaved, zero-bubble");
  command->add_option("--library", words->whose, "Whose collectives: nccl, rccl, hccl or peal (default: the GPU maker's)");
  command->add_option("--best", words->options.best, "How many layouts to show")->capture_default_str();
  command->add_option("--threads", words->options.threads, "That search (default: one a processor)");
  command->add_option("--json", words->json, "Write the layouts as JSON (peal.layout/1) to a file, or - for standard output");
  command->add_option("--svg", words->svg, "Draw them, a bar a layout with its parts, to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return answer_layout(*words); }; });
}

}  // namespace peal::cli
