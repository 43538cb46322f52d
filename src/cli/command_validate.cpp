// peal validate: predictions held against published measurements.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/host_check.hpp>
#include <filesystem>
#include <memory>
#include <set>
#include <sim/link_figures.hpp>
#include <sim/validate.hpp>
#include <training/validate_training.hpp>

namespace peal::cli {

namespace {

struct ValidateWords {
  std::vector<std::string> tables;
  std::string clusters, whose, bound, json, csv, fit;
  bool keeps_out = false, is_host = false;
  HostCheckWords host;
};

constexpr std::string_view kFitHeading =
    "# Constants of NCCL's kind of libraries, fitted to measured runs: `peal validate TABLE.csv --fit "
    "data/constants/libraries/fitted.yaml` writes this\n"
    "# file. prior and spread are where the fit starts and how far it may go (a standard deviation of the logarithm); machines and cases "
    "are\n"
    "# those that decided the value. A constant with one machine alone is no evidence for others, one without machines stands at its "
    "prior.\n";

/// What --clusters knows of the cases. A folder that is not there, or a file in it that no case asks for, was mistyped.
Status look_at_clusters(const std::string& folder, std::vector<sim::PublishedCase>& cases) {
  if (folder.empty()) return {};
  std::error_code error;
  std::filesystem::directory_iterator files(folder, error);
  if (error)
    return fail(ErrorCode::invalid_argument, "--clusters {} is no folder that can be read; give one with <case_id>.yaml in it", folder);
  std::set<std::string> ids;
  for (const sim::PublishedCase& c : cases) ids.insert(c.id);
  for (const auto& file : files)
    if (file.path().extension() == ".yaml" && ids.count(file.path().stem().string()) == 0)
      std::fprintf(stderr, "peal: %s belongs to no case of the table\n", file.path().c_str());
  const std::filesystem::path notes = std::filesystem::path(folder) / "notes.csv";
  if (!std::filesystem::is_regular_file(notes, error)) return {};
  PEAL_ASSIGN(const std::string text, sim::read_table_file(notes.string()));
  return sim::add_notes_text(cases, text, notes.string());
}

constexpr std::string_view kTrainingHeading =
    "# Constants of the roofline of training, fitted to measured runs: `peal validate data/measured/training.csv training.csv --fit "
    "data/constants/training/fitted.yaml` writes this\n"
    "# file. prior and spread are where the fit starts and how far it may go (a standard deviation of the logarithm); machines "
    "are\n"
    "# the sources of runs that decided the value. A constant with one source alone is no evidence for others, one without stands at its "
    "prior.\n"
    "# accuracy: mean and ninth decile of the errors of the step times, kept_out the mean of sources that the fit did not see.\n";

std::string all_tables(const ValidateWords& words) { return fmt::to_string(fmt::join(words.tables, " and ")); }

/// What was asked for, each where it was asked for.
Status write_answers(const ValidateWords& words, const std::string& text, const std::string& json, const std::string& csv) {
  if (words.json != "-" && words.csv != "-") PEAL_TRY(write_output("-", text));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, json + "\n"));
  if (!words.csv.empty()) PEAL_TRY(write_output(words.csv, csv));
  return {};
}

/// No bound but what was typed: the first of it, for the median.
Result<int> validate_links(const ValidateWords& words, const std::vector<sim::LinkFigure>& figures) {
  std::optional<double> bound;
  if (!words.bound.empty()) {
    PEAL_ASSIGN(const sim::Bounds bounds, sim::parse_bounds(words.bound));
    bound = bounds.median[0];
  }
  PEAL_TRY(write_answers(words, sim::link_figures_text(words.tables[0], figures), sim::link_figures_json(words.tables[0], figures),
                         sim::link_figures_csv(figures)));
  const sim::LinkErrors errors = sim::errors_of(figures);
  return errors.rows > 0 && (!bound || errors.median <= *bound) ? 0 : 1;
}

Result<int> validate_training_runs(const ValidateWords& words, const std::vector<training::PublishedRun>& runs) {
  training::TrainingBounds bounds;
  if (!words.bound.empty()) {
    PEAL_ASSIGN(const sim::Bounds asked, sim::parse_bounds(words.bound));
    bounds.mean_error = asked.median[0].value_or(bounds.mean_error);
  }
  training::TrainingValidateOptions options;
  options.fits_anew = !words.fit.empty();
  options.keeps_out = words.keeps_out;
  if (::isatty(STDERR_FILENO) != 0) options.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  PEAL_ASSIGN(const training::TrainingStudy study, training::validate_training(all_tables(words), runs, options));
  const training::TrainingValidation& v = study.validation;
  if (!words.fit.empty()) PEAL_TRY(write_output(words.fit, topology::to_yaml(study.constants, kTrainingHeading)));
  PEAL_TRY(write_answers(words, training::training_validation_text(v, bounds), training::training_validation_json(v, bounds),
                         training::training_validation_csv(v)));
  return training::violations(v, bounds).empty() ? 0 : 1;
}

