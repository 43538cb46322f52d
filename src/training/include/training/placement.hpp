// Which links each dimension of a layout sits on, and which dimension should sit on the nearest.
#pragma once

#include <base/result.hpp>
#include <string>
#include <topology/cluster.hpp>
#include <topology/path.hpp>
#include <training/compute.hpp>
#include <training/layout.hpp>
#include <vector>

namespace peal::training {

/// Bytes that one rank sends in a step about each dimension, by Dimension, of the stage that sends most about it. A ring's count:
/// 2 (n - 1) / n of the buffer for an all-reduce, (n - 1) / n for the halves of it and for an all-to-all.
struct Traffic {
  double bytes[kDimensions] = {};
};
Traffic traffic_of(const Model& model, const Layout& layout, const ComputeModel& compute);

/// Orders that can be best: tp and cp, whose calls computing waits for, nearest, then dp and pp either way; and that of bytes, neighbours
/// differing in the dimension that sends most (experts' bytes are dp's: ep lies among its ranks). Dimensions of size 1 stand where Layout
/// has them, so that none comes twice.
std::vector<std::array<Dimension, 4>> orders_of(const Layout& layout, const Traffic& traffic);

/// Where a dimension's groups lie. Neighbours share what leaves a node.
struct DimensionPlace {
  Dimension dimension = Dimension::tp;
  int size = 1;
  topology::PathClass path = topology::PathClass::self;  ///< the farthest between members of rank 0's group
  double GBps = 0;                                       ///< line rate on that path for a rank, one direction
  double bytes = 0;                                      ///< a step, of a rank
  int nodes = 1;                                         ///< that the group spans
};
/// Of every dimension above 1. Fails where the cluster has fewer ranks than the layout.
Result<std::vector<DimensionPlace>> places_of(const topology::Cluster& cluster, const Layout& layout, const Traffic& traffic);

/// "tp 8: inside a node (NVL, 300 GB/s a rank), 95.3 GB a step: most of all, on the nearest links".
std::string place_text(const DimensionPlace& place, const std::vector<DimensionPlace>& all);

}  // namespace peal::training
