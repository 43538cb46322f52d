// peal claims: what people say about machines, links and collectives, held against the catalogue and the simulator.
#include <cli/claim_words.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/layout_words.hpp>
#include <cli/library_words.hpp>
#include <cli/sim_words.hpp>
#include <memory>
#include <training/step.hpp>

namespace peal::cli {

namespace {

topology::ClaimAnswer answer_of(const sim::Row& row) { return {row.out_of_place->time_us, row.out_of_place->busbw, row.evidence}; }

Result<topology::ClaimAnswer> answer_beside_computing(const SimWords& words, const sim::Scene& scene, const tuning::Question& question) {
  PEAL_ASSIGN(const sim::Overlapping asked, overlapping_of(words, scene, question.call));
  PEAL_ASSIGN(const sim::OverlapStudy study, sim::overlap(scene, question, {}, asked));
  const std::string worth = fmt::format("{} part{}, {:g} of {:g} processors held by a call; no measured case", asked.parts,
                                        asked.parts == 1 ? "" : "s", asked.held, asked.processors);
  return topology::ClaimAnswer{study.row.together_us, 0, worth, study.row.compute_us / study.row.together_us};
}

Result<topology::ClaimAnswer> answer_to(const SimWords& words) {
  PEAL_ASSIGN(const Bytes size, parse_bytes(words.first));
  if (words.question.whose != "peal") {
    PEAL_ASSIGN(LibraryScene scene, library_scene_of(words.question));
    scene.call.bytes = size;
    PEAL_ASSIGN(const sim::Row row, sim::simulate(scene.model, scene.call));
    return answer_of(row);
  }
  PEAL_ASSIGN(const sim::Scene scene, scene_of(words.question));
  PEAL_ASSIGN(tuning::Question question, question_of(words.question, scene.environment.ranks));
  question.call.bytes = size;
  if (!words.compute.empty()) return answer_beside_computing(words, scene, question);
  PEAL_ASSIGN(const sim::Row row, sim::simulate_call(scene, question));
  return answer_of(row);
}

/// One step of training: "--model bert-large --machine dgx-2 --micro-batch 64".
Result<topology::ClaimAnswer> answer_of_step(const std::string& sentence) {
  CLI::App app;
  ClusterWords cluster_words;
  LayoutWords layout_words;
  std::string name, software;
  app.add_option("--model", name)->required();
  app.add_option("--software", software);
  add_cluster_options(app, cluster_words);
  add_layout_options(app, layout_words);
  try {
    app.parse(sentence);
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::invalid_argument, "peal sim step {}: {}", sentence, error.what());
  }
  if (cluster_words.machine.empty())
    return fail(ErrorCode::invalid_argument, "peal sim step {}: name a machine of the catalogue with --machine", sentence);
  PEAL_ASSIGN(const training::Model model, training::find_model(name));
  PEAL_ASSIGN(const topology::Cluster cluster, cluster_of(cluster_words));
  PEAL_ASSIGN(const training::Layout layout, layout_of(layout_words, model, cluster.ranks()));
  training::StepOptions options;
  options.whose = sim::library_of(cluster, cluster.device_of_rank(0));
  options.software = software;
  PEAL_ASSIGN(const training::StepStudy study, training::simulate_step(model, cluster, layout, options));
  const training::StepReport& r = study.report;
  topology::ClaimAnswer answer{r.time * 1e6, 0, r.evidence, r.compute / r.time};
  answer.others = {{"% MFU", 100 * r.model_flops_utilisation},
                   {"tokens/s", r.tokens_per_s},
                   {"samples/s", layout.global_batch / r.time},
                   {"GB", training::fullest(r.memory).total() / 1e9}};
  return answer;
}

}  // namespace

Result<topology::ClaimAnswer> simulate_claim(const std::string& sentence) {
  constexpr std::string_view kStep = "step ";
  if (sentence.starts_with(kStep)) return answer_of_step(sentence.substr(kStep.size()));
  CLI::App app;
  SimWords words;
  add_sim_question(app, words);
  try {
    app.parse(sentence);
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::invalid_argument, "peal sim {}: {}", sentence, error.what());
  }
  // A page that is the same everywhere says nothing about the host that it is written on.
  if (words.question.cluster.machine.empty())
    return fail(ErrorCode::invalid_argument, "peal sim {}: name a machine of the catalogue with --machine", sentence);
  return answer_to(words);
}

void add_claims(CLI::App& app, Action& action) {
  auto json = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("claims",
                                         "Hold widespread claims about interconnects and collectives against the catalogue and the\n"
                                         "simulator, as a page in Markdown.\n"
                                         "Example: peal claims > docs/claims.md");
  command->add_option("--json", *json, "Write claims, figures and verdicts as JSON to a file, or - for standard output");
  command->callback([json, &action] {
    action = [json]() -> Result<int> {
      PEAL_ASSIGN(const std::vector<topology::Claim> claims, topology::load_claims(simulate_claim, price_claim));
      if (!json->empty()) PEAL_TRY(write_output(*json, topology::claims_json(claims) + "\n"));
      if (*json != "-") PEAL_TRY(write_output("-", topology::claims_page(claims)));
      return 0;
    };
  });
}

}  // namespace peal::cli
