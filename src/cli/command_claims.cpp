// peal claims: what people say about machines, links and collectives, held against the catalogue and the simulator.
#include <cli/claim_words.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/library_words.hpp>
#include <cli/sim_words.hpp>
#include <memory>

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

}  // namespace

Result<topology::ClaimAnswer> simulate_claim(const std::string& sentence) {
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
      PEAL_ASSIGN(const std::vector<topology::Claim> claims, topology::load_claims(simulate_claim));
      if (!json->empty()) PEAL_TRY(write_output(*json, topology::claims_json(claims) + "\n"));
      if (*json != "-") PEAL_TRY(write_output("-", topology::claims_page(claims)));
      return 0;
    };
  });
}

}  // namespace peal::cli
