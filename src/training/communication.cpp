// How long the ranks of a layout need to tell one another something. Groups of one dimension do the same at the same time; of those that
// lie differently on the machine, the slowest counts.
//
// The libraries' formula is of one group. Groups inside a node do not meet on NVLink switches; groups over nodes share the NICs of their
// nodes: where a node has a NIC for every rank each group has its own (rails), where it has fewer a group gets a share of the rate, which
// is counted as so many times the bytes. Not in the formula: groups that share PCIe bridges inside a node.
#include <algorithm>
#include <base/index.hpp>
#include <map>
#include <memory>
#include <set>
#include <sim/simulate.hpp>
#include <training/step.hpp>
#include <tuning/environment.hpp>

namespace peal::training {

namespace {

/// Who talks.
enum class Talk : std::uint8_t { tensor, context, expert, data, within, between, send };

struct Family {
  Talk talk = Talk::tensor;
  int group = 0;                           ///< of within and between; of send: the stage that sends
  int to = 0;                              ///< of send
  Talkers who = Talkers::same_parameters;  ///< of data, within and between
  auto operator<=>(const Family&) const = default;
};

struct CallKey {
  Family family;
  Collective collective = Collective::all_reduce;
  double bytes = 0;
  auto operator<=>(const CallKey&) const = default;
};

/// Groups that lie alike on the machine, by one of them.
struct Placement {
  std::vector<int> devices;
  double sharing = 1;                          ///< so many groups have one group's share of the NICs
  const sim::LibraryModel* formula = nullptr;  ///< of the pool
  std::optional<sim::Scene> scene;
};

using Groups = std::vector<std::vector<int>>;

/// NICs of a machine that collectives use.
int nics_of(const topology::Graph& machine) {
  int nics = 0;
  for (const topology::Device& device : machine.devices())
    nics += device.kind == topology::DeviceKind::nic && device.port && device.rail >= 0 && device.node == machine.device(0).node ? 1 : 0;
  return nics;
}

/// How many of the devices lie on each node, by node.
std::map<int, int> nodes_of(const topology::Cluster& cluster, const std::vector<int>& devices) {
  std::map<int, int> counts;
  for (const int device : devices) ++counts[cluster.node_of(device)];
  return counts;
}

bool are_even(const std::map<int, int>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](const auto& node) { return node.second == counts.begin()->second; });
}

/// Neighbours of a group in parts of so many, or those that are equal in such parts.
Groups parts_of(const std::vector<int>& group, int size, bool is_between) {
  Groups parts(is_between ? at(size) : group.size() / at(size));
  for (std::size_t i = 0; i < group.size(); ++i) parts[is_between ? i % at(size) : i / at(size)].push_back(group[i]);
  return parts;
}

}  // namespace

/// What does not depend on a layout. A formula depends on how a group lies alone, so that layouts share them.
struct Communication::Pool {
  topology::Cluster cluster;
  sim::Library whose;
  topology::LibraryConstants constants;
  int nics = 0;
  std::map<std::vector<int>, sim::LibraryModel> formulas = {};  ///< by look
};

struct Communication::State {
  std::shared_ptr<Pool> pool;
  Layout layout;
  const topology::Cluster& cluster = pool->cluster;
  std::map<Family, std::vector<Placement>> placements = {};
  std::map<CallKey, double> times = {};  // nanoseconds

  std::vector<int> data_group(int rank, Talkers who) const {
    return who == Talkers::same_experts ? expert_group_of(layout, rank) : group_of(layout, Dimension::dp, rank, true);
  }
  Groups groups_of(const Family& family) const;
  Result<std::vector<Placement>*> placements_of(const Family& family);
  Status ready(Placement& placement, const Groups& groups, const std::vector<int>& look) const;
  Groups sends_of(const Family& family) const;
  Status open_scene(Placement& placement, const Groups& groups) const;
  double sharing_of(const std::vector<int>& devices) const;
  std::vector<int> look_of(const std::vector<int>& devices) const;
  Result<Nanoseconds> time(const Family& family, Collective collective, double bytes);
  Result<double> time_at(const Placement& placement, Collective collective, double bytes) const;
};

/// Devices of all pairs.
Groups Communication::State::sends_of(const Family& family) const {
  Groups groups;
  for (int dp = 0; dp < layout.dp; ++dp)
    for (int cp = 0; cp < layout.cp; ++cp)
      for (int tp = 0; tp < layout.tp; ++tp) {
        const auto device = [&](int pp) { return cluster.device_of_rank(rank_of(layout, {tp, cp, dp, pp, 0})); };
        groups.push_back({device(family.group), device(family.to)});
      }
  return groups;
}

