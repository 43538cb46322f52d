// peal explain: why a collective would be done as it is.
#include <base/trace.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/question_words.hpp>
#include <memory>
#include <tuning/explain.hpp>

namespace peal::cli {

namespace {

struct ExplainWords {
  QuestionWords question;
  std::string bytes, trace, svg, json;
};

double predicted_us(const sim::GroupChoice& choice) { return choice.selection.chosen().prediction.time.microseconds(); }

/// What is explained is the choice of the groups that it takes longest for; one line about the others.
std::string groups_text(const sim::Scene& scene, const std::vector<sim::GroupChoice>& choices, const sim::GroupChoice& slowest) {
  if (scene.groups() == 1) return {};
  if (choices.size() == 1) return fmt::format("{} groups of {} ranks, all wired alike\n", scene.groups(), scene.environment.ranks);
  std::string text = fmt::format("{} groups of {} ranks; below is what the slowest choose\n", scene.groups(), scene.environment.ranks);
  for (const sim::GroupChoice& choice : choices)
    text +=
        fmt::format("  {} group{} from group {} on: {} with {}, predicted {:.2f} us{}\n", choice.groups.size(),
                    choice.groups.size() == 1 ? "" : "s", choice.groups.front(), choice.selection.chosen().algorithm->name,
                    schedule::name_of(choice.selection.chosen().protocol), predicted_us(choice), &choice == &slowest ? " (slowest)" : "");
  return text;
}

Status write_pictures(const ExplainWords& words, const sim::Scene& scene, const tuning::Question& question) {
  if (words.trace.empty() && words.svg.empty()) return {};
  sim::InterpretOptions options;
  options.keeps_trace = true;
  PEAL_ASSIGN(const sim::Study study, sim::study(scene, question, options));
  if (!words.trace.empty()) PEAL_TRY(study.outcome.trace.write(words.trace));
  if (!words.svg.empty()) PEAL_TRY(write_output(words.svg, timeline_of(words.question, scene, study)));
  return {};
}

Result<int> explain(const ExplainWords& words) {
  for (const std::string& path : {words.json, words.trace, words.svg}) PEAL_TRY(can_write(path));
  PEAL_ASSIGN(const Bytes bytes, parse_bytes(words.bytes));
  PEAL_ASSIGN(const sim::Scene scene, scene_of(words.question));
  PEAL_ASSIGN(tuning::Question question, question_of(words.question, scene.environment.ranks));
  question.call.bytes = bytes;
  PEAL_ASSIGN(const std::vector<sim::GroupChoice> choices, sim::choose(scene, question));
  const sim::GroupChoice& slowest =
      *std::max_element(choices.begin(), choices.end(), [](const auto& a, const auto& b) { return predicted_us(a) < predicted_us(b); });
  const tuning::Environment& environment = scene.environment_of(slowest.groups.front());
  if (words.json != "-")
    PEAL_TRY(write_output("-", groups_text(scene, choices, slowest) + tuning::explain_text(environment, slowest.selection)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, tuning::explain_json(environment, slowest.selection) + "\n"));
  PEAL_TRY(write_pictures(words, scene, question));
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto words = std::make_shared<ExplainWords>();
  CLI::App* command =
      app.add_subcommand("explain",
                         "Say which algorithm and protocol a call takes, what they beat, and what the prediction rests on.\n"
                         "Example: peal explain all_reduce --bytes 1M -n 2");
  add_question_options(*command, words->question);
  command->add_option("-b,--bytes", words->bytes, "Size of the call (8, 64K, 1M)")->required();
  command->add_option("--trace", words->trace, "Write the simulated timeline for https://ui.perfetto.dev");
  command->add_option("--svg", words->svg, "Draw the simulated timeline");
  command->add_option("--json", words->json, "Write the explanation as JSON to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return explain(*words); }; });
}

}  // namespace peal::cli
