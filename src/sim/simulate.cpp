#include <algorithm>
#include <base/names.hpp>
#include <cmath>
#include <map>
#include <sim/simulate.hpp>

namespace peal::sim {

namespace {

bool works_in_place(Collective c) {
  return c != Collective::all_to_all && c != Collective::all_to_all_v && c != Collective::send_recv && c != Collective::barrier;
}

/// Elements as nccl-tests prints them: of one rank's block where the collective has blocks.
std::uint64_t count_of(const tuning::Call& call, int ranks) {
  const tuning::Elements e = tuning::elements_of(call, ranks);
  const bool is_exchange = call.collective == Collective::all_to_all || call.collective == Collective::all_to_all_v;
  return is_exchange ? e.input / static_cast<std::uint64_t>(ranks) : std::min(e.input, e.output);
}

/// A call as it is about to run: what the groups choose, and a plan for each choice.
struct Prepared {
  std::vector<GroupChoice> choices;
  std::vector<tuning::Plan> plans;     // by choice
  std::vector<std::size_t> choice_of;  // by group
  std::vector<Job> jobs;               // by group; point into plans
  const tuning::Candidate& candidate(std::size_t group) const { return choices[choice_of[group]].selection.chosen(); }
};

Result<Prepared> prepare(const Scene& scene, const tuning::Question& question) {
  Prepared ready;
  PEAL_ASSIGN(ready.choices, choose(scene, question));
  ready.choice_of.resize(scene.groups());
  ready.plans.reserve(ready.choices.size());
  for (std::size_t c = 0; c < ready.choices.size(); ++c) {
    const tuning::Candidate& best = ready.choices[c].selection.chosen();
    const tuning::Environment& environment = scene.environment_of(ready.choices[c].groups.front());
    PEAL_ASSIGN(tuning::Plan plan, tuning::make_plan(environment, *best.algorithm, best.protocol, question.call));
    ready.plans.push_back(std::move(plan));
    for (std::size_t g : ready.choices[c].groups) ready.choice_of[g] = c;
  }
  for (std::size_t g = 0; g < scene.groups(); ++g)
    ready.jobs.push_back({&ready.plans[ready.choice_of[g]], scene.devices_of(g), &scene.environment_of(g), scene.options.wires});
  return ready;
}

/// The value below which a share of sorted values lies (nearest rank).
double percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

Timing timing_of(const tuning::Call& call, int ranks, std::vector<double> us) {
  std::sort(us.begin(), us.end());
  Timing t;
  for (double time : us) t.time_us += time / static_cast<double>(us.size());
  t.p50_us = percentile(us, 0.5);
  if (us.size() > 1) t.spread = Spread{static_cast<int>(us.size()), us.front(), percentile(us, 0.9), percentile(us, 0.99), us.back()};
  t.algbw = t.time_us > 0 ? static_cast<double>(tuning::size_of_call(call, ranks).value) / (t.time_us * 1e3) : 0;
  t.busbw = t.algbw * tuning::bus_factor(call.collective, ranks);
  return t;
}

double slowest_us(const Outcome& outcome) { return std::max_element(outcome.job_times.begin(), outcome.job_times.end())->microseconds(); }

/// Times of all runs in microseconds; what came out of the first.
struct Runs {
  std::vector<double> us;
  Outcome first;
};

Result<Runs> run(const Scene& scene, const Prepared& ready, InterpretOptions options, int runs) {
  Runs done;
  PEAL_ASSIGN(done.first, interpret(ready.jobs, *scene.resources, options));
  done.us.push_back(slowest_us(done.first));
  options.keeps_log = options.keeps_path = options.keeps_trace = false;
  for (int i = 1; i < runs; ++i) {
    ++options.jitter.seed;
    PEAL_ASSIGN(const Outcome again, interpret(ready.jobs, *scene.resources, options));
    done.us.push_back(slowest_us(again));
  }
  return done;
}

Row row_of(const Scene& scene, const tuning::Question& question, const Prepared& ready, const Outcome& outcome) {
  const int ranks = scene.environment.ranks;
  const auto slowest =
      static_cast<std::size_t>(std::max_element(outcome.job_times.begin(), outcome.job_times.end()) - outcome.job_times.begin());
  const tuning::Candidate& best = ready.candidate(slowest);
  Row row;
  row.bytes = tuning::size_of_call(question.call, ranks).value;
  row.count = count_of(question.call, ranks);
  row.type = question.call.type;
  row.op = has_reduction(question.call.collective) ? "sum" : "none";
  row.root = has_root(question.call.collective) ? question.call.root : -1;
  row.algorithm = best.algorithm->name;
  row.protocol = schedule::name_of(best.protocol);
  row.predicted_us = best.prediction.time.microseconds();
  row.folded = {outcome.simulated_ranks, ranks * static_cast<int>(scene.groups()), outcome.repeated_pieces, outcome.chunk_spread};
  if (const ResourceUse* use = outcome.bottleneck()) {
    row.bottleneck = use->name;
    row.utilisation = use->utilisation;
  }
  for (std::size_t g = 0; scene.groups() > 1 && g < scene.groups(); ++g) {
    const tuning::Candidate& own = ready.candidate(g);
    row.groups.push_back(
        {outcome.job_times[g].microseconds(), std::string(own.algorithm->name), std::string(schedule::name_of(own.protocol))});
  }
  return row;
}

}  // namespace

Result<std::vector<GroupChoice>> choose(const Scene& scene, const tuning::Question& question) {
  std::vector<GroupChoice> choices;
  std::map<std::string, std::size_t> known;
  for (std::size_t g = 0; g < scene.groups(); ++g) {
    // Equal environments choose alike; they are equal where their texts are.
    const auto [it, is_new] = known.try_emplace(scene.groups() > 1 ? tuning::to_json(scene.environment_of(g)) : "", choices.size());
    if (is_new) {
      GroupChoice choice;
      PEAL_ASSIGN(choice.selection, tuning::select(scene.environment_of(g), question));
      choices.push_back(std::move(choice));
    }
    choices[it->second].groups.push_back(g);
  }
  return choices;
}

Result<Study> study(const Scene& scene, const tuning::Question& question, const InterpretOptions& options, int runs) {
  tuning::Question asked = question;
  asked.call.is_in_place = false;
  PEAL_ASSIGN(const Prepared outside, prepare(scene, asked));
  PEAL_ASSIGN(Runs out, run(scene, outside, options, runs));
  Study study{row_of(scene, question, outside, out.first), {}};
  study.row.out_of_place = timing_of(question.call, scene.environment.ranks, std::move(out.us));
  study.outcome = std::move(out.first);
  if (works_in_place(question.call.collective) && !options.failure) {
    asked.call.is_in_place = true;
    PEAL_ASSIGN(const Prepared inside, prepare(scene, asked));
    InterpretOptions quiet = options;
    quiet.keeps_log = quiet.keeps_path = quiet.keeps_trace = false;
    PEAL_ASSIGN(Runs in, run(scene, inside, quiet, runs));
    study.row.in_place = timing_of(question.call, scene.environment.ranks, std::move(in.us));
  }
  return study;
}

Result<Row> simulate(const Scene& scene, const tuning::Question& question, Trace* trace) {
  InterpretOptions options;
  options.keeps_trace = trace != nullptr;
  PEAL_ASSIGN(Study done, study(scene, question, options));
  if (trace != nullptr) *trace = std::move(done.outcome.trace);
  return std::move(done.row);
}

Table table_of(const Scene& scene, Collective collective) {
  Table table;
  table.collective = collective;
  table.ranks = scene.environment.ranks;
  table.groups = static_cast<int>(scene.groups());
  table.nodes = scene.environment.nodes;
  table.machine = scene.resources->cluster().machine().title;
  for (const tuning::Level& level : scene.environment.level)
    if (level.is_used) table.wires += (table.wires.empty() ? "" : ", ") + level.scope;
  return table;
}

}  // namespace peal::sim
