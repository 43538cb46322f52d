#include <algorithm>
#include <comm/host_environment.hpp>
#include <discovery/discover.hpp>
#include <map>
#include <topology/machine.hpp>
#include <topology/resources.hpp>

namespace peal::comm {

namespace {

// The k-th rank of the h-th host sits on the k-th compute device of copy h; more ranks than devices start again at the first.
std::vector<int> devices_of(const World& world, const topology::Cluster& cluster) {
  std::map<std::string, int> hosts;
  std::map<std::string, int> ranks_on;
  std::vector<int> devices;
  const int places = std::max(1, cluster.ranks_per_node());
  for (const bootstrap::Contact& contact : world.contacts()) {
    const int host = hosts.emplace(contact.host_identity, static_cast<int>(hosts.size())).first->second;
    const int place = ranks_on[contact.host_identity]++ % places;
    devices.push_back(cluster.device_of_rank(host * places + place));
  }
  return devices;
}

int host_count(const World& world) {
  std::vector<std::string> names;
  for (const bootstrap::Contact& contact : world.contacts()) names.push_back(contact.host_identity);
  std::sort(names.begin(), names.end());
  return static_cast<int>(std::unique(names.begin(), names.end()) - names.begin());
}

Result<tuning::Environment> find(const World& world) {
  PEAL_ASSIGN(topology::Graph host, discovery::discover_host());
  const int hosts = host_count(world);
  PEAL_ASSIGN(topology::Cluster cluster, hosts == 1 ? Result<topology::Cluster>(topology::Cluster(std::move(host)))
                                                    : topology::build_cluster(std::move(host), hosts));
  const std::vector<int> devices = devices_of(world, cluster);
  const topology::Resources resources(std::move(cluster));
  tuning::EnvironmentOptions options;
  options.wires = world.choice() == TransportChoice::tcp   ? tuning::Wires::socket
                  : world.choice() == TransportChoice::shm ? tuning::Wires::shared_memory
                                                           : tuning::Wires::automatic;
  options.protocols = {schedule::Protocol::line, schedule::Protocol::staged};
  return tuning::environment_of(resources, devices, options);
}

}  // namespace

Result<tuning::Environment> agreed_environment(World& world) {
  std::string found;
  Failure failure;
  if (world.rank() == 0) {
    auto environment = find(world);
    if (environment) found = tuning::to_json(*environment);
    else failure = environment.error();
  }
  PEAL_ASSIGN(const auto said, world.rendezvous().all_gather(found));
  if (said[0].empty()) {
    if (world.rank() == 0) return pass_on(std::move(failure));
    return fail(ErrorCode::internal, "rank 0 could not describe its host; its own message says why");
  }
  return tuning::environment_from_json(said[0]);
}

}  // namespace peal::comm
