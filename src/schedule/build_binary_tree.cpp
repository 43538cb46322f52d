// Binary trees, one for each rail: the form of a tree for clusters and long calls.
//
//     all_reduce, 4 machines of 3: one of three trees       broadcast and reduce from r: the same below r's machine,
//                                                           and r above the leader there
//                  0 <- 1, 2
//                  |
//                  6 <- 7, 8
//                .-+-.
//       4, 5 -> 3     9 <- 10, 11
//
// A k-nomial tree's root serves one child for every level. Here nobody serves more than two machines: pieces flow at a pace that does not
// depend on the number of ranks. The tree between machines is in order (twin_trees.hpp), its leaders' machine above it. Where all machines
// have as many ranks, there is a tree for each rank of a machine, up to sixteen, for its share of the data: in each another rank leads its
// machine, so that every network card carries its share; so do the trees of NCCL's channels (version 2.4, 2019). Inside, a leader takes
// from all others itself, and sends to all, which is a reduce-scatter and an all-gather of all trees together; where fewer ranks lead than
// there are, or in one machine alone, ranks inside are another tree in order below the leader.
// A rank takes its children's sums together and sends to all at the same time: each child has a strand of its own, and one reduction adds
// their sums to the rank's own contribution. So no child waits for another's turn, and subtrees of one shape below one rank do the same
// at the same time, which is what folds a simulation of 100,000 ranks to some hundred.
#include <algorithm>
#include <base/names.hpp>
#include <span>

#include "build_algorithms.hpp"
#include "cost_of_groups.hpp"
#include "group_map.hpp"
#include "ring_order.hpp"
#include "twin_trees.hpp"

namespace peal::schedule {

namespace {

constexpr std::int32_t kMostTrees = 16;

Status needs_three(const Request& request) {
  if (request.ranks > 2) return {};
  return fail(ErrorCode::unsupported, "binary_tree needs 3 ranks or more; between {} use ring or tree", request.ranks);
}

/// The groups, and how many trees there are over them.
struct Trees {
  GroupMap map;
  std::int32_t count = 1;

