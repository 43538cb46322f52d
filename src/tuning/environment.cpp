#include <algorithm>
#include <map>
#include <topology/switch_tree.hpp>
#include <tuning/environment.hpp>
#include <tuning/message_cost.hpp>
#include <tuning/placement.hpp>
#include <tuning/ring_set.hpp>

namespace peal::tuning {

using topology::DeviceKind;
using topology::PathClass;
using topology::Route;
using topology::Via;

std::string_view level_name(int level) noexcept { return level == 0 ? "inside a node" : "between nodes"; }

const Offer* Environment::offer(schedule::Protocol protocol) const {
  for (const Offer& o : offers)
    if (o.protocol == protocol) return &o;
  return nullptr;
}

int Environment::core_count() const { return core_of.empty() ? 0 : *std::max_element(core_of.begin(), core_of.end()) + 1; }

bool Environment::shares_cores() const { return static_cast<std::size_t>(core_count()) < core_of.size(); }

std::vector<DistanceShare> Environment::distances() const {
  if (nodes != 1 || measured.empty()) return {};
  if (cores_stay_there) return {{cores, 1}};
  return distance_shares(measured, ranks, level[0].scope);
}

const MeasuredWay* Environment::measured_way(Collective collective, std::string_view algorithm, schedule::Protocol protocol,
                                             CoreDistance at, bool is_in_place) const {
  for (const MeasuredWay& way : measured)
    if (way.collective == collective && way.ranks == ranks && way.protocol == protocol && way.algorithm == algorithm && way.cores == at &&
        way.scope == level[0].scope && way.is_in_place == is_in_place)
      return &way;
  return nullptr;
}

bool Environment::is_measured_in_place(Collective collective, std::uint64_t bytes) const {
  return std::any_of(measured.begin(), measured.end(), [&](const MeasuredWay& way) {
    return way.is_in_place && way.collective == collective && way.ranks == ranks && way.scope == level[0].scope &&
           way.points.front().bytes <= bytes;
  });
}

const MeasuredConstants* Environment::constants_of(schedule::Protocol protocol, CoreDistance distance) const {
  if (nodes != 1) return nullptr;
  for (const MeasuredConstants& c : measured_constants)
    if (c.ranks == ranks && c.protocol == protocol && c.cores == distance && c.scope == level[0].scope) return &c;
  return nullptr;
}

Status add_measurements(Environment& environment, const std::function<Result<std::string>()>& fingerprint) {
  PEAL_ASSIGN(MeasuredTable table, load_measured_table());
  if (table.ways.empty()) return {};
  PEAL_ASSIGN(const std::string host, fingerprint());
  if (table.host != host) {
    environment.measured_by =
        fmt::format("the tuning table {} was measured on another host ({}; this is {}): measure again with `peal tune`",
                    measured_table_path(), table.host, host);
    return {};
  }
  environment.measured_by = fmt::format("peal tune on {}, {}", table.host, table.date);
  for (MeasuredWay& way : table.ways)
    if (way.ranks <= environment.ranks) environment.measured.push_back(std::move(way));
  for (MeasuredConstants& constants : table.constants)
    if (constants.ranks <= environment.ranks) environment.measured_constants.push_back(std::move(constants));
  if (const auto distances = environment.distances(); !distances.empty()) environment.cores = distances.front().cores;
  if (environment.measured.empty()) environment.measured_by = "the table of `peal tune` has nothing for so few ranks";
  return {};
}

Via via_of(Wires wires, bool is_host, bool is_one_node) noexcept {
  if (!is_host) return Via::any;
  if (wires == Wires::socket) return Via::socket;
  return is_one_node ? Via::shared_memory : Via::any;
}

namespace {

constexpr std::size_t kSampledMembers = 16;
constexpr std::size_t kSampledNeighbours = 4096;

/// Looks at ways between ranks and keeps the slowest of each level.
class Survey {
 public:
  Survey(Environment& environment, const topology::Resources& resources, std::span<const int> devices, Wires wires)
      : environment_(environment), resources_(resources), devices_(devices), wires_(wires) {}

  Status look() {
    const std::vector<std::vector<std::int32_t>> groups = members();
    for (std::size_t i = 0; i < groups[0].size() && i < kSampledMembers; ++i)
      for (std::size_t j = 0; j < groups[0].size() && j < kSampledMembers; ++j)
        if (i != j) PEAL_TRY(look_at(groups[0][i], groups[0][j]));
    const auto n = static_cast<std::size_t>(environment_.ranks);
    const auto& ring = environment_.placement.ring;
    for (std::size_t i = 0; n > 1 && i < n && i < kSampledNeighbours; ++i) {
      const std::size_t next = (i + 1) % n;
      PEAL_TRY(look_at(ring.empty() ? static_cast<std::int32_t>(i) : ring[i], ring.empty() ? static_cast<std::int32_t>(next) : ring[next]));
    }
    if (groups.size() > 1) PEAL_TRY(count_outlets(groups));
    return {};
  }

