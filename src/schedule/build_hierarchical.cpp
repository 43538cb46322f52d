// Hierarchical: two levels, groups (nodes) and what lies between them. Channel 0 stays inside groups, channel 1 crosses.
//
//     groups of equal size: rails                      otherwise: leaders
//     [0 1 2 3]  reduce-scatter inside                 [0 1 2]  tree to the leader
//      | | | |   ring along each rail (0-4, 1-5, ...)   |       ring among leaders
//     [4 5 6 7]  all-gather inside                     [3 4]    tree from the leader
//
// After Jia et al., "Highly scalable deep learning training system with mixed-precision" (2018), and the rail-wise form of NCCL's
// multi-ring on rail-optimised fabrics. Each byte crosses between groups once a rail. One strand a rank, so levels do not overlap.
// All-gather and reduce-scatter move single blocks, because the blocks of a rail do not lie side by side.
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "butterfly.hpp"
#include "group_map.hpp"
#include "ring_order.hpp"
#include "tree_phases.hpp"

namespace peal::schedule {

namespace {

constexpr std::uint8_t kInside = 0;
constexpr std::uint8_t kBetween = 1;

Status needs_groups(const Request& request) {
  for (const std::int32_t g : request.placement.group)
    if (g != 0) return {};
  return fail(ErrorCode::unsupported, "hierarchical needs a placement of at least 2 groups; use ring, tree or direct");
}
Status needs_equal_groups(const Request& request) {
  PEAL_TRY(needs_groups(request));
  const GroupMap map = group_map(request);
  if (map.is_equal) return {};
  return fail(ErrorCode::unsupported, "hierarchical {} needs groups of equal size; use ring or direct", name_of(request.collective));
}
Status needs_room(const Request& request) {
  PEAL_TRY(needs_groups(request));
  const auto groups = group_map(request).groups();
  if (groups <= 65535) return {};
  return fail(ErrorCode::unsupported, "hierarchical all_reduce moves a chunk a group in one message: at most 65535 groups, not {}", groups);
}

Layouts all_reduce_layouts(const Request& request) {
  const GroupMap map = group_map(request);
  return standard_layouts(request, map.is_equal ? request.ranks : map.groups());
}
Layouts plain_layouts(const Request& request) { return standard_layouts(request, 1); }
Layouts scratch_layouts(const Request& request) {
  Layouts layouts = standard_layouts(request, 1);
  layouts.scratch_copies = 1;
  return layouts;
}

RingSeat ring_inside(const GroupMap& map, GroupSeat at) {
  const std::int32_t m = static_cast<std::int32_t>(map.members[static_cast<std::size_t>(at.group)].size());
  return {m, at.local, map.member(at.group, wrap(at.local - 1, m)), map.member(at.group, wrap(at.local + 1, m)), kInside};
}
RingSeat ring_between(const GroupMap& map, GroupSeat at) {
  const std::int32_t g = map.groups();
  return {g, at.group, map.member(wrap(at.group - 1, g), at.local), map.member(wrap(at.group + 1, g), at.local), kBetween};
}

// The tree among leaders (member 0 of each group; in the root's group the root), and the one inside a group.
struct LeaderTrees {
  TreePlace inside;
  TreePlace between;  ///< only where is_leader
  bool is_leader = false;
};
LeaderTrees leader_trees(const Request& request, const GroupMap& map, std::int32_t rank, std::int32_t root) {
  const GroupSeat at = group_seat(request, map, rank);
  const GroupSeat top = group_seat(request, map, root);
  const auto& members = map.members[static_cast<std::size_t>(at.group)];
  const std::int32_t leader = at.group == top.group ? top.local : 0;
  LeaderTrees trees;
  trees.inside = place_in_tree(members, static_cast<std::int32_t>(members.size()), leader, request.radix, at.local, kInside);
  trees.is_leader = at.local == leader;
  if (!trees.is_leader) return trees;
  std::vector<std::int32_t> leaders;
  for (std::int32_t k = 0; k < map.groups(); ++k) leaders.push_back(k == top.group ? root : map.member(k, 0));
  trees.between = place_in_tree(leaders, map.groups(), top.group, request.radix, at.group, kBetween);
  return trees;
}

void all_reduce_on_rails(const GroupMap& map, GroupSeat at, StrandBuilder& strand) {
  const std::int32_t m = map.size();
  const std::int32_t g = map.groups();
  const RingSeat inside = ring_inside(map, at);
  const RingSeat between = ring_between(map, at);
  const RingChunks shares = RingChunks::in_order(m, 0, g);
  const Ref mine = shares.at(at.local).in(kOutput);
  if (m > 1) ring_reduce_scatter(strand, inside, shares, kInput, kOutput, mine, false);
  const RingChunks parts = RingChunks::in_order(g, at.local * g);
  const Ref part = parts.at(at.group).in(kOutput);
  ring_reduce_scatter(strand, between, parts, m > 1 ? kOutput : kInput, kOutput, part, true);
  ring_all_gather(strand, between, parts, part, kOutput);
  if (m > 1) ring_all_gather(strand, inside, shares, mine, kOutput);
}

void all_reduce_by_leaders(const Request& request, const GroupMap& map, std::int32_t rank, StrandBuilder& strand) {
  const std::int32_t g = map.groups();
  const GroupSeat at = group_seat(request, map, rank);
  const auto& members = map.members[static_cast<std::size_t>(at.group)];
  const TreePlace inside = place_in_tree(members, static_cast<std::int32_t>(members.size()), 0, request.radix, at.local, kInside);
  const bool has_sum = tree_reduce(strand, inside, input(0, g), output(0, g), false);
  if (at.local == 0) {
    const RingSeat between = ring_between(map, at);
    const RingChunks parts = RingChunks::in_order(g);
    const Ref part = parts.at(at.group).in(kOutput);
    ring_reduce_scatter(strand, between, parts, has_sum ? kOutput : kInput, kOutput, part, true);
    ring_all_gather(strand, between, parts, part, kOutput);
  }
  tree_broadcast(strand, inside, output(0, g), output(0, g));
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  StrandBuilder strand = builder.strand(map.is_equal ? "rails" : "leaders");
  if (map.is_equal)
    all_reduce_on_rails(map, group_seat(request, map, rank), strand);
  else
    all_reduce_by_leaders(request, map, rank, strand);
}

void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const LeaderTrees trees = leader_trees(request, group_map(request), rank, request.root);
  StrandBuilder strand = builder.strand("leaders");
  if (trees.is_leader) tree_broadcast(strand, trees.between, input(0), output(0));
  tree_broadcast(strand, trees.inside, rank == request.root ? input(0) : output(0), output(0));
  if (rank == request.root && !request.in_place) strand.copy(output(0), input(0));
}

void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const LeaderTrees trees = leader_trees(request, group_map(request), rank, request.root);
  const Ref sum = rank == request.root ? output(0) : scratch(0);
  StrandBuilder strand = builder.strand("leaders");
  const bool has_sum = tree_reduce(strand, trees.inside, input(0), sum, false);
  if (trees.is_leader) tree_reduce(strand, trees.between, has_sum ? sum : Ref(input(0)), sum, true);
}

