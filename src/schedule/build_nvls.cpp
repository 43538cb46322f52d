// What switches compute (op.hpp: switch_reduce, switch_multicast).
//
//     nvls                                        nvls_tree, sharp
//      0  1  2  3     rank r owns chunk r         [0 1 2 3]  [4 5 6 7]   inside: rank l of a group gets the sum of share l
//       \ |  | /                                   | | | |    | | | |
//        switch       its sum goes to r,           trees of the rails (0-4, 1-5, ...), or the network's own switches
//       / |  | \      and from r to all            | | | |    | | | |
//      0  1  2  3                                 [0 1 2 3]  [4 5 6 7]   inside: every share goes to all
//
// Names and forms are NCCL's: NVLS (version 2.17) sums with multimem loads and spreads with multimem stores of NVLink switches, so that a
// rank's wires carry every byte once and its own part once more, where a ring carries nearly every byte twice; NVLSTree puts the two trees
// of double_binary_tree between machines. sharp is NCCL's CollNet: each rail's InfiniBand switches reduce on the way up their tree and
// copy on the way down (R. Graham et al., "Scalable hierarchical aggregation protocol (SHArP)", COMHPC 2016). Inside it takes the switches
// where they compute, else rings.
// A strand a phase: while the sums of one piece are spread, those of the next are made, and both directions of every wire are busy.
#include <algorithm>
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "group_map.hpp"
#include "ring_order.hpp"
#include "twin_trees.hpp"

namespace peal::schedule {

namespace {

constexpr std::int32_t kMostMembers = 65535;
// Channels. Switch groups have their own; of the rings inside and the trees between, two have the same only where they have not the same
// peers.
constexpr std::uint8_t kSum = 0;
constexpr std::uint8_t kSpread = 1;
constexpr std::uint8_t kBetween = 2;

/// The ranks of one group or rail, ascending, and the place of this rank among them.
struct Circle {
  std::vector<std::int32_t> ranks;
  std::int32_t index = 0;
  std::int32_t size() const { return static_cast<std::int32_t>(ranks.size()); }
};

Circle circle_of(std::vector<std::int32_t> ranks, std::int32_t rank) {
  std::sort(ranks.begin(), ranks.end());
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
  return {std::move(ranks), static_cast<std::int32_t>(at)};
}

Circle everybody(const Request& request, std::int32_t rank) {
  Circle all{{}, rank};
  for (std::int32_t r = 0; r < request.ranks; ++r) all.ranks.push_back(r);
  return all;
}

/// The `index`-th rank of a group, in ascending order: the places that a rail has in it.
std::int32_t place_on_rail(const GroupMap& map, std::int32_t group, std::int32_t index) {
  if (map.is_regular) return map.member(group, index);
  std::vector<std::int32_t> members = map.members[static_cast<std::size_t>(group)];
  std::nth_element(members.begin(), members.begin() + index, members.end());
  return members[static_cast<std::size_t>(index)];
}

Circle rail_of(const GroupMap& map, std::int32_t index, std::int32_t rank) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t k = 0; k < map.groups(); ++k) ranks.push_back(place_on_rail(map, k, index));
  return circle_of(std::move(ranks), rank);
}

