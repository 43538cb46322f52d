// K-nomial tree: logarithmic depth.
//
//     radix 2, root 0:        0             broadcast: recv from the parent, send to children, largest subtree first
//                          .--+--.          reduce:    the same edges upward, in the opposite order
//                          4  2  1          gather, scatter: a message carries the blocks of a whole subtree
//                          |  |             all_reduce: reduce to rank 0 and broadcast, in two strands that overlap over pieces
//                          5  3
//
// After Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
// Subtrees are contiguous ranges of ranks for every root (radix_tree.hpp), so with radix 2 sums are canonical whatever the root.
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "cost_of_groups.hpp"
#include "tree_phases.hpp"

namespace peal::schedule {

namespace {

Status always(const Request&) { return {}; }
Status few_blocks(const Request& request) { return blocks_fit(power_below(request.ranks, request.radix), "direct"); }

Layouts plain_layouts(const Request& request) { return standard_layouts(request, 1); }
Layouts reduce_layouts(const Request& request) {
  Layouts layouts = standard_layouts(request, 1);
  layouts.scratch_copies = request.ranks > 2 ? 1 : 0;
  return layouts;
}
// Inner ranks hold the blocks of their subtree.
Layouts gather_layouts(const Request& request) {
  Layouts layouts = standard_layouts(request, 1);
  layouts.scratch_like_input = request.collective == Collective::scatter;
  layouts.scratch_copies = request.ranks > 2 ? 1 : 0;
  return layouts;
}

std::int32_t root_of(const Request& request) { return has_root(request.collective) ? request.root : 0; }
TreePlace place_of(const Request& request, std::int32_t rank) {
  return place_in_tree({}, request.ranks, root_of(request), request.radix, rank, 0);
}

void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand("tree");
  tree_broadcast(strand, place_of(request, rank), input(0), output(0));
  if (rank == request.root && !request.in_place) strand.copy(output(0), input(0));
}

void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand("tree");
  tree_reduce(strand, place_of(request, rank), input(0), rank == request.root ? output(0) : scratch(0), true);
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const TreePlace place = place_of(request, rank);
  const bool is_root = place.seat.parent < 0;
  const std::int32_t reduced = is_root ? builder.event() : -1;
  StrandBuilder up = builder.strand("reduce");
  tree_reduce(up, place, input(0), output(0), true);
  StrandBuilder down = builder.strand("broadcast");
  if (is_root) {
    up.signal(reduced);
    down.wait(reduced, 1);
  }
  // What comes down was sent after what went up had been taken: overwriting it is safe.
  tree_broadcast(down, place, output(0), output(0));
}

void build_barrier(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const TreePlace place = place_of(request, rank);
  StrandBuilder strand = builder.strand("tree");
  for (auto child = place.seat.children.rbegin(); child != place.seat.children.rend(); ++child) strand.recv(child->number, Ref{});
  if (place.seat.parent >= 0) strand.send(place.seat.parent, Ref{});
  tree_broadcast(strand, place, Ref{}, Ref{});
}

void build_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const TreeSeat seat = place_of(request, rank).seat;
  StrandBuilder strand = builder.strand("tree");
  if (seat.children.empty()) {
    strand.send(seat.parent, input(0));
    return;
  }
  const BufferId here = seat.parent < 0 ? kOutput : kScratch;
  if (here == kScratch || !request.in_place) strand.copy(chunks_of(here, rank), input(0));
  for (auto child = seat.children.rbegin(); child != seat.children.rend(); ++child)
    strand.recv(child->number, chunks_of(here, child->begin, child->count));
  if (seat.parent >= 0) strand.send(seat.parent, scratch(seat.begin, seat.count));
}

void build_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const TreeSeat seat = place_of(request, rank).seat;
  StrandBuilder strand = builder.strand("tree");
  if (seat.children.empty()) {
    strand.recv(seat.parent, output(0));
    return;
  }
  const BufferId here = seat.parent < 0 ? kInput : kScratch;
  if (seat.parent >= 0) strand.recv(seat.parent, scratch(seat.begin, seat.count));
  for (const TreeChild& child : seat.children) strand.send(child.number, chunks_of(here, child.begin, child.count));
  if (here == kScratch || !request.in_place) strand.copy(output(0), chunks_of(here, rank));
}

TreeTerms terms_of(const Request& request) { return tree_terms(request.ranks, root_of(request), request.radix); }

