// Clusters with something broken: resources by the names that people read, and a cluster without one of its links.
#pragma once

#include <topology/resources.hpp>

namespace peal::topology {

/// The resource that is called so, with or without what stands in parentheses at the end of its name ("n1: gpu0 > nvswitch0"). Fails with
/// the nearest name. Linear in the number of resources.
Result<ResourceId> find_resource(const Resources& resources, std::string_view name);

/// The cluster spelled out without the wires of a resource, in both directions: what still has a way goes by it. Fails for what is no link,
/// and where there is a fabric other than the ideal one: its routes are arithmetic and know no detour.
Result<Cluster> without_link(const Resources& resources, ResourceId id);

}  // namespace peal::topology