  explicit Trees(const Request& request) : map(group_map(request)) {
    if (map.groups() > 1 && map.is_equal) count = std::min(map.size(), kMostTrees);
  }
  /// Where every rank leads one tree, it may as well take from all in its group itself, and send to all.
  bool are_stars_inside() const { return count > 1 && count == map.size(); }
  /// The local index of who leads groups in a tree.
  std::int32_t leader(std::int32_t tree) const { return count > 1 ? tree * map.size() / count : 0; }
};

/// One rank's neighbours in a tree.
struct Place {
  std::int32_t parent = -1;
  std::vector<std::int32_t> children;
};

/// In the tree over `count` numbers in order, of which rank_at tells the ranks and `above` is the parent of the top.
template <class RankAt>
void place_in_order(Place& place, std::int32_t count, std::int32_t number, std::int32_t above, RankAt&& rank_at) {
  const TreeSeat seat = twin_seat(count, 0, number);
  place.parent = seat.parent >= 0 ? rank_at(seat.parent) : above;
  for (const TreeChild& child : seat.children) place.children.push_back(rank_at(child.number));
}

/// Where a rank stands in a tree: below `root`, or below the leader of the first group where that is -1.
Place place_of(const Request& request, const Trees& trees, std::int32_t tree, std::int32_t root, std::int32_t rank) {
  const GroupMap& map = trees.map;
  const GroupSeat at = group_seat(request, map, rank);
  const GroupSeat top = root < 0 ? GroupSeat{0, trees.leader(tree)} : group_seat(request, map, root);
  const std::int32_t groups = map.groups();
  // With one tree the root itself leads its group.
  const auto leader_of = [&](std::int32_t group) { return trees.count == 1 && group == top.group ? top.local : trees.leader(tree); };
  const std::int32_t leader = leader_of(at.group);
  const bool has_root_apart = at.group == top.group && top.local != leader;
  const auto size = static_cast<std::int32_t>(map.members[static_cast<std::size_t>(at.group)].size());

  Place place;
  if (has_root_apart && at.local == top.local) {
    place.children.push_back(map.member(at.group, leader));
    return place;
  }
  // Inside: all but the leader, and a root that is above it, from the one behind the leader on.
  const std::int32_t others = size - 1 - (has_root_apart ? 1 : 0);
  const std::int32_t skipped = has_root_apart ? wrap(top.local - leader - 1, size) : size;  // number of the root, were it one of them
  const auto inside = [&](std::int32_t number) {
    return map.member(at.group, wrap(leader + 1 + number + (number >= skipped ? 1 : 0), size));
  };
  if (at.local != leader && trees.are_stars_inside()) {
    place.parent = map.member(at.group, leader);
    return place;
  }
  if (at.local != leader) {
    const std::int32_t behind = wrap(at.local - leader - 1, size);
    place_in_order(place, others, behind - (behind > skipped ? 1 : 0), map.member(at.group, leader), inside);
    return place;
  }
  // Between groups: all but the root's, from the one behind it on.
  const auto between = [&](std::int32_t number) {
    const std::int32_t group = wrap(top.group + 1 + number, groups);
    return map.member(group, leader_of(group));
  };
  if (at.group != top.group)
    place_in_order(place, groups - 1, wrap(at.group - top.group - 1, groups), map.member(top.group, leader_of(top.group)), between);
  else if (groups > 1)
    place.children.push_back(between(top_in_order(groups - 1)));
  if (has_root_apart) place.parent = root;
  if (trees.are_stars_inside())
    for (std::int32_t number = 0; number < others; ++number) place.children.push_back(inside(number));
  else if (others > 0)
    place.children.push_back(inside(top_in_order(others)));
  return place;
}

std::int32_t root_of(const Request& request) { return has_root(request.collective) ? request.root : -1; }

std::int32_t most_in_order(std::int32_t count) { return count > 2 ? 2 : count > 1 ? 1 : 0; }

/// That anybody has in all trees together, or a few more.
std::int32_t most_children(const Request& request, const Trees& trees) {
  const std::int32_t size = trees.map.largest();
  if (trees.map.groups() == 1) return std::max(1, most_in_order(size - 1));
  // Inside and between; a root has one child more in the trees that it does not lead.
  if (trees.are_stars_inside()) return size - 1 + 2 + (has_root(request.collective) ? size - 1 : 0);
  return 3 * trees.count;
}

Layouts plain_layouts(const Request& request) { return standard_layouts(request, Trees(request).count); }
// A place for what each child sends; in a reduce the first in a tree is overwritten by the sum.
Layouts sum_layouts(const Request& request) {
  const Trees trees(request);
  Layouts layouts = standard_layouts(request, trees.count);
  layouts.scratch_copies = most_children(request, trees);
  layouts.scratch_is_compact = true;
  return layouts;
}

/// One rank's part of one tree.
struct Part {
  const Request& request;
  Place place;
  std::int32_t tree = 0;
  std::int32_t trees = 1;
  std::int32_t first_kept = 0;  // behind those of the trees before