Result<int> validate_cases(const ValidateWords& words, std::vector<sim::PublishedCase> cases) {
  sim::Bounds bounds;
  if (!words.bound.empty()) {
    PEAL_ASSIGN(bounds, sim::parse_bounds(words.bound));
  }
  sim::ValidateOptions options;
  options.clusters = words.clusters;
  if (!words.whose.empty()) {
    PEAL_ASSIGN(options.whose, sim::parse_library(words.whose));
  }
  if (::isatty(STDERR_FILENO) != 0) options.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  PEAL_TRY(look_at_clusters(words.clusters, cases));
  if (!words.fit.empty()) {
    PEAL_ASSIGN(options.constants, sim::fit_to(cases, options));
    PEAL_TRY(write_output(words.fit, topology::to_yaml(*options.constants, kFitHeading)));
  }
  PEAL_ASSIGN(sim::Validation validation, sim::validate(all_tables(words), cases, options));
  if (words.keeps_out) PEAL_TRY(sim::keep_out(validation, cases, options));
  PEAL_TRY(write_answers(words, sim::validation_text(validation, bounds), sim::validation_json(validation, bounds),
                         sim::validation_csv(validation)));
  return sim::violations(validation, bounds).empty() ? 0 : 1;
}

Result<int> validate_this_host(const ValidateWords& words) {
  for (const auto& [option, is_given] : {std::pair{"table", !words.tables.empty()},
                                         {"--clusters", !words.clusters.empty()},
                                         {"--library", !words.whose.empty()},
                                         {"--fit", !words.fit.empty()},
                                         {"--csv", !words.csv.empty()}})
    if (is_given || words.keeps_out)
      return fail(ErrorCode::invalid_argument, "--host measures this host and takes no {}; leave it out",
                  words.keeps_out ? "--keep-out" : option);
  HostCheckWords host = words.host;
  host.bound = words.bound;
  host.json = words.json;
  return validate_host(host);
}

Result<int> validate_table(const ValidateWords& words) {
  if (words.tables.empty())
    return fail(ErrorCode::invalid_argument, "there is nothing to validate; type `peal validate measured.csv`, or `peal validate --host`");
  if (words.json == "-" && words.csv == "-")
    return fail(ErrorCode::invalid_argument, "--json - and --csv - cannot both have standard output; give one of them a file");
  PEAL_TRY(can_write(words.json));
  PEAL_TRY(can_write(words.csv));
  PEAL_TRY(can_write(words.fit));
  std::vector<training::PublishedRun> runs;
  std::vector<sim::PublishedCase> cases;
  for (const std::string& name : words.tables) {
    PEAL_ASSIGN(const std::string text, sim::read_table_file(name));
    if (training::is_training_table(text)) {
      PEAL_ASSIGN(std::vector<training::PublishedRun> more, training::read_training_text(text, name));
      std::move(more.begin(), more.end(), std::back_inserter(runs));
    } else if (sim::is_link_table(text)) {
      if (words.tables.size() > 1)
        return fail(ErrorCode::invalid_argument, "{} is a table of links, of which one is taken at a time; give it alone", name);
      PEAL_ASSIGN(const std::vector<sim::LinkFigure> figures, sim::read_link_figures(text, name));
      return validate_links(words, figures);
    } else {
      PEAL_ASSIGN(std::vector<sim::PublishedCase> more, sim::read_published_text(text, name));
      sim::add_cases(cases, std::move(more));
    }
    if (!runs.empty() && !cases.empty())
      return fail(ErrorCode::invalid_argument, "{} is of another kind than the tables before it: collectives and training runs are apart",
                  name);
  }
  if (!cases.empty()) return validate_cases(words, std::move(cases));
  return validate_training_runs(words, runs);
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
  auto words = std::make_shared<ValidateWords>();
  CLI::App* command = app.add_subcommand(
      "validate",
      "Hold predictions against a table of published nccl-tests runs (or of links, or of training runs): errors by case,\n"
      "class and size, and what the constants rest on. Exit code 1 where an error is above its bound.\n"
      "With --host: against calls that this host makes now.\n"
      "Example: peal validate measured.csv --csv rows.csv --bound 20,15,5");
  command->add_option("table", words->tables,
                      "CSV: case_id, machine, collective, bytes, time_us, ... (docs/guide/validate.md); several of one kind count as one");
  command->add_flag("--host", words->is_host,
                    "Instead of a table: measure collectives of this host now, at sizes and of kinds that `peal tune` did not fit to");
  command->add_option("--ranks,-n", words->host.ranks, "With --host: ranks to start")->capture_default_str();
  command->add_option("--transport", words->host.transports, "With --host: shm or tcp (default: both)");
  command->add_option("--collectives", words->host.collectives, "With --host: only these, as reduce,all_to_all");
  command->add_option("--budget", words->host.budget_s, "With --host: seconds to spend; the first round is always done")
      ->capture_default_str();
  command->add_option("--part", words->host.part, "")->group("");  // how the command starts its ranks
  command->add_option(
      "--clusters", words->clusters,
      "Folder: <case_id>.yaml describes a case's cluster, notes.csv its run, where the table is not enough (data/cases is one)");
  command->add_option("--library", words->whose, "Whose behaviour: nccl, rccl, hccl or peal (default: that of the machine's GPUs)");
  command->add_option("--bound", words->bound,
                      "Percent for every median; or for medians by size, small first; or these and 90th percentiles (20,15,5,50,40,20)");
  command->add_flag("--keep-out", words->keeps_out,
                    "Fit without each machine in turn and predict it: what is to be expected of machines that are new");
  command->add_option("--fit", words->fit,
                      "Fit the constants to the table and write them to a file (data/constants/libraries/fitted.yaml is one)");
  command->add_option("--json", words->json, "Write errors, constants and rows as JSON to a file, or - for standard output");
  command->add_option("--csv", words->csv, "Write every row beside its prediction to a file, or - for standard output");
  command->callback(
      [words, &action] { action = [words] { return words->is_host ? validate_this_host(*words) : validate_table(*words); }; });
}

}  // namespace peal::cli
