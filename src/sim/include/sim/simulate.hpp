// One row of `peal sim`: choose as a communicator would, interpret in virtual time, out of place and in place. Ranks may be split into
// groups, each a communicator of its own, that make the same call at the same time over the same wires.
#pragma once

#include <functional>
#include <memory>
#include <sim/interpret.hpp>
#include <sim/library.hpp>
#include <sim/report.hpp>
#include <tuning/select.hpp>

namespace peal::sim {

/// The ranks of one communicator.
struct Group {
  std::vector<int> device_of_rank;
  tuning::Environment environment;
};

/// Ranks on a cluster, ready to be simulated. Movable.
struct Scene {
  std::unique_ptr<topology::Resources> resources;
  std::vector<int> device_of_rank;  ///< of the first group; of all ranks where there is one
  tuning::EnvironmentOptions options;
  tuning::Environment environment;  ///< of the first group
  std::vector<Group> further;       ///< the other groups, of as many ranks

  std::size_t groups() const { return 1 + further.size(); }
  const std::vector<int>& devices_of(std::size_t group) const { return group == 0 ? device_of_rank : further[group - 1].device_of_rank; }
  const tuning::Environment& environment_of(std::size_t group) const { return group == 0 ? environment : further[group - 1].environment; }
};

/// `ranks` <= 0: one on every compute device. More ranks than devices share cores on a host; GPUs take one rank each.
/// `group_ranks` > 0: neighbours in groups of so many; it must divide the ranks.
Result<Scene> make_scene(topology::Cluster cluster, int ranks, tuning::EnvironmentOptions options = {}, int group_ranks = 0);

/// Rank r on device_of_rank[r].
Result<Scene> make_scene(topology::Cluster cluster, std::vector<int> device_of_rank, tuning::EnvironmentOptions options = {},
                         int group_ranks = 0);
/// The devices at these places of the cluster: what a rank on every device would have for its number. Fails where there are fewer.
Result<std::vector<int>> devices_at(const topology::Cluster& cluster, std::span<const int> places);

/// What groups that are wired alike choose.
struct GroupChoice {
  std::vector<std::size_t> groups;
  tuning::Selection selection;
};
/// In order of their first groups.
Result<std::vector<GroupChoice>> choose(const Scene& scene, const tuning::Question& question);

/// A call that is made at the same time, by the same ranks in other groups (or in one), or by others: another job on the same wires.
struct Beside {
  tuning::Call call;
  std::vector<int> places;  ///< of its ranks on the cluster (devices_at); empty: those of the call that is asked about
  int group_ranks = 0;      ///< 0: all ranks in one; else neighbours in groups of so many
  int stride = 0;           ///< above 0, in place of group_ranks: ranks that are equal modulo it make a group
  Nanoseconds start = {};   ///< after the call that is asked about
};

/// The communicators that make it, in the order of their first ranks. Fails where the cluster has no such place or the groups do not divide
/// the ranks.
Result<std::vector<Group>> groups_beside(const Scene& scene, const Beside& beside);

/// A row, and what came out of its out-of-place run (with jitter: of the first).
struct Study {
  Row row;
  Outcome outcome;
};

/// `row` of the question's call; of several groups it is the slowest's. In place is left out where the collective has none, and where a
/// rank fails. `runs` > 1: the seed of the jitter counts up, times are means with their spread. Ranks are counted through `beside` after
/// the scene's own; slow ranks are slow in all that they take part in.
Result<Study> study(const Scene& scene, const tuning::Question& question, const InterpretOptions& options, int runs = 1,
                    std::span<const Beside> beside = {});

/// Seeds of the hash that chooses ways through the scene's fabric: the fabric's own, and those that follow it.
struct HashSeeds {
  int count = 1;
  std::function<void(int done, double us)> told = {};  ///< may be empty; after each, with its time out of place
};
/// The same with each of the seeds in turn, by the plan that the fabric's own leads to: times are means with their spread, everything else
/// is of the first. Fails where the fabric has no hash.
Result<Study> study_hashes(const Scene& scene, const tuning::Question& question, const InterpretOptions& options, const HashSeeds& seeds,
                           std::span<const Beside> beside = {});

/// The question's call alone, in place where it says so: half of a row, which has both.
Result<Row> simulate_call(const Scene& scene, const tuning::Question& question);

/// The row alone; `trace` (may be null) takes the out-of-place run.
Result<Row> simulate(const Scene& scene, const tuning::Question& question, Trace* trace = nullptr);

/// What another library would need for `call`, as a row; in place as out of place.
Result<Row> simulate(const LibraryModel& model, const tuning::Call& call);

/// Collectives that have an in-place form.
bool works_in_place(Collective collective) noexcept;

/// What stands above the rows.
Table table_of(const Scene& scene, Collective collective);

}  // namespace peal::sim