/// Devices of all groups.
Groups Communication::State::groups_of(const Family& family) const {
  if (family.talk == Talk::send) return sends_of(family);
  Groups groups;
  std::vector<bool> is_seen(at(layout.gpus()));
  const auto add = [&](const std::vector<int>& ranks) {
    std::vector<int>& devices = groups.emplace_back();
    for (const int rank : ranks) {
      is_seen[at(rank)] = true;
      devices.push_back(cluster.device_of_rank(rank));
    }
  };
  for (int rank = 0; rank < layout.gpus(); ++rank) {
    if (is_seen[at(rank)]) continue;
    switch (family.talk) {
      case Talk::tensor: add(group_of(layout, Dimension::tp, rank)); break;
      case Talk::context: add(group_of(layout, Dimension::cp, rank)); break;
      case Talk::expert: add(group_of(layout, Dimension::ep, rank)); break;
      case Talk::data: add(data_group(rank, family.who)); break;
      case Talk::within:
      case Talk::between:
        for (const auto& part : parts_of(data_group(rank, family.who), family.group, family.talk == Talk::between)) add(part);
        break;
      case Talk::send: break;
    }
  }
  return groups;
}

double Communication::State::sharing_of(const std::vector<int>& devices) const {
  const std::map<int, int> ranks_of = nodes_of(cluster, devices);
  if (ranks_of.size() < 2 || pool->nics == 0) return 1;
  const int all = cluster.ranks_per_node();
  const int here = ranks_of.begin()->second;
  // NICs that the formula gives one group (sim/library/job_shape.cpp), times the groups of a node.
  const double given = std::max(1, pool->nics * here / std::max(all, here));
  return std::max(1.0, given * std::max(1, std::min(all, layout.gpus()) / here) / pool->nics);
}

/// Groups that look alike take equally long.
std::vector<int> Communication::State::look_of(const std::vector<int>& devices) const {
  const std::map<int, int> ranks_of = nodes_of(cluster, devices);
  std::vector<int> look = {static_cast<int>(ranks_of.size()), static_cast<int>(devices.size())};
  for (const auto& [node, ranks] : ranks_of)
    if (ranks != ranks_of.begin()->second) look.push_back(ranks);
  // One rank a node is like another.
  if (ranks_of.size() > 1 && ranks_of.size() == devices.size()) return look;
  for (const int device : devices)
    if (cluster.node_of(device) == cluster.node_of(devices.front())) look.push_back(-1 - cluster.local_of(device));
  return look;
}

Result<std::vector<Placement>*> Communication::State::placements_of(const Family& family) {
  const auto known = placements.find(family);
  if (known != placements.end()) return &known->second;
  const Groups groups = groups_of(family);
  std::vector<Placement> found;
  std::set<std::vector<int>> looks;
  for (const std::vector<int>& devices : groups)
    if (devices.size() > 1) {
      const auto [look, is_new] = looks.insert(look_of(devices));
      if (!is_new) continue;
      found.push_back({devices, sharing_of(devices), nullptr, {}});
      PEAL_TRY(ready(found.back(), groups, *look));
    }
  return &placements.emplace(family, std::move(found)).first->second;
}

Status Communication::State::ready(Placement& placement, const Groups& groups, const std::vector<int>& look) const {
  // What the formulas do not know (nodes with unequally many ranks of a group) is simulated.
  if (pool->whose != sim::Library::peal && are_even(nodes_of(cluster, placement.devices))) {
    if (const auto known = pool->formulas.find(look); known != pool->formulas.end()) {
      placement.formula = &known->second;
      return {};
    }
    sim::LibraryOptions options;
    options.whose = pool->whose;
    PEAL_ASSIGN(sim::LibraryModel model, sim::LibraryModel::make(cluster, placement.devices, options, pool->constants));
    placement.formula = &pool->formulas.emplace(look, std::move(model)).first->second;
    return {};
  }
  placement.sharing = 1;
  return open_scene(placement, groups);
}

/// The group with all others that have ranks on its nodes.
Status Communication::State::open_scene(Placement& placement, const Groups& groups) const {
  std::set<int> nodes;
  for (const int device : placement.devices) nodes.insert(cluster.node_of(device));
  PEAL_ASSIGN(sim::Scene scene, sim::make_scene(cluster, placement.devices));
  for (const std::vector<int>& devices : groups) {
    const bool is_near = std::any_of(devices.begin(), devices.end(), [&](int device) { return nodes.contains(cluster.node_of(device)); });
    if (!is_near || devices == placement.devices) continue;
    sim::Group group{devices, {}};
    PEAL_ASSIGN(group.environment, tuning::environment_of(*scene.resources, devices, scene.options));
    scene.further.push_back(std::move(group));
  }
  placement.scene.emplace(std::move(scene));
  return {};
}