  Ref own() const { return input(tree); }
  Ref kept_from(std::size_t child) const { return scratch((first_kept + static_cast<std::int32_t>(child)) * trees + tree); }
  std::uint8_t channel() const { return static_cast<std::uint8_t>(tree); }
  TreePlace with(std::span<const std::int32_t> children) const {
    TreePlace as{{}, channel()};
    as.seat.parent = place.parent;
    for (const std::int32_t child : children) as.seat.children.push_back({child, 0, 0});
    return as;
  }
};

/// body(part) for every tree.
template <class Body>
void each_tree(const Request& request, std::int32_t rank, Body&& body) {
  const Trees trees(request);
  std::int32_t kept = 0;
  for (std::int32_t t = 0; t < trees.count; ++t) {
    const Part part{request, place_of(request, trees, t, root_of(request), rank), t, trees.count, kept};
    kept += static_cast<std::int32_t>(part.place.children.size());
    body(part);
  }
}

// From the children to the parent. `reduced` is signalled at the end. Partial sums of fp32 are added as they come, since a reduction of
// several takes one type.
void sum_up(RankBuilder& builder, const Part& part, Ref sum, std::int32_t reduced = -1) {
  const std::vector<std::int32_t>& children = part.place.children;
  const bool adds_all = children.size() > 1 && !part.request.wide_partials;
  std::vector<std::int32_t> come;
  std::vector<Source> sources{{part.own()}};
  for (std::size_t c = 0; adds_all && c < children.size(); ++c) {
    come.push_back(builder.event());
    sources.push_back({part.kept_from(c)});
    StrandBuilder strand = builder.strand("from a child");
    strand.recv(children[c], sources.back().ref).channel = part.channel();
    strand.signal(come.back());
  }
  StrandBuilder strand = builder.strand("reduce");
  if (adds_all) {
    for (const std::int32_t event : come) strand.wait(event, 1);
    Op& op = strand.reduce(sum, sources, false);
    if (part.place.parent < 0) op.flags |= kFinish;
    if (part.place.parent >= 0) strand.send_addend(part.place.parent, sum).channel = part.channel();
  } else {
    // In the same order, which it takes from the back.
    const std::vector<std::int32_t> from_the_back(children.rbegin(), children.rend());
    tree_reduce(strand, part.with(from_the_back), part.own(), sum, true);
  }
  if (reduced >= 0) strand.signal(reduced);
}

// From the parent to the children, when `ready` has been signalled.
void send_down(RankBuilder& builder, const Part& part, Ref source, Ref data, std::int32_t ready = -1) {
  const TreePlace place = part.with(part.place.children);
  if (place.seat.children.size() > 1) {
    tree_broadcast_at_once(builder, place, source, data, ready);
    return;
  }
  StrandBuilder strand = builder.strand("broadcast");
  if (ready >= 0) strand.wait(ready, 1);
  tree_broadcast(strand, place, source, data);
}

void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  std::int32_t trees = 0;
  each_tree(request, rank, [&](const Part& part) {
    trees = part.trees;
    send_down(builder, part, input(part.tree), output(part.tree));
  });
  if (rank == request.root && !request.in_place) builder.strand("copy").copy(output(0, trees), input(0, trees));
}

void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_tree(request, rank, [&](const Part& part) { sum_up(builder, part, rank == request.root ? output(part.tree) : part.kept_from(0)); });
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_tree(request, rank, [&](const Part& part) {
    const Ref sum = output(part.tree);
    const std::int32_t reduced = part.place.parent < 0 ? builder.event() : -1;
    sum_up(builder, part, sum, reduced);
    // What comes down was sent after what went up had been taken: overwriting it is safe.
    send_down(builder, part, sum, sum, reduced);
  });
}

/// Messages one after another up a tree over m numbers, where both children's sums cross one way in.
std::int32_t critical_up(std::int32_t m) {
  if (m <= 1) return 0;
  const std::int32_t left = top_in_order(m);
  const std::int32_t right = m - 1 - left;
  const std::int32_t first = 1 + critical_up(left);
  if (right == 0) return first;
  const std::int32_t second = 1 + critical_up(right);
  return std::max(std::max(first, second), std::min(first, second) + 1);
}

/// Which ways the data goes.
struct Ways {
  bool up = false;
  bool down = false;
};

/// Of the busiest rank, in all trees together: messages by level, and those that it adds up.
struct Busiest {
  double sent[2] = {0, 0};
  double received[2] = {0, 0};
  double added = 0;

  void look_at(const double (&parents)[2], const double (&children)[2], Ways go) {
    for (int l = 0; l < 2; ++l) {
      sent[l] = std::max(sent[l], (go.up ? parents[l] : 0) + (go.down ? children[l] : 0));
      received[l] = std::max(received[l], (go.up ? children[l] : 0) + (go.down ? parents[l] : 0));
    }
    if (go.up) added = std::max(added, children[0] + children[1]);
  }
};

/// In one group everybody but the root has a parent. Of several groups, the first and that at the top of the others are looked at, and of
/// large ones so many ranks.
Busiest busiest(const Request& request, const Trees& trees, Ways go) {
  constexpr std::int32_t kLookedAt = 32;
  const std::int32_t groups = trees.map.groups();
  Busiest most;
  if (groups == 1) {
    most.look_at({1, 0}, {1.0 * std::max(1, most_in_order(request.ranks - 1)), 0}, go);
    return most;
  }
  const std::int32_t root = root_of(request);
  const std::int32_t first = root < 0 ? 0 : group_of(request, root);
  for (const std::int32_t group : {first, wrap(first + 1 + top_in_order(groups - 1), groups)}) {
    const std::vector<std::int32_t>& members = trees.map.members[static_cast<std::size_t>(group)];
    for (std::size_t i = 0; i < members.size(); i += std::max<std::size_t>(1, members.size() / kLookedAt)) {
      double parents[2] = {0, 0};
      double children[2] = {0, 0};
      const auto level = [&](std::int32_t other) { return group_of(request, other) != group ? 1 : 0; };
      for (std::int32_t t = 0; t < trees.count; ++t) {
        const Place place = place_of(request, trees, t, root, members[i]);
        if (place.parent >= 0) ++parents[level(place.parent)];
        for (const std::int32_t child : place.children) ++children[level(child)];
      }
      most.look_at(parents, children, go);
    }
  }
  return most;
}

