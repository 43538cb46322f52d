// Lines in front of the ports of the network, and cores that run TCP for GPUs.
#include <algorithm>
#include <base/index.hpp>
#include <cmath>
#include <topology/library_constants.hpp>

#include "world.hpp"

namespace peal::sim {

namespace {

/// NIC by which a device reaches other machines, in the cluster's numbering, or -1.
int nic_of(const topology::Resources& resources, int device) {
  const topology::Cluster& cluster = resources.cluster();
  const int nic = resources.nic_of(cluster.local_of(device));
  return nic < 0 ? -1 : cluster.copy_of(device) * cluster.devices_per_node() + nic;
}

/// GB/s that the cores of a rank's sockets carry.
struct SocketRates {
  double send = 0;
  double receive = 0;
};

Result<SocketRates> read_socket_rates() {
  PEAL_ASSIGN(const topology::LibraryConstants all, topology::LibraryConstants::of_networks());
  PEAL_ASSIGN(const int clock, all.find("tcp.clock"));
  PEAL_ASSIGN(const int cores, all.find("tcp.cores"));
  PEAL_ASSIGN(const int send, all.find("tcp.send"));
  PEAL_ASSIGN(const int receive, all.find("tcp.receive"));
  const double cycles = all.value(cores) * all.value(clock);
  return SocketRates{cycles / all.value(send), cycles / all.value(receive)};
}

/// Read once a process.
const Result<SocketRates>& socket_rates() {
  static const Result<SocketRates> rates = read_socket_rates();
  return rates;
}

}  // namespace

void World::make_lines() {
  const Congestion& congestion = options_.congestion;
  if (congestion.control == FlowControl::fair) return;
  engine_.set_queue_law([this, &congestion, known = std::map<std::pair<double, double>, double>()](double flows, double capacity) mutable {
    const auto [queue, is_new] = known.try_emplace({flows, capacity}, 0);
    if (is_new) queue->second = congestion.queue(flows, capacity);
    outcome_.most_in_line = std::max(outcome_.most_in_line, flows);
    outcome_.longest_queue = std::max(outcome_.longest_queue, queue->second);
    return queue->second;
  });
}

/// What lies between the NICs is passed in order.
void World::lay_lines(const Channel& c) {
  if (options_.congestion.control == FlowControl::fair) return;
  const int from = nic_of(resources_, device_of(c.from));
  const int to = nic_of(resources_, device_of(c.to));
  if (from < 0 || to < 0) return;
  const topology::Route between = resources_.route(from, to);
  lines_.insert(between.resources.begin(), between.resources.end());
}

/// A sender holds up others until it has been told how fast it may send. How many share its port is not known before they have begun, and
/// in a folded simulation not in their order: as if all ranks sent to one.
double World::holds_up_for(Index channel) {
  if (options_.congestion.control == FlowControl::fair) return 0;
  const double learns = options_.congestion.holds_up_for(ranks_[at(channels_[channel].from)].job->job->environment->ranks);
  if (since_.size() <= channel) since_.resize(channels_.size(), -1);
  double& since = since_[channel];
  if (since < 0) {
    since = engine_.now();
    if (std::isfinite(learns)) learnt_ = std::max(learnt_, since + learns);
  }
  return std::max(0.0, since + learns - engine_.now());
}

/// To the way that is being laid, which is the last. What is crossed twice (memory that is written and read) counts twice.
void World::add_to_way(const Channel& c, std::uint32_t resource, bool is_first, double count) {
  const auto first = static_cast<std::ptrdiff_t>(c.first_wire);
  if (has_counts()) {
    const auto known = std::find(ways_.begin() + first, ways_.end(), resource);
    if (known != ways_.end()) {
      way_counts_[static_cast<std::size_t>(known - ways_.begin())] += count;
      return;
    }
    way_counts_.insert(is_first ? way_counts_.begin() + first : way_counts_.end(), count);
  }
  ways_.insert(is_first ? ways_.begin() + first : ways_.end(), resource);
}

/// All streams of a rank go through its cores, which copy between sockets and the memory that the GPU reads.
void World::lay_sockets(const Channel& c, double members) {
  if (sockets_.empty()) sockets_.resize(ranks_.size());
  const Result<SocketRates>& rates = socket_rates();
  if (!rates) {
    failure_ = tl::unexpected(rates.error());
    return;
  }
  Sockets& sender = sockets_[at(c.from)];
  Sockets& receiver = sockets_[at(c.to)];
  const double efficiency = cost_of(c).efficiency;
  if (sender.out == kNobody) sender.out = engine_.add_resource(rates->send / efficiency);
  if (receiver.in == kNobody) receiver.in = engine_.add_resource(rates->receive / efficiency);
  sender.alike = receiver.alike = members;
  add_to_way(c, sender.out, true);
  add_to_way(c, receiver.in, false);
}

void World::add_socket_uses(std::vector<ResourceUse>& uses, double time) const {
  if (sockets_.empty() || !socket_rates()) return;
  const SocketRates rates = *socket_rates();
  for (std::size_t r = 0; r < sockets_.size(); ++r) {
    for (const auto& [core, rate, what] :
         {std::tuple{sockets_[r].out, rates.send, "sends"}, std::tuple{sockets_[r].in, rates.receive, "receives"}}) {
      const double bytes = core == kNobody ? 0 : engine_.bytes_over(core);
      if (bytes <= 0) continue;
      const double efficiency = ranks_[r].job->offer->constants[1].efficiency;
      const Bandwidth capacity = Bandwidth::gigabytes(rate / efficiency);
      uses.push_back({fmt::format("core that {} for rank {} (tcp)", what, r), bytes, capacity, bytes / (capacity.gigabytes() * time)});
      if (fold_.folding) uses.back().alike = sockets_[r].alike;
    }
  }
}

const Framing* World::framing(const Channel& c, const topology::Route& route, bool is_memory) {
  static const Framing none;
  if (is_memory || route.scope.empty()) return &none;
  for (const auto& [scope, known] : framings_)
    if (scope == route.scope.data()) return known.get();
  topology::LinkKind kind = topology::LinkKind::nvlink;
  if (route.path_class == topology::PathClass::net) {
    const int nic = nic_of(resources_, device_of(c.from));
    kind = nic < 0 ? topology::LinkKind::ethernet : resources_.cluster().device(nic).port->kind;
  }
  const Result<Framing> found = framing_of(route.scope, kind);
  if (!found) failure_ = tl::unexpected(found.error());
  framings_.emplace_back(route.scope.data(), std::make_unique<Framing>(found ? *found : none));
  return framings_.back().second.get();
}

}  // namespace peal::sim
