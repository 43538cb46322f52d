#include <algorithm>
#include <base/names.hpp>
#include <base/units.hpp>
#include <set>
#include <training/placement.hpp>
#include <training/step_graph.hpp>

#include "stage_parameters.hpp"

namespace peal::training {

namespace {

std::size_t index_of(Dimension dimension) { return static_cast<std::size_t>(dimension); }

/// Of a call's buffer, what each rank sends in a ring.
double share_sent(Collective collective, int ranks) {
  const double rest = ranks > 1 ? (ranks - 1.0) / ranks : 0;
  return collective == Collective::all_reduce ? 2 * rest : has_blocks(collective) ? rest : 1;
}

/// Gathers of all parameters and scatters of all gradients in a step (stage_tasks.cpp); an all-reduce is both.
double halves_of(const Layout& layout) {
  const double batches = layout.micro_batches();
  if (layout.zero == 2) return batches + 1;
  return layout.zero == 3 && layout.pp == 1 ? 3 * batches : 2;
}

/// Of one layer and micro batch.
Traffic calls_of(const Layout& layout, const ComputeModel& compute, int layer) {
  Traffic traffic;
  for (const PassWork& work : {compute.forward(layer), compute.backward_input(layer), compute.backward_weight(layer)})
    for (const InnerCall& call : work.calls)
      traffic.bytes[index_of(call.over)] += call.times * call.bytes * share_sent(call.collective, layout.size_of(call.over));
  return traffic;
}

}  // namespace

Traffic traffic_of(const Model& model, const Layout& layout, const ComputeModel& compute) {
  const double batches = layout.micro_batches();
  const double bytes = bytes_of(layout.precision);
  std::vector<Traffic> of_kind;  // of layers
  for (int layer = 0; layer < layers_in(model); ++layer)
    if (compute.kind_of(layer) == static_cast<int>(of_kind.size())) of_kind.push_back(calls_of(layout, compute, layer));
  Traffic most;
  for (int stage = 0; stage < layout.pp; ++stage) {
    Traffic its;
    for (int chunk = stage; chunk < layout.chunks(); chunk += layout.pp) {
      const LayerRange range = layers_of(model, layout, chunk);
      for (int layer = range.first; layer < range.first + range.count; ++layer)
        for (int d = 0; d < kDimensions; ++d) its.bytes[d] += batches * of_kind[static_cast<std::size_t>(compute.kind_of(layer))].bytes[d];
    }
    const StageParameters held = stage_parameters(model, layout, stage);
    // With hybrid sharding as many: 1 - 1 / group inside, and of 1 / group what is left between.
    its.bytes[index_of(Dimension::dp)] = halves_of(layout) * bytes *
                                         (held.dense * share_sent(Collective::reduce_scatter, layout.data_ranks()) +
                                          held.experts * share_sent(Collective::reduce_scatter, layout.data_ranks() / layout.ep));
    for (int d = 0; d < kDimensions; ++d) most.bytes[d] = std::max(most.bytes[d], its.bytes[d]);
  }
  // A message ahead of every piece and one back; the ends of the model have nobody on one side.
  const int messages = 2 * layout.vpp - (layout.pp == 2 ? 1 : 0);
  if (layout.pp > 1)
    most.bytes[index_of(Dimension::pp)] = batches * messages * static_cast<double>(message_elements(model, layout)) * bytes;
  return most;
}

std::vector<std::array<Dimension, 4>> orders_of(const Layout& layout, const Traffic& traffic) {
  const auto bytes = [&](Dimension d) {
    return traffic.bytes[index_of(d)] + (d == Dimension::dp ? traffic.bytes[index_of(Dimension::ep)] : 0);
  };
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
    DimensionPlace place{dimension, layout.size_of(dimension), topology::PathClass::self, 0, traffic.bytes[index_of(dimension)], 1};
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
