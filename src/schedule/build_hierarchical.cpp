// Hierarchical: two levels, groups (nodes) and what lies between them. Channels 0 and 2 stay inside groups, 1 and 3 cross.
//
//     groups of equal size: rails                      otherwise: leaders
//     [0 1 2 3]  reduce-scatter inside                 [0 1 2]  tree to the leader
//      | | | |   ring along each rail (0-4, 1-5, ...)   |       ring among leaders
//     [4 5 6 7]  all-gather inside                     [3 4]    tree from the leader
//
// Rails of more than a thousand groups go along the sides of a grid, as `grid` does (build_grid.cpp).
// After Jia et al., "Highly scalable deep learning training system with mixed-precision" (2018), and the rail-wise form of NCCL's
// multi-ring on rail-optimised fabrics. Each byte crosses between groups once a rail. A strand a phase, so that pieces (or blocks) follow
// one another and what lies between groups is busy while groups work inside.
// Leader chain: broadcast and reduce whose leaders stand in a chain instead of a tree. As many bytes cross, but no leader sends or
// receives them more than once: as few on every link as by a ring, in as many steps as there are groups.
// All-gather and reduce-scatter move single blocks, because the blocks of a rail do not lie side by side.
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "butterfly.hpp"
#include "grid.hpp"
#include "group_map.hpp"
#include "ring_order.hpp"
#include "tree_phases.hpp"

