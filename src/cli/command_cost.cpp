// peal cost: hours, energy and money of a training run, bought, rented, and over a slower network.
#include <cli/claim_words.hpp>
#include <CLI/CLI.hpp>
#include <cli/cluster_words.hpp>
#include <cli/commands.hpp>
#include <cli/layout_words.hpp>
#include <memory>
#include <topology/machine.hpp>
#include <training/compute.hpp>
#include <training/cost.hpp>
#include <training/model.hpp>
#include <training/step.hpp>

namespace peal::cli {

namespace {

struct CostWords {
  ClusterWords cluster;
  LayoutWords layout;
  std::string model, prices, slower, as_of, json;
  double flops = 0, tokens = 0, hours = 0;
  double utilisation = 0, slower_utilisation = 0, slower_hours = 0;
};

Result<double> flops_of(const CostWords& words) {
  if (words.flops > 0) return words.flops;
  PEAL_ASSIGN(const training::Model model, training::find_model(words.model));
  if (!model.is_transformer()) return words.tokens * training::training_flops(model, 0);
  const std::int64_t seq_len = words.layout.layout.seq_len_of(model);
  return words.tokens / static_cast<double>(seq_len) * training::training_flops(model, seq_len);
}

/// FLOP/s of a GPU.
Result<double> peak_of(const topology::Cluster& cluster, const std::string& precision) {
  PEAL_ASSIGN(const training::Processor processor, training::processor_of(cluster));
  PEAL_ASSIGN(const training::Precision p, training::parse_precision(precision));
  const training::Precision had = training::computed_in(processor, p);
  // What is meant by default older GPUs have in fp16.
  if (had != p && p != training::Precision::bf16)
    return fail(ErrorCode::invalid_argument, "a {} has no {} products; give --precision {}", processor.name, precision,
                training::name_of(had));
  return processor.tflops[static_cast<std::size_t>(had)] * 1e12;
}

bool is_machine(const std::string& name) {
  const auto machines = topology::list_machines();
  return machines && std::any_of(machines->begin(), machines->end(), [&](const topology::MachineEntry& m) { return m.name == name; });
}

/// As many steps of the layout as the tokens take.
/// The libraries' formulas know no fabric: where two are compared, both are simulated with Peal's schedules.
Result<double> simulated_hours(const CostWords& words, const topology::Cluster& cluster) {
  PEAL_ASSIGN(const training::Model model, training::find_model(words.model));
  PEAL_ASSIGN(const training::Layout layout, layout_of(words.layout, model, cluster.ranks()));
  training::StepOptions options;
  const bool compares_fabrics = !words.slower.empty() && !is_machine(words.slower);
  options.whose = compares_fabrics ? sim::Library::peal : sim::library_of(cluster, cluster.device_of_rank(0));
  PEAL_ASSIGN(const training::Processor processor, training::processor_of(cluster));
  PEAL_TRY(training::fits(model, layout, processor));
  PEAL_ASSIGN(const training::StepStudy study, training::simulate_step(model, cluster, layout, options));
  return words.tokens / study.report.tokens_per_s / 3600;
}

constexpr double kSimulated = 0;

/// `utilisation` kSimulated: by the step of the layout.
Result<double> hours_of(const CostWords& words, const topology::Cluster& cluster, double utilisation) {
  if (utilisation == kSimulated) return simulated_hours(words, cluster);
  PEAL_ASSIGN(const double flops, flops_of(words));
  PEAL_ASSIGN(const double peak, peak_of(cluster, words.layout.precision));
  return flops / (peak * cluster.ranks() * utilisation) / 3600;
}

bool has_layout(const LayoutWords& words) {
  const training::Layout& l = words.layout;
  return l.tp * l.pp * l.cp > 1 || l.zero > 0 || words.dp > 0 || words.global_batch > 0 || l.micro_batch > 1;
}

Status check_utilisation(double value, std::string_view option) {
  if (value > 0 && value <= 1) return {};
  return fail(ErrorCode::invalid_argument, "{} {:g} is no share of the peak; give a number above 0 and at most 1, as 0.4", option, value);
}

/// What the run is, said in one way and wholly.
Status check_cost(const CostWords& words) {
  constexpr double kMostFlops = 1e40, kMostTokens = 1e20, kMostHours = 1e9;
  for (const auto& [option, value, most, like] : {std::tuple{"--flops", words.flops, kMostFlops, "3.1e23"},
                                                  {"--tokens", words.tokens, kMostTokens, "300e9"},
                                                  {"--hours", words.hours, kMostHours, "100"},
                                                  {"--mfu", words.utilisation, kMostFlops, "0.4"},
                                                  {"--compare-mfu", words.slower_utilisation, kMostFlops, "0.3"},
                                                  {"--compare-hours", words.slower_hours, kMostHours, "200"}})
    if (!(value >= 0 && value <= most))
      return fail(ErrorCode::invalid_argument, "{} {:g} cannot be; give a number above 0 and at most {:g}, as {}", option, value, most,
                  like);
  PEAL_TRY(training::parse_precision(words.layout.precision));
  const int ways = (words.flops > 0 ? 1 : 0) + (!words.model.empty() ? 1 : 0) + (words.hours > 0 ? 1 : 0);
  if (ways != 1)
    return fail(ErrorCode::invalid_argument, "{}; give one of --flops 3.1e23, --model gpt3-175b with --tokens 300e9, or --hours 100",
                ways == 0 ? "how long the run is was not said" : "how long the run is was said twice");
  if (!words.model.empty() && !(words.tokens > 0))
    return fail(ErrorCode::invalid_argument, "--model {} needs the tokens that it is trained on; add --tokens 300e9", words.model);
  if (words.model.empty() && words.tokens > 0)
    return fail(ErrorCode::invalid_argument, "--tokens needs the model that is trained on them; add --model gpt3-175b");
  const bool is_simulated = !words.model.empty() && words.utilisation == kSimulated && has_layout(words.layout);
  if (words.hours <= 0 && words.utilisation == kSimulated && !is_simulated)
    return fail(ErrorCode::invalid_argument,
                "what share of its peak a GPU reaches was not said; add --mfu 0.4, or to a --model its layout as `peal layout` finds it "
                "(--tp 8 --pp 8)");
  if (words.hours <= 0 && !is_simulated) PEAL_TRY(check_utilisation(words.utilisation, "--mfu"));
  if (words.cluster.machine.empty() && words.cluster.file.empty())
    return fail(ErrorCode::invalid_argument, "the machine was not said; add --machine dgx-a100 --nodes 128 (`peal machines` lists them)");
  if (words.slower.empty()) return {};
  if (words.slower_hours > 0) return {};
  if (words.hours > 0)
    return fail(ErrorCode::invalid_argument, "how long the run takes on {} was not said; add --compare-hours 200", words.slower);
  if (words.slower_utilisation == kSimulated && is_simulated) return {};
  if (words.slower_utilisation == kSimulated)
    return fail(ErrorCode::invalid_argument, "what share of its peak a GPU reaches on {} was not said; add --compare-mfu 0.3",
                words.slower);
  return check_utilisation(words.slower_utilisation, "--compare-mfu");
}

/// Another machine with as many GPUs in all, or the same machines on another fabric.
Result<topology::Cluster> slower_cluster(const CostWords& words, const topology::Cluster& cluster) {
  if (!is_machine(words.slower)) {
    ClusterWords same = words.cluster;
    same.fabric = words.slower;
    auto joined = cluster_of(same);
    if (!joined)
      return fail(ErrorCode::invalid_argument,
                  "--compare-network {} is no machine of `peal machines`, and as a fabric of these machines: {}", words.slower,
                  joined.error().message);
    return joined;
  }
  PEAL_ASSIGN(const topology::Cluster one, topology::build_cluster(words.slower, 1));
  const int nodes = (cluster.ranks() + one.ranks() - 1) / std::max(1, one.ranks());
  return topology::build_cluster(words.slower, nodes);
}

Result<training::NetworkComparison> comparison_of(const CostWords& words, const topology::Cluster& cluster, const training::JobCost& cost,
                                                  const training::Prices& prices) {
  PEAL_ASSIGN(const topology::Cluster other, slower_cluster(words, cluster));
  training::Job job = training::job_on(other, is_machine(words.slower) ? words.slower : words.cluster.machine);
  job.hours = words.slower_hours;
  if (job.hours <= 0) {
    PEAL_ASSIGN(job.hours, hours_of(words, other, words.slower_utilisation));
  }
  return training::compare_networks(cost, training::cost_of(job, prices));
}

void add_cost_options(CLI::App& command, CostWords& words) {
  add_cluster_options(command, words.cluster);
  command.add_option("--flops", words.flops, "Floating-point operations of the run, as 3.1e23");
  command.add_option("--model", words.model, "A model of the catalogue, or a file, whose FLOPs are counted");
  command.add_option("--tokens", words.tokens, "Tokens that it is trained on (of an image network: images), as 300e9");
  command.add_option("--mfu,--utilisation", words.utilisation,
                     "Share of its peak that a GPU reaches, as 0.4; without it a step of the layout is simulated");
  command.add_option("--hours", words.hours, "Instead of FLOPs: how long the run takes");
  command.add_option(
      "--compare-network", words.slower,
      "The same run on another machine of the catalogue with as many GPUs, or over another fabric (fat-tree,oversubscription=4)");
  command.add_option("--compare-mfu", words.slower_utilisation, "The share of the peak there (default: simulated too)");
  command.add_option("--compare-hours", words.slower_hours, "Or the hours there");
  command.add_option("--prices", words.prices, "Prices in YAML, in the place of data/prices/prices.yaml");
  command.add_option("--as-of", words.as_of, "The day that prices are judged on: those two years older are marked (default: today)");
  add_layout_options(command, words.layout);
}

/// The run on its machine.
Result<training::JobCost> priced(const CostWords& words, const topology::Cluster& cluster, const training::Prices& prices) {
  training::Job job = training::job_on(cluster, words.cluster.machine);
  job.hours = words.hours;
  if (job.hours <= 0) {
    PEAL_ASSIGN(job.hours, hours_of(words, cluster, words.utilisation));
  }
  return training::cost_of(job, prices);
}

Result<int> answer_cost(const CostWords& words) {
  PEAL_TRY(check_cost(words));
  PEAL_TRY(can_write(words.json));
  training::Day as_of = training::today();
  if (!words.as_of.empty()) {
    PEAL_ASSIGN(as_of, training::parse_day(words.as_of));
  }
  PEAL_ASSIGN(const training::Prices prices, training::load_prices(words.prices));
  PEAL_ASSIGN(const topology::Cluster cluster, cluster_of(words.cluster));
  PEAL_ASSIGN(const training::JobCost cost, priced(words, cluster, prices));
  std::optional<training::NetworkComparison> comparison;
  if (!words.slower.empty()) {
    PEAL_ASSIGN(comparison, comparison_of(words, cluster, cost, prices));
  }
  PEAL_TRY(write_report(training::cost_text(cost, prices, as_of) + (comparison ? training::network_text(*comparison, prices) : ""),
                        words.json, [&] { return training::cost_json(cost, comparison ? &*comparison : nullptr, prices, as_of); }));
  return 0;
}

}  // namespace

Result<topology::ClaimAnswer> price_claim(const std::string& sentence) {
  CLI::App app;
  CostWords words;
  add_cost_options(app, words);
  try {
    app.parse(sentence);
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::invalid_argument, "peal cost {}: {}", sentence, error.what());
  }
  PEAL_TRY(check_cost(words));
  PEAL_ASSIGN(const training::Prices prices, training::load_prices(words.prices));
  PEAL_ASSIGN(const topology::Cluster cluster, cluster_of(words.cluster));
  PEAL_ASSIGN(const training::JobCost cost, priced(words, cluster, prices));
  topology::ClaimAnswer answer;
  answer.microseconds = cost.job.hours * 3.6e9;
  answer.evidence = "prices of " + prices.file;
  answer.others = {{"hours", cost.job.hours}, {"years", cost.job.hours / (12 * training::kHoursAMonth)}};
  const auto add = [&](const training::CostFigure& figure, const std::string& unit) {
    if (figure.value) answer.others.emplace_back(unit, *figure.value);
  };
  add(cost.energy_kWh, "kWh");
  add(cost.electricity, prices.currency + " of electricity");
  add(cost.rent, prices.currency + " to rent");
  add(cost.machines, prices.currency + " to buy");
  add(cost.network, prices.currency + " of network");
  return answer;
}

void add_cost(CLI::App& app, Action& action) {
  auto words = std::make_shared<CostWords>();
  CLI::App* command = app.add_subcommand("cost",
                                         "What a training run costs: hours, energy, renting, buying, the slower network, break-even.\n"
                                         "Prices have a day and a source (data/prices); --prices takes yours.\n"
                                         "Example: peal cost --model gpt3-175b --tokens 300e9 --machine dgx-a100 --nodes 128 --mfu 0.45");
  add_cost_options(*command, *words);
  command->add_option("--json", words->json, "Write the costs as JSON (peal.cost/1) to a file, or - for standard output");
  command->callback([words, &action] { action = [words] { return answer_cost(*words); }; });
}

}  // namespace peal::cli
