#include <topology/constants.hpp>
#include <tuning/core_distance.hpp>

namespace peal::tuning {

namespace {

constexpr CoreDistance kAll[] = {CoreDistance::unknown, CoreDistance::siblings, CoreDistance::near, CoreDistance::far};

}  // namespace

std::string_view name_of(CoreDistance distance) noexcept {
  switch (distance) {
    case CoreDistance::siblings: return "siblings";
    case CoreDistance::near: return "near";
    case CoreDistance::far: return "far";
    case CoreDistance::unknown: break;
  }
  return "unknown";
}

Result<CoreDistance> parse_core_distance(std::string_view name) {
  for (const CoreDistance distance : kAll)
    if (name == name_of(distance)) return distance;
  return fail(ErrorCode::invalid_argument, "\"{}\" is no distance of cores; type siblings, near or far", name);
}

Result<CoreDistance> core_distance(double exchange_ns) {
  if (!(exchange_ns > 0)) return CoreDistance::unknown;
  PEAL_ASSIGN(const topology::HostDefaults host, topology::host_defaults());
  if (exchange_ns < host.siblings_below.value) return CoreDistance::siblings;
  return exchange_ns < host.near_below.value ? CoreDistance::near : CoreDistance::far;
}

Result<CoreDistance> core_distance(double before_ns, double after_ns) {
  PEAL_ASSIGN(const CoreDistance before, core_distance(before_ns));
  PEAL_ASSIGN(const CoreDistance after, core_distance(after_ns));
  return before == after ? before : CoreDistance::unknown;
}

}  // namespace peal::tuning
