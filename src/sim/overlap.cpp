#include <fmt/format.h>

#include <algorithm>
#include <base/names.hpp>
#include <nlohmann/json.hpp>
#include <sim/overlap.hpp>

#include "prepared_call.hpp"

namespace peal::sim {

namespace {

/// A call for every part and group, each after the group's call before it.
std::vector<Job> calls_of(const Prepared& ready, const Overlapping& asked) {
  std::vector<Job> jobs;
  const auto groups = static_cast<int>(ready.jobs.size());
  for (int part = 0; part < asked.parts; ++part)
    for (const Job& group : ready.jobs) {
      const auto number = static_cast<int>(jobs.size());
      Job& job = jobs.emplace_back(group);
      job.processors = asked.held;
      if (part > 0) job.after.push_back(number - groups);
    }
  return jobs;
}

std::vector<Computation> parts_of(std::span<const int> devices, const Overlapping& asked) {
  return std::vector<Computation>(static_cast<std::size_t>(asked.parts), {devices, asked.compute.value / asked.parts});
}

}  // namespace

namespace {

/// When the last device would have computed all, were there no calls: computing waits for none of them.
Result<double> computing_alone(const Step& step, const topology::Resources& resources, InterpretOptions options, const Overlapping& asked) {
  const bool is_even = options.perturbation.slow_ranks.empty() && options.late_ranks.empty() && options.jitter.share <= 0;
  if (is_even) return asked.compute.value;
  options.keeps_log = options.keeps_trace = false;
  PEAL_ASSIGN(const Outcome free, interpret(Step{step.jobs, step.computations}, resources, options));
  return free.computations.back().ended;
}

}  // namespace

double OverlapRow::hidden() const { return calls_us > 0 ? std::clamp(1 - exposed_us() / calls_us, 0.0, 1.0) : 1; }

Result<OverlapStudy> overlap(const Scene& scene, const tuning::Question& question, const InterpretOptions& options,
                             const Overlapping& asked) {
  PEAL_ASSIGN(const Prepared ready, prepare(views_of(scene), scene.options.wires, question));
  std::vector<Job> jobs = calls_of(ready, asked);
  std::vector<int> devices;
  for (std::size_t g = 0; g < scene.groups(); ++g) devices.insert(devices.end(), scene.devices_of(g).begin(), scene.devices_of(g).end());
  const std::vector<Computation> parts = parts_of(devices, asked);
  InterpretOptions both = options;
  spread_slowness(jobs, both.perturbation);
  InterpretOptions alone = both;
  alone.keeps_log = alone.keeps_trace = false;
  PEAL_ASSIGN(const Outcome calls, interpret(Step{jobs, {}, asked.processors}, *scene.resources, alone));
  for (std::size_t j = 0; j < jobs.size(); ++j) jobs[j].after.push_back(static_cast<int>(jobs.size() + j / scene.groups()));
  OverlapStudy study;
  PEAL_ASSIGN(study.outcome, interpret(Step{jobs, parts, asked.processors}, *scene.resources, both));
  const tuning::Candidate& best = ready.choices.front().selection.chosen();
  PEAL_ASSIGN(const double computing, computing_alone(Step{jobs, parts}, *scene.resources, both, asked));
  study.row = {tuning::size_of_call(question.call, scene.environment.ranks).value,
               std::string(best.algorithm->name),
               std::string(schedule::name_of(best.protocol)),
               asked.parts,
               computing * 1e-3,
               calls.time.microseconds(),
               study.outcome.time.microseconds(),
               (study.outcome.computations.back().ended - computing) * 1e-3};
  return study;
}

std::string overlap_header(const Table& table, const Overlapping& asked) {
  return fmt::format(
      "# {} after {}{:.3f} ms of computing, on {} ranks{}: {} ({}), simulated\n"
      "#{:>12} {:>12} {:>12} {:>12} {:>12} {:>8} {:>8}  {:<14} {}\n"
      "#{:>12} {:>12} {:>12} {:>12} {:>12} {:>8} {:>8}\n",
      name_of(table.collective), asked.parts > 1 ? fmt::format("each of {} equal parts of ", asked.parts) : "",
      asked.compute.microseconds() * 1e-3, table.ranks, table.groups > 1 ? fmt::format(" in each of {} groups", table.groups) : "",
      table.machine, table.wires, "size", "compute", "calls", "together", "exposed", "hidden", "slowed", "algorithm", "protocol", "(B)",
      "(us)", "(us)", "(us)", "(us)", "(%)", "(%)");
}

std::string overlap_text(const OverlapRow& row) {
  return fmt::format(" {:>12} {:>12.1f} {:>12.1f} {:>12.1f} {:>12.1f} {:>8.1f} {:>8.1f}  {:<14} {}\n", row.bytes, row.compute_us,
                     row.calls_us, row.together_us, row.exposed_us(), 100 * row.hidden(),
                     row.compute_us > 0 ? 100 * row.slowed_us / row.compute_us : 0, row.algorithm, row.protocol);
}

std::string overlap_footer(const Overlapping& asked) {
  std::string text =
      "# calls: one after another, nothing computed; exposed: together less compute; hidden: the share of the calls that takes no time of "
      "its own\n";
  if (asked.processors > 0)
    text += fmt::format("# slowed: by so much computing takes longer, because a call holds {:g} of {:g} processors while it runs\n",
                        asked.held, asked.processors);
  return text + "# Not modelled: the memory's rate, which both share; blocks of a kernel that just fill all processors alone\n";
}

std::string overlap_json(const Table& table, const Overlapping& asked, std::span<const OverlapRow> rows) {
  nlohmann::json tree = {{"schema", "peal.sim.overlap/1"}, {"collective", name_of(table.collective)},
                         {"ranks", table.ranks},           {"groups", table.groups},
                         {"machine", table.machine},       {"compute_us", asked.compute.microseconds()},
                         {"parts", asked.parts},           {"processors", asked.processors},
                         {"processors_held", asked.held},  {"rows", nlohmann::json::array()}};
  for (const OverlapRow& row : rows)
    tree["rows"].push_back({{"bytes", row.bytes},
                            {"algorithm", row.algorithm},
                            {"protocol", row.protocol},
                            {"calls_us", row.calls_us},
                            {"together_us", row.together_us},
                            {"exposed_us", row.exposed_us()},
                            {"hidden", row.hidden()},
                            {"slowed_us", row.slowed_us}});
  return tree.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace peal::sim
