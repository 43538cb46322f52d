#include "cores.hpp"

#include <algorithm>
#include <map>

#include "hwloc_topology.hpp"

namespace peal::discovery {
namespace {

std::string short_bytes(unsigned long long bytes) {
  if (bytes >= 1ull << 20) return fmt::format("{:.4g}M", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{}K", bytes >> 10);
}

/// Domain that `object` belongs to: the first whose processors include its own.
int domain_of(const std::vector<hwloc_obj_t>& domains, hwloc_obj_t object) {
  for (std::size_t i = 0; i < domains.size(); ++i)
    if (hwloc_bitmap_intersects(domains[i]->cpuset, object->cpuset)) return static_cast<int>(i);
  return 0;
}

/// The largest cache around a core that at least one other core may share, below its domain; null when every cache is private.
hwloc_obj_t shared_cache(hwloc_obj_t core) {
  hwloc_obj_t found = nullptr;
  for (hwloc_obj_t up = core->parent; up != nullptr; up = up->parent)
    if (hwloc_obj_type_is_dcache(up->type)) found = up;
  if (found == nullptr) return nullptr;
  return hwloc_bitmap_isequal(found->cpuset, core->cpuset) ? nullptr : found;
}

std::string list_pus(hwloc_obj_t core) {
  std::string text;
  unsigned pu = 0;
  hwloc_bitmap_foreach_begin(pu, core->cpuset) text += fmt::format("{}{}", text.empty() ? "" : ",", pu);
  hwloc_bitmap_foreach_end();
  return text;
}

std::string cache_text(hwloc_obj_t core) {
  std::map<unsigned, std::string> by_level;
  for (hwloc_obj_t o = core; o != nullptr; o = o->parent) {
    if (hwloc_obj_type_is_dcache(o->type)) by_level.emplace(o->attr->cache.depth, short_bytes(o->attr->cache.size));
  }
  std::string text;
  for (const auto& [level, size] : by_level) text += fmt::format("{}L{}{} {}", text.empty() ? "" : " ", level, level == 1 ? "d" : "", size);
  return text;
}

}  // namespace

Result<HwlocTopology> load_hwloc(const Roots& roots) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail(ErrorCode::system, "hwloc cannot start: {}", errno_text(errno));
  HwlocTopology topology(raw);
  if (!roots.hwloc_synthetic.empty() && hwloc_topology_set_synthetic(raw, roots.hwloc_synthetic.c_str()) != 0) {
    return fail(ErrorCode::invalid_argument, "hwloc does not understand the synthetic machine '{}'", roots.hwloc_synthetic);
  }
  if (hwloc_topology_load(raw) != 0)
    return fail(ErrorCode::system, "hwloc cannot read this machine: {}; is {} mounted?", errno_text(errno), roots.sys);
  return topology;
}

Result<CoreFacts> find_cores(const Roots& roots) {
  PEAL_ASSIGN(const HwlocTopology topology, load_hwloc(roots));
  return cores_of(*topology, roots);
}

Result<CoreFacts> cores_of(hwloc_topology& topology, const Roots& roots) {
  hwloc_topology_t t = &topology;
  CoreFacts facts;
  std::vector<hwloc_obj_t> domains;
  for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, o)) != nullptr;)
    if (o->cpuset != nullptr && !hwloc_bitmap_iszero(o->cpuset)) domains.push_back(o);  // memory without cores is no domain of ours
  for (hwloc_obj_t domain : domains) {
    hwloc_obj_t package = hwloc_get_next_obj_covering_cpuset_by_type(t, domain->cpuset, HWLOC_OBJ_PACKAGE, nullptr);
    facts.domains.push_back({static_cast<int>(domain->os_index), package == nullptr ? 0 : static_cast<int>(package->logical_index),
                             domain->attr->numanode.local_memory});
  }
  facts.packages = std::max(1, hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE));
  facts.pus = std::max(0, hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU));
  if (facts.domains.empty()) facts.domains.push_back({});

  // Some virtual machines show processors without cores.
  const hwloc_obj_type_t unit = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::map<std::pair<hwloc_obj_t, int>, int> caches;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(t, unit, core)) != nullptr;) {
    if (facts.cores.empty()) facts.cache_text = cache_text(core);
    const int numa = domain_of(domains, core);
    hwloc_obj_t cache = shared_cache(core);
    const auto [it, is_new] = caches.emplace(std::pair{cache, numa}, static_cast<int>(facts.caches.size()));
    if (is_new) {
      CacheFact fact{.numa = numa, .is_cache = cache != nullptr};
      fact.bytes = cache == nullptr ? facts.domains[static_cast<std::size_t>(numa)].memory_bytes : cache->attr->cache.size;
      fact.name = cache == nullptr ? "memory" : fmt::format("L{} {}", cache->attr->cache.depth, short_bytes(fact.bytes));
      facts.caches.push_back(std::move(fact));
    }
    facts.cores.push_back({numa, it->second, list_pus(core)});
  }
  if (facts.cores.empty()) return fail(ErrorCode::system, "hwloc found no processor on this machine: is {} mounted?", roots.sys);
  return facts;
}

}  // namespace peal::discovery
