// Double binary tree: each half of the data goes through a tree of its own; who forwards in one is a leaf of the other.
//
//     all_reduce, 6 positions          broadcast and reduce from r
//     first half     second half                  r
//         3              2               first   / \   second
//       1   5          0   4             tree   a   b  tree
//      0 2  4          1  3 5                  /\   /\      over all the others
//
// After Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (2009), which NCCL took up
// in version 2.4 (2019). About log2 n rounds, and nobody sends or receives more than the data once each way: a k-nomial tree's root
// sends it once for every child. The root of a broadcast or reduce stands above both trees.
// Trees stand in ring order, so that neighbours in a group are close in both. Pieces follow one another down and up the trees; each
// tree has a channel of its own, because an edge up one tree may be an edge down the other. The paper gives every rank turns to hear
// from its two parents; here both children of a rank are served at once, so that it does not matter which parent is slow.
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "cost_of_groups.hpp"
#include "ring_order.hpp"
#include "twin_trees.hpp"

namespace peal::schedule {

namespace {

Status needs_three(const Request& request) {
  if (request.ranks > 2) return {};
  return fail(ErrorCode::unsupported, "double_binary_tree needs 3 ranks or more; between {} use ring or tree", request.ranks);
}

Layouts half_layouts(const Request& request) { return standard_layouts(request, kTwins); }
// Inner ranks hold a partial sum.
Layouts reduce_layouts(const Request& request) {
  Layouts layouts = half_layouts(request);
  layouts.scratch_copies = 1;
  return layouts;
}

// Numbers of a tree of m are the ring positions from `first` on.
TreePlace place_of(const RingOrder& ring, std::int32_t first, std::int32_t m, std::int32_t twin, std::int32_t rank) {
  const std::int32_t number = wrap(ring.position_of(rank) - first, ring.size());
  TreePlace place{twin_seat(m, twin, number), static_cast<std::uint8_t>(twin)};
  if (place.seat.parent >= 0) place.seat.parent = ring.rank_at(first + place.seat.parent);
  for (TreeChild& child : place.seat.children) child.number = ring.rank_at(first + child.number);
  return place;
}

// All ranks but the root are in the trees; their tops are the root's children.
TreePlace place_below_root(const Request& request, std::int32_t twin, std::int32_t rank) {
  const RingOrder ring(request.placement.ring, request.ranks);
  const std::int32_t m = request.ranks - 1;
  const std::int32_t first = ring.position_of(request.root) + 1;
  if (rank == request.root)
    return {{-1, 0, request.ranks, {{ring.rank_at(first + twin_top(m, twin)), 0, m}}}, static_cast<std::uint8_t>(twin)};
  TreePlace place = place_of(ring, first, m, twin, rank);
  if (place.seat.parent < 0) place.seat.parent = request.root;
  return place;
}

// From the parent to the children: the first has a strand with the parent, the second one of its own, which is a message behind.
void send_down(RankBuilder& builder, TreePlace place, Ref source, Ref data, std::int32_t ready = -1) {
  StrandBuilder strand = builder.strand("broadcast");
  if (ready >= 0) strand.wait(ready, 1);
  std::vector<TreeChild>& children = place.seat.children;
  if (children.size() < 2) return tree_broadcast(strand, place, source, data);
  const std::int32_t second = children.back().number;
  children.pop_back();
  tree_broadcast(strand, place, source, data);
  const std::int32_t told = builder.event();
  strand.signal(told);
  StrandBuilder other = builder.strand("broadcast to the second child");
  other.wait(told, 1);
  other.send(second, place.seat.parent < 0 ? source : data).channel = place.channel;
}

// From the children to the parent; the second child has a strand of its own, which is a message ahead. `reduced` is signalled at the end.
void sum_up(RankBuilder& builder, TreePlace place, Ref own, Ref sum, std::int32_t reduced = -1) {
  StrandBuilder strand = builder.strand("reduce");
  std::vector<TreeChild>& children = place.seat.children;
  if (children.size() == 2) {
    const std::int32_t added = builder.event();
    StrandBuilder other = builder.strand("reduce from the second child");
    other.recv_reduce(children.back().number, sum, own).channel = place.channel;
    other.signal(added);
    strand.wait(added, 1);
    children.pop_back();
    own = sum;
  }
  tree_reduce(strand, place, own, sum, true);
  if (reduced >= 0) strand.signal(reduced);
}

void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  for (std::int32_t twin = 0; twin < kTwins; ++twin) send_down(builder, place_below_root(request, twin, rank), input(twin), output(twin));
  if (rank == request.root && !request.in_place) builder.strand("copy").copy(output(0, kTwins), input(0, kTwins));
}

void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  for (std::int32_t twin = 0; twin < kTwins; ++twin)
    sum_up(builder, place_below_root(request, twin, rank), input(twin), rank == request.root ? output(twin) : scratch(twin));
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const RingOrder ring(request.placement.ring, request.ranks);
  for (std::int32_t twin = 0; twin < kTwins; ++twin) {
    const TreePlace place = place_of(ring, 0, request.ranks, twin, rank);
    const std::int32_t reduced = place.seat.parent < 0 ? builder.event() : -1;
    sum_up(builder, place, input(twin), output(twin), reduced);
    // What comes down was sent after what went up had been taken: overwriting it is safe.
    send_down(builder, place, output(twin), output(twin), reduced);
  }
}

