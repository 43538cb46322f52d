#include <algorithm>
#include <base/names.hpp>
#include <cmath>
#include <set>
#include <sim/simulate.hpp>
#include <topology/fabrics.hpp>

#include "prepared_call.hpp"
#include "same_work.hpp"

namespace peal::sim {

namespace {

/// Elements as nccl-tests prints them: of one rank's block where the collective has blocks.
std::uint64_t count_of(const tuning::Call& call, int ranks) {
  const tuning::Elements e = tuning::elements_of(call, ranks);
  const bool is_exchange = call.collective == Collective::all_to_all || call.collective == Collective::all_to_all_v;
  return is_exchange ? e.input / static_cast<std::uint64_t>(ranks) : std::min(e.input, e.output);
}

bool is_same_work(const Prepared& a, const Prepared& b) {
  return a.choice_of == b.choice_of && std::equal(a.plans.begin(), a.plans.end(), b.plans.begin(), b.plans.end(),
                                                  [](const tuning::Plan& x, const tuning::Plan& y) { return sim::is_same_work(x, y); });
}

/// What runs beside the call in question.
struct Company {
  std::vector<std::vector<Group>> groups;  // by call
  std::vector<Prepared> calls;
};

Result<Company> prepare_company(const Scene& scene, std::span<const Beside> beside) {
  Company company;
  for (const Beside& other : beside) {
    PEAL_ASSIGN(std::vector<Group> groups, groups_beside(scene, other));
    company.groups.push_back(std::move(groups));
    std::vector<GroupView> views;
    for (const Group& group : company.groups.back()) views.push_back({group.device_of_rank, &group.environment});
    tuning::Question question;
    question.call = other.call;
    PEAL_ASSIGN(Prepared call, prepare(views, scene.options.wires, question, other.start));
    company.calls.push_back(std::move(call));
  }
  return company;
}

/// The call's own jobs, then those beside it.
std::vector<Job> jobs_of(const Prepared& ready, const Company& company) {
  std::vector<Job> jobs = ready.jobs;
  for (const Prepared& call : company.calls) jobs.insert(jobs.end(), call.jobs.begin(), call.jobs.end());
  return jobs;
}

/// The value below which a share of sorted values lies, one of them.
double nearest_rank(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

Timing timing_of(const tuning::Call& call, int ranks, std::vector<double> us) {
  std::sort(us.begin(), us.end());
  Timing t;
  for (double time : us) t.time_us += time / static_cast<double>(us.size());
  t.p50_us = nearest_rank(us, 0.5);
  if (us.size() > 1)
    t.spread =
        Spread{static_cast<int>(us.size()), us.front(), nearest_rank(us, 0.1), nearest_rank(us, 0.9), nearest_rank(us, 0.99), us.back()};
  t.algbw = t.time_us > 0 ? static_cast<double>(tuning::size_of_call(call, ranks).value) / (t.time_us * 1e3) : 0;
  t.busbw = t.algbw * tuning::bus_factor(call.collective, ranks);
  return t;
}

/// Of `count` jobs from `first` on.
std::size_t slowest_of(const Outcome& outcome, std::size_t first, std::size_t count) {
  const auto begin = outcome.job_times.begin() + static_cast<std::ptrdiff_t>(first);
  return static_cast<std::size_t>(std::max_element(begin, begin + static_cast<std::ptrdiff_t>(count)) - outcome.job_times.begin());
}

/// Times of all runs in microseconds; what came out of the first.
struct Runs {
  std::vector<double> us;
  Outcome first;
};

/// A row is approximate from the earliest moment at which one of its runs is.
void note_kept(std::optional<Nanoseconds>& since, const std::optional<Nanoseconds>& other) {
  if (other && (!since || *other < *since)) since = other;
}

/// The times are those of the first `count` jobs.
Result<Runs> run(const topology::Resources& resources, std::span<const Job> jobs, std::size_t count, InterpretOptions options, int runs) {
  Runs done;
  if (jobs.size() > count) spread_slowness(jobs, options.perturbation);
  PEAL_ASSIGN(done.first, interpret(jobs, resources, options));
  done.us.push_back(done.first.job_times[slowest_of(done.first, 0, count)].microseconds());
  options.keeps_log = options.keeps_path = options.keeps_trace = false;
  for (int i = 1; i < runs; ++i) {
    ++options.jitter.seed;
    PEAL_ASSIGN(const Outcome again, interpret(jobs, resources, options));
    done.us.push_back(again.job_times[slowest_of(again, 0, count)].microseconds());
    note_kept(done.first.kept_rates_from, again.kept_rates_from);
  }
  return done;
}

/// What was asked, without an answer.
Row empty_row(const tuning::Call& call, int ranks) {
  Row row;
  row.bytes = tuning::size_of_call(call, ranks).value;
  row.count = count_of(call, ranks);
  row.type = call.type;
  row.op = has_reduction(call.collective) ? "sum" : "none";
  row.root = has_root(call.collective) ? call.root : -1;
  return row;
}

Row row_of(const Scene& scene, const tuning::Question& question, const Prepared& ready, const Company& company, const Outcome& outcome) {
  const int ranks = scene.environment.ranks;
  const std::size_t slowest = slowest_of(outcome, 0, scene.groups());
  const tuning::Candidate& best = ready.choices[ready.choice_of[slowest]].selection.chosen();
  Row row = empty_row(question.call, ranks);
  if (!scene.environment.is_host) row.evidence = "no measured case: Peal's own schedules have not run on such a machine";
  row.algorithm = best.algorithm->name;
  row.protocol = schedule::name_of(best.protocol);
  row.predicted_us = best.prediction.time.microseconds();
  row.kept_rates_from = outcome.kept_rates_from;
  row.folded = {outcome.simulated_ranks, static_cast<int>(outcome.rank_done.size()), outcome.repeated_pieces, outcome.chunk_spread};
  if (const ResourceUse* use = outcome.bottleneck()) {
    row.bottleneck = use->name;
    row.utilisation = use->utilisation;
  }
  for (std::size_t g = 0; scene.groups() > 1 && g < scene.groups(); ++g) row.groups.push_back(ready.time_of(g, outcome.job_times[g]));
  std::size_t first = scene.groups();
  for (const Prepared& other : company.calls) {
    const std::size_t last = slowest_of(outcome, first, other.jobs.size());
    const Job& job = other.jobs.front();
    row.beside.push_back({job.plan->call.collective, job.plan->call.bytes.value, job.environment->ranks, other.jobs.size(),
                          other.time_of(last - first, outcome.job_times[last])});
    first += other.jobs.size();
  }
  return row;
}

/// A call out of place, and what came of it.
struct Ran {
  Prepared ready;
  Runs runs;
  std::string instead_of;  // Row::instead_of
};

/// Where the choice is free and what is chosen cannot be simulated, the fastest that can be, as the cost model has it.
Result<Ran> run_what_can_be_run(const Scene& scene, const topology::Resources& resources, const tuning::Question& question,
                                const InterpretOptions& options, int runs, const Company& company) {
  const std::vector<GroupView> groups = views_of(scene);
  PEAL_ASSIGN(Prepared ready, prepare(groups, scene.options.wires, question));
  Result<Runs> out = run(resources, jobs_of(ready, company), groups.size(), options, runs);
  if (out) return Ran{std::move(ready), *std::move(out), {}};
  if (out.error().code != ErrorCode::unsupported || !question.algorithm.empty() || groups.size() > 1) return pass_on(out.error());
  const std::vector<tuning::Candidate>& candidates = ready.choices.front().selection.candidates;
  std::set<std::string_view> tried{candidates.front().algorithm->name};
  for (const tuning::Candidate& other : candidates) {
    if (!tried.insert(other.algorithm->name).second) continue;
    tuning::Question asked = question;
    asked.algorithm = other.algorithm->name;
    Result<Prepared> instead = prepare(groups, scene.options.wires, asked);
    if (!instead) continue;
    Result<Runs> again = run(resources, jobs_of(*instead, company), groups.size(), options, runs);
    if (!again) continue;
    return Ran{*std::move(instead), *std::move(again), fmt::format("{}: {}", candidates.front().algorithm->name, out.error().message)};
  }
  return pass_on(out.error());
}

/// study() on the scene's resources or on others that are the same but for the ways of the fabric.
Result<Study> study_on(const Scene& scene, const topology::Resources& resources, const tuning::Question& question,
                       const InterpretOptions& options, int runs, std::span<const Beside> beside) {
  const std::vector<GroupView> groups = views_of(scene);
  PEAL_ASSIGN(const Company company, prepare_company(scene, beside));
  tuning::Question asked = question;
  asked.call.is_in_place = false;
  PEAL_ASSIGN(Ran outside, run_what_can_be_run(scene, resources, asked, options, runs, company));
  Study study{row_of(scene, question, outside.ready, company, outside.runs.first), {}};
  study.row.instead_of = std::move(outside.instead_of);
  study.row.out_of_place = timing_of(question.call, scene.environment.ranks, std::move(outside.runs.us));
  study.outcome = std::move(outside.runs.first);
  if (works_in_place(question.call.collective) && !options.failure) {
    asked.call.is_in_place = true;
    if (!study.row.instead_of.empty()) asked.algorithm = study.row.algorithm;
    PEAL_ASSIGN(const Prepared inside, prepare(groups, scene.options.wires, asked));
    study.row.is_in_place_same = is_same_work(outside.ready, inside);
    if (study.row.is_in_place_same) {
      study.row.in_place = study.row.out_of_place;
      return study;
    }
    InterpretOptions quiet = options;
    quiet.keeps_log = quiet.keeps_path = quiet.keeps_trace = false;
    PEAL_ASSIGN(Runs in, run(resources, jobs_of(inside, company), groups.size(), quiet, runs));
    study.row.in_place = timing_of(question.call, scene.environment.ranks, std::move(in.us));
    note_kept(study.row.kept_rates_from, in.first.kept_rates_from);
  }
  return study;
}

}  // namespace

bool works_in_place(Collective c) noexcept {
  return c != Collective::all_to_all && c != Collective::all_to_all_v && c != Collective::send_recv && c != Collective::barrier;
}

Result<std::vector<GroupChoice>> choose(const Scene& scene, const tuning::Question& question) { return choose(views_of(scene), question); }

Result<Study> study(const Scene& scene, const tuning::Question& question, const InterpretOptions& options, int runs,
                    std::span<const Beside> beside) {
  return study_on(scene, *scene.resources, question, options, runs, beside);
}

Result<Study> study_hashes(const Scene& scene, const tuning::Question& question, const InterpretOptions& options, const HashSeeds& seeds,
                           std::span<const Beside> beside) {
  const topology::Cluster cluster = scene.resources->cluster();
  const std::optional<std::uint64_t> first = topology::hash_seed_of(cluster);
  if (!first)
    return fail(ErrorCode::invalid_argument,
                "no hash chooses a way here (no fabric, all on one switch, or `adaptive`), so that all seeds are alike; --hash-seeds needs "
                "cables to choose from: type --nodes 8 --fabric fat-tree,levels=2,radix=64");
  InterpretOptions asked = options;
  tuning::Question same = question;  // what was simulated with the first seed is with all
  std::optional<Study> study;
  OfHashes hashes{*first};
  for (int i = 0; i < seeds.count; ++i) {
    const topology::Resources resources(topology::with_hash_seed(cluster, *first + static_cast<std::uint64_t>(i)));
    PEAL_ASSIGN(Study one, study_on(scene, resources, same, asked, 1, beside));
    hashes.out_of_place.push_back(one.row.out_of_place->time_us);
    if (one.row.in_place) hashes.in_place.push_back(one.row.in_place->time_us);
    if (seeds.told) seeds.told(i + 1, hashes.out_of_place.back());
    if (study) note_kept(study->row.kept_rates_from, one.row.kept_rates_from);
    if (!study) study = std::move(one);
    if (scene.groups() == 1) same.algorithm = study->row.algorithm;
    asked.keeps_log = asked.keeps_path = asked.keeps_trace = false;
  }
  study->row.out_of_place = timing_of(question.call, scene.environment.ranks, hashes.out_of_place);
  if (study->row.in_place) study->row.in_place = timing_of(question.call, scene.environment.ranks, hashes.in_place);
  study->row.hashes = std::move(hashes);
  return *std::move(study);
}

Result<Row> simulate_call(const Scene& scene, const tuning::Question& question) {
  const std::vector<GroupView> groups = views_of(scene);
  PEAL_ASSIGN(const Prepared ready, prepare(groups, scene.options.wires, question));
  PEAL_ASSIGN(Runs done, run(*scene.resources, ready.jobs, groups.size(), {}, 1));
  Row row = row_of(scene, question, ready, {}, done.first);
  (question.call.is_in_place ? row.in_place : row.out_of_place) = timing_of(question.call, scene.environment.ranks, std::move(done.us));
  return row;
}

Result<Row> simulate(const Scene& scene, const tuning::Question& question, Trace* trace) {
  InterpretOptions options;
  options.keeps_trace = trace != nullptr;
  PEAL_ASSIGN(Study done, study(scene, question, options));
  if (trace != nullptr) *trace = std::move(done.outcome.trace);
  return std::move(done.row);
}

Result<Row> simulate(const LibraryModel& model, const tuning::Call& call) {
  const int ranks = model.ranks();
  const LibraryCall asked{call.collective, tuning::size_of_call(call, ranks), call.type, false, call.root};
  PEAL_ASSIGN(const LibraryAnswer answer, model.predict(asked));
  Row row = empty_row(call, ranks);
  row.algorithm = answer.algorithm;
  row.protocol = answer.protocol;
  if (answer.channels > 0) row.protocol += fmt::format(" x{}", answer.channels);
  row.predicted_us = answer.time.microseconds();
  row.evidence = model.evidence(asked, answer);
  row.out_of_place = timing_of(call, ranks, {answer.time.microseconds()});
  if (works_in_place(call.collective)) row.in_place = row.out_of_place;
  return row;
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
