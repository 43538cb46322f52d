// A call that is about to run: chosen, planned, as jobs. Private to this room.
#pragma once

#include <sim/simulate.hpp>

namespace peal::sim {

/// One of several groups, whoever holds it.
struct GroupView {
  std::span<const int> devices;
  const tuning::Environment* environment = nullptr;
};

std::vector<GroupView> views_of(const Scene& scene);

/// In order of their first groups.
Result<std::vector<GroupChoice>> choose(std::span<const GroupView> groups, const tuning::Question& question);

/// A call as it is about to run: what the groups choose, and a plan for each choice.
struct Prepared {
  std::vector<GroupChoice> choices;
  std::vector<tuning::Plan> plans;     // by choice
  std::vector<std::size_t> choice_of;  // by group
  std::vector<Job> jobs;               // by group; point into plans

  GroupTime time_of(std::size_t group, Nanoseconds time) const {
    const tuning::Candidate& own = choices[choice_of[group]].selection.chosen();
    return {time.microseconds(), std::string(own.algorithm->name), std::string(schedule::name_of(own.protocol))};
  }
};

Result<Prepared> prepare(std::span<const GroupView> groups, tuning::Wires wires, const tuning::Question& question, Nanoseconds start = {});

/// A slow rank is slow in every job that has a rank on its device.
void spread_slowness(std::span<const Job> jobs, Perturbation& perturbation);

}  // namespace peal::sim