namespace peal::schedule {

namespace {

constexpr std::uint8_t kInside = 0;
constexpr std::uint8_t kBetween = 1;
constexpr std::uint8_t kBackInside = 2;
constexpr std::uint8_t kBackBetween = 3;

Status needs_groups(const Request& request) {
  for (const std::int32_t g : request.placement.group)
    if (g != 0) return {};
  return fail(ErrorCode::unsupported, "hierarchical needs a placement of at least 2 groups; use ring, tree or direct");
}
Status needs_three_groups(const Request& request) {
  if (group_map(request).groups() >= 3) return {};
  return fail(ErrorCode::unsupported, "leader_chain needs a placement of at least 3 groups; between 2 hierarchical is the same");
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

enum class Leaders : std::uint8_t { in_tree, in_chain };

// The tree (or chain) among leaders (member 0 of each group; in the root's group the root), and the one inside a group.
struct LeaderTrees {
  TreePlace inside;
  TreePlace between;  ///< only where is_leader
  bool is_leader = false;
};
LeaderTrees leader_trees(const Request& request, const GroupMap& map, std::int32_t rank, std::int32_t root, Leaders stand) {
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
  trees.between = stand == Leaders::in_chain ? place_in_chain(leaders, top.group, at.group, kBetween)
                                             : place_in_tree(leaders, map.groups(), top.group, request.radix, at.group, kBetween);
  return trees;
}

// What one strand hands to the next: the strand that follows waits until it was signalled in this piece.
struct Relay {
  RankBuilder& builder;
  std::int32_t ready = -1;

  StrandBuilder strand(const char* name) {
    StrandBuilder next = builder.strand(name);
    if (ready >= 0) next.wait(ready, 1);
    return next;
  }
  void hand_on(StrandBuilder& strand) { strand.signal(ready = builder.event()); }
};

// Reduce-scatter and all-gather of `parts` between groups, each a strand: while one piece comes back the next one goes out.
void all_reduce_between(Relay& relay, RingSeat seat, const RingChunks& parts, BufferId own) {
  const Ref part = parts.at(seat.position).in(kOutput);
  StrandBuilder out = relay.strand("reduce between");
  seat.channel = kBetween;
  ring_reduce_scatter(out, seat, parts, own, kOutput, part, true);
  relay.hand_on(out);
  StrandBuilder back = relay.strand("gather between");
  seat.channel = kBackBetween;
  ring_all_gather(back, seat, parts, part, kOutput);
  relay.hand_on(back);
}

void all_reduce_on_rails(const GroupMap& map, GroupSeat at, RankBuilder& builder) {
  const std::int32_t m = map.size();
  const std::int32_t g = map.groups();
  RingSeat inside = ring_inside(map, at);
  const RingChunks shares = RingChunks::in_order(m, 0, g);
  const Ref mine = shares.at(at.local).in(kOutput);
  Relay relay{builder};
  if (m > 1) {
    StrandBuilder strand = relay.strand("reduce inside");
    ring_reduce_scatter(strand, inside, shares, kInput, kOutput, mine, false);
    relay.hand_on(strand);
  }
  all_reduce_between(relay, ring_between(map, at), RingChunks::in_order(g, at.local * g), m > 1 ? kOutput : kInput);
  if (m == 1) return;
  StrandBuilder strand = relay.strand("gather inside");
  inside.channel = kBackInside;
  ring_all_gather(strand, inside, shares, mine, kOutput);
}

void all_reduce_by_leaders(const Request& request, const GroupMap& map, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t g = map.groups();
  const GroupSeat at = group_seat(request, map, rank);
  const auto& members = map.members[static_cast<std::size_t>(at.group)];
  TreePlace inside = place_in_tree(members, static_cast<std::int32_t>(members.size()), 0, request.radix, at.local, kInside);
  Relay relay{builder};
  StrandBuilder up = relay.strand("reduce inside");
  const bool has_sum = tree_reduce(up, inside, input(0, g), output(0, g), false);
  relay.hand_on(up);
  if (at.local == 0) all_reduce_between(relay, ring_between(map, at), RingChunks::in_order(g), has_sum ? kOutput : kInput);
  StrandBuilder down = relay.strand("broadcast inside");
  inside.channel = kBackInside;
  tree_broadcast(down, inside, output(0, g), output(0, g));
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  if (has_sides_for_rails(map))
    build_grid_all_reduce(request, rank, builder);
  else if (map.is_equal)
    all_reduce_on_rails(map, group_seat(request, map, rank), builder);
  else
    all_reduce_by_leaders(request, map, rank, builder);
}

template <Leaders kStand>
void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const LeaderTrees trees = leader_trees(request, group_map(request), rank, request.root, kStand);
  StrandBuilder strand = builder.strand("leaders");
  if (trees.is_leader) tree_broadcast(strand, trees.between, input(0), output(0));
  tree_broadcast(strand, trees.inside, rank == request.root ? input(0) : output(0), output(0));
  if (rank == request.root && !request.in_place) strand.copy(output(0), input(0));
}

template <Leaders kStand>
void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const LeaderTrees trees = leader_trees(request, group_map(request), rank, request.root, kStand);
  const Ref sum = rank == request.root ? output(0) : scratch(0);
  StrandBuilder strand = builder.strand("leaders");
  const bool has_sum = tree_reduce(strand, trees.inside, input(0), sum, false);
  if (trees.is_leader) tree_reduce(strand, trees.between, has_sum ? sum : Ref(input(0)), sum, true);
}

void build_barrier(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  const LeaderTrees trees = leader_trees(request, map, rank, map.member(0, 0), Leaders::in_tree);
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

// body(blocks of a group, i) for the groups first, first - 1, ..., all of them, as the ring between groups moves them: one ring inside for
// each, as a loop where groups are consecutive ranks. Where it is one, `i` stays 0.
template <class Body>
void for_each_group(StrandBuilder& strand, const GroupMap& map, std::int32_t first, Body&& body) {
  const std::int32_t g = map.groups();
  if (map.is_regular) {
    RingChunks blocks = RingChunks::numbered(map.members[static_cast<std::size_t>(wrap(first, g))], -map.size());
    blocks.outer_modulus = g * map.size();
    strand.loop(g, [&] { body(blocks, 0); });
    return;
  }
  for (std::int32_t i = 0; i < g; ++i) body(RingChunks::numbered(map.members[static_cast<std::size_t>(wrap(first - i, g))]), i);
}

// A strand waits until `event` was signalled once for each of its iterations so far, this one included, or not (`ahead` 0).
void wait_in_turn(StrandBuilder& strand, std::int32_t event, std::int32_t ahead) { strand.wait(event, ahead).src.step[0] = 1; }

// The ring between groups tells with every block that it has come; the rings inside follow, the own group's first.
void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  const GroupSeat at = group_seat(request, map, rank);
  const RingSeat between = ring_between(map, at);
  const RingChunks rail = rail_blocks(map, at.local);
  StrandBuilder strand = builder.strand("gather between");
  if (map.size() == 1) {
    ring_all_gather(strand, between, rail, input(0), kOutput);
    if (!request.in_place) strand.copy(output(rank), input(0));
    return;
  }
  const std::int32_t come = builder.event();
  strand.send(between.next, input(0)).channel = kBetween;
  if (!request.in_place) strand.copy(output(rank), input(0));
  strand.signal(come);
  for (std::int32_t i = 1; i < map.groups(); ++i) {
    const Ref block = rail.at(at.group - i).in(kOutput);
    strand.recv(between.prev, block).channel = kBetween;
    if (i + 1 < map.groups()) strand.send(between.next, block).channel = kBetween;
    strand.signal(come);
  }
  StrandBuilder inside = builder.strand("gather inside");
  for_each_group(inside, map, at.group, [&](const RingChunks& blocks, std::int32_t i) {
    wait_in_turn(inside, come, 1 + i);
    ring_all_gather(inside, ring_inside(map, at), blocks, blocks.at(at.local).in(kOutput), kOutput);
  });
}

// The rings inside sum the blocks of one group after another, in the order in which the ring between groups sends them.
void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  const GroupSeat at = group_seat(request, map, rank);
  const RingSeat between = ring_between(map, at);
  const RingChunks rail = rail_blocks(map, at.local);
  if (map.size() == 1) {
    StrandBuilder alone = builder.strand("reduce between");
    return ring_reduce_scatter(alone, between, rail, kInput, kScratch, output(0), true);
  }
  const std::int32_t summed = builder.event();
  StrandBuilder inside = builder.strand("reduce inside");
  for_each_group(inside, map, at.group - 1, [&](const RingChunks& blocks, std::int32_t) {
    ring_reduce_scatter(inside, ring_inside(map, at), blocks, kInput, kScratch, blocks.at(at.local).in(kScratch), false);
    inside.signal(summed);
  });
  StrandBuilder strand = builder.strand("reduce between");
  strand.wait(summed, 1);
  strand.send_addend(between.next, rail.at(at.group - 1).in(kScratch)).channel = kBetween;
  for (std::int32_t i = 2; i < map.groups(); ++i) {
    const Ref block = rail.at(at.group - i).in(kScratch);
    strand.wait(summed, i);
    strand.recv_reduce(between.prev, block, block).channel = kBetween;
    strand.send_addend(between.next, block).channel = kBetween;
  }
  strand.wait(summed, map.groups());
  Op& op = strand.recv_reduce(between.prev, output(0), rail.at(at.group).in(kScratch));
  op.channel = kBetween;
  op.flags |= kFinish;
}

}  // namespace