void build_barrier(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  const LeaderTrees trees = leader_trees(request, map, rank, map.member(0, 0));
  const std::vector<TreeChild>& children = trees.inside.seat.children;
  StrandBuilder strand = builder.strand("leaders");
  for (auto child = children.rbegin(); child != children.rend(); ++child) strand.recv(child->number, Ref{});
  if (trees.inside.seat.parent >= 0) strand.send(trees.inside.seat.parent, Ref{});
  if (trees.is_leader) {
    const std::int32_t g = map.groups();
    const std::int32_t k = group_seat(request, map, rank).group;
    for (std::int64_t distance = 1; distance < g; distance *= 2) {
      strand.send(map.member(static_cast<std::int32_t>((k + distance) % g), 0), Ref{}).channel = kBetween;
      strand.recv(map.member(static_cast<std::int32_t>((k - distance + g) % g), 0), Ref{}).channel = kBetween;
    }
  }
  tree_broadcast(strand, trees.inside, Ref{}, Ref{});
}

// Blocks along a rank's rail.
RingChunks rail_blocks(const GroupMap& map, std::int32_t local) {
  if (map.is_regular) return {map.groups(), local, 1, map.size(), {}, 0};
  std::vector<std::int32_t> ranks;
  for (std::int32_t k = 0; k < map.groups(); ++k) ranks.push_back(map.member(k, local));
  return RingChunks::numbered(std::move(ranks));
}

