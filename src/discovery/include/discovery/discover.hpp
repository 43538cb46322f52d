// This host as a graph, found with hwloc, /sys and /proc. Every fact carries who said it: "hwloc", a file of /sys, "assumed: ...".
#pragma once

#include <string>
#include <topology/graph.hpp>

namespace peal::discovery {

/// Where to look. A test points `sys` and `proc` at a recorded tree and names a synthetic or recorded machine for hwloc.
struct Roots {
  std::string sys = "/sys";
  std::string proc = "/proc";
  std::string hwloc_synthetic = {};  ///< hwloc's synthetic text ("numa:2 core:4 pu:1"); empty: this host
};

/// Cores, caches, NUMA domains, NICs, PCIe GPUs, with the links that shared memory, loopback and sockets use.
/// Honest where the system does not say (virtual machines): an assumption is marked in `source` and in a warning.
/// Lists the cores that the control group allows, not only those that the calling process is bound to, so that all ranks of a host see the
/// same graph. Ranks are placed on cores: a GPU is listed, but nothing runs on it yet.
Result<topology::Graph> discover_host(const Roots& roots = {});

/// What makes two hosts alike for tuning tables: "Intel Xeon @ 2.50GHz | 2 cores, 1 package, 1 NUMA | L1d 32K L2 1M L3 35.8M | Linux 6.1 |
/// kvm".
Result<std::string> host_fingerprint(const Roots& roots = {});

}  // namespace peal::discovery
