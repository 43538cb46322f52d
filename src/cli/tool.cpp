#include <unistd.h>

#include <algorithm>
#include <base/names.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cstdio>
#include <fstream>
#include <vector>

namespace peal::cli {

Status write_output(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return {};
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  if (!file) return fail(ErrorCode::system, "cannot write {}: {}", path, errno_text(errno));
  return {};
}

int exit_code_of(const Failure& failure) {
  return failure.code == ErrorCode::invalid_argument || failure.code == ErrorCode::unsupported ? 2 : 1;
}

Status can_write(const std::string& path) {
  if (path.empty() || path == "-") return {};
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const char* looked_at = ::access(path.c_str(), F_OK) == 0 ? path.c_str() : folder.c_str();
  if (::access(looked_at, W_OK) == 0) return {};
  return fail(ErrorCode::invalid_argument, "cannot write {}: {}; give a file in a folder that you may write to", path, errno_text(errno));
}

namespace {

std::vector<std::string>& arguments() {
  static std::vector<std::string> words;
  return words;
}

// An option of several names by the one that was typed.
std::string as_typed(const CLI::App& command, const std::string& name, const std::vector<std::string>& words) {
  const CLI::Option* const option = command.get_option_no_throw(name);
  for (const std::string& word : words)
    if (const std::string typed = word.substr(0, word.find('=')); option != nullptr && option->check_name(typed)) return typed;
  return name;
}

// "Could not convert: --ranks = abc" and the like.
std::string in_plain_words(const std::string& text, const CLI::App& command, const std::vector<std::string>& words) {
  constexpr std::string_view kConvert = "Could not convert: ";
  const std::size_t equals = text.find(" = ");
  if (text.compare(0, kConvert.size(), kConvert) != 0 || equals == std::string::npos) return text;
  const std::string name = as_typed(command, text.substr(kConvert.size(), equals - kConvert.size()), words);
  return fmt::format("{} does not take \"{}\": give a number", name, text.substr(equals + 3));
}

// Of what a command does not know the first option, or the first word.
std::string unknown_word(const CLI::App& command, const std::string& path) {
  const std::vector<std::string> left = command.remaining();
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  const auto option = std::find_if(left.begin(), left.end(), is_option);
  if (option == left.end()) return fmt::format("\"{}\" is one word more than `{}` takes", left.front(), path);
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options([](const CLI::Option* o) { return !o->get_group().empty(); }))
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string word = option->substr(0, option->find('='));
  const std::string_view near = nearest(word, views.data(), views.size());
  return fmt::format("`{}` has no option {}{}", path, word, near.empty() ? std::string() : fmt::format(" (did you mean {}?)", near));
}

// CLI11 says what is wrong; we add where help is, and the command that was probably meant.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string path = "peal";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().back();
    path += " " + command->get_name();
  }
  std::string text = error.what();
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) text.pop_back();
  std::string hint;
  if (command == &app) {
    std::vector<std::string> names;
    std::vector<std::string_view> views;
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(sub->get_name());
    for (const std::string& name : names) views.push_back(name);
    const bool is_word = !words.empty() && !words[0].empty() && words[0][0] != '-';
    const std::string_view near = is_word ? nearest(words[0], views.data(), views.size()) : std::string_view();
    if (words.empty()) text = "no command was given";
    if (is_word) text = fmt::format("there is no command \"{}\"", words[0]);
    if (!near.empty())
      hint = fmt::format(" (did you mean `peal {}`?)", near);
    else if (words.empty() || is_word)
      hint = fmt::format("; type one of: {}", fmt::join(names, ", "));
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && command->remaining_size() > 0) {
    text = unknown_word(*command, path);
  } else {
    text = in_plain_words(text, *command, words);
  }
  std::fprintf(stderr, "peal: %s%s; `%s --help` shows what can be typed\n", text.c_str(), hint.c_str(), path.c_str());
  return 2;
}

}  // namespace

const std::vector<std::string>& original_arguments() { return arguments(); }

int run_tool(int argc, char** argv) {
  CLI::App app(
      "Peal: collective communication for large-model training.\n"
      "Discovers how processors are wired, proves, runs, measures and simulates collectives on that wiring.\n"
      "Example: peal bench all_reduce -n 2 -b 8 -e 64M --check",
      "peal");
  app.require_subcommand(1);
  Action action;
  add_topo(app, action);
  add_machines(app, action);
  add_claims(app, action);
  add_verify(app, action);
  add_explain(app, action);
  add_run(app, action);
  add_bench(app, action);
  add_train(app, action);
  add_sim(app, action);
  add_validate(app, action);
  add_tune(app, action);
  add_doctor(app, action);
  add_cost(app, action);
  add_layout(app, action);
  add_models(app, action);
  add_graph(app, action);
  const std::vector<std::string>& words = arguments() = std::vector<std::string>(argv + 1, argv + argc);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error, words);
  }
  Result<int> done = action();
  if (done) return *done;
  std::fprintf(stderr, "peal: %s\n", done.error().message.c_str());
  return exit_code_of(done.error());
}

}  // namespace peal::cli
