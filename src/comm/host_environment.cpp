#include <algorithm>
#include <base/log.hpp>
#include <base/settings.hpp>
#include <bootstrap/rendezvous.hpp>
#include <comm/host_environment.hpp>
#include <discovery/discover.hpp>
#include <map>
#include <string_view>
#include <topology/constants.hpp>
#include <topology/machine.hpp>
#include <topology/resources.hpp>
#include <transport/shm.hpp>
#include <tuning/placement.hpp>

namespace peal::comm {

namespace {

// The k-th rank of the h-th host sits on the k-th compute device of copy h; where ranks are more, they share them as the launcher has it.
std::vector<int> devices_of(const World& world, const topology::Cluster& cluster) {
  std::map<std::string, int> hosts;
  std::map<std::string, int> ranks_on;
  for (const bootstrap::Contact& contact : world.contacts()) ++ranks_on[contact.host_identity];
  std::map<std::string, int> seen_on;
  std::vector<int> devices;
  const int places = std::max(1, cluster.ranks_per_node());
  for (const bootstrap::Contact& contact : world.contacts()) {
    const int host = hosts.emplace(contact.host_identity, static_cast<int>(hosts.size())).first->second;
    const int place = tuning::place_on_machine(seen_on[contact.host_identity]++, ranks_on[contact.host_identity], places);
    devices.push_back(cluster.device_of_rank(host * places + place));
  }
  return devices;
}

// Containers of one machine are hosts of their own but share its cores. Ranks that may use the same ones share them as the launcher has it.
std::vector<std::int32_t> cores_of(const World& world, int places) {
  std::map<std::pair<std::string, std::uint64_t>, std::vector<const bootstrap::Contact*>> sets;
  for (const bootstrap::Contact& contact : world.contacts()) sets[{contact.machine, contact.core_set}].push_back(&contact);
  std::vector<std::int32_t> cores(world.contacts().size());
  std::int32_t next = 0;
  for (const auto& [set, ranks] : sets) {
    const int count = std::clamp(ranks.front()->cores, 1, places);
    for (std::size_t k = 0; k < ranks.size(); ++k)
      cores[static_cast<std::size_t>(ranks[k]->rank)] =
          next + tuning::place_on_machine(static_cast<int>(k), static_cast<int>(ranks.size()), count);
    next += count;
  }
  return cores;
}

// Of every rank the rack of its host, as that host's lowest rank says; empty where a host does not know.
std::vector<std::int32_t> racks_of(const World& world) {
  std::map<std::string_view, std::string> rack_of_host;
  std::vector<std::string> racks;
  for (const bootstrap::Contact& contact : world.contacts()) {
    racks.push_back(rack_of_host.emplace(contact.host_identity, contact.rack).first->second);
    if (racks.back().empty()) return {};
  }
  return tuning::number_racks(racks);
}

void log_racks(const std::vector<std::int32_t>& racks, const std::vector<std::int32_t>& ring) {
  if (racks.empty() || !is_logged(LogLevel::info)) return;
  log(LogLevel::info, "{} racks are known; rings go {}", *std::max_element(racks.begin(), racks.end()) + 1,
      ring.empty() ? std::string("in the order of ranks") : fmt::format("through ranks {}", fmt::join(ring, ", ")));
}

int host_count(const World& world) {
  std::vector<std::string> names;
  for (const bootstrap::Contact& contact : world.contacts()) names.push_back(contact.host_identity);
  std::sort(names.begin(), names.end());
  return static_cast<int>(std::unique(names.begin(), names.end()) - names.begin());
}

bool is_one_machine(const World& world) {
  for (int r = 0; r < world.size(); ++r)
    if (!world.is_on_my_machine(r)) return false;
  return true;
}

// The virtual interface of a container or a network namespace hangs on no bus, so discovery does not list it; data goes by it all the same.
Status add_virtual_nic(topology::Graph& host) {
  const auto devices = host.devices();
  if (std::any_of(devices.begin(), devices.end(),
                  [](const auto& d) { return d.kind == topology::DeviceKind::nic && d.rail >= 0 && d.port; }))
    return {};
  PEAL_ASSIGN(const topology::HostDefaults defaults, topology::host_defaults());
  const std::string source = "assumed: an interface that no device of this host stands for";
  topology::Device nic{.id = "virtual-nic", .kind = topology::DeviceKind::nic, .name = "virtual Ethernet", .rail = 0, .source = source};
  topology::Port port{.kind = topology::LinkKind::ethernet};
  port.bandwidth = defaults.unknown_nic;
  port.source = source;
  nic.port = std::move(port);
  PEAL_ASSIGN(const int index, host.add_device(std::move(nic)));
  const std::vector<int> domains = host.devices_of(topology::DeviceKind::cpu);
  if (domains.empty()) return fail(ErrorCode::internal, "discovery found no NUMA domain on this host");
  topology::Link link{.a = index, .b = domains.front(), .kind = topology::LinkKind::pcie, .bandwidth = defaults.core_copy};
  link.source = source;
  PEAL_TRY(host.add_link(std::move(link)));
  return {};
}

Result<tuning::Environment> find(const World& world) {
  PEAL_ASSIGN(topology::Graph host, discovery::discover_host({}, nullptr, discovery::Detail::wiring));
  const int hosts = host_count(world);
  if (hosts > 1) PEAL_TRY(add_virtual_nic(host));
  PEAL_ASSIGN(topology::Cluster cluster,
              hosts == 1 ? Result<topology::Cluster>(topology::Cluster(std::move(host))) : topology::build_cluster(std::move(host), hosts));
  const std::vector<int> devices = devices_of(world, cluster);
  tuning::EnvironmentOptions options;
  options.core_of = cores_of(world, std::max(1, cluster.ranks_per_node()));
  if (hosts > 1) options.rack_of = racks_of(world);
  options.is_one_machine = is_one_machine(world);
  const topology::Resources resources(std::move(cluster));
  options.wires = world.choice() == TransportChoice::tcp   ? tuning::Wires::socket
                  : world.choice() == TransportChoice::shm ? tuning::Wires::shared_memory
                                                           : tuning::Wires::automatic;
  PEAL_ASSIGN(options.protocols, host_protocols());
  PEAL_ASSIGN(tuning::Environment environment, tuning::environment_of(resources, devices, options));
  log_racks(options.rack_of, environment.placement.ring);
  PEAL_TRY(tuning::add_measurements(environment, [] { return discovery::host_fingerprint(); }));
  if (!environment.measured_by.empty()) log(LogLevel::info, "choice of algorithms: {}", environment.measured_by);
  return environment;
}

// What rank 0 says, in as many exchanges as it takes: with a table of `peal tune` an environment has hundreds of kilobytes.
Result<std::string> told_by_rank_zero(World& world, std::string_view text) {
  constexpr std::size_t kPiece = bootstrap::kMaxBlobBytes - 1;
  constexpr char kMore = '+', kLast = '.';
  std::string whole;
  for (bool is_last = false; !is_last; text.remove_prefix(std::min(kPiece, text.size()))) {
    std::string piece;
    if (world.rank() == 0) piece = (text.size() > kPiece ? kMore : kLast) + std::string(text.substr(0, kPiece));
    PEAL_ASSIGN(const auto said, world.rendezvous().all_gather(piece));
    if (said[0].empty()) return fail(ErrorCode::internal, "{} said nothing of its host", world.describe(0));
    is_last = said[0][0] == kLast;
    whole += said[0].substr(1);
  }
  return whole;
}

}  // namespace

Result<std::vector<schedule::Protocol>> host_protocols() {
  std::vector<schedule::Protocol> protocols{schedule::Protocol::line, schedule::Protocol::staged};
  PEAL_ASSIGN(const bool direct_read, flag_setting("PEAL_DIRECT_READ"));
  if (direct_read && transport::may_read_processes()) protocols.push_back(schedule::Protocol::direct_read);
  return protocols;
}

Result<tuning::Environment> agreed_environment(World& world) {
  std::string found;  // "!" and why where it could not be found
  Failure failure;
  if (world.rank() == 0) {
    auto environment = find(world);
    if (environment)
      found = tuning::to_json(*environment);
    else
      failure = environment.error();
    if (!environment) found = "!" + failure.message;
  }
  PEAL_ASSIGN(const std::string said, told_by_rank_zero(world, found));
  if (said.starts_with('!')) {
    if (world.rank() == 0) return pass_on(std::move(failure));
    return fail(ErrorCode::internal, "{} could not describe its host: {}", world.describe(0), said.substr(1));
  }
  return tuning::environment_from_json(said);
}

}  // namespace peal::comm
