// What ranks are bound to: the cores of this host in the graph's order, with their NUMA domains, and the kernel's memory policy.
#pragma once

#include <base/result.hpp>
#include <discovery/discover.hpp>
#include <functional>
#include <string>
#include <vector>

namespace peal::discovery {

/// A core of the graph, as the system numbers its processors and the NUMA domain that they belong to.
struct CorePlace {
  std::vector<int> cpus;
  int domain = 0;
};

/// The memory policy of the calling thread, which the threads and programs that it starts inherit. Each call gives errno, 0 where it was
/// granted. The kernel is asked through hwloc; a test puts functions of its own.
struct MemoryPolicy {
  std::function<int(bool& is_default)> read;  ///< pages lie where they are first touched: the kernel's default
  std::function<int(int domain)> prefer;      ///< pages lie in this domain as long as it has room: nothing fails when it is full
  std::function<int()> reset;                 ///< back to the default
};

struct HostPlaces {
  std::vector<CorePlace> cores;  ///< those that the control group allows
  int domains = 1;               ///< that have processors
  MemoryPolicy policy;           ///< of this host, whatever `roots` describe
};

/// Reads the host by hwloc: some 5 ms on a small machine, once for all ranks that a process starts. Fails where hwloc cannot read it.
Result<HostPlaces> find_places(const Roots& roots = {});

/// What came of binding memory.
struct MemoryBinding {
  enum class Kind : std::uint8_t {
    preferred,  ///< to the domain of the processors that a rank is bound to
    left,       ///< somebody else has set a policy: numactl, or Slurm's --mem-bind
    refused,    ///< by the kernel
  };
  Kind kind = Kind::preferred;
  int error = 0;  ///< errno of what was refused
};

/// Whether the policy may be set, by setting it for the calling thread and going back to the default.
MemoryBinding try_memory_policy(const MemoryPolicy& policy, int domain);

/// One sentence for whoever started the ranks. `domains`: of the host.
std::string describe(const MemoryBinding& binding, int domains);

}  // namespace peal::discovery