Status needs_switches(const Request& request, std::uint8_t level, std::string_view name) {
  if ((request.placement.switches & level) == level) return {};
  return fail(ErrorCode::unsupported, "{} needs switches that reduce {}, and here are none; type --algorithm ring", name,
              level == kSwitchesBetween ? "between machines" : "between the GPUs of a machine");
}
Status needs_one_group(const Request& request) {
  PEAL_TRY(needs_switches(request, kSwitchesInside, "nvls"));
  if (request.ranks > kMostMembers)
    return fail(ErrorCode::unsupported, "nvls serves at most {} ranks, not {}; type --algorithm ring", kMostMembers, request.ranks);
  if (group_map(request).groups() == 1) return {};
  return fail(ErrorCode::unsupported, "nvls stays inside one NVSwitch domain; between machines type --algorithm nvls_tree or hierarchical");
}
Status needs_equal_groups(const Request& request, std::string_view name) {
  const GroupMap map = group_map(request);
  if (map.groups() < 2)
    return fail(ErrorCode::unsupported, "{} is for several machines, and these ranks are in one; type --algorithm {}", name,
                (request.placement.switches & kSwitchesInside) != 0 ? "nvls" : "ring");
  if (!map.is_equal) return fail(ErrorCode::unsupported, "{} needs as many ranks on every machine; type --algorithm hierarchical", name);
  if (map.groups() > kMostMembers)
    return fail(ErrorCode::unsupported, "{} serves at most {} machines, not {}; type --algorithm hierarchical", name, kMostMembers,
                map.groups());
  return {};
}
Status supports_tree(const Request& request) {
  PEAL_TRY(needs_equal_groups(request, "nvls_tree"));
  PEAL_TRY(needs_switches(request, kSwitchesInside, "nvls_tree"));
  if (group_map(request).size() > 1) return {};
  return fail(ErrorCode::unsupported, "nvls_tree needs several GPUs a machine; type --algorithm double_binary_tree");
}
Status supports_sharp(const Request& request) {
  PEAL_TRY(needs_equal_groups(request, "sharp"));
  return needs_switches(request, kSwitchesBetween, "sharp");
}

Layouts one_chunk(const Request& request) { return standard_layouts(request, 1); }
Layouts chunk_a_rank(const Request& request) { return standard_layouts(request, request.ranks); }
Layouts tree_layouts(const Request& request) { return standard_layouts(request, kTwins * group_map(request).size()); }
Layouts sharp_layouts(const Request& request) { return standard_layouts(request, group_map(request).size()); }

bool sums_inside_by_switch(const Request& request) { return (request.placement.switches & kSwitchesInside) != 0; }

// Hands the piece on from phase to phase: what follows waits for all strands that signalled.
struct Relay {
  RankBuilder& builder;
  std::vector<std::int32_t> ready = {};
  StrandBuilder strand(const char* name) {
    StrandBuilder next = builder.strand(name);
    for (const std::int32_t event : ready) next.wait(event, 1);
    return next;
  }
  std::int32_t signal_from(StrandBuilder& strand) {
    const std::int32_t event = builder.event();
    strand.signal(event);
    return event;
  }
  void hand_on(StrandBuilder& strand) { ready = {signal_from(strand)}; }
};

// The sum of share `circle.index` (of `width` chunks) comes to this rank, in output.
void sum_shares(Relay& relay, SwitchGroup group, const Circle& circle, std::int32_t width, bool is_last) {
  StrandBuilder strand = relay.strand("sum inside");
  const std::int32_t first = circle.index * width;
  Op& op = strand.switch_reduce(group, output(first, width), input(0, circle.size() * width), first);
  op.channel = kSum;
  if (is_last)
    op.flags |= kFinish;
  else
    op.wire = Wire::addend;
  relay.hand_on(strand);
}
void spread_shares(Relay& relay, SwitchGroup group, const Circle& circle, std::int32_t width) {
  StrandBuilder strand = relay.strand("spread inside");
  strand.switch_multicast(group, output(0, circle.size() * width), output(circle.index * width, width)).channel = kSpread;
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const Circle all = everybody(request, rank);
  const SwitchGroup group = builder.switch_group(all.ranks);
  Relay relay{builder};
  sum_shares(relay, group, all, 1, true);
  spread_shares(relay, group, all, 1);
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const SwitchGroup group = builder.switch_group(everybody(request, rank).ranks);
  builder.strand("sum").switch_reduce(group, output(0), input(0, request.ranks), rank).flags |= kFinish;
}

void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const SwitchGroup group = builder.switch_group(everybody(request, rank).ranks);
  builder.strand("spread").switch_multicast(group, output(0, request.ranks), input(0));
}

void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const SwitchGroup group = builder.switch_group(everybody(request, rank).ranks);
  builder.strand("spread").switch_multicast(group, output(0), rank == request.root ? Ref(input(0)) : Ref{});
}

void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const SwitchGroup group = builder.switch_group(everybody(request, rank).ranks);
  const bool is_root = rank == request.root;
  Op& op = builder.strand("sum").switch_reduce(group, is_root ? Ref(output(0)) : Ref{}, input(0));
  if (is_root) op.flags |= kFinish;
}