 private:
  std::vector<std::vector<std::int32_t>> members() const {
    std::vector<std::vector<std::int32_t>> groups(1);
    for (std::int32_t r = 0; r < environment_.ranks; ++r) {
      const std::size_t g = environment_.group_of(r);
      if (g >= groups.size()) groups.resize(g + 1);
      groups[g].push_back(r);
    }
    return groups;
  }

  Status find_route(std::int32_t a, std::int32_t b) {
    const int from = devices_[static_cast<std::size_t>(a)];
    const int to = devices_[static_cast<std::size_t>(b)];
    resources_.route(from, to, via_of(wires_, environment_.is_host, environment_.level_of(a, b) == 0), route_);
    if (route_.exists()) return {};
    const topology::Cluster& cluster = resources_.cluster();
    return fail(ErrorCode::unreachable,
                "ranks {} ({}) and {} ({}) have no way to each other{}: check the links of the machine with `peal topo --links`", a,
                cluster.id_of(from), b, cluster.id_of(to),
                wires_ == Wires::socket          ? " over sockets"
                : wires_ == Wires::shared_memory ? " through shared memory"
                                                 : "");
  }

  Status look_at(std::int32_t a, std::int32_t b) {
    PEAL_TRY(find_route(a, b));
    Level& level = environment_.level[environment_.level_of(a, b)];
    const bool is_first = !level.is_used || level.scope.empty();
    level.is_used = true;
    if (route_.scope.empty()) return {};  // two ranks on one core say nothing about wires
    if (is_first || route_.bottleneck < level.bottleneck) {
      level.scope = std::string(route_.scope);
      level.path_class = route_.path_class;
      level.bottleneck = route_.bottleneck;
    }
    level.latency = is_first ? route_.latency : std::max(level.latency, route_.latency);
    return {};
  }

  /// How many ranks of a group meet in the busiest resource of a node when each talks to its counterpart in another group. Cables of the
  /// fabric do not count: which pairs meet there is a matter of the hash, not of the way out.
  Status count_outlets(const std::vector<std::vector<std::int32_t>>& groups) {
    std::map<topology::ResourceId, int> users;
    const std::size_t pairs = std::min(groups[0].size(), groups[1].size());
    const std::size_t of_nodes = resources_.per_copy() * static_cast<std::size_t>(resources_.cluster().copies());
    for (std::size_t i = 0; i < pairs; ++i) {
      PEAL_TRY(find_route(groups[0][i], groups[1][i]));
      for (topology::ResourceId r : route_.resources)
        if (r < of_nodes) ++users[r];
    }
    double most = 1;
    for (const auto& [id, count] : users) {
      const double capacity = resources_.capacity(id).value;
      if (capacity > 0) most = std::max(most, count * environment_.level[1].bottleneck.value / capacity);
    }
    environment_.level[1].ranks_per_outlet = static_cast<int>(most + 0.5);
    return {};
  }

