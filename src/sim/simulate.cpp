#include <algorithm>
#include <base/names.hpp>
#include <sim/simulate.hpp>
#include <tuning/placement.hpp>

namespace peal::sim {

namespace {

bool works_in_place(Collective c) {
  return c != Collective::all_to_all && c != Collective::all_to_all_v && c != Collective::send_recv && c != Collective::barrier;
}

Timing timing_of(const tuning::Call& call, int ranks, double ns) {
  Timing t;
  t.time_us = t.p50_us = ns * 1e-3;
  t.algbw = ns > 0 ? static_cast<double>(tuning::size_of_call(call, ranks).value) / ns : 0;
  t.busbw = t.algbw * tuning::bus_factor(call.collective, ranks);
  return t;
}

/// Elements as nccl-tests prints them: of one rank's block where the collective has blocks.
std::uint64_t count_of(const tuning::Call& call, int ranks) {
  const tuning::Elements e = tuning::elements_of(call, ranks);
  const bool is_exchange = call.collective == Collective::all_to_all || call.collective == Collective::all_to_all_v;
  return is_exchange ? e.input / static_cast<std::uint64_t>(ranks) : std::min(e.input, e.output);
}

struct Run {
  tuning::Selection selection;
  Outcome outcome;
};

Result<Run> run(const Scene& scene, const tuning::Question& question, bool keeps_trace) {
  PEAL_ASSIGN(tuning::Selection selection, tuning::select(scene.environment, question));
  const tuning::Candidate& best = selection.chosen();
  PEAL_ASSIGN(const tuning::Plan plan, tuning::make_plan(scene.environment, *best.algorithm, best.protocol, question.call));
  InterpretOptions options;
  options.keeps_trace = keeps_trace;
  PEAL_ASSIGN(Outcome outcome, interpret(plan, *scene.resources, scene.device_of_rank, scene.environment, scene.options.wires, options));
  return Run{std::move(selection), std::move(outcome)};
}

}  // namespace

Result<Scene> make_scene(topology::Cluster cluster, int ranks, tuning::EnvironmentOptions options) {
  const int places = cluster.ranks();
  if (places == 0) return fail(ErrorCode::invalid_argument, "the machine has no GPU, core or CPU that a rank could sit on");
  if (ranks <= 0) ranks = places;
  const bool is_gpu = cluster.device(cluster.device_of_rank(0)).kind == topology::DeviceKind::gpu;
  if (ranks > places && is_gpu)
    return fail(ErrorCode::invalid_argument, "{} ranks, but the cluster has {} GPUs: type --ranks {} or more --nodes", ranks, places,
                places);
  Scene scene;
  scene.device_of_rank = tuning::spread(cluster, ranks);
  scene.resources = std::make_unique<topology::Resources>(std::move(cluster));
  PEAL_ASSIGN(scene.environment, tuning::environment_of(*scene.resources, scene.device_of_rank, options));
  scene.options = std::move(options);
  return scene;
}

Result<Row> simulate(const Scene& scene, const tuning::Question& question, Trace* trace) {
  tuning::Question out_of_place = question;
  out_of_place.call.is_in_place = false;
  PEAL_ASSIGN(Run outside, run(scene, out_of_place, trace != nullptr));
  const int ranks = scene.environment.ranks;
  const tuning::Candidate& best = outside.selection.chosen();
  Row row;
  row.bytes = tuning::size_of_call(question.call, ranks).value;
  row.count = count_of(question.call, ranks);
  row.type = question.call.type;
  row.op = has_reduction(question.call.collective) ? "sum" : "none";
  row.root = has_root(question.call.collective) ? question.call.root : -1;
  row.algorithm = best.algorithm->name;
  row.protocol = schedule::name_of(best.protocol);
  row.predicted_us = best.prediction.time.microseconds();
  row.out_of_place = timing_of(question.call, ranks, outside.outcome.time.value);
  if (const ResourceUse* use = outside.outcome.bottleneck()) {
    row.bottleneck = use->name;
    row.utilisation = use->utilisation;
  }
  if (works_in_place(question.call.collective)) {
    tuning::Question in_place = question;
    in_place.call.is_in_place = true;
    PEAL_ASSIGN(const Run inside, run(scene, in_place, false));
    row.in_place = timing_of(question.call, ranks, inside.outcome.time.value);
  }
  if (trace != nullptr) *trace = std::move(outside.outcome.trace);
  return row;
}

Table table_of(const Scene& scene, Collective collective) {
  Table table;
  table.collective = collective;
  table.ranks = scene.environment.ranks;
  table.nodes = scene.environment.nodes;
  table.machine = scene.resources->cluster().machine().title;
  for (const tuning::Level& level : scene.environment.level)
    if (level.is_used) table.wires += (table.wires.empty() ? "" : ", ") + level.scope;
  return table;
}

}  // namespace peal::sim