std::vector<Algorithm> hierarchical_algorithms() {
  using C = Collective;
  return {
      {"hierarchical", "reduce-scatter inside groups, rings along rails (more than 1,024 groups: as grid), all-gather inside",
       C::all_reduce, true, needs_room, all_reduce_layouts, build_all_reduce, hierarchical_cost, hierarchical_is_canonical, has_slots},
      {"hierarchical", "rings inside groups, then along rails", C::reduce_scatter, true, needs_equal_groups, scratch_layouts,
       build_reduce_scatter, hierarchical_cost, hierarchical_is_canonical, has_slots},
      {"hierarchical", "rings along rails, then inside groups", C::all_gather, true, needs_equal_groups, plain_layouts, build_all_gather,
       hierarchical_cost, hierarchical_is_canonical, has_slots},
      {"hierarchical", "a tree among leaders, then inside groups", C::broadcast, true, needs_groups, plain_layouts,
       build_broadcast<Leaders::in_tree>, hierarchical_cost, hierarchical_is_canonical},
      {"leader_chain", "a pipelined chain among leaders, then inside groups", C::broadcast, true, needs_three_groups, plain_layouts,
       build_broadcast<Leaders::in_chain>, leader_chain_cost, leader_chain_is_canonical},
      {"hierarchical", "trees inside groups, then among leaders", C::reduce, true, needs_groups, scratch_layouts,
       build_reduce<Leaders::in_tree>, hierarchical_cost, hierarchical_is_canonical},
      {"leader_chain", "trees inside groups, then a pipelined chain among leaders", C::reduce, true, needs_three_groups, scratch_layouts,
       build_reduce<Leaders::in_chain>, leader_chain_cost, leader_chain_is_canonical},
      {"hierarchical", "trees inside groups, dissemination among leaders", C::barrier, true, needs_groups, plain_layouts, build_barrier,
       hierarchical_cost, hierarchical_is_canonical, has_slots},
  };
}

}  // namespace peal::schedule
