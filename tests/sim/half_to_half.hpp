// Flows that share a fabric, without collectives.
#pragma once

#include <map>
#include <sim/solver.hpp>
#include <topology/resources.hpp>
#include <vector>

namespace peal::sim {

/// Max-min rates, GB/s, when every GPU of the first half sends to its counterpart in the second.
inline std::vector<double> half_to_half(const topology::Cluster& cluster) {
  const topology::Resources resources{topology::Cluster(cluster)};
  FairShare solver;
  std::map<topology::ResourceId, FairShare::Constraint> of;
  std::vector<FairShare::Variable> flows;
  const int half = cluster.ranks() / 2;
  for (int r = 0; r < half; ++r) {
    const auto route = resources.route(cluster.device_of_rank(r), cluster.device_of_rank(r + half));
    std::vector<FairShare::Constraint> crossed;
    for (const auto id : route.resources) {
      const auto [it, is_new] = of.try_emplace(id, 0);
      if (is_new) it->second = solver.add_constraint(resources.capacity(id).gigabytes());
      crossed.push_back(it->second);
    }
    flows.push_back(solver.add_variable(crossed));
  }
  solver.solve();
  std::vector<double> rates;
  for (const auto flow : flows) rates.push_back(solver.rate(flow));
  return rates;
}

}  // namespace peal::sim