  Environment& environment_;
  const topology::Resources& resources_;
  std::span<const int> devices_;
  Wires wires_;
  Route route_;
};

/// What is special about the processor of the hosts, which are taken for alike; null: nothing is known.
const topology::ProcessorDefaults* processor_of(const topology::HostDefaults& defaults, const topology::Graph& host,
                                                const Environment& environment) {
  for (const int cpu : host.devices_of(topology::DeviceKind::cpu))
    for (const topology::Attribute& attribute : host.device(cpu).attributes)
      if (attribute.key == "processor") return defaults.of_processor(attribute.value, environment.ranks, environment.shares_cores());
  return nullptr;
}

/// `processor`: its name in the scopes of constants; may be empty.
void offer_protocols(Environment& environment, const EnvironmentOptions& options, const std::string& processor) {
  for (const schedule::ProtocolTraits& traits : schedule::all_protocols()) {
    const auto refuse = [&](std::string why) { environment.refusals.push_back({traits.protocol, std::move(why)}); };
    if (!options.protocols.empty() &&
        std::find(options.protocols.begin(), options.protocols.end(), traits.protocol) == options.protocols.end()) {
      refuse("the transports of this communicator do not carry it");
      continue;
    }
    if (traits.protocol == schedule::Protocol::fused && environment.fused.empty()) {
      refuse("no hand-written routine for this kind of rank");
      continue;
    }
    Offer offer;
    offer.protocol = traits.protocol;
    bool is_possible = true;
    for (int l = 0; l < kLevels && is_possible; ++l) {
      if (!environment.level[l].is_used) continue;
      const std::string& scope = environment.level[l].scope;
      const bool is_special = !processor.empty() && is_by_memory(environment, l);
      auto constants = topology::constants_for(is_special ? scope + "-" + processor : scope, traits.name);
      if (constants) {
        offer.constants[l] = *std::move(constants);
      } else {
        is_possible = false;
        refuse(constants.error().message);
      }
    }
    if (is_possible) environment.offers.push_back(std::move(offer));
  }
}

/// What the switches between `devices` can do; all of a level are like them.
SwitchOffer offer_of_switches(const topology::Resources& resources, std::span<const int> devices, std::size_t trees) {
  SwitchOffer offer;
  const auto refused = [&](std::string why) {
    offer.why_not = std::move(why);
    return offer;
  };
  auto tree = topology::switch_tree(resources, devices);
  if (!tree) return refused(tree.error().message);
  auto constants = topology::constants_for(tree->scope, "switch");
  if (!constants) return refused(constants.error().message);
  if (tree->most_trees > 0 && trees > static_cast<std::size_t>(tree->most_trees))
    return refused(fmt::format("{} has {} trees that sum streams, and {} rails need one each; type --algorithm hierarchical", tree->scope,
                               tree->most_trees, trees));
  offer.computes = true;
  offer.bottleneck = tree->bottleneck;
  offer.latency = tree->latency;
  offer.constants = *std::move(constants);
  return offer;
}

/// Groups are copies of one machine: the first and the last, which may hold fewer ranks, stand for all; as does the first rail.
void look_at_switches(Environment& environment, const topology::Resources& resources, std::span<const int> devices) {
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(environment.nodes));
  for (std::size_t r = 0; r < devices.size(); ++r) groups[environment.group_of(static_cast<int>(r))].push_back(devices[r]);
  if (environment.level[0].is_used) {
    SwitchOffer& inside = environment.switches[0];
    inside = offer_of_switches(resources, groups.front(), 1);
    if (inside.computes && groups.size() > 1 && groups.back().size() > 1) inside = offer_of_switches(resources, groups.back(), 1);
  }
  if (environment.level[1].is_used) {
    const int rail[] = {groups.front().front(), groups.back().front()};
    environment.switches[1] = offer_of_switches(resources, rail, groups.front().size());
  }
  environment.placement.switches = static_cast<std::uint8_t>((environment.switches[0].computes ? schedule::kSwitchesInside : 0) |
                                                             (environment.switches[1].computes ? schedule::kSwitchesBetween : 0));
}

/// Ranks of the first group stand for all.
int outlets_of(const topology::Resources& resources, std::span<const int> devices, const schedule::Placement& placement) {
  std::vector<int> group;
  for (std::size_t r = 0; r < devices.size(); ++r)
    if (placement.group.empty() || placement.group[r] == placement.group[0]) group.push_back(devices[r]);
  if (group.size() < 2 || group.size() > kMostWiredRanks) return 1;
  const Wiring wiring = wires_of(resources, group);
  std::size_t fewest = group.size();
  for (std::int32_t r = 0; r < wiring.ranks; ++r)
    for (const bool is_out : {true, false}) fewest = std::min(fewest, ends_of(wiring, r, is_out).size());
  return wiring.is_known() ? static_cast<int>(std::max<std::size_t>(1, fewest)) : 1;
}

// From 0 without gaps.
void number_cores(Environment& environment, std::span<const std::int32_t> cores) {
  std::map<std::int32_t, std::int32_t> number;
  for (const std::int32_t core : cores)
    environment.core_of.push_back(number.emplace(core, static_cast<std::int32_t>(number.size())).first->second);
}

// A rank on a device that is no core has one for itself: a NUMA domain has one for every rank.
std::vector<std::int32_t> cores_of(const topology::Cluster& cluster, std::span<const int> devices) {
  std::vector<std::int32_t> cores(devices.begin(), devices.end());
  for (std::size_t r = 0; r < cores.size(); ++r)
    if (cluster.device(devices[r]).kind != DeviceKind::core) cores[r] = cluster.device_count() + static_cast<std::int32_t>(r);
  return cores;
}

}  // namespace