// body(blocks of group k), for all groups: one ring inside for each, as a loop where groups are consecutive ranks.
template <class Body>
void for_each_group(StrandBuilder& strand, const GroupMap& map, Body&& body) {
  if (map.is_regular) {
    strand.loop(map.groups(), [&] { body(RingChunks::numbered(map.members[0], map.size())); });
    return;
  }
  for (const auto& members : map.members) body(RingChunks::numbered(members));
}

void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  const GroupSeat at = group_seat(request, map, rank);
  StrandBuilder strand = builder.strand("rails");
  ring_all_gather(strand, ring_between(map, at), rail_blocks(map, at.local), input(0), kOutput);
  if (!request.in_place) strand.copy(output(rank), input(0));
  if (map.size() == 1) return;
  for_each_group(strand, map, [&](const RingChunks& blocks) {
    ring_all_gather(strand, ring_inside(map, at), blocks, blocks.at(at.local).in(kOutput), kOutput);
  });
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  const GroupSeat at = group_seat(request, map, rank);
  StrandBuilder strand = builder.strand("rails");
  const bool has_inside = map.size() > 1;
  if (has_inside)
    for_each_group(strand, map, [&](const RingChunks& blocks) {
      ring_reduce_scatter(strand, ring_inside(map, at), blocks, kInput, kScratch, blocks.at(at.local).in(kScratch), false);
    });
  ring_reduce_scatter(strand, ring_between(map, at), rail_blocks(map, at.local), has_inside ? kScratch : kInput, kScratch, output(0), true);
}

}  // namespace

std::vector<Algorithm> hierarchical_algorithms() {
  using C = Collective;
  return {
      {"hierarchical", "reduce-scatter inside groups, rings along rails, all-gather inside", C::all_reduce, true, needs_room,
       all_reduce_layouts, build_all_reduce, hierarchical_cost, hierarchical_is_canonical, has_slots},
      {"hierarchical", "rings inside groups, then along rails", C::reduce_scatter, true, needs_equal_groups, scratch_layouts,
       build_reduce_scatter, hierarchical_cost, hierarchical_is_canonical, has_slots},
      {"hierarchical", "rings along rails, then inside groups", C::all_gather, true, needs_equal_groups, plain_layouts, build_all_gather,
       hierarchical_cost, hierarchical_is_canonical, has_slots},
      {"hierarchical", "a tree among leaders, then inside groups", C::broadcast, true, needs_groups, plain_layouts, build_broadcast,
       hierarchical_cost, hierarchical_is_canonical},
      {"hierarchical", "trees inside groups, then among leaders", C::reduce, true, needs_groups, scratch_layouts, build_reduce,
       hierarchical_cost, hierarchical_is_canonical},
      {"hierarchical", "trees inside groups, dissemination among leaders", C::barrier, true, needs_groups, plain_layouts, build_barrier,
       hierarchical_cost, hierarchical_is_canonical, has_slots},
  };
}

}  // namespace peal::schedule
