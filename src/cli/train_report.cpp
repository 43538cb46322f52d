// What peal train prints.
#include <algorithm>
#include <cli/train_words.hpp>
#include <nlohmann/json.hpp>

namespace peal::cli {

namespace {

constexpr std::int64_t kLines = 20;

std::int64_t parameters_of_job(const parallel::GptJob& job) {
  std::int64_t sum = 0;
  for (const parallel::ParameterSpec& spec : parallel::all_parameters_of(job.model.transformer)) sum += spec.elements();
  return sum;
}

// For who did not ask for plain loops and got them.
std::string arithmetic_hint(const TrainWords& words, const parallel::GptJob& job) {
  if (words.arithmetic != "auto" || job.arithmetic != &parallel::plain_arithmetic()) return {};
  return "# for libtorch's arithmetic install libtorch-dev (Debian) or PyTorch, and build Peal anew\n";
}

}  // namespace

std::string train_heading(const TrainWords& words, const parallel::TrainOptions& options) {
  const parallel::GptJob& job = options.job;
  const training::Transformer& t = job.model.transformer;
  std::string more = t.experts.count > 0 ? fmt::format(", {} of {} experts", t.experts.chosen, t.experts.count) : std::string();
  if (t.ties_embeddings) more += ", tied embeddings";
  return fmt::format("# peal train: {} layers of {}, {} heads{}, {} tokens; {} parameters; {} ranks: {}; arithmetic: {}\n", t.layers,
                     t.hidden, t.heads, more, job.layout.seq_len_of(job.model), parameters_of_job(job), job.layout.gpus(),
                     training::describe(job.layout), job.arithmetic->name()) +
         arithmetic_hint(words, job) +
         fmt::format("# {:>6} {:>9} {:>9} {:>10}   computing waited, ms: {:>9} {:>9} {:>9} {:>9} {:>9}\n", "step", "loss", "ms", "tokens/s",
                     "gradients", "pipeline", "tensor", "context", "experts");
}

bool is_shown(std::int64_t steps, std::int64_t taken) {
  return taken % std::max<std::int64_t>(1, steps / kLines) == 0 || taken == 1 || taken == steps;
}

std::string train_line(const parallel::StepNote& note) {
  return fmt::format("{:>8} {:>9.5f} {:>9.2f} {:>10.0f}   {:>21} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f}\n", note.step, note.loss,
                     note.seconds * 1e3, note.tokens_per_s, "", note.times.gradients_waited * 1e3, note.times.pipeline_waited * 1e3,
                     note.times.tensor_waited * 1e3, note.times.context_waited * 1e3, note.times.experts_waited * 1e3);
}

std::string train_ending(const parallel::TrainReport& report) {
  std::string text = fmt::format("# parameters, gradients and moments of the fullest rank: {:.2f} MB\n", report.state_bytes * 1e-6);
  if (const double hidden = report.hidden_share(); hidden >= 0)
    text += fmt::format("# communication of gradients and parameters: {:.0f} % hidden behind computing\n", 100 * hidden);
  if (report.was_stopped) text += fmt::format("# stopped as asked after step {}\n", report.steps.back().step);
  if (!report.saved.empty()) text += fmt::format("# checkpoint: {} (--resume {} goes on, with any layout)\n", report.saved, report.saved);
  if (report.check) {
    const parallel::CheckResult& check = *report.check;
    text += fmt::format(
        "# check: {} gradients of {} steps against the serial run: largest difference {:.2e} of the largest of {} (step {}); loss {:.2e}; "
        "allowed {:.0e}: {}\n",
        check.compared, report.steps.size(), check.gradient, check.parameter, check.step + 1, check.loss, parallel::kCheckTolerance,
        check.holds() ? "the same" : "THEY DIFFER");
  }
  return text;
}

std::string stale_heading(const TrainWords& words, const parallel::StaleOptions& options) {
  const std::string bound = options.bound < 0 ? "without a bound" : fmt::format("at most {} steps ahead of the slowest", options.bound);
  return fmt::format("# peal train: {} parameters; {} workers, {}, and one rank that keeps the parameters; arithmetic: {}\n",
                     parameters_of_job(options.job), options.job.layout.dp, bound, options.job.arithmetic->name()) +
         arithmetic_hint(words, options.job) + fmt::format("# {:>8} {:>9} {:>15}\n", "updates", "loss", "mean staleness");
}

std::string stale_line(const parallel::StaleNote& note) {
  return fmt::format("{:>10} {:>9.5f} {:>15.2f}\n", note.updates, note.loss, note.mean_staleness);
}

std::string stale_ending(const parallel::StaleOptions& options, const parallel::StaleReport& report) {
  std::string text = "# staleness, in updates between pull and push: ";
  for (std::size_t s = 0; s < report.staleness.size(); ++s)
    if (report.staleness[s] > 0) text += fmt::format("{}: {} gradients, ", s, report.staleness[s]);
  text += fmt::format("mean {:.2f}, largest {}\n", report.mean_staleness(), report.largest_staleness());
  text += fmt::format("# largest lead over the slowest worker: {} steps{}\n", report.largest_lead,
                      options.bound < 0 ? "" : fmt::format(" ({} allowed)", options.bound));
  text += fmt::format("# loss of text that nobody learns from: {:.5f} at first, {:.5f} at the end; {:.0f} tokens/s\n", report.first_loss,
                      report.last_loss, report.tokens_per_s);
  if (report.was_stopped) text += "# stopped as asked\n";
  return text;
}

std::string train_json(const parallel::TrainOptions& options, const parallel::TrainReport& report) {
  nlohmann::ordered_json json;
  json["schema"] = "peal.train/1";
  json["layout"] = training::options_of(options.job.layout);
  json["ranks"] = options.job.layout.gpus();
  json["parameters"] = parameters_of_job(options.job);
  json["arithmetic"] = options.job.arithmetic->name();
  json["first_step"] = report.first_step;
  json["stopped"] = report.was_stopped;
  json["state_bytes"] = report.state_bytes;
  json["hidden_share"] = report.hidden_share() < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(report.hidden_share());
  for (const parallel::StepNote& note : report.steps)
    json["steps"].push_back({{"step", note.step},
                             {"loss", note.loss},
                             {"seconds", note.seconds},
                             {"tokens_per_s", note.tokens_per_s},
                             {"gradients_took_s", note.times.gradients_took},
                             {"gradients_waited_s", note.times.gradients_waited},
                             {"pipeline_waited_s", note.times.pipeline_waited},
                             {"tensor_waited_s", note.times.tensor_waited},
                             {"context_waited_s", note.times.context_waited},
                             {"experts_waited_s", note.times.experts_waited}});
  if (report.check)
    json["check"] = {{"gradient", report.check->gradient}, {"parameter", report.check->parameter},   {"loss", report.check->loss},
                     {"compared", report.check->compared}, {"tolerance", parallel::kCheckTolerance}, {"holds", report.check->holds()}};
  return json.dump(2) + "\n";
}

}  // namespace peal::cli