CostTerms at_levels(const Request& request, const CostTerms::Level& all) {
  const double whole = 1 + twin_depth(request.ranks);
  CostTerms cost = split_levels(request, all, std::min(1.0, twin_depth(group_sizes(request).smallest) / whole));
  cost.pipelined = true;
  cost.both_levels_at_once = has_groups(request);  // who is served has a strand of its own
  return cost;
}
// Each message is half of the data. The root serves both trees; nobody else has more than two children in all.
CostTerms broadcast_cost(const Request& request) {
  const std::int32_t m = request.ranks - 1;
  CostTerms cost = at_levels(request, {1.0 + twin_depth(m), 2, 1, 1 + 0.5 * twin_critical(m)});
  cost.copied = request.in_place ? 0 : 1;
  return cost;
}
CostTerms reduce_cost(const Request& request) {
  const std::int32_t m = request.ranks - 1;
  CostTerms cost = at_levels(request, {1.0 + twin_depth(m), 2, 1, 1 + 0.5 * twin_critical(m)});
  cost.reduced = 1;
  return cost;
}
// How many of the messages that a rank sends up and down both trees cross groups; the most of any rank, as those of the first positions
// tell. There are groups: somebody's does.
std::int32_t most_across(const Request& request) {
  constexpr std::int32_t kLookedAt = 1024;
  const RingOrder ring(request.placement.ring, request.ranks);
  std::int32_t most = 1;
  for (std::int32_t p = 0; p < std::min(request.ranks, kLookedAt); ++p) {
    const std::int32_t rank = ring.rank_at(p);
    const auto crosses = [&](std::int32_t other) { return other >= 0 && group_of(request, other) != group_of(request, rank) ? 1 : 0; };
    std::int32_t across = 0;
    for (std::int32_t twin = 0; twin < kTwins; ++twin) {
      const TreePlace place = place_of(ring, 0, request.ranks, twin, rank);
      across += crosses(place.seat.parent);
      for (const TreeChild& child : place.seat.children) across += crosses(child.number);
    }
    most = std::max(most, across);
  }
  return most;
}

// The busiest has two children and a parent in one tree (from four ranks on), and a parent in the other, which is near it.
CostTerms all_reduce_cost(const Request& request) {
  const std::int32_t n = request.ranks;
  const double messages = std::min(n, 4);
  CostTerms cost = at_levels(
      request,
      {.rounds = 2.0 * twin_depth(n), .messages = messages, .sent = messages / 2, .critical = 1.0 * twin_critical(n), .ways = messages});
  if (has_groups(request)) {
    CostTerms::Level& between = cost.level[1];
    between.messages = between.ways = most_across(request);
    between.sent = between.messages / kTwins;
  }
  cost.reduced = 1;
  return cost;
}

bool never(const Request&) { return false; }
// Three ranks are summed ((0, 1), 2) in canonical order; both trees of 0 and 1 end in the root.
bool is_canonical_reduce(const Request& request) { return request.ranks == 3 && request.root == 2; }

}  // namespace

std::vector<Algorithm> double_binary_tree_algorithms() {
  using C = Collective;
  return {
      {"double_binary_tree", "up and down two trees, each for half of the data", C::all_reduce, true, needs_three, half_layouts,
       build_all_reduce, all_reduce_cost, never},
      {"double_binary_tree", "down two trees, each for half of the data", C::broadcast, true, needs_three, half_layouts, build_broadcast,
       broadcast_cost, without_reduction},
      {"double_binary_tree", "up two trees, each for half of the data", C::reduce, true, needs_three, reduce_layouts, build_reduce,
       reduce_cost, is_canonical_reduce},
  };
}

}  // namespace peal::schedule
