#include "prepared_call.hpp"

#include <map>

namespace peal::sim {

std::vector<GroupView> views_of(const Scene& scene) {
  std::vector<GroupView> views;
  for (std::size_t g = 0; g < scene.groups(); ++g) views.push_back({scene.devices_of(g), &scene.environment_of(g)});
  return views;
}

Result<std::vector<GroupChoice>> choose(std::span<const GroupView> groups, const tuning::Question& question) {
  std::vector<GroupChoice> choices;
  std::map<std::string, std::size_t> known;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    // Equal environments choose alike; they are equal where their texts are.
    const auto [it, is_new] = known.try_emplace(groups.size() > 1 ? tuning::to_json(*groups[g].environment) : "", choices.size());
    if (is_new) {
      GroupChoice choice;
      PEAL_ASSIGN(choice.selection, tuning::select(*groups[g].environment, question));
      choices.push_back(std::move(choice));
    }
    choices[it->second].groups.push_back(g);
  }
  return choices;
}

Result<Prepared> prepare(std::span<const GroupView> groups, tuning::Wires wires, const tuning::Question& question, Nanoseconds start) {
  Prepared ready;
  PEAL_ASSIGN(ready.choices, choose(groups, question));
  ready.choice_of.resize(groups.size());
  for (std::size_t c = 0; c < ready.choices.size(); ++c) {
    const tuning::Candidate& best = ready.choices[c].selection.chosen();
    PEAL_ASSIGN(tuning::Plan plan,
                tuning::make_plan(*groups[ready.choices[c].groups.front()].environment, *best.algorithm, best.protocol, question.call));
    ready.plans.push_back(std::move(plan));
    for (std::size_t g : ready.choices[c].groups) ready.choice_of[g] = c;
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    ready.jobs.push_back({&ready.plans[ready.choice_of[g]], groups[g].devices, groups[g].environment, wires, start.value});
  return ready;
}

void spread_slowness(std::span<const Job> jobs, Perturbation& perturbation) {
  std::map<int, double> of_device;
  std::vector<int> devices;
  for (const Job& job : jobs) devices.insert(devices.end(), job.device_of_rank.begin(), job.device_of_rank.end());
  const auto ranks = static_cast<int>(devices.size());
  for (const auto& [rank, factor] : perturbation.slow_ranks)
    if (rank >= 0 && rank < ranks) of_device[devices[static_cast<std::size_t>(rank)]] = factor;
  const std::size_t own = perturbation.slow_ranks.size();
  for (int r = 0; own > 0 && r < ranks; ++r)
    if (const auto it = of_device.find(devices[static_cast<std::size_t>(r)]); it != of_device.end())
      perturbation.slow_ranks.emplace_back(r, it->second);
}

}  // namespace peal::sim
