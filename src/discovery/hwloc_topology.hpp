// hwloc's view of this host, or of a synthetic machine.
#pragma once

#include <hwloc.h>

#include <discovery/discover.hpp>
#include <memory>

#include "cores.hpp"

namespace peal::discovery {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

Result<HwlocTopology> load_hwloc(const Roots& roots);
Result<CoreFacts> cores_of(hwloc_topology& topology, const Roots& roots);

}  // namespace peal::discovery