// Each half of the share goes up and down a tree of its own over the machines. Both children are served at once: one after the other they
// would take half as long again, because the way out was full one sending in three. The rail is not listed: each of 100,000 ranks would
// list 12,500.
void tree_between(Relay& relay, const GroupMap& map, std::int32_t group, std::int32_t index) {
  const std::int32_t first = index * kTwins;
  std::vector<std::int32_t> ended;
  for (std::int32_t twin = 0; twin < kTwins; ++twin) {
    TreePlace place{twin_seat(map.groups(), twin, group), static_cast<std::uint8_t>(kBetween + twin)};
    if (place.seat.parent >= 0) place.seat.parent = place_on_rail(map, place.seat.parent, index);
    for (TreeChild& child : place.seat.children) child.number = place_on_rail(map, child.number, index);
    const Ref half = output(first + twin);
    StrandBuilder up = relay.strand("reduce between");
    tree_reduce(up, place, half, half, true);
    const std::int32_t summed = relay.signal_from(up);
    if (place.seat.children.size() > 1) {
      tree_broadcast_at_once(relay.builder, place, half, half, summed, &ended);
      continue;
    }
    StrandBuilder down = relay.builder.strand("broadcast between");
    down.wait(summed, 1);
    tree_broadcast(down, place, half, half);
    ended.push_back(relay.signal_from(down));
  }
  relay.ready = ended;
}

void build_nvls_tree(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  const std::int32_t at = group_seat(request, map, rank).group;
  const Circle inside = circle_of(map.members[static_cast<std::size_t>(at)], rank);
  const SwitchGroup group = builder.switch_group(inside.ranks);
  Relay relay{builder};
  sum_shares(relay, group, inside, kTwins, false);
  tree_between(relay, map, at, inside.index);
  spread_shares(relay, group, inside, kTwins);
}

// Rings inside a group, in the placement's order; `share_at[p]`: the share of the rank at position p.
struct RingInside {
  RingSeat seat;
  RingChunks shares;
};
RingInside ring_inside(const std::vector<std::int32_t>& members, const Circle& circle, std::int32_t local) {
  const std::int32_t m = circle.size();
  std::vector<std::int32_t> share_at;
  for (const std::int32_t member : members) share_at.push_back(circle_of(circle.ranks, member).index);
  const auto at = [&](std::int32_t p) { return members[static_cast<std::size_t>(wrap(p, m))]; };
  return {{m, local, at(local - 1), at(local + 1), kSum}, RingChunks::numbered(std::move(share_at))};
}

void sum_on_rail(Relay& relay, SwitchGroup rail, BufferId own, std::int32_t share) {
  StrandBuilder strand = relay.strand("sum between");
  Op& op = strand.switch_reduce(rail, output(share), chunks_of(own, share));
  op.channel = kBetween;
  op.wire = Wire::addend;
  op.flags |= kFinish;
  relay.hand_on(strand);
}

void build_sharp(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const GroupMap map = group_map(request);
  const GroupSeat seat = group_seat(request, map, rank);
  const std::vector<std::int32_t>& members = map.members[static_cast<std::size_t>(seat.group)];
  const Circle inside = circle_of(members, rank);
  const SwitchGroup rail = builder.switch_group(rail_of(map, inside.index, rank).ranks);
  Relay relay{builder};
  if (inside.size() == 1) return sum_on_rail(relay, rail, kInput, 0);
  if (sums_inside_by_switch(request)) {
    const SwitchGroup group = builder.switch_group(inside.ranks);
    sum_shares(relay, group, inside, 1, false);
    sum_on_rail(relay, rail, kOutput, inside.index);
    return spread_shares(relay, group, inside, 1);
  }
  RingInside ring = ring_inside(members, inside, seat.local);
  const Ref mine = output(inside.index);
  StrandBuilder sum = relay.strand("reduce inside");
  ring_reduce_scatter(sum, ring.seat, ring.shares, kInput, kOutput, mine, false);
  relay.hand_on(sum);
  sum_on_rail(relay, rail, kOutput, inside.index);
  StrandBuilder spread = relay.strand("gather inside");
  ring.seat.channel = kSpread;
  ring_all_gather(spread, ring.seat, ring.shares, mine, kOutput);
}

