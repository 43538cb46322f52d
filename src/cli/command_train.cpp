// peal train: starts the ranks of a small GPT's training, or is one of them.
#include <signal.h>

#include <atomic>
#include <base/settings.hpp>
#include <bootstrap/job.hpp>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/launcher.hpp>
#include <cli/train_words.hpp>
#include <memory>
#include <parallel/checkpoint.hpp>

namespace peal::cli {

namespace {

std::atomic<bool> stop_asked{false};

void ask_to_stop(int) { stop_asked.store(true); }

// Ctrl-C ends the run after the step that is being taken: all ranks agree on which.
void listen_for_stop() {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

// One rank more than workers.
Result<int> train_stale_here(const TrainWords& words) {
  listen_for_stop();
  PEAL_ASSIGN(const bootstrap::Job job, bootstrap::job_from_environment());
  PEAL_ASSIGN(parallel::StaleOptions options, stale_options_of(words, job.size));
  options.stop = &stop_asked;
  if (job.size != options.job.layout.dp + 1)
    return fail(ErrorCode::invalid_argument, "{} workers and a rank for the parameters are not {} ranks; give --dp {}",
                options.job.layout.dp, job.size, job.size - 1);
  PEAL_ASSIGN(comm::CoreOptions core_options, comm::complete({}));
  PEAL_ASSIGN(const std::shared_ptr<comm::Core> world, comm::Core::world(job, core_options));
  const bool prints = job.rank == 0;
  if (prints) PEAL_TRY(write_output("-", stale_heading(words, options)));
  PEAL_ASSIGN(const parallel::StaleReport report, parallel::train_stale(options, world, [&](const parallel::StaleNote& note) {
                if (is_shown(options.steps, note.updates / options.job.layout.dp)) (void)write_output("-", stale_line(note));
              }));
  if (prints) PEAL_TRY(write_output("-", stale_ending(options, report)));
  float stopped = report.was_stopped ? 1.0F : 0.0F;
  PEAL_TRY(parallel::Group(world).sum(&stopped, 1));
  return stopped > 0 ? 128 + SIGINT : 0;
}

// What cannot be read or written is found before hours are spent on it.
Status check_files(const TrainWords& words, const parallel::TrainOptions& options) {
  const training::Transformer& shape = options.job.model.transformer;
  PEAL_TRY(can_write(words.json));
  if (!options.save.empty()) PEAL_TRY(parallel::check_can_save(shape, options.save));
  if (!options.resume.empty()) PEAL_TRY(parallel::check_can_load(shape, options.resume));
  return {};
}

Result<int> train_here(const TrainWords& words) {
  listen_for_stop();
  PEAL_ASSIGN(const bootstrap::Job job, bootstrap::job_from_environment());
  PEAL_ASSIGN(parallel::TrainOptions options, train_options_of(words, job.size));
  options.stop = &stop_asked;
  if (job.rank == 0) PEAL_TRY(check_files(words, options));
  std::shared_ptr<comm::Core> world;
  if (job.size > 1) {
    PEAL_ASSIGN(comm::CoreOptions core_options, comm::complete({}));
    PEAL_ASSIGN(world, comm::Core::world(job, core_options));
  }
  const bool prints = job.rank == 0 && words.json != "-";
  if (prints) PEAL_TRY(write_output("-", train_heading(words, options)));
  std::int64_t taken = 0;
  PEAL_ASSIGN(const parallel::TrainReport report, parallel::train(options, world, [&](const parallel::StepNote& note) {
                if (prints && is_shown(options.steps, ++taken)) (void)write_output("-", train_line(note));
              }));
  if (prints) PEAL_TRY(write_output("-", train_ending(report)));
  if (job.rank == 0 && !words.json.empty()) PEAL_TRY(write_output(words.json, train_json(options, report)));
  if (world != nullptr) {
    comm::Call barrier{Collective::barrier};
    PEAL_TRY(world->run(barrier));
  }
  if (report.was_stopped) return 128 + SIGINT;
  return report.check && !report.check->holds() ? 1 : 0;
}

Result<int> run_train(const TrainWords& words, const std::vector<std::string>& arguments) {
  const bool is_rank = has_setting("PEAL_RANK") || has_setting("RANK") || has_setting("OMPI_COMM_WORLD_RANK");
  if (is_rank) return words.asynchronous ? train_stale_here(words) : train_here(words);
  if (words.timeout_s < 0) return fail(ErrorCode::invalid_argument, "--timeout {} is negative; give seconds", words.timeout_s);
  PEAL_ASSIGN(const parallel::TrainOptions options, train_options_of(words, 0));
  if (words.asynchronous) PEAL_TRY(stale_options_of(words, 0));
  if (!words.asynchronous && (words.staleness != kUnbounded || words.straggler != 1))
    return fail(ErrorCode::invalid_argument, "--staleness and --straggler are of asynchronous training; give --async, too");
  PEAL_TRY(check_files(words, options));
  LaunchSpec spec = spec_of_this_tool(options.job.layout.gpus() + (words.asynchronous ? 1 : 0), arguments);
  spec.timeout_s = words.timeout_s;
  spec.patience_s = kStepPatience_s;
  PEAL_ASSIGN(const LaunchOutcome outcome, launch(spec));
  if (outcome.exit_code > 1 && !outcome.has_said_why) std::fprintf(stderr, "peal train: %s\n", outcome.why.c_str());
  return outcome.exit_code;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto words = std::make_shared<TrainWords>();
  CLI::App* command =
      app.add_subcommand("train",
                         "Train a small GPT for real on ranks of this host, cut as you say, and compare with the serial run.\n"
                         "Example: peal train --dp 2 --tp 2 --pp 2 --check\n"
                         "Experts spread over two ranks each: peal train --experts 4 --chosen 2 --dp 4 --ep 2 --check\n"
                         "Nobody in step with anybody: peal train --dp 4 --async --staleness 2\n"
                         "Go on with another cut: peal train --tp 2 --save m.peal; peal train --dp 4 --zero 3 --resume m.peal");
  add_train_options(*command, *words);
  command->callback([words, &action] { action = [words] { return run_train(*words, original_arguments()); }; });
}

}  // namespace peal::cli
