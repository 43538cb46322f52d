// One row of `peal sim`: choose as a communicator would, interpret in virtual time, out of place and in place.
#pragma once

#include <memory>
#include <sim/interpret.hpp>
#include <sim/report.hpp>
#include <tuning/select.hpp>

namespace peal::sim {

/// Ranks on a cluster, ready to be simulated. Movable.
struct Scene {
  std::unique_ptr<topology::Resources> resources;
  std::vector<int> device_of_rank;
  tuning::EnvironmentOptions options;
  tuning::Environment environment;
};

/// `ranks` <= 0: one on every compute device. More ranks than devices share cores on a host; GPUs take one rank each.
Result<Scene> make_scene(topology::Cluster cluster, int ranks, tuning::EnvironmentOptions options = {});

/// `row` of the question's call; `trace` (may be null) takes the out-of-place run. In place is left out where the collective has none.
Result<Row> simulate(const Scene& scene, const tuning::Question& question, Trace* trace = nullptr);

/// What stands above the rows.
Table table_of(const Scene& scene, Collective collective);

}  // namespace peal::sim
