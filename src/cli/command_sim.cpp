// peal sim: what a collective would cost on a machine that need not be there.
#include <algorithm>
#include <base/trace.hpp>
#include <chrono>
#include <CLI/CLI.hpp>
#include <cli/commands.hpp>
#include <cli/library_words.hpp>
#include <cli/sim_words.hpp>
#include <memory>
#include <sim/call_report.hpp>
#include <sim/fault_words.hpp>
#include <sim/line_cost.hpp>
#include <sim/pictures.hpp>
#include <sim/report.hpp>

namespace peal::cli {

Result<std::vector<Bytes>> sizes_of(const SimWords& words) {
  PEAL_ASSIGN(const Bytes first, parse_bytes(words.first));
  constexpr Bytes kUsualLast{std::uint64_t{64} << 20};
  Bytes last = std::max(first, kUsualLast);
  if (!words.last.empty()) {
    PEAL_ASSIGN(last, parse_bytes(words.last));
  }
  if (first.value > last.value)
    return fail(ErrorCode::invalid_argument, "-b {} is above -e {}; give the smaller size first", words.first, words.last);
  if (words.factor < 2) return fail(ErrorCode::invalid_argument, "-f {} does not grow; give 2 or more", words.factor);
  PEAL_ASSIGN(const Collective collective, parse_collective(words.question.collective));
  std::vector<Bytes> sizes{first};
  while (collective != Collective::barrier && sizes.back().value > 0 && sizes.back().value <= last.value / words.factor)
    sizes.push_back({sizes.back().value * words.factor});
  return sizes;
}

Status set_effort(const SimWords& words, sim::InterpretOptions& options) {
  constexpr double kMostExactRates = 150e6;  // about half a minute's
  options.folds = !words.is_unfolded;
  if (words.rates == "auto")
    options.most_exact_rates = kMostExactRates;
  else if (words.rates == "kept")
    options.most_exact_rates = 0;
  else if (words.rates != "exact")
    return fail(ErrorCode::invalid_argument, "--rates {} is none of them; type auto, exact or kept", words.rates);
  return {};
}

namespace {

/// True once every few seconds.
class Pause {
 public:
  bool is_over() {
    if (Clock::now() < next_) return false;
    next_ = Clock::now() + kSeconds;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kSeconds{5};
  Clock::time_point next_ = Clock::now() + kSeconds;
};

}  // namespace

std::function<void(const sim::Progress&)> progress_on_stderr() {
  return [pause = Pause()](const sim::Progress& so_far) mutable {
    if (pause.is_over())
      fmt::print(stderr, "peal: {:.1f} million events so far, {:.3f} ms of the call, {:.1f} % of its work\n",
                 static_cast<double>(so_far.events) * 1e-6, so_far.now * 1e-6, so_far.share_done * 1e2);
  };
}

namespace {

/// Says there too how many seeds of a hash are done.
std::function<void(int, double)> seeds_on_stderr(int seeds) {
  return [seeds, pause = Pause()](int done, double us) mutable {
    if (pause.is_over()) fmt::print(stderr, "peal: {} of {} seeds of the hash, the last {:.2f} us\n", done, seeds, us);
  };
}

Status say(const SimWords& words, const std::string& text) { return words.json == "-" ? Status() : write_output("-", text); }

Result<std::vector<sim::MessageAsked>> messages_of(const SimWords& words) {
  std::vector<sim::MessageAsked> messages;
  for (const std::string& text : words.messages) {
    PEAL_ASSIGN(const sim::MessageAsked asked, sim::parse_message(text));
    messages.push_back(asked);
  }
  return messages;
}

/// What is written of the largest call beside its row.
Result<std::vector<sim::Detail>> tell_of_call(const SimWords& words, const sim::Scene& scene, const sim::Study& last) {
  std::vector<sim::Detail> details;
  if (words.utilisation) {
    PEAL_TRY(say(words, "\n" + sim::use_text(last.outcome, *scene.resources)));
    details.push_back({"resources", sim::use_json(last.outcome)});
  }
  if (words.critical_path) {
    PEAL_TRY(say(words, "\n" + sim::path_text(last.outcome)));
    details.push_back({"critical_path", sim::path_json(last.outcome)});
  }
  if (!words.messages.empty()) {
    PEAL_ASSIGN(const std::vector<sim::MessageAsked> asked, messages_of(words));
    PEAL_TRY(say(words, "\n" + sim::messages_text(last.outcome, asked)));
    details.push_back({"messages", sim::messages_json(last.outcome)});
  }
  if (!words.trace.empty()) PEAL_TRY(last.outcome.trace.write(words.trace));
  if (!words.svg.empty()) PEAL_TRY(write_output(words.svg, timeline_of(words.question, scene, last)));
  return details;
}

Result<int> simulate_failure(const SimWords& words, const sim::Scene& scene, tuning::Question question,
                             const sim::InterpretOptions& options) {
  PEAL_ASSIGN(const std::vector<Bytes> sizes, sizes_of(words));
  question.call.bytes = sizes.back();
  PEAL_ASSIGN(const sim::Study study, sim::study(scene, question, options));
  PEAL_TRY(say(words,
               fmt::format("{} of {}, {} {}\n", words.question.collective, to_text(sizes.back()), study.row.algorithm, study.row.protocol) +
                   sim::failure_text(study.outcome, *options.failure)));
  PEAL_ASSIGN(std::vector<sim::Detail> details, tell_of_call(words, scene, study));
  details.push_back({"failure", sim::failure_json(study.outcome, *options.failure)});
  const sim::Table table = sim::table_of(scene, question.call.collective);
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, sim::to_json(table, {}, details)));
  return 0;
}

}  // namespace