double share_inside(const Request& request) {
  const double whole = terms_of(request).depth;
  const double inner = tree_terms(group_sizes(request).smallest, 0, request.radix).depth;
  return whole > 0 ? std::min(1.0, inner / whole) : 0;
}
CostTerms at_levels(const Request& request, const CostTerms::Level& all) { return split_levels(request, all, share_inside(request)); }
/// The same where the term `of_children` counts the root's children, of whom as many are in other groups as levels of the tree are.
CostTerms at_levels(const Request& request, const CostTerms::Level& all, double CostTerms::Level::*of_children) {
  const double inside = share_inside(request);
  CostTerms cost = split_levels(request, all, inside);
  if (!has_groups(request)) return cost;
  cost.level[0].*of_children *= inside;
  cost.level[1].*of_children *= 1 - inside;
  return cost;
}
CostTerms broadcast_cost(const Request& request) {
  const TreeTerms terms = terms_of(request);
  CostTerms cost = at_levels(request, {terms.depth, terms.most_children, terms.most_children, terms.down}, &CostTerms::Level::sent);
  cost.copied = request.in_place ? 0 : 1;
  cost.pipelined = true;
  return cost;
}
CostTerms reduce_cost(const Request& request) {
  const TreeTerms terms = terms_of(request);
  CostTerms cost =
      at_levels(request, {.rounds = terms.depth, .messages = 1, .sent = 1, .critical = terms.up, .received = terms.most_children},
                &CostTerms::Level::received);
  cost.reduced = terms.most_children;
  cost.pipelined = true;
  return cost;
}
CostTerms all_reduce_cost(const Request& request) {
  const TreeTerms terms = terms_of(request);
  CostTerms cost = at_levels(request, {2 * terms.depth, terms.most_sent_up_down, terms.most_sent_up_down, terms.up + terms.down});
  cost.reduced = terms.most_children;
  cost.pipelined = true;
  return cost;
}
CostTerms barrier_cost(const Request& request) {
  const TreeTerms terms = terms_of(request);
  return at_levels(request, {2 * terms.depth, terms.most_sent_up_down, 0, 0});
}
/// Of a tree whose messages carry the blocks of subtrees: those inside groups carry the few of a part of a group, as the group's own tree
/// does, and those between them the rest of what passes one after another.
CostTerms at_levels_by_blocks(const Request& request, const CostTerms::Level& all, double TreeTerms::*of_sent, double TreeTerms::*of_path) {
  CostTerms cost = at_levels(request, all);
  if (!has_groups(request)) return cost;
  const TreeTerms inner = tree_terms(group_sizes(request).smallest, 0, request.radix);
  cost.level[0].sent = std::min(all.sent, inner.*of_sent / request.ranks);
  cost.level[0].critical = std::min(all.critical, inner.*of_path / request.ranks);
  cost.level[1].critical = all.critical - cost.level[0].critical;
  return cost;
}
CostTerms gather_cost(const Request& request) {
  const TreeTerms terms = terms_of(request);
  const double n = request.ranks;
  CostTerms cost = at_levels_by_blocks(request, {terms.depth, 1, terms.largest_child / n, terms.up_weighted / n}, &TreeTerms::largest_child,
                                       &TreeTerms::up_weighted);
  cost.copied = request.in_place && terms.depth <= 1 ? 0 : 1 / n;  // inner ranks copy their own block in place too
  return cost;
}
CostTerms scatter_cost(const Request& request) {
  const TreeTerms terms = terms_of(request);
  const double n = request.ranks;
  CostTerms cost = at_levels_by_blocks(request, {terms.depth, terms.most_children, terms.most_below / n, terms.down_weighted / n},
                                       &TreeTerms::most_below, &TreeTerms::down_weighted);
  cost.copied = request.in_place && terms.depth <= 1 ? 0 : 1 / n;  // inner ranks copy their own block in place too
  return cost;
}

bool is_binary(const Request& request) { return request.radix == 2 || request.ranks <= 2; }

}  // namespace

std::vector<Algorithm> tree_algorithms() {
  using C = Collective;
  std::vector<Algorithm> all = {
      {"tree", "k-nomial reduce and broadcast", C::all_reduce, true, always, plain_layouts, build_all_reduce, all_reduce_cost, is_binary},
      {"tree", "k-nomial tree from the root", C::broadcast, true, always, plain_layouts, build_broadcast, broadcast_cost,
       without_reduction},
      {"tree", "k-nomial tree to the root", C::reduce, true, always, reduce_layouts, build_reduce, reduce_cost, is_binary},
      {"tree", "subtrees' blocks in one message", C::gather, true, few_blocks, gather_layouts, build_gather, gather_cost,
       without_reduction},
      {"tree", "subtrees' blocks in one message", C::scatter, true, few_blocks, gather_layouts, build_scatter, scatter_cost,
       without_reduction},
      {"tree", "k-nomial tree up and down", C::barrier, true, always, plain_layouts, build_barrier, barrier_cost, without_reduction,
       has_slots},
  };
  // These have another form, in which no machine serves more than two others (build_binary_tree.cpp).
  for (Algorithm& algorithm : all)
    if (algorithm.collective == C::all_reduce || algorithm.collective == C::broadcast || algorithm.collective == C::reduce)
      algorithm.alone = "k_nomial_tree";
  return all;
}

}  // namespace peal::schedule
