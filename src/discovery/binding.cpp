#include <discovery/binding.hpp>
#include <memory>

#include "cores.hpp"
#include "hwloc_topology.hpp"
#include "system_files.hpp"

namespace peal::discovery {
namespace {

constexpr int kThread = HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET;

struct Free {
  void operator()(hwloc_bitmap_s* set) const { hwloc_bitmap_free(set); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Free>;

int errno_of(int done) { return done == 0 ? 0 : errno; }

MemoryPolicy policy_of(const std::shared_ptr<hwloc_topology>& topology) {
  MemoryPolicy policy;
  policy.read = [topology](bool& is_default) {
    const Bitmap nodes(hwloc_bitmap_alloc());
    hwloc_membind_policy_t found = HWLOC_MEMBIND_DEFAULT;
    const int error = errno_of(hwloc_get_membind(topology.get(), nodes.get(), &found, kThread));
    is_default = found == HWLOC_MEMBIND_DEFAULT || found == HWLOC_MEMBIND_FIRSTTOUCH;
    return error;
  };
  policy.prefer = [topology](int domain) {
    const Bitmap nodes(hwloc_bitmap_alloc());
    hwloc_bitmap_only(nodes.get(), static_cast<unsigned>(domain));
    // Without HWLOC_MEMBIND_STRICT hwloc asks Linux for a preference.
    return errno_of(hwloc_set_membind(topology.get(), nodes.get(), HWLOC_MEMBIND_BIND, kThread));
  };
  policy.reset = [topology] {
    return errno_of(hwloc_set_membind(topology.get(), hwloc_topology_get_topology_nodeset(topology.get()), HWLOC_MEMBIND_DEFAULT, kThread));
  };
  return policy;
}

}  // namespace

Result<HostPlaces> find_places(const Roots& roots) {
  PEAL_ASSIGN(HwlocTopology topology, load_hwloc(roots));
  const std::shared_ptr<hwloc_topology> shared = std::move(topology);
  PEAL_ASSIGN(const CoreFacts facts, cores_of(*shared, roots));
  HostPlaces places;
  places.domains = static_cast<int>(facts.domains.size());
  places.policy = policy_of(shared);
  for (const CoreFact& core : facts.cores)
    places.cores.push_back({parse_list(core.pus), facts.domains[static_cast<std::size_t>(core.numa)].os_index});
  return places;
}

MemoryBinding try_memory_policy(const MemoryPolicy& policy, int domain) {
  using enum MemoryBinding::Kind;
  bool is_default = true;
  if (const int error = policy.read(is_default); error != 0) return {refused, error};
  if (!is_default) return {left, 0};
  if (const int error = policy.prefer(domain); error != 0) return {refused, error};
  if (const int error = policy.reset(); error != 0) return {refused, error};
  return {preferred, 0};
}

std::string describe(const MemoryBinding& binding, int domains) {
  const std::string one = domains == 1 ? "; this host shows one NUMA domain, so all memory lies there anyway" : "";
  switch (binding.kind) {
    case MemoryBinding::Kind::preferred: return "memory of each rank: preferred in the NUMA domain of the core that it is bound to" + one;
    case MemoryBinding::Kind::left: return "memory of the ranks: a policy is set already (numactl, Slurm's --mem-bind) and stays" + one;
    case MemoryBinding::Kind::refused: break;
  }
  return fmt::format(
      "memory of the ranks is not bound: the kernel refuses to set a memory policy ({}), as containers without CAP_SYS_NICE do; pages lie "
      "where they are first touched{}",
      errno_text(binding.error), one);
}

}  // namespace peal::discovery
