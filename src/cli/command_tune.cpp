// peal tune: measures what the collectives of this host take by every algorithm and protocol, and writes the table that chooses from then
// on. For each number of ranks it starts them, and each of them is this command again, with --part.
#include <unistd.h>

#include <base/names.hpp>
#include <base/settings.hpp>
#include <bootstrap/contact.hpp>
#include <bootstrap/job.hpp>
#include <cli/bench.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/host_memory.hpp>
#include <cli/launcher.hpp>
#include <cli/scratch.hpp>
#include <cli/tune.hpp>
#include <cmath>
#include <ctime>
#include <discovery/discover.hpp>
#include <memory>
#include <sstream>
#include <tuning/fit_constants.hpp>

namespace peal::cli {

namespace fs = std::filesystem;

namespace {

struct TuneWords {
  double budget_s = 90;
  std::string ranks, collectives, transport = "auto", largest = "64M", out, json;
  std::string part;  // where a rank writes what it found; empty: this is no rank
  bool check = false;
};

constexpr double kLongestBudget = 24 * 3600;
constexpr std::uint64_t kSmallestSize = 8;
constexpr std::uint64_t kDoubledFrom = 32;  // what is shorter takes as long
constexpr double kBuffersOfSize = 2.5;      // that a rank has, of the largest size
constexpr double kMostOfMemory = 1.0 / 4;   // for these, of all ranks

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

/// Powers of two, up to twice as many as there are cores, and at least 8.
std::vector<int> usual_ranks() {
  const int cores = bootstrap::local_contact(0).cores;
  std::vector<int> ranks;
  for (int n = 2; n <= std::min(128, std::max(8, 2 * cores)); n *= 2) ranks.push_back(n);
  return ranks;
}

Result<std::vector<int>> ranks_of(const TuneWords& words) {
  if (words.ranks.empty()) return usual_ranks();
  std::vector<int> ranks;
  for (const std::string& part : parts_of(words.ranks)) {
    const bool is_number = !part.empty() && part.size() <= 4 && part.find_first_not_of("0123456789") == std::string::npos;
    const int n = is_number ? std::stoi(part) : 0;
    if (n < 2 || n > 1024)
      return fail(ErrorCode::invalid_argument, "--ranks: \"{}\" is no number of ranks; give some of 2 to 1024, as 2,4,8", part);
    ranks.push_back(n);
  }
  if (ranks.empty()) return fail(ErrorCode::invalid_argument, "--ranks is empty; give some of 2 to 1024, as 2,4,8");
  return ranks;
}

/// The largest size for so many ranks. Where they share cores each size takes as many times longer, and their buffers must fit.
std::uint64_t largest_for(std::uint64_t asked, int ranks) {
  const int cores = std::max(1, bootstrap::local_contact(0).cores);
  const double turns = std::max(1.0, static_cast<double>(ranks) / cores);
  const double memory = host_memory_bytes() * kMostOfMemory;
  const double most = std::min(static_cast<double>(asked) / turns, memory / kBuffersOfSize / ranks);
  return std::max(std::min(asked, kTunedFinely), static_cast<std::uint64_t>(most));
}

Result<std::uint64_t> largest_of(const TuneWords& words) {
  PEAL_ASSIGN(const Bytes largest, parse_bytes(words.largest));
  if (largest.value < 64 || largest.value > (1ull << 32))
    return fail(ErrorCode::invalid_argument, "--largest {} is no size to tune up to; give 64 to 4G", words.largest);
  return largest.value;
}

Result<TuneOptions> options_of(const TuneWords& words) {
  TuneOptions options;
  if (words.collectives.empty()) {
    // Point to point has one way only, and the counts of some v-collectives are not known to all.
    for (int c = 0; c < kCollectiveCount; ++c)
      if (const auto collective = static_cast<Collective>(c); collective != Collective::send_recv && !has_private_counts(collective))
        options.collectives.push_back(collective);
  }
  for (const std::string& part : parts_of(words.collectives)) {
    PEAL_ASSIGN(const Collective collective, parse_collective(part));
    if (collective == Collective::send_recv || has_private_counts(collective))
      return fail(ErrorCode::invalid_argument, "{} goes one way only, there is nothing to tune; leave it out", part);
    options.collectives.push_back(collective);
  }
  PEAL_ASSIGN(const std::uint64_t largest, largest_of(words));
  options.sizes.push_back(kSmallestSize);
  for (std::uint64_t size = kDoubledFrom; size <= largest; size *= 2) {
    options.sizes.push_back(size);
    if (words.check && size * 3 / 2 < largest) options.kept_out.push_back(size * 3 / 2);
  }
  if (!(words.budget_s > 0) || words.budget_s > kLongestBudget)
    return fail(ErrorCode::invalid_argument, "--budget {} is no time to spend; give seconds above 0, at most {:.0f}", words.budget_s,
                kLongestBudget);
  options.budget_s = words.budget_s;
  PEAL_TRY(transport_of(words.transport));
  return options;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16] = "";
  std::tm broken{};
  if (::gmtime_r(&now, &broken) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d", &broken);
  return text;
}

/// What was found joins the table so far, and the constants for these ranks and wires are fitted anew to all of it.
Status add_to_table(const std::string& path, const tuning::Environment& environment, const std::vector<tuning::MeasuredWay>& ways) {
  PEAL_ASSIGN(const std::string text, content_of(path));
  PEAL_ASSIGN(tuning::MeasuredTable table, tuning::measured_table_from_text(text, path));
  tuning::merge(table, ways);
  std::erase_if(table.constants,
                [&](const tuning::MeasuredConstants& c) { return c.ranks == environment.ranks && c.scope == environment.level[0].scope; });
  const std::vector<tuning::MeasuredConstants> fitted = tuning::fit_constants(environment, table.ways);
  table.constants.insert(table.constants.end(), fitted.begin(), fitted.end());
  return write_output(path, tuning::to_text(table));
}

// One rank. Rank 0 adds what was found to the table that lies where it writes.
Result<int> measure(const TuneWords& words) {
  PEAL_ASSIGN(const bootstrap::Job job, bootstrap::job_from_environment());
  PEAL_ASSIGN(const TuneOptions options, options_of(words));
  comm::CoreOptions core_options;
  PEAL_ASSIGN(core_options.transport, transport_of(words.transport));
  PEAL_ASSIGN(const std::shared_ptr<comm::Core> world, comm::Core::world(job, core_options));
  const bool writes = world->rank() == 0;
  PEAL_ASSIGN(const TuneResult found, run_tune(*world, options, [&](const std::string& line) {
                if (writes) std::fprintf(stderr, "peal tune: %s\n", line.c_str());
              }));
  if (writes) {
    PEAL_TRY(add_to_table(words.part, *world->plans().environment(), found.ways));
    PEAL_TRY(write_output(words.part + ".judged", judgements_json(found.judgements)));
  }
  comm::Call barrier{Collective::barrier};
  PEAL_TRY(world->run(barrier));
  return 0;
}

/// The table that `path` holds for this host, to be added to; what another host measured is kept beside it under another name.
Result<tuning::MeasuredTable> table_so_far(const std::string& path, const std::string& host) {
  std::error_code error;
  if (!fs::exists(path, error)) return tuning::MeasuredTable{};
  PEAL_ASSIGN(const std::string text, content_of(path));
  auto table = tuning::measured_table_from_text(text, path);
  if (table && table->host == host) return table;
  const std::string kept = path + ".old";
  fs::rename(path, kept, error);
  if (error) return fail(ErrorCode::system, "cannot move {} out of the way: {}", path, error.message());
  std::fprintf(stderr, "peal tune: %s was %s; it is now %s\n", path.c_str(), table ? "measured on another host" : "no tuning table",
               kept.c_str());
  return tuning::MeasuredTable{};
}

Status write_table(const std::string& path, const tuning::MeasuredTable& table) {
  std::error_code error;
  if (const fs::path folder = fs::path(path).parent_path(); !folder.empty()) fs::create_directories(folder, error);
  const std::string fresh = fmt::format("{}.{}", path, ::getpid());
  PEAL_TRY(write_output(fresh, tuning::to_text(table)));
  fs::rename(fresh, path, error);
  if (!error) return {};
  fs::remove(fresh, error);
  return fail(ErrorCode::system, "cannot write {}; give another file with --out", path);
}

/// What one number of ranks takes. Adds to `table` and `judged`.
Result<int> tune_ranks(const TuneWords& words, int ranks, double budget_s, const std::string& part, tuning::MeasuredTable& table,
                       std::vector<Judgement>& judged) {
  PEAL_ASSIGN(const std::uint64_t asked, largest_of(words));
  const std::uint64_t largest = largest_for(asked, ranks);
  if (largest < asked)
    std::fprintf(stderr, "peal tune: %d ranks: sizes up to %s of %s, because ranks share cores or memory is short\n", ranks,
                 to_text(Bytes{largest}).c_str(), to_text(Bytes{asked}).c_str());
  std::vector<std::string> arguments = {"tune",
                                        "--part",
                                        part,
                                        "--budget",
                                        fmt::format("{}", budget_s),
                                        "--transport",
                                        words.transport,
                                        "--largest",
                                        fmt::format("{}", largest)};
  if (!words.collectives.empty()) arguments.insert(arguments.end(), {"--collectives", words.collectives});
  if (words.check) arguments.emplace_back("--check");
  PEAL_TRY(write_output(part, tuning::to_text(table)));
  LaunchSpec spec = spec_of_this_tool(ranks, arguments);
  spec.environment.emplace_back("PEAL_TUNING", "off");
  PEAL_ASSIGN(const LaunchOutcome outcome, launch(spec));
  if (outcome.exit_code != 0) {
    if (!outcome.has_said_why) std::fprintf(stderr, "peal tune: %s\n", outcome.why.c_str());
    return outcome.exit_code;
  }
  PEAL_ASSIGN(const std::string text, content_of(part));
  PEAL_ASSIGN(table, tuning::measured_table_from_text(text, part));
  PEAL_ASSIGN(const std::string judged_text, content_of(part + ".judged"));
  PEAL_ASSIGN(const std::vector<Judgement> cases, judgements_from_json(judged_text));
  judged.insert(judged.end(), cases.begin(), cases.end());
  return 0;
}

Result<int> run(const TuneWords& words) {
  if (!words.part.empty()) return measure(words);
  PEAL_TRY(options_of(words));
  PEAL_ASSIGN(const std::vector<int> ranks, ranks_of(words));
  const std::string path = words.out.empty() ? tuning::measured_table_path() : words.out;
  if (path.empty())
    return fail(ErrorCode::invalid_argument,
                "there is no place for the table (PEAL_TUNING is off, or there is no home); give one with --out FILE");
  PEAL_TRY(can_write(words.json));
  PEAL_ASSIGN(const std::string host, discovery::host_fingerprint());
  PEAL_ASSIGN(tuning::MeasuredTable table, table_so_far(path, host));
  table.host = host;
  table.date = today();
  Scratch scratch;
  PEAL_TRY(scratch.make());
  std::vector<Judgement> judged;
  // More ranks have more ways, and share cores.
  const auto weight = [](int n) { return std::sqrt(static_cast<double>(n)); };
  double weights = 0;
  for (const int n : ranks) weights += weight(n);
  for (const int n : ranks) {
    const double share = words.budget_s * weight(n) / weights / (words.check ? 2 : 1);
    PEAL_ASSIGN(const int code, tune_ranks(words, n, share, (scratch.path / fmt::format("{}", n)).string(), table, judged));
    if (code != 0) return code;
    // After each, so that what was measured is kept when the rest is interrupted.
    PEAL_TRY(write_table(path, table));
  }
  const bool to_stdout = words.json == "-";
  if (!to_stdout) {
    std::string said = words.check ? tune_report(judged) : "";
    said +=
        fmt::format("{} ways for {} in {}; `peal explain COLLECTIVE --bytes B -n N` says what it chooses\n", table.ways.size(), host, path);
    PEAL_TRY(write_output("-", said));
  }
  if (!words.json.empty())
    PEAL_TRY(write_output(words.json, fmt::format("{{\"schema\":\"peal.tune/1\",\"table\":{},\"judged\":{}}}\n", tuning::to_text(table),
                                                  judgements_json(judged))));
  return 0;
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  auto words = std::make_shared<TuneWords>();
  CLI::App* command =
      app.add_subcommand("tune",
                         "Measure every algorithm and protocol on this host, and write the table that chooses from then on.\n"
                         "Example: peal tune --budget 60 --check");
  command
      ->add_option("--budget", words->budget_s,
                   "Seconds to spend; the first round over everything is always done, with --check two over what is in doubt, too")
      ->capture_default_str();
  command->add_option("--ranks,-n", words->ranks, "Numbers of ranks, as 2,4,8 (default: powers of two up to twice the cores, at least 8)");
  command->add_option("--collectives", words->collectives, "Only these, as all_reduce,broadcast (default: all that have a choice)");
  command->add_option("--transport", words->transport, "auto, shm or tcp")->capture_default_str();
  command
      ->add_option("--largest", words->largest,
                   "Largest size that is measured (less where ranks share cores or memory is short); above it times grow with the bytes")
      ->capture_default_str();
  command->add_option("--out", words->out, "The table (default: PEAL_TUNING, or peal/tuning.json in $XDG_CONFIG_HOME or ~/.config)");
  command->add_flag("--check", words->check, "More than half of the budget judges the choice at sizes that the table does not have");
  command->add_option("--json", words->json, "Write table and judgement as JSON to a file, or - for standard output");
  command->add_option("--part", words->part, "")->group("");  // how the command starts its ranks
  command->callback([words, &action] { action = [words] { return run(*words); }; });
}

}  // namespace peal::cli
