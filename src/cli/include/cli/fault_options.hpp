// What goes wrong in a simulation, and what else goes on, as sim takes it.
#pragma once

#include <base/result.hpp>
#include <cli/question_words.hpp>
#include <sim/simulate.hpp>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace peal::cli {

struct FaultWords {
  std::vector<std::string> slow_links, stragglers;
  std::vector<std::string> beside;
  std::string failure;
  double jitter_percent = 0;
  std::uint64_t seed = 1;
  int runs = 0;        ///< 0: one, or with jitter kJitterRuns
  int hash_seeds = 0;  ///< 0: the fabric's own
  bool any() const {
    return !slow_links.empty() || !stragglers.empty() || !beside.empty() || !failure.empty() || jitter_percent > 0 || runs > 0 ||
           hash_seeds != 0;
  }
};
inline constexpr int kJitterRuns = 20;

void add_fault_options(CLI::App& command, FaultWords& words);

/// What the words mean on this scene; no more memory is asked for than this host has.
Result<sim::InterpretOptions> interpret_options(const FaultWords& words, const sim::Scene& scene);
/// Whether messages pass through host memory, as `gpudirect` says; fails where it is neither on nor off.
Result<bool> is_staged(const QuestionWords& words);
/// How the network between machines is taken: `congestion` and `gpudirect`.
Status set_network(const QuestionWords& words, const sim::Scene& scene, sim::InterpretOptions& options);
Result<int> runs_of(const FaultWords& words);
/// How many seeds of the fabric's hash; 1 where nobody asked for several.
Result<int> hash_seeds_of(const FaultWords& words);
Result<std::vector<sim::Beside>> beside_of(const FaultWords& words);

}  // namespace peal::cli