Status refuse_faults(const SimWords& words, std::string_view library) {
  if (!words.faults.any() && words.question.dead_links.empty()) return {};
  return fail(ErrorCode::invalid_argument,
              "--library {} has a formula for a machine that is whole and for one call at a time; leave faults, --hash-seeds and --beside "
              "out, or --library",
              library);
}

namespace {

/// What takes a schedule apart has nothing to look at in a formula.
Status refuse_details(const SimWords& words) {
  if (words.is_unfolded || words.rates != "auto")
    return fail(
        ErrorCode::invalid_argument,
        "--library {} has a formula for the time and simulates no messages; leave out --unfolded and --rates, or leave out --library",
        words.question.whose);
  const bool is_asked = words.utilisation || words.critical_path || !words.messages.empty() || !words.trace.empty() || !words.svg.empty();
  if (!is_asked) return {};
  return fail(ErrorCode::invalid_argument,
              "--library {} has a formula for the time and no schedule to look into; leave out --utilisation, --critical-path, --message, "
              "--trace and --svg, or leave out --library",
              words.question.whose);
}

Result<int> predict_table(const SimWords& words, const std::vector<Bytes>& sizes) {
  PEAL_TRY(refuse_details(words));
  PEAL_TRY(refuse_faults(words, words.question.whose));
  PEAL_ASSIGN(LibraryScene scene, library_scene_of(words.question));
  PEAL_TRY(say(words, sim::header_text(scene.table)));
  std::vector<sim::Row> rows;
  for (const Bytes& size : sizes) {
    scene.call.bytes = size;
    PEAL_ASSIGN(sim::Row row, sim::simulate(scene.model, scene.call));
    PEAL_TRY(say(words, sim::row_text(row)));
    rows.push_back(std::move(row));
  }
  PEAL_TRY(say(words, sim::footer_text(rows)));
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, sim::to_json(scene.table, rows) + "\n"));
  return 0;
}

Result<int> simulate_table(const SimWords& words) {
  for (const std::string& path : {words.json, words.trace, words.svg}) PEAL_TRY(can_write(path));
  if (words.ctas >= 0 && words.compute.empty())
    return fail(ErrorCode::invalid_argument, "--ctas says what calls take away from computing; give --compute TIME/PARTS too");
  if (!words.compare.empty()) return compare(words);
  if (!words.compute.empty()) return simulate_overlap(words);
  PEAL_ASSIGN(const std::vector<Bytes> sizes, sizes_of(words));
  if (words.question.whose != "peal") return predict_table(words, sizes);
  PEAL_ASSIGN(const sim::Scene scene, scene_of(words.question));
  PEAL_ASSIGN(tuning::Question question, question_of(words.question, scene.environment.ranks));
  PEAL_ASSIGN(sim::InterpretOptions options, interpret_options(words.faults, scene));
  PEAL_TRY(set_network(words.question, scene, options));
  PEAL_TRY(set_effort(words, options));
  PEAL_ASSIGN(const int runs, runs_of(words.faults));
  PEAL_ASSIGN(const int seeds, hash_seeds_of(words.faults));
  options.progress = progress_on_stderr();
  PEAL_ASSIGN(options.messages, messages_of(words));
  PEAL_ASSIGN(const std::vector<sim::Beside> beside, beside_of(words.faults));
  if (options.failure) {
    options.keeps_trace = !words.trace.empty() || !words.svg.empty();
    return simulate_failure(words, scene, question, options);
  }
  const sim::Table table = sim::table_of(scene, question.call.collective);
  PEAL_TRY(say(words, sim::header_text(table)));
  std::vector<sim::Row> rows;
  sim::Study last;
  for (const Bytes& size : sizes) {
    question.call.bytes = size;
    const bool is_last = &size == &sizes.back();
    options.keeps_trace = is_last && (!words.trace.empty() || !words.svg.empty());
    options.keeps_path = is_last && words.critical_path;
    if (seeds > 1) {
      PEAL_ASSIGN(last, sim::study_hashes(scene, question, options, {seeds, seeds_on_stderr(seeds)}, beside));
    } else {
      PEAL_ASSIGN(last, sim::study(scene, question, options, runs, beside));
    }
    rows.push_back(last.row);
    PEAL_TRY(say(words, sim::row_text(last.row) + sim::notes_text(last.row)));
  }
  PEAL_TRY(say(words, sim::footer_text(rows)));
  if (words.rates == "kept" && std::none_of(rows.begin(), rows.end(), [](const sim::Row& row) { return row.kept_rates_from.has_value(); }))
    PEAL_TRY(say(words,
                 "# Rates             : all worked out; none are kept where ranks are folded (see --unfolded), nor under --congestion\n"));
  PEAL_ASSIGN(std::vector<sim::Detail> details, tell_of_call(words, scene, last));
  if (options.congestion.control != sim::FlowControl::fair && seeds == 1) {
    PEAL_ASSIGN(const sim::LineCost cost, sim::cost_of_lines(scene, question, options, beside, last));
    PEAL_TRY(say(words, sim::line_cost_text(cost)));
    details.push_back({"network", sim::line_cost_json(cost)});
  }
  if (!words.json.empty()) PEAL_TRY(write_output(words.json, sim::to_json(table, rows, details) + "\n"));
  return 0;
}

}  // namespace

