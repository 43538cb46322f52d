#include <sim/simulate.hpp>
#include <tuning/placement.hpp>

namespace peal::sim {

namespace {

/// What belongs to one group's ranks of something that is empty or has an entry a rank.
std::vector<std::int32_t> part_of(const std::vector<std::int32_t>& all, std::size_t first, std::size_t count) {
  if (all.empty()) return {};
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

Result<Group> make_group(const Scene& scene, const std::vector<int>& devices, std::size_t first, std::size_t count) {
  Group group;
  group.device_of_rank = part_of(devices, first, count);
  tuning::EnvironmentOptions options = scene.options;
  options.core_of = part_of(scene.options.core_of, first, count);
  options.rack_of = part_of(scene.options.rack_of, first, count);
  PEAL_ASSIGN(group.environment, tuning::environment_of(*scene.resources, group.device_of_rank, options));
  return group;
}

}  // namespace

Result<Scene> make_scene(topology::Cluster cluster, int ranks, tuning::EnvironmentOptions options, int group_ranks) {
  const int places = cluster.ranks();
  if (places == 0) return fail(ErrorCode::invalid_argument, "the machine has no GPU, core or CPU that a rank could sit on");
  if (ranks <= 0) ranks = places;
  const bool is_gpu = cluster.device(cluster.device_of_rank(0)).kind == topology::DeviceKind::gpu;
  if (ranks > places && is_gpu)
    return fail(ErrorCode::invalid_argument, "{} ranks, but the cluster has {} GPUs: type --ranks {} or more --nodes", ranks, places,
                places);
  if (group_ranks < 0) return fail(ErrorCode::invalid_argument, "--groups {} is no number of ranks; give 1 or more", group_ranks);
  if (group_ranks > 0 && ranks % group_ranks != 0)
    return fail(ErrorCode::invalid_argument, "{} ranks cannot be split into groups of {}; give --groups a divisor of {}", ranks,
                group_ranks, ranks);
  Scene scene;
  scene.options = std::move(options);
  const std::vector<int> devices = tuning::spread(cluster, ranks);
  scene.resources = std::make_unique<topology::Resources>(std::move(cluster));
  const auto count = static_cast<std::size_t>(group_ranks > 0 ? group_ranks : ranks);
  PEAL_ASSIGN(Group first, make_group(scene, devices, 0, count));
  scene.device_of_rank = std::move(first.device_of_rank);
  scene.environment = std::move(first.environment);
  for (std::size_t begin = count; begin < devices.size(); begin += count) {
    PEAL_ASSIGN(Group group, make_group(scene, devices, begin, count));
    scene.further.push_back(std::move(group));
  }
  return scene;
}

}  // namespace peal::sim
