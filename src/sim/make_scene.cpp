#include <sim/simulate.hpp>
#include <tuning/placement.hpp>

namespace peal::sim {

namespace {

/// What belongs to one group's ranks of something that is empty or has an entry a rank.
std::vector<std::int32_t> part_of(const std::vector<std::int32_t>& all, std::span<const std::size_t> ranks) {
  std::vector<std::int32_t> part;
  for (std::size_t i = 0; !all.empty() && i < ranks.size(); ++i) part.push_back(all[ranks[i]]);
  return part;
}

/// The ranks of `all` that are numbered so.
Result<Group> make_group(const Scene& scene, std::span<const int> all, std::span<const std::size_t> ranks) {
  Group group;
  tuning::EnvironmentOptions options = scene.options;
  options.core_of = part_of(scene.options.core_of, ranks);
  options.rack_of = part_of(scene.options.rack_of, ranks);
  for (const std::size_t r : ranks) group.device_of_rank.push_back(all[r]);
  PEAL_ASSIGN(group.environment, tuning::environment_of(*scene.resources, group.device_of_rank, options));
  return group;
}

/// Neighbours in groups of so many, or those that are equal modulo the stride.
Result<std::vector<Group>> make_groups(const Scene& scene, std::span<const int> devices, std::size_t group_ranks, std::size_t stride) {
  const std::size_t count = stride > 0 ? stride : devices.size() / group_ranks;
  const std::size_t size = devices.size() / count;
  std::vector<Group> groups;
  for (std::size_t g = 0; g < count; ++g) {
    std::vector<std::size_t> ranks;
    for (std::size_t i = 0; i < size; ++i) ranks.push_back(stride > 0 ? g + i * stride : g * size + i);
    PEAL_ASSIGN(Group group, make_group(scene, devices, ranks));
    groups.push_back(std::move(group));
  }
  return groups;
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
  std::vector<int> devices = tuning::spread(cluster, ranks);
  return make_scene(std::move(cluster), std::move(devices), std::move(options), group_ranks);
}

Result<Scene> make_scene(topology::Cluster cluster, std::vector<int> device_of_rank, tuning::EnvironmentOptions options, int group_ranks) {
  const auto ranks = static_cast<int>(device_of_rank.size());
  if (group_ranks < 0) return fail(ErrorCode::invalid_argument, "--groups {} is no number of ranks; give 1 or more", group_ranks);
  if (group_ranks > 0 && ranks % group_ranks != 0)
    return fail(ErrorCode::invalid_argument, "{} ranks cannot be split into groups of {}; give --groups a divisor of {}", ranks,
                group_ranks, ranks);
  Scene scene;
  scene.options = std::move(options);
  scene.resources = std::make_unique<topology::Resources>(std::move(cluster));
  PEAL_ASSIGN(std::vector<Group> groups,
              make_groups(scene, device_of_rank, static_cast<std::size_t>(group_ranks > 0 ? group_ranks : ranks), 0));
  scene.device_of_rank = std::move(groups.front().device_of_rank);
  scene.environment = std::move(groups.front().environment);
  scene.further.assign(std::make_move_iterator(groups.begin() + 1), std::make_move_iterator(groups.end()));
  return scene;
}

Result<std::vector<int>> devices_at(const topology::Cluster& cluster, std::span<const int> places) {
  std::vector<int> devices;
  for (const int place : places) {
    if (place >= cluster.ranks())
      return fail(ErrorCode::invalid_argument, "there is no place {}: the cluster has {}, 0 to {}", place, cluster.ranks(),
                  cluster.ranks() - 1);
    devices.push_back(cluster.device_of_rank(place));
  }
  return devices;
}

Result<std::vector<Group>> groups_beside(const Scene& scene, const Beside& beside) {
  std::vector<int> devices;
  if (beside.places.empty()) {
    for (std::size_t g = 0; g < scene.groups(); ++g) devices.insert(devices.end(), scene.devices_of(g).begin(), scene.devices_of(g).end());
  } else {
    PEAL_ASSIGN(devices, devices_at(scene.resources->cluster(), beside.places));
  }
  const auto ranks = static_cast<int>(devices.size());
  const int divisor = beside.stride != 0 ? beside.stride : beside.group_ranks != 0 ? beside.group_ranks : ranks;
  if (divisor < 1 || ranks % divisor != 0)
    return fail(ErrorCode::invalid_argument, "{} ranks cannot be split by {}; give a divisor of {}", ranks, divisor, ranks);
  return make_groups(scene, devices, static_cast<std::size_t>(divisor), static_cast<std::size_t>(beside.stride));
}

}  // namespace peal::sim