CostTerms whole_cost(const Request&) {
  CostTerms cost;
  cost.switched[0] = {1, 1, 1};
  return cost;
}
// Up every byte to be summed and the own part of the sums; down the other way round. The two pass one after the other.
CostTerms::Switched sum_and_spread(double parts) { return {2, 1 + 1 / parts, 2}; }
CostTerms all_reduce_cost(const Request& request) {
  CostTerms cost;
  cost.pipelined = true;
  cost.switched[0] = sum_and_spread(request.ranks);
  return cost;
}
CostTerms nvls_tree_cost(const Request& request) {
  const GroupMap map = group_map(request);
  const double m = map.size();
  CostTerms cost = all_reduce_cost(request);
  cost.switched[0] = sum_and_spread(m);
  const double depth = twin_depth(map.groups());
  // A rank leads in one tree and is a leaf in the other: two halves of its share up, two down, at most.
  cost.level[1] = {2 * depth, 2 * kTwins, (map.groups() > 2 ? 2 : 1) / m, twin_critical(map.groups()) / m};
  cost.reduced = 1 / m;
  return cost;
}
CostTerms sharp_cost(const Request& request) {
  const double m = group_map(request).size();
  CostTerms cost;
  cost.pipelined = true;
  cost.switched[1] = {1, 1 / m, 1 / m};
  if (m == 1) return cost;
  if (sums_inside_by_switch(request)) {
    cost.switched[0] = sum_and_spread(m);
    return cost;
  }
  cost.level[0] = {2 * (m - 1), 2 * (m - 1), 2 * (m - 1) / m, 2 * (m - 1) / m};
  cost.reduced = (m - 1) / m;
  return cost;
}

/// Of two the order says nothing; nobody says in which order a switch adds more.
bool is_sum_of_two(const Request& request) { return request.ranks <= 2; }
bool is_sum_of_pairs(const Request& request) {
  if (request.ranks <= 2) return true;
  const GroupMap map = group_map(request);
  if (map.size() > 2 || map.groups() > 2) return false;
  std::vector<CanonicalNode> sums;
  for (const std::vector<std::int32_t>& members : map.members) {
    const CanonicalNode first{members.front(), 1};
    sums.push_back(members.size() == 1 ? first : combined(first, {members.back(), 1}));
  }
  return combined(sums.front(), sums.back()).count != 0;
}

constexpr std::string_view kSpreads = "NVLink switches copy every block to all";

}  // namespace

std::vector<Algorithm> nvls_algorithms() {
  using C = Collective;
  constexpr std::uint8_t kInside = kSwitchesInside;
  return {
      {"nvls", "NVLink switches sum every chunk for its owner and copy it to all", C::all_reduce, true, needs_one_group, chunk_a_rank,
       build_all_reduce, all_reduce_cost, is_sum_of_two, nullptr, true, kInside},
      {"nvls", "NVLink switches sum every block for its owner", C::reduce_scatter, true, needs_one_group, one_chunk, build_reduce_scatter,
       whole_cost, is_sum_of_two, nullptr, true, kInside},
      {"nvls", kSpreads, C::all_gather, true, needs_one_group, one_chunk, build_all_gather, whole_cost, without_reduction, nullptr, false,
       kInside},
      {"nvls", kSpreads, C::broadcast, true, needs_one_group, one_chunk, build_broadcast, whole_cost, without_reduction, nullptr, false,
       kInside},
      {"nvls", "NVLink switches sum all for the root", C::reduce, true, needs_one_group, one_chunk, build_reduce, whole_cost, is_sum_of_two,
       nullptr, true, kInside},
      {"nvls_tree", "NVLink switches inside machines, two trees between them", C::all_reduce, true, supports_tree, tree_layouts,
       build_nvls_tree, nvls_tree_cost, is_sum_of_pairs, has_slots, false, kInside},
      {"sharp", "the network's switches sum each rail; inside machines NVLink switches or rings", C::all_reduce, true, supports_sharp,
       sharp_layouts, build_sharp, sharp_cost, is_sum_of_pairs, has_slots, false, kSwitchesBetween},
  };
}

}  // namespace peal::schedule
