// peal sim and peal explain: what a collective would cost on a machine, and why it would be done that way.
#include <base/trace.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/question_words.hpp>
#include <memory>
#include <sim/report.hpp>
#include <tuning/explain.hpp>

namespace peal::cli {

namespace {

struct SimWords {
  QuestionWords question;
  std::string first = "8", last = "64M", trace, json;
  std::uint64_t factor = 2;
};

Result<int> simulate_table(const SimWords& words) {
  PEAL_TRY(can_write(words.json));
  PEAL_TRY(can_write(words.trace));
  PEAL_ASSIGN(const Bytes first, parse_bytes(words.first));
  PEAL_ASSIGN(const Bytes last, parse_bytes(words.last));
  if (first.value > last.value)
    return fail(ErrorCode::invalid_argument, "-b {} is above -e {}; give the smaller size first", words.first, words.last);
  if (words.factor < 2) return fail(ErrorCode::invalid_argument, "-f {} does not grow; give 2 or more", words.factor);
  PEAL_ASSIGN(const sim::Scene scene, scene_of(words.question));
  PEAL_ASSIGN(tuning::Question question, question_of(words.question, scene.environment.ranks));
  const sim::Table table = sim::table_of(scene, question.call.collective);
  const bool to_stdout = words.json == "-";
  if (!to_stdout) PEAL_TRY(write_output("-", sim::header_text(table)));
  std::vector<sim::Row> rows;
  Trace trace;
  for (Bytes size = first; size.value <= last.value; size.value *= words.factor) {
    question.call.bytes = size;
    // The trace is of the last and largest row.
    const bool is_last = size.value > last.value / words.factor || size.value == 0;
    PEAL_ASSIGN(const sim::Row row, sim::simulate(scene, question, is_last && !words.trace.empty() ? &trace : nullptr));
    rows.push_back(row);
    if (!to_stdout) PEAL_TRY(write_output("-", sim::row_text(row)));
    if (is_last || question.call.collective == Collective::barrier) break;
  }
  if (!to_stdout) PEAL_TRY(write_output("-", sim::footer_text(rows)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, sim::to_json(table, rows) + "\n"));
  if (!words.trace.empty()) PEAL_TRY(trace.write(words.trace));
  return 0;
}

struct ExplainWords {
  QuestionWords question;
  std::string bytes, trace, json;
};

Result<int> explain(const ExplainWords& words) {
  PEAL_TRY(can_write(words.json));
  PEAL_TRY(can_write(words.trace));
  PEAL_ASSIGN(const Bytes bytes, parse_bytes(words.bytes));
  PEAL_ASSIGN(const sim::Scene scene, scene_of(words.question));
  PEAL_ASSIGN(tuning::Question question, question_of(words.question, scene.environment.ranks));
  question.call.bytes = bytes;
  PEAL_ASSIGN(const tuning::Selection selection, tuning::select(scene.environment, question));
  if (words.json != "-") PEAL_TRY(write_output("-", tuning::explain_text(scene.environment, selection)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, tuning::explain_json(scene.environment, selection) + "\n"));
  if (words.trace.empty()) return 0;
  Trace trace;
  PEAL_TRY(sim::simulate(scene, question, &trace));
  PEAL_TRY(trace.write(words.trace));
  return 0;
}

}  // namespace

void add_sim(CLI::App& app, Action& action) {
  auto words = std::make_shared<SimWords>();
  CLI::App* command = app.add_subcommand("sim",
                                         "Simulate a collective on a machine that need not be there, in the columns of nccl-tests.\n"
                                         "Example: peal sim all_reduce --machine dgx-h100 --nodes 4 -b 1M -e 1G -f 4");
  add_question_options(*command, words->question);
  command->add_option("-b", words->first, "Smallest size (8, 64K, 1M)")->capture_default_str();
  command->add_option("-e", words->last, "Largest size")->capture_default_str();
  command->add_option("-f", words->factor, "Factor from one size to the next")->capture_default_str();
  command->add_option("--trace", words->trace, "Write the timeline of the largest row for https://ui.perfetto.dev");
  command->add_option("--json", words->json, "Write the table as JSON to a file, or - for standard output");
  add_sim_link(*command, action);
  command->callback([words, command, &action] {
    if (!command->get_subcommands().empty()) return;
    if (words->question.collective.empty()) throw CLI::RequiredError("collective");
    action = [words] { return simulate_table(*words); };
  });
}

void add_explain(CLI::App& app, Action& action) {
  auto words = std::make_shared<ExplainWords>();
  CLI::App* command =
      app.add_subcommand("explain",
                         "Say which algorithm and protocol a call takes, what they beat, and what the prediction rests on.\n"
                         "Example: peal explain all_reduce --bytes 1M -n 2");
  add_question_options(*command, words->question);
  command->add_option("--bytes", words->bytes, "Size of the call (8, 64K, 1M)")->required();
  command->add_option("--trace", words->trace, "Write the simulated timeline for https://ui.perfetto.dev");
  command->add_option("--json", words->json, "Write the explanation as JSON to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return explain(*words); }; });
}

}  // namespace peal::cli