void add_sim_question(CLI::App& command, SimWords& words) {
  add_question_options(command, words.question);
  command
      .add_option("--library", words.question.whose,
                  "Whose behaviour: peal (its schedules, simulated), nccl, rccl or hccl (formulas, with their error)")
      ->capture_default_str();
  command.add_option("--library-version", words.question.nccl_version,
                     "With --library nccl: the version whose behaviour is asked for, as 2.18 (default: a recent one)");
  command
      .add_option("--processes", words.question.processes,
                  "With --library: each: a process for each GPU; one: a process for all GPUs of a node, as nccl-tests -g 8")
      ->capture_default_str();
  command.add_option("-b", words.first, "Smallest size (8, 64K, 1M)")->capture_default_str();
  command.add_option("--compute", words.compute,
                     "TIME[/PARTS]: every rank computes that long in equal parts, and makes the call after each part: what is hidden");
  command.add_option("--ctas", words.ctas,
                     "With --compute: thread blocks of a call, each on a processor of its own (default: NCCL's or RCCL's channels)");
}

void add_sim(CLI::App& app, Action& action) {
  auto words = std::make_shared<SimWords>();
  CLI::App* command =
      app.add_subcommand("sim",
                         "Simulate a collective on a machine that need not be there, in the columns of nccl-tests.\n"
                         "Example: peal sim all_reduce --machine dgx-h100 --nodes 4 -b 1M -e 1G -f 4\n"
                         "Others:  peal sim all_reduce --machine dgx-h100 --library nccl -b 8 -e 16G -f 8\n"
                         "         peal sim all_reduce --machine dgx-a100 --compare library=nccl,peal --svg busbw.svg\n"
                         "         peal sim all_reduce --machine dgx-h100 --nodes 2 -b 1M -e 256M -f 4 --compute 20ms/8\n"
                         "         peal sim all_to_all --machine gcp-a3-ultra --nodes 4 --compare congestion=fair,pfc,dcqcn\n"
                         "         peal sim all_to_all --machine dgx-h100 --nodes 8 --fabric fat-tree,levels=2,radix=64 --hash-seeds 20");
  add_sim_question(*command, *words);
  command->add_option("-e", words->last, "Largest size (default: 64M, or -b where that is more)");
  command->add_option("-f", words->factor, "Factor from one size to the next")->capture_default_str();
  command
      ->add_option("--congestion", words->question.congestion,
                   "What holds senders back at a port that is full: fair, credits, pfc, dcqcn, dcqcn:paper; auto: dcqcn on RoCE, else fair")
      ->capture_default_str();
  command->add_option("--gpudirect", words->question.gpudirect, "on: NICs reach the memory of GPUs; off: messages pass through host memory")
      ->capture_default_str();
  command->add_flag("--utilisation", words->utilisation, "What crossed each link in the largest call, and the bottleneck");
  command->add_flag("--critical-path", words->critical_path, "What the last rank of the largest call waited for");
  command
      ->add_option("--message", words->messages,
                   "FROM:TO[:N]: when the first message of the largest call from one rank to another, or that after N, began and arrived")
      ->allow_extra_args(false);
  command->add_flag("--unfolded", words->is_unfolded, "Simulate every rank and every piece, also where they behave alike");
  command
      ->add_option(
          "--rates", words->rates,
          "Of messages that share links: exact: worked out at every change; kept: about once in the time of a message; auto: kept where "
          "exact would take minutes")
      ->capture_default_str();
  add_fault_options(*command, words->faults);
  command
      ->add_option("--compare", words->compare,
                   "WHAT=A,B,...: machine, nodes, fabric (A;B), algorithm, protocol, ... beside one another; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--trace", words->trace, "Write the timeline of the largest row for https://ui.perfetto.dev");
  command->add_option("--svg", words->svg, "Draw that timeline; with --compare, bus bandwidth over size");
  command->add_option("--json", words->json, "Write the table as JSON to a file, or - for standard output");
  add_sim_link(*command, action);
  add_sim_trace(*command, action);
  add_sim_step(*command, action);
  command->callback([words, command, &action] {
    if (!command->get_subcommands().empty()) return;
    if (words->question.collective.empty()) throw CLI::RequiredError("collective");
    action = [words] { return simulate_table(*words); };
  });
}

}  // namespace peal::cli
