#include <CLI/CLI.hpp>
#include <cli/fault_options.hpp>
#include <cli/host_memory.hpp>
#include <sim/fault_words.hpp>
#include <topology/degrade.hpp>

namespace peal::cli {

namespace {
constexpr int kMostRuns = 10'000;
}

void add_fault_options(CLI::App& command, FaultWords& words) {
  command
      .add_option("--slow-link", words.slow_links,
                  "NAME=SHARE: a link or port, by the name that --utilisation prints, that carries a share of what it should (0.5, 17/18)")
      ->allow_extra_args(false);
  command.add_option("--straggler", words.stragglers, "RANK=FACTOR: slower by it at all it does; or RANK=DELAY (3=100us): begins later")
      ->allow_extra_args(false);
  command.add_option("--jitter", words.jitter_percent, "Ops take longer at random, by so many percent in the mean");
  command.add_option("--seed", words.seed, "Of the jitter's first run; it counts up from run to run")->capture_default_str();
  command.add_option("--runs", words.runs, fmt::format("Runs with jitter, for percentiles (default: {})", kJitterRuns));
  command.add_option("--hash-seeds", words.hash_seeds,
                     "So many choices of ways by the fabric's hash (ECMP), from its `seed` on: how the time and the bus bandwidth spread");
  command
      .add_option("--beside", words.beside,
                  "COLLECTIVE:SIZE[:PLACES]: another call at the same time, of the same ranks or a job elsewhere (all_to_all:64M:32-63); "
                  "/K, %K: in groups; @TIME: later")
      ->allow_extra_args(false);
  command.add_option("--fail-rank", words.failure, "RANK@TIME: it dies at that time of the largest call; who waits for whom");
}

Result<sim::InterpretOptions> interpret_options(const FaultWords& words, const sim::Scene& scene) {
  sim::InterpretOptions options;
  options.most_bytes = host_memory_bytes();
  for (const std::string& text : words.slow_links) {
    PEAL_ASSIGN(const sim::SlowLink link, sim::parse_slow_link(text));
    PEAL_ASSIGN(const topology::ResourceId id, topology::find_resource(*scene.resources, link.name));
    options.perturbation.scaled_resources.emplace_back(id, link.factor);
  }
  for (const std::string& text : words.stragglers) {
    PEAL_ASSIGN(const sim::Straggler straggler, sim::parse_straggler(text));
    if (straggler.factor != 1) options.perturbation.slow_ranks.emplace_back(straggler.rank, straggler.factor);
    if (straggler.delay > 0) options.late_ranks.emplace_back(straggler.rank, straggler.delay);
  }
  if (!(words.jitter_percent >= 0 && words.jitter_percent <= 1000))
    return fail(ErrorCode::invalid_argument, "--jitter {} is no share in percent; give 0 to 1000", words.jitter_percent);
  options.jitter = {words.jitter_percent / 100, words.seed};
  if (!words.failure.empty()) {
    PEAL_ASSIGN(options.failure, sim::parse_failure(words.failure));
  }
  return options;
}

Result<bool> is_staged(const QuestionWords& words) {
  if (words.gpudirect != "on" && words.gpudirect != "off")
    return fail(ErrorCode::invalid_argument, "--gpudirect {} is neither; type on or off", words.gpudirect);
  return words.gpudirect == "off";
}

Status set_network(const QuestionWords& words, const sim::Scene& scene, sim::InterpretOptions& options) {
  PEAL_ASSIGN(options.congestion, sim::parse_congestion(words.congestion, scene.resources->cluster()));
  PEAL_ASSIGN(options.is_staged, is_staged(words));
  return {};
}

Result<std::vector<sim::Beside>> beside_of(const FaultWords& words) {
  if (!words.beside.empty() && !words.failure.empty())
    return fail(ErrorCode::invalid_argument, "--fail-rank says who waits in one call; leave --beside away");
  std::vector<sim::Beside> beside;
  for (const std::string& text : words.beside) {
    PEAL_ASSIGN(const sim::Beside other, sim::parse_beside(text));
    beside.push_back(other);
  }
  return beside;
}

Result<int> hash_seeds_of(const FaultWords& words) {
  if (words.hash_seeds == 0) return 1;
  if (words.hash_seeds < 2 || words.hash_seeds > kMostRuns)
    return fail(ErrorCode::invalid_argument, "--hash-seeds {} gives no percentiles; give 2 to {}", words.hash_seeds, kMostRuns);
  if (words.jitter_percent > 0)
    return fail(ErrorCode::invalid_argument, "--hash-seeds and --jitter would be told apart by nobody in one spread; ask for one of them");
  if (!words.failure.empty())
    return fail(ErrorCode::invalid_argument, "--fail-rank says who waits in one call, by one choice of ways; leave --hash-seeds away");
  return words.hash_seeds;
}

Result<int> runs_of(const FaultWords& words) {
  if (words.runs == 0) return words.jitter_percent > 0 ? kJitterRuns : 1;
  if (words.jitter_percent <= 0)
    return fail(ErrorCode::invalid_argument, "--runs {} would all be the same run; give --jitter PERCENT too", words.runs);
  if (words.runs < 1 || words.runs > kMostRuns)
    return fail(ErrorCode::invalid_argument, "--runs {} is no number of runs; give 1 to {}", words.runs, kMostRuns);
  return words.runs;
}

}  // namespace peal::cli
