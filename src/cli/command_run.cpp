// peal run: starts the ranks of a job.
#include <unistd.h>

#include <algorithm>
#include <base/settings.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/launcher.hpp>
#include <fstream>
#include <memory>

namespace peal::cli {

namespace {

struct RunOptions {
  int ranks = 0;
  std::string hosts;
  std::string host_file;
  int host_index = -1;
  std::string root;
  std::string key_file;
  double timeout_s = 0;
  bool no_bind = false;
  bool no_label = false;
  std::vector<std::string> command;
};

Result<std::vector<std::string>> host_list(const RunOptions& options) {
  std::vector<std::string> hosts;
  const auto add = [&hosts](std::string name) {
    name.erase(0, name.find_first_not_of(" \t"));
    name.erase(name.find_last_not_of(" \t\r") + 1);
    if (!name.empty() && name[0] != '#') hosts.push_back(name);
  };
  if (!options.host_file.empty()) {
    std::ifstream file(options.host_file);
    if (!file) return fail(ErrorCode::invalid_argument, "cannot read the host file {}: {}", options.host_file, errno_text(errno));
    for (std::string line; std::getline(file, line);) add(line);
    if (hosts.empty()) return fail(ErrorCode::invalid_argument, "{} names no host; give one address a line", options.host_file);
  }
  for (std::size_t at = 0; at < options.hosts.size();) {
    const std::size_t end = std::min(options.hosts.find(',', at), options.hosts.size());
    add(options.hosts.substr(at, end - at));
    at = end + 1;
  }
  return hosts;
}

// Several hosts: this command starts the ranks of one of them, the same command on each host the rest.
Status place_on_hosts(const RunOptions& options, const std::vector<std::string>& hosts, LaunchSpec& spec) {
  const int count = static_cast<int>(hosts.size());
  if (options.ranks % count != 0)
    return fail(ErrorCode::invalid_argument, "{} ranks cannot be split evenly over {} hosts; give a multiple of {}", options.ranks, count,
                count);
  const std::string root = options.root.empty() ? hosts[0] + ":" + setting("PEAL_PORT") : options.root;
  if (options.host_index < 0 || options.host_index >= count || options.key_file.empty()) {
    std::string text =
        "to start a job on several hosts, make a key once (`(umask 077; openssl rand -hex 32 > KEY)`), copy it to every host, "
        "and type on each host:";
    for (int h = 0; h < count; ++h)
      text += fmt::format("\n  on {}: peal run -n {} --hosts {} --host-index {} --root {} --key-file KEY -- PROGRAM",
                          hosts[static_cast<std::size_t>(h)], options.ranks, fmt::join(hosts, ","), h, root);
    return fail(ErrorCode::invalid_argument, "{}", text);
  }
  spec.ranks = options.ranks / count;
  spec.first_rank = spec.ranks * options.host_index;
  spec.environment = {{"PEAL_ROOT", root}, {"PEAL_KEY_FILE", options.key_file}};
  return {};
}

Result<int> run(const RunOptions& options) {
  if (options.ranks < 1 || options.ranks > 4096)
    return fail(ErrorCode::invalid_argument, "-n {} is no number of ranks; give 1 to 4096", options.ranks);
  if (options.command.empty())
    return fail(ErrorCode::invalid_argument, "no program to run; type it behind --, as in `peal run -n 2 -- ./a.out`");
  if (options.timeout_s < 0) return fail(ErrorCode::invalid_argument, "--timeout {} is negative; give seconds", options.timeout_s);
  LaunchSpec spec;
  spec.command = options.command;
  spec.ranks = spec.total_ranks = options.ranks;
  spec.timeout_s = options.timeout_s;
  spec.bind = !options.no_bind;
  spec.label_output = !options.no_label;
  PEAL_ASSIGN(const std::vector<std::string> hosts, host_list(options));
  if (hosts.size() > 1)
    PEAL_TRY(place_on_hosts(options, hosts, spec));
  else
    spec.environment = one_host_environment();
  PEAL_ASSIGN(const LaunchOutcome outcome, launch(spec));
  if (outcome.exit_code != 0) std::fprintf(stderr, "peal run: %s\n", outcome.why.c_str());
  return outcome.exit_code;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run",
                                         "Start the ranks of a job and end all of them when one fails.\n"
                                         "Example: peal run -n 2 -- ./train --epochs 3\n"
                                         "Several hosts: peal run -n 4 --hosts 10.0.0.1,10.0.0.2 -- ./train   (says what to type on each)");
  command->add_option("-n,--ranks", options->ranks, "Number of ranks in the whole job")->required();
  command->add_option("--hosts", options->hosts, "Addresses of the hosts, separated by commas; ranks are split evenly");
  command->add_option("--hostfile", options->host_file, "File with one host address a line (# begins a comment)");
  command->add_option("--host-index", options->host_index, "Which of the hosts this is, from 0");
  command->add_option("--root", options->root,
                      "HOST:PORT where rank 0 listens (default: the first host, port PEAL_PORT, 29517 unless set)");
  command->add_option("--key-file", options->key_file, "File with the job's key, readable by you alone");
  command->add_option("--timeout", options->timeout_s, "Seconds after which the job is stopped (exit code 124)");
  command->add_flag(
      "--no-bind", options->no_bind,
      "Bind neither ranks to cores (else each to one; where ranks are more, neighbours share one) nor memory to NUMA domains\n"
      "(PEAL_BIND_MEMORY=0: cores only)");
  command->add_flag("--no-label", options->no_label, "Do not put \"[rank] \" before lines of output");
  command->add_option("program", options->command, "Program and arguments, behind --")
      ->expected(1, -1);  // CLI11 gives what follows -- only to a word that still needs some
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace peal::cli