Result<double> Communication::State::time_at(const Placement& placement, Collective collective, double bytes) const {
  const auto size = static_cast<std::uint64_t>(std::max(1.0, bytes * placement.sharing));
  if (placement.formula) {
    PEAL_ASSIGN(const sim::LibraryAnswer answer, placement.formula->predict({.collective = collective, .bytes = Bytes{size}}));
    return answer.time.value;
  }
  tuning::Question question;
  question.call.collective = collective;
  // Elements are of four bytes, blocks equally long.
  const auto ranks = placement.devices.size() * 4;
  question.call.bytes = Bytes{std::max<std::uint64_t>(1, (size + ranks - 1) / ranks) * ranks};
  if (collective == Collective::send_recv) question.call.peer = 1;
  PEAL_ASSIGN(const sim::Row row, sim::simulate_call(*placement.scene, question));
  return row.out_of_place->time_us * 1e3;
}

Result<Nanoseconds> Communication::State::time(const Family& family, Collective collective, double bytes) {
  if (!(bytes > 0)) return Nanoseconds{0};
  const CallKey key{family, collective, bytes};
  if (const auto known = times.find(key); known != times.end()) return Nanoseconds{known->second};
  PEAL_ASSIGN(const std::vector<Placement>* places, placements_of(family));
  double slowest = 0;
  for (const Placement& place : *places) {
    PEAL_ASSIGN(const double one, time_at(place, collective, bytes));
    slowest = std::max(slowest, one);
  }
  return Nanoseconds{times[key] = slowest};
}

Communication::Communication(std::unique_ptr<State> state) : state_(std::move(state)) {}
Communication::Communication(Communication&&) noexcept = default;
Communication& Communication::operator=(Communication&&) noexcept = default;
Communication::~Communication() = default;

Result<Communication> Communication::make(const topology::Cluster& cluster, const Layout& layout, sim::Library whose) {
  PEAL_ASSIGN(topology::LibraryConstants constants, topology::LibraryConstants::from_data());
  auto pool = std::make_shared<Pool>(Pool{cluster, whose, std::move(constants), nics_of(cluster.machine())});
  return Communication(std::make_unique<State>(State{std::move(pool), {}})).with(layout);
}

Result<Communication> Communication::with(const Layout& layout) const {
  const topology::Cluster& cluster = state_->cluster;
  if (layout.gpus() > cluster.ranks())
    return fail(ErrorCode::invalid_argument, "the layout takes {} GPUs, and the cluster has {}: type --nodes {}", layout.gpus(),
                cluster.ranks(), (layout.gpus() + cluster.ranks_per_node() - 1) / cluster.ranks_per_node());
  return Communication(std::make_unique<State>(State{state_->pool, layout}));
}

Result<Nanoseconds> Communication::time(Dimension over, Collective collective, double bytes) {
  if (over == Dimension::pp) {
    double slowest = 0;
    for (int stage = 0; stage + 1 < state_->layout.pp; ++stage) {
      PEAL_ASSIGN(const Nanoseconds one, time_of_send(stage, stage + 1, bytes));
      slowest = std::max(slowest, one.value);
    }
    return Nanoseconds{slowest};
  }
  constexpr Talk kTalks[] = {Talk::tensor, Talk::context, Talk::expert, Talk::data};
  return state_->time({.talk = kTalks[static_cast<std::size_t>(over)]}, collective, bytes);
}

Result<Nanoseconds> Communication::time_of_data(Talkers who, Collective collective, double bytes, int group) {
  return state_->time({group > 0 ? Talk::within : Talk::data, group, 0, who}, collective, bytes);
}

Result<Nanoseconds> Communication::time_between(Talkers who, int group, Collective collective, double bytes) {
  return state_->time({Talk::between, group, 0, who}, collective, bytes);
}

Result<Nanoseconds> Communication::time_of_send(int from_stage, int to_stage, double bytes) {
  return state_->time({.talk = Talk::send, .group = from_stage, .to = to_stage}, Collective::send_recv, bytes);
}

Result<Nanoseconds> Communication::time_of_ends(double bytes) {
  return state_->time({.talk = Talk::send, .group = 0, .to = state_->layout.pp - 1}, Collective::all_reduce, bytes);
}

}  // namespace peal::training