CostTerms cost_of(const Request& request, Ways go) {
  const Trees trees(request);
  const std::int32_t groups = trees.map.groups();
  const std::int32_t largest = trees.map.largest();
  const double ways = (go.up ? 1 : 0) + (go.down ? 1 : 0);
  const auto critical = [&](std::int32_t others) {
    return ways + (go.up ? critical_up(others) : 0) + (go.down ? twin_critical(others) : 0);
  };
  CostTerms cost;
  if (trees.are_stars_inside()) {
    cost.level[0].rounds = ways;
    cost.level[0].critical = ways * (largest - 1) / trees.count;
  } else if (largest > 1) {
    cost.level[0].rounds = ways * (1 + twin_depth(largest - 1));
    cost.level[0].critical = critical(largest - 1) / trees.count;
  }
  if (groups > 1) {
    cost.level[1].rounds = ways * (1 + twin_depth(groups - 1));
    cost.level[1].critical = critical(groups - 1) / trees.count;
  }
  const Busiest most = busiest(request, trees, go);
  for (int l = 0; l < 2; ++l) {
    const double received = go.down ? 0 : most.received[l];  // who sends down sends as much as anyone receives
    cost.level[l].messages = most.sent[l];
    cost.level[l].ways = std::max({1.0, most.sent[l], received});
    cost.level[l].sent = most.sent[l] / trees.count;
    cost.level[l].received = received / trees.count;
  }
  cost.reduced = most.added / trees.count;
  cost.pipelined = true;
  cost.both_levels_at_once = groups > 1;  // who is served has a strand of its own
  return cost;
}

CostTerms broadcast_cost(const Request& request) {
  CostTerms cost = cost_of(request, {.down = true});
  cost.copied = request.in_place ? 0 : 1;
  return cost;
}
CostTerms reduce_cost(const Request& request) { return cost_of(request, {.up = true}); }
CostTerms all_reduce_cost(const Request& request) { return cost_of(request, {.up = true, .down = true}); }

/// What a rank sends up a tree.
CanonicalNode sum_of(const Request& request, const Trees& trees, std::int32_t tree, std::int32_t rank) {
  CanonicalNode sum{rank, 1};
  for (const std::int32_t child : place_of(request, trees, tree, root_of(request), rank).children)
    sum = combined(sum, sum_of(request, trees, tree, child));
  return sum;
}

// Some small trees are: chains of three, and of three groups of two.
bool is_canonical(const Request& request) {
  constexpr std::int32_t kMostRanks = 16;
  if (request.ranks > kMostRanks) return false;
  const Trees trees(request);
  for (std::int32_t t = 0; t < trees.count; ++t) {
    const std::int32_t top = has_root(request.collective) ? request.root : trees.map.member(0, trees.leader(t));
    if (sum_of(request, trees, t, top).count != request.ranks) return false;
  }
  return true;
}

}  // namespace

std::vector<Algorithm> binary_tree_algorithms() {
  using C = Collective;
  std::vector<Algorithm> all = {
      {"binary_tree", "up and down a binary tree, a tree for each rail", C::all_reduce, true, needs_three, sum_layouts, build_all_reduce,
       all_reduce_cost, is_canonical},
      {"binary_tree", "down a binary tree, a tree for each rail", C::broadcast, true, needs_three, plain_layouts, build_broadcast,
       broadcast_cost, without_reduction},
      {"binary_tree", "up a binary tree, a tree for each rail", C::reduce, true, needs_three, sum_layouts, build_reduce, reduce_cost,
       is_canonical},
  };
  for (Algorithm& algorithm : all) algorithm.form_of = "tree";
  return all;
}

}  // namespace peal::schedule
