// Starting the ranks of a job on this host, and ending all of them when one fails.
#pragma once

#include <base/result.hpp>
#include <string>
#include <utility>
#include <vector>

namespace peal::cli {

struct LaunchSpec {
  std::vector<std::string> command;                              ///< program and arguments; the program is looked up in PATH
  int ranks = 1;                                                 ///< to start here
  int first_rank = 0;                                            ///< of those started here
  int total_ranks = 1;                                           ///< of the job
  std::vector<std::pair<std::string, std::string>> environment;  ///< for every rank, beside PEAL_RANK, PEAL_SIZE and PEAL_LOCAL_RANK
  bool label_output = true;                                      ///< "[rank] " before every line; false: lines pass unchanged
  bool bind = true;                                              ///< to cores, and memory to their NUMA domains (rank_places.hpp)
  bool say_errors_once = false;  ///< a line that a rank has written to standard error is not repeated for the others
  double timeout_s = 0;          ///< 0: none
  double patience_s = 2;         ///< from an interruption to SIGTERM, and from that to SIGKILL
};

struct LaunchOutcome {
  int exit_code = 0;          ///< of the first rank that failed (128 + signal when killed), 124 on timeout, 128 + signal when interrupted
  std::string why;            ///< one sentence when not 0
  bool has_said_why = false;  ///< a rank ended by itself and some rank has written to standard error
};

/// Runs the ranks to their end. Forwards SIGINT, SIGTERM and SIGHUP; the second SIGINT kills. When a rank fails, the others get
/// three seconds to report their own errors, then SIGTERM, then SIGKILL. Leaves no process: what ranks started dies with their groups.
/// Call from the main thread; blocks signals while it runs.
Result<LaunchOutcome> launch(const LaunchSpec& spec);

/// Ranks of this very tool on this host, with these words behind its name; they write as the tool itself does.
LaunchSpec spec_of_this_tool(int ranks, const std::vector<std::string>& arguments);

/// Environment for a job whose ranks are all on this host: a fresh Unix name to meet at.
std::vector<std::pair<std::string, std::string>> one_host_environment();

}  // namespace peal::cli
