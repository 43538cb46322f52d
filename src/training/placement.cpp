#include <algorithm>
#include <base/names.hpp>
#include <set>
#include <training/placement.hpp>

#include "gradient_buckets.hpp"

namespace peal::training {

namespace {

constexpr double kGigabyte = 1e9;

std::size_t at(Dimension dimension) { return static_cast<std::size_t>(dimension); }

/// Of a call's buffer, what each rank sends in a ring.
double share_sent(Collective collective, int ranks) {
  const double rest = ranks > 1 ? (ranks - 1.0) / ranks : 0;
  return collective == Collective::all_reduce ? 2 * rest : has_blocks(collective) ? rest : 1;
}

void add_calls(Traffic& traffic, const Layout& layout, const PassWork& work, double times) {
  for (const InnerCall& call : work.calls)
    traffic.bytes[at(call.over)] += times * call.times * call.bytes * share_sent(call.collective, layout.size_of(call.over));
}

}  // namespace

Traffic traffic_of(const Model& model, const Layout& layout, const ComputeModel& compute) {
  Traffic traffic;
  const double batches = layout.micro_batches();
  double elements = 0;
  for (int chunk = 0; chunk < layout.chunks(); chunk += layout.pp) {
    const LayerRange range = layers_of(model, layout, chunk);
    for (int layer = range.first; layer < range.first + range.count; ++layer)
      for (const PassWork& work : {compute.forward(layer), compute.backward_input(layer), compute.backward_weight(layer)})
        add_calls(traffic, layout, work, batches);
    for (const Bucket& bucket : buckets_of(model, layout, chunk)) elements += static_cast<double>(bucket.elements);
  }
  const double passes = layout.zero >= 3 ? 1.5 : 1;  // a gather before the backward pass too
  traffic.bytes[at(Dimension::dp)] =
      passes * bytes_of(layout.precision) * elements * share_sent(Collective::all_reduce, layout.dp * layout.cp);
  if (layout.pp > 1)
    traffic.bytes[at(Dimension::pp)] =
        2 * batches * layout.vpp * static_cast<double>(message_elements(model, layout)) * bytes_of(layout.precision);
  return traffic;
}

std::vector<std::array<Dimension, 4>> orders_of(const Layout& layout, const Traffic& traffic) {
  const auto bytes = [&](Dimension d) { return traffic.bytes[at(d)] + (d == Dimension::dp ? traffic.bytes[at(Dimension::ep)] : 0); };
  std::array<Dimension, 4> by_bytes = Layout{}.order;
  std::stable_sort(by_bytes.begin(), by_bytes.end(), [&](Dimension a, Dimension b) { return bytes(a) > bytes(b); });
  std::vector<std::array<Dimension, 4>> orders;
  for (const std::array<Dimension, 4>& wanted : {Layout{}.order, {Dimension::tp, Dimension::cp, Dimension::pp, Dimension::dp}, by_bytes}) {
    std::array<Dimension, 4> order = Layout{}.order;
    auto next = wanted.begin();
    for (Dimension& place : order) {
      if (layout.size_of(place) == 1) continue;
      while (layout.size_of(*next) == 1) ++next;
      place = *next++;
    }
    if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(order);
  }
  return orders;
}

Result<std::vector<DimensionPlace>> places_of(const topology::Cluster& cluster, const Layout& layout, const Traffic& traffic) {
  if (layout.gpus() > cluster.ranks())
    return fail(ErrorCode::invalid_argument, "the layout has {} ranks and the cluster {}", layout.gpus(), cluster.ranks());
  const topology::PathFinder paths(cluster.machine());
  double ports = 0;
  for (const topology::Device& device : cluster.machine().devices())
    if (device.kind == topology::DeviceKind::nic && device.rail >= 0 && device.port) ports += device.port->bandwidth.gigabytes();
  std::vector<DimensionPlace> places;
  for (const Dimension dimension : {Dimension::tp, Dimension::cp, Dimension::ep, Dimension::dp, Dimension::pp}) {
    if (layout.size_of(dimension) == 1) continue;
    DimensionPlace place{dimension, layout.size_of(dimension), topology::PathClass::self, 0, traffic.bytes[at(dimension)], 1};
    const std::vector<int> group = group_of(layout, dimension, 0);
    std::set<int> copies;
    for (const int rank : group) {
      const int from = cluster.device_of_rank(group.front()), to = cluster.device_of_rank(rank);
      copies.insert(cluster.copy_of(to));
      if (cluster.copy_of(from) != cluster.copy_of(to) || from == to) continue;
      const topology::Path& path = paths.path(cluster.local_of(from), cluster.local_of(to));
      if (path.path_class < place.path) continue;
      place.GBps = path.path_class == place.path ? std::min(place.GBps, path.line.gigabytes()) : path.line.gigabytes();
      place.path = path.path_class;
    }
    place.nodes = static_cast<int>(copies.size());
    if (place.nodes > 1) {
      place.path = topology::PathClass::net;
      place.GBps = ports / std::max(1, cluster.ranks_per_node());
    }
    places.push_back(place);
  }
  return places;
}

std::string place_text(const DimensionPlace& place, const std::vector<DimensionPlace>& all) {
  const bool sends_most = std::all_of(all.begin(), all.end(), [&](const DimensionPlace& other) { return other.bytes <= place.bytes; });
  const bool is_inside = place.nodes == 1;
  const std::string where = is_inside ? std::string("inside a node") : fmt::format("over {} nodes", place.nodes);
  const std::string why =
      is_inside ? (sends_most ? ", more than any other, so that it has the nearest links" : ", on links that are near")
                : (sends_most ? ", more than any other, and its group is larger than a node" : ", less than what sits nearer");
  return fmt::format("{} {}: {} ({}, {:.0f} GB/s a rank); a rank sends {:.3g} GB a step{}", name_of(place.dimension), place.size, where,
                     name_of(place.path), place.GBps, place.bytes / kGigabyte, all.size() > 1 ? why : "");
}

}  // namespace peal::training
