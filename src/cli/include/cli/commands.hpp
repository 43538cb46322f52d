// The commands of the tool. Each registers itself with the parser; its function runs after parsing and returns the exit code:
// 0 what was asked holds, 1 it does not, 2 it was asked wrongly.
#pragma once

#include <base/result.hpp>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace peal::cli {

/// What a parsed command does. A failure is printed as one sentence on standard error.
using Action = std::function<Result<int>()>;

void add_topo(CLI::App& app, Action& action);
void add_machines(CLI::App& app, Action& action);
void add_claims(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_sim(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);
void add_sim_link(CLI::App& sim, Action& action);  ///< a command of `sim`
void add_sim_step(CLI::App& sim, Action& action);  ///< another
void add_doctor(CLI::App& app, Action& action);
void add_cost(CLI::App& app, Action& action);
void add_layout(CLI::App& app, Action& action);
void add_models(CLI::App& app, Action& action);
void add_graph(CLI::App& app, Action& action);
void add_sim_trace(CLI::App& sim, Action& action);  ///< a command of `sim`

/// The whole tool: main() calls it.
int run_tool(int argc, char** argv);

/// The words behind the program's name, as run_tool got them.
const std::vector<std::string>& original_arguments();

/// Writes `text` to `path`, or to standard output for "-".
Status write_output(const std::string& path, const std::string& text);

/// What a command found: `text` for people on standard output, and what `json` makes in a file where one is named; "-" puts it in the
/// text's place.
template <class Json>
Status write_report(const std::string& text, const std::string& path, Json&& json) {
  if (path != "-") PEAL_TRY(write_output("-", text));
  if (!path.empty()) PEAL_TRY(write_output(path, json() + "\n"));
  return {};
}

/// Fails when `path` is in no folder that can be written to: said before the work, not after it.
Status can_write(const std::string& path);

/// Exit code that goes with a failure: 2 for what the user can type differently, else 1.
int exit_code_of(const Failure& failure);

}  // namespace peal::cli
