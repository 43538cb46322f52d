// peal validate --host: starts ranks on this host, or is one of them.
#include <algorithm>
#include <base/names.hpp>
#include <bootstrap/contact.hpp>
#include <bootstrap/job.hpp>
#include <cli/commands.hpp>
#include <cli/host_check.hpp>
#include <cli/launcher.hpp>
#include <cli/scratch.hpp>
#include <discovery/discover.hpp>
#include <sstream>

namespace peal::cli {

namespace {

Result<HostCheckOptions> check_options_of(const HostCheckWords& words) {
  HostCheckOptions options;
  for (int c = 0; c < kCollectiveCount && words.collectives.empty(); ++c)
    if (const auto collective = static_cast<Collective>(c); collective != Collective::send_recv && !varies(collective))
      options.collectives.push_back(collective);
  std::stringstream list(words.collectives);
  for (std::string name; std::getline(list, name, ',');) {
    PEAL_ASSIGN(const Collective collective, parse_collective(name));
    if (collective == Collective::send_recv || has_private_counts(collective))
      return fail(ErrorCode::invalid_argument, "{} has no predicted time to check; leave it out of --collectives", name);
    options.collectives.push_back(collective);
  }
  if (!(words.budget_s > 0) || words.budget_s > 3600)
    return fail(ErrorCode::invalid_argument, "--budget {} is no time to spend; give seconds above 0, at most 3600", words.budget_s);
  options.budget_s = words.budget_s / static_cast<double>(words.transports.empty() ? 2 : 1);
  return options;
}

/// "15,30": percent in the median, percent at worst.
Result<std::pair<double, double>> host_bounds_of(const std::string& text) {
  if (text.empty()) return std::pair{0.15, 0.30};
  double median = 0, worst = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%lf,%lf%c", &median, &worst, &rest) != 2 || !(median > 0 && worst >= median && worst < 1e6))
    return fail(ErrorCode::invalid_argument,
                "--bound {} does not say what --host is held to; give percent in the median and at worst, as 15,30", text);
  return std::pair{median / 100, worst / 100};
}

// One rank. Rank 0 writes the cells.
Result<int> measure_host(const HostCheckWords& words) {
  PEAL_ASSIGN(const bootstrap::Job job, bootstrap::job_from_environment());
  PEAL_ASSIGN(const HostCheckOptions options, check_options_of(words));
  comm::CoreOptions core_options;
  PEAL_ASSIGN(core_options.transport, transport_of(words.transports));
  PEAL_ASSIGN(const std::shared_ptr<comm::Core> world, comm::Core::world(job, core_options));
  const bool writes = world->rank() == 0;
  PEAL_ASSIGN(std::vector<HostCell> cells, run_host_check(*world, options, [&](const std::string& line) {
                if (writes) std::fprintf(stderr, "peal validate: %s: %s\n", words.transports.c_str(), line.c_str());
              }));
  for (HostCell& cell : cells) cell.transport = words.transports;
  if (writes) PEAL_TRY(write_output(words.part, host_check_json(cells)));
  comm::Call barrier{Collective::barrier};
  PEAL_TRY(world->run(barrier));
  return 0;
}

/// The table must speak of this host and of as many ranks.
Status check_table(int ranks) {
  PEAL_ASSIGN(const tuning::MeasuredTable table, tuning::load_measured_table());
  const auto is_of_these = [&](const tuning::MeasuredConstants& c) { return c.ranks == ranks; };
  if (std::none_of(table.constants.begin(), table.constants.end(), is_of_these))
    return fail(ErrorCode::invalid_argument, "no table has constants of this host for {} ranks; type `peal tune --ranks {}` first", ranks,
                ranks);
  PEAL_ASSIGN(const std::string host, discovery::host_fingerprint());
  if (table.host != host)
    return fail(ErrorCode::invalid_argument,
                "the table {} was measured on another host ({}; this is {}); type `peal tune --ranks {}` first",
                tuning::measured_table_path(), table.host, host, ranks);
  return {};
}

Result<int> launch_check(const HostCheckWords& words, const std::string& transport, const std::string& part, std::vector<HostCell>& cells) {
  std::vector<std::string> arguments = {
      "validate",    "--host",  "--part",   part,
      "--transport", transport, "--budget", fmt::format("{}", words.transports.empty() ? words.budget_s / 2 : words.budget_s)};
  if (!words.collectives.empty()) arguments.insert(arguments.end(), {"--collectives", words.collectives});
  PEAL_ASSIGN(const LaunchOutcome outcome, launch(spec_of_this_tool(words.ranks, arguments)));
  if (outcome.exit_code != 0) {
    if (!outcome.has_said_why) std::fprintf(stderr, "peal validate: %s\n", outcome.why.c_str());
    return outcome.exit_code;
  }
  PEAL_ASSIGN(const std::string text, content_of(part));
  PEAL_ASSIGN(const std::vector<HostCell> found, host_cells_from_json(text));
  cells.insert(cells.end(), found.begin(), found.end());
  return 0;
}

}  // namespace

Result<int> validate_host(const HostCheckWords& words) {
  if (!words.part.empty()) return measure_host(words);
  PEAL_TRY(check_options_of(words));
  if (!words.transports.empty() && words.transports != "shm" && words.transports != "tcp")
    return fail(ErrorCode::invalid_argument, "--transport {} cannot be checked; type shm or tcp, or leave it out for both",
                words.transports);
  PEAL_ASSIGN(const auto bounds, host_bounds_of(words.bound));
  PEAL_TRY(can_write(words.json));
  if (words.ranks < 2) return fail(ErrorCode::invalid_argument, "--ranks {} is no number of ranks; give 2 or more", words.ranks);
  if (const int cores = bootstrap::local_contact(0).cores; words.ranks > cores)
    return fail(ErrorCode::unsupported,
                "{} ranks on {} cores are not predicted: they take turns, and the kernel says when; give --ranks {} or fewer", words.ranks,
                cores, cores);
  PEAL_TRY(check_table(words.ranks));
  Scratch scratch;
  PEAL_TRY(scratch.make());
  std::vector<HostCell> cells;
  for (const std::string transport : {"shm", "tcp"}) {
    if (!words.transports.empty() && words.transports != transport) continue;
    PEAL_ASSIGN(const int code, launch_check(words, transport, (scratch.path / transport).string(), cells));
    if (code != 0) return code;
  }
  const HostErrors errors = errors_of(cells);
  const bool is_kept = errors.cells > 0 && errors.median <= bounds.first && errors.worst <= bounds.second;
  if (words.json != "-") PEAL_TRY(write_output("-", host_check_text(cells, bounds.first, bounds.second)));
  if (!words.json.empty())
    PEAL_TRY(
        write_output(words.json, fmt::format("{{\"schema\":\"peal.host-check/1\",\"bounds\":[{},{}],\"median\":{:.4g},\"worst\":{:.4g},"
                                             "\"cells\":{}}}\n",
                                             bounds.first, bounds.second, errors.median, errors.worst, host_check_json(cells))));
  return is_kept ? 0 : 1;
}

}  // namespace peal::cli
