// Where ranks sit, as plain data for schedules: groups are machines, the ring goes machine by machine and inside one along the best links.
#pragma once

#include <base/result.hpp>
#include <schedule/placement.hpp>
#include <span>
#include <string>
#include <topology/resources.hpp>

namespace peal::tuning {

/// Of ranks on devices (cluster numbering). All ranks on one machine: no groups. Ring in rank order where that is as good as any; machines
/// under one switch of the fabric follow each other, so that it crosses each way up once.
schedule::Placement place(const topology::Resources& resources, std::span<const int> device_of_rank);

/// Of ranks whose hosts are known by name only (any text that is equal for ranks of one host).
schedule::Placement place(std::span<const std::string> host_of_rank);

/// Racks follow each other in the ring, so that it leaves and enters each once: of groups that are placed, by the number of every rank's
/// rack. Ranks of one group have one rack.
void order_by_racks(std::span<const std::int32_t> rack_of_rank, schedule::Placement& placement);

/// Numbers racks by their names, "spine.leaf": racks under one switch follow each other, else in order of first appearance.
std::vector<std::int32_t> number_racks(std::span<const std::string> rack_of_rank);

/// Numbers groups from 0 by lowest rank and orders the ring by group, then rank. Empty where all ranks are of one group.
schedule::Placement place_groups(std::span<const int> group_of_rank);

/// Up to four ring orders of `ranks` that share no edge (strides that are prime to it; of two ranks the same twice).
std::vector<std::vector<std::int32_t>> disjoint_rings(std::int32_t ranks);

/// What multi_ring takes on hosts, where it is only taken by name: disjoint rings in one group, both ways round the ring among several.
/// Empty beyond 64 ranks.
std::vector<std::vector<std::int32_t>> host_rings(const schedule::Placement& placement, std::int32_t ranks);

/// Of groups of equal size, one ring for each way out of a group: all go through the groups as the placement's ring does, and each leaves
/// them by another way and enters the next by the same (with an odd number of groups save one). Empty where there is one way out.
std::vector<std::vector<std::int32_t>> rail_rings(const schedule::Placement& placement, std::int32_t ranks_per_outlet);

/// The place, from 0, of the index-th of `ranks` ranks on a machine of `places`: one each in order; where ranks are more, neighbours share
/// a place, because they exchange most, and what they exchange then stays in one core's caches. Both the launcher and the cost model go by
/// it.
int place_on_machine(int index, int ranks, int places);

/// Device of each rank when `ranks` are spread over a cluster in order; those that are more than its places share the last node's.
std::vector<int> spread(const topology::Cluster& cluster, int ranks);

}  // namespace peal::tuning