Result<Environment> environment_of(const topology::Resources& resources, std::span<const int> device_of_rank,
                                   const EnvironmentOptions& options) {
  if (device_of_rank.empty()) return fail(ErrorCode::invalid_argument, "a communicator needs at least one rank");
  const topology::Cluster& cluster = resources.cluster();
  for (std::size_t r = 0; r < device_of_rank.size(); ++r)
    if (device_of_rank[r] < 0 || device_of_rank[r] >= cluster.device_count())
      return fail(ErrorCode::invalid_argument, "rank {} is placed on device {}, but there are only {}", r, device_of_rank[r],
                  cluster.device_count());
  if (!options.core_of.empty() && options.core_of.size() != device_of_rank.size())
    return fail(ErrorCode::invalid_argument, "{} ranks have {} cores", device_of_rank.size(), options.core_of.size());
  if (!options.rack_of.empty() && options.rack_of.size() != device_of_rank.size())
    return fail(ErrorCode::invalid_argument, "{} ranks have {} racks", device_of_rank.size(), options.rack_of.size());
  Environment environment;
  environment.ranks = static_cast<int>(device_of_rank.size());
  environment.is_host = cluster.device(device_of_rank[0]).kind != DeviceKind::gpu;
  environment.placement = place(resources, device_of_rank);
  if (!options.rack_of.empty()) order_by_racks(options.rack_of, environment.placement);
  const auto& groups = environment.placement.group;
  environment.nodes = groups.empty() ? 1 : *std::max_element(groups.begin(), groups.end()) + 1;
  environment.fused = options.fused;
  PEAL_TRY(Survey(environment, resources, device_of_rank, options.wires).look());
  if (!environment.level[0].is_used && !environment.level[1].is_used) {
    const Route self = resources.route(device_of_rank[0], device_of_rank[0]);
    environment.level[0].is_used = true;
    environment.level[0].scope = std::string(self.scope);
    environment.level[0].path_class = PathClass::self;
    environment.level[0].bottleneck = self.bottleneck;
  }
  Level& inside = environment.level[0];
  if (inside.is_used && inside.scope.empty()) {
    // Ranks that all sit on one core: the graph shows no way between them.
    const bool is_socket = options.wires == Wires::socket;
    inside.scope = !environment.is_host ? "nvlink" : is_socket ? "tcp-loopback" : "shm";
    inside.path_class = is_socket ? PathClass::loopback : PathClass::self;
  }
  std::string processor;
  if (environment.is_host) {
    number_cores(environment, options.core_of.empty() ? cores_of(cluster, device_of_rank) : options.core_of);
    PEAL_ASSIGN(const topology::HostDefaults defaults, topology::host_defaults());
    if (options.is_one_machine && environment.is_by_sockets(1)) {
      Level& between = environment.level[1];  // the wire is the sender's copy, as on loopback
      between.scope = kContainersScope;
      between.bottleneck = defaults.loopback;
      between.latency = defaults.loopback_latency;
    }
    const bool polls_sockets = environment.is_by_sockets(0) || environment.is_by_sockets(1);
    environment.core_switch = polls_sockets ? defaults.core_switch_polling : defaults.core_switch;
    environment.same_core_gain = defaults.same_core_gain;
    environment.cold_end = defaults.cold_end;
    environment.warm_ends = defaults.warm_ends;
    environment.half_cold_ends = defaults.half_cold_ends;
    environment.least_within_cores = defaults.least_within_cores;
    environment.most_within_cores = defaults.most_within_cores;
    const topology::ProcessorDefaults* const known = processor_of(defaults, cluster.machine(), environment);
    if (known != nullptr) {
      processor = known->name;
      if (known->core_switch.value > 0 && !polls_sockets) environment.core_switch = known->core_switch;
      if (known->same_core_gain > 0) environment.same_core_gain = known->same_core_gain;
      if (known->least_within_cores.value > 0) environment.least_within_cores = known->least_within_cores;
      environment.least_plain_within_cores = known->least_plain_within_cores;
    }
    environment.memory = known != nullptr ? known->memory : defaults.memory;
  }
  offer_protocols(environment, options, processor);
  look_at_switches(environment, resources, device_of_rank);
  if (environment.is_host) {
    environment.placement.rings = host_rings(environment.placement, environment.ranks);
  } else {
    environment.wiring = wiring_of(resources, device_of_rank);
    environment.level[0].outlets = outlets_of(resources, device_of_rank, environment.placement);
    schedule::Placement& placement = environment.placement;
    if (environment.nodes == 1) {
      RingSet found = find_rings(environment.wiring, placement.ring);
      placement.rings = std::move(found.rings);
      placement.shares = std::move(found.shares);
    } else {
      placement.rings = rail_rings(placement, environment.level[1].ranks_per_outlet);
    }
  }
  if (environment.offers.empty()) {
    std::string why;
    for (const Refusal& r : environment.refusals) why += fmt::format("; {}: {}", schedule::name_of(r.protocol), r.why);
    return fail(ErrorCode::unsupported, "no protocol can be used between these ranks{}", why);
  }
  return environment;
}

}  // namespace peal::tuning
