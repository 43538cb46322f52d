// Ring: every rank talks to its two neighbours only.
//
//        .--> 0 --> 1 --.      all_reduce, chunk c on four positions:
//        |              v      reduce-scatter:  c+1 -> c+2 -> c+3 -> c      each adds its own
//        3 <---------- 2       all-gather:      c -> c+1 -> c+2 -> c+3      each keeps a copy
//
// After Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
// Each chunk takes 2 (n - 1) steps, and every rank sends 2 (n - 1) / n of the data, which is optimal.
// One strand a rank: send, then receive-and-forward n - 2 times, then receive. Lowered with fusion a rank holds back a message until it
// can forward it, so the ring needs two slots a channel; without fusion one suffices. Broadcast and reduce are pipelined chains, which
// visit each group once: between g groups g - 1 times the data crosses, the fewest possible.
#include <algorithm>
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "cost_of_groups.hpp"
#include "group_map.hpp"
#include "ring_order.hpp"

namespace peal::schedule {

namespace {

RingOrder order_of(const Request& request) { return {request.placement.ring, request.ranks}; }

// Chunks that are ranks' blocks: numbered by rank, whatever the ring's order.
RingChunks blocks_of(const RingOrder& ring) {
  if (ring.is_rank_order()) return RingChunks::in_order(ring.size());
  std::vector<std::int32_t> numbers;
  for (std::int32_t p = 0; p < ring.size(); ++p) numbers.push_back(ring.rank_at(p));
  return RingChunks::numbered(std::move(numbers));
}

Status always(const Request&) { return {}; }

Layouts all_reduce_layouts(const Request& request) { return standard_layouts(request, request.ranks); }
Layouts gather_layouts(const Request& request) { return standard_layouts(request, 1); }
Layouts partial_sum_layouts(const Request& request) {
  Layouts layouts = standard_layouts(request, 1);
  layouts.scratch_like_input = true;
  layouts.scratch_is_compact = true;
  layouts.scratch_copies = request.ranks > 2 ? 1 : 0;
  return layouts;
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const RingSeat seat = seat_of(order_of(request), rank);
  const RingChunks chunks = RingChunks::in_order(request.ranks);
  const Ref mine = chunks.at(seat.position).in(kOutput);
  StrandBuilder strand = builder.strand("ring");
  ring_reduce_scatter(strand, seat, chunks, kInput, kOutput, mine, true);
  ring_all_gather(strand, seat, chunks, mine, kOutput);
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const RingOrder ring = order_of(request);
  StrandBuilder strand = builder.strand("ring");
  ring_reduce_scatter(strand, seat_of(ring, rank), blocks_of(ring), kInput, kScratch, output(0), true);
}

void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const RingOrder ring = order_of(request);
  if (!request.in_place) builder.strand("copy").copy(output(rank), input(0));
  StrandBuilder strand = builder.strand("ring");
  ring_all_gather(strand, seat_of(ring, rank), blocks_of(ring), input(0), kOutput);
}

// The ring that a chain follows from its root (broadcast) or to it (reduce): one group after another, the root's own so that the chain
// begins or ends there without leaving it in between.
std::vector<std::int32_t> chain_ring(const Request& request) {
  if (!has_groups(request)) return request.placement.ring;
  const GroupMap map = group_map(request);
  const GroupSeat top = group_seat(request, map, request.root);
  std::vector<std::int32_t> ring;
  for (std::int32_t k = 0; k < map.groups(); ++k) {
    std::vector<std::int32_t> members = map.members[static_cast<std::size_t>(k)];
    const std::int32_t first = has_reduction(request.collective) ? top.local + 1 : top.local;
    if (k == top.group) std::rotate(members.begin(), members.begin() + first, members.end());
    ring.insert(ring.end(), members.begin(), members.end());
  }
  return ring;
}

// root -> root + 1 -> ... -> root - 1, in ring order.
void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::vector<std::int32_t> order = chain_ring(request);
  const RingOrder ring(order, request.ranks);
  StrandBuilder strand = builder.strand("chain");
  ring_broadcast(strand, seat_of(ring, rank), ring.position_of(request.root), input(0), output(0));
  if (rank == request.root && !request.in_place) strand.copy(output(0), input(0));
}

// root + 1 -> root + 2 -> ... -> root, each adding its own.
void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::vector<std::int32_t> order = chain_ring(request);
  const RingOrder ring(order, request.ranks);
  StrandBuilder strand = builder.strand("chain");
  ring_reduce(strand, seat_of(ring, rank), ring.position_of(request.root), input(0), scratch(0), output(0));
}

// What `steps` steps cost in which every rank sends one n-th: the rank before a group's border sends everything over it.
CostTerms ring_cost(const Request& request, double steps) {
  const RingOrder ring = order_of(request);
  std::int32_t crossing = 0;
  for (std::int32_t p = 0; p < request.ranks && has_groups(request); ++p)
    crossing += group_of(request, ring.rank_at(p)) != group_of(request, ring.rank_at(p + 1)) ? 1 : 0;
  const double across = static_cast<double>(crossing) / request.ranks;
  CostTerms cost;
  cost.both_levels_at_once = true;
  const double share[2] = {1 - across, across};
  for (int level = 0; level < 2; ++level) {
    if (share[level] <= 0) continue;
    cost.level[level].rounds = steps * share[level];
    cost.level[level].messages = steps * share[level];
    cost.level[level].sent = steps / request.ranks;
    cost.level[level].critical = steps / request.ranks * share[level];
  }
  return cost;
}

CostTerms all_reduce_cost(const Request& request) {
  const double n = request.ranks;
  CostTerms cost = ring_cost(request, 2 * (n - 1));
  cost.reduced = (n - 1) / n;
  return cost;
}

CostTerms reduce_scatter_cost(const Request& request) {
  const double n = request.ranks;
  CostTerms cost = ring_cost(request, n - 1);
  cost.reduced = (n - 1) / n;
  return cost;
}

CostTerms all_gather_cost(const Request& request) {
  const double n = request.ranks;
  CostTerms cost = ring_cost(request, n - 1);
  cost.copied = request.in_place ? 0 : 1 / n;
  return cost;
}

// Every rank but the last sends everything once, and the last of each group but the last sends it across.
CostTerms chain_cost(const Request& request) {
  const double crossing = has_groups(request) ? group_map(request).groups() - 1 : 0;
  const double steps[2] = {request.ranks - 1 - crossing, crossing};
  CostTerms cost;
  for (int level = 0; level < 2; ++level)
    if (steps[level] > 0) cost.level[level] = {steps[level], 1, 1, steps[level]};
  cost.pipelined = true;
  const bool reduces_data = has_reduction(request.collective);
  cost.reduced = reduces_data ? 1 : 0;
  cost.copied = reduces_data || request.in_place ? 0 : 1;
  return cost;
}

}  // namespace

std::vector<Algorithm> ring_algorithms() {
  return {
      {"ring", "reduce-scatter and all-gather around a ring; least bytes", Collective::all_reduce, true, always, all_reduce_layouts,
       build_all_reduce, all_reduce_cost, is_pair, has_slots},
      {"ring", "partial sums travel around a ring", Collective::reduce_scatter, true, always, partial_sum_layouts, build_reduce_scatter,
       reduce_scatter_cost, is_pair, has_snapshots_or_is_pair},
      {"ring", "blocks travel around a ring", Collective::all_gather, true, always, gather_layouts, build_all_gather, all_gather_cost,
       without_reduction, has_slots},
      {"ring", "a pipelined chain from the root", Collective::broadcast, true, always, gather_layouts, build_broadcast, chain_cost,
       without_reduction},
      {"ring", "a pipelined chain to the root", Collective::reduce, true, always, partial_sum_layouts, build_reduce, chain_cost,
       is_pair_or_three_to_the_last},
      {"ring", "blocks of any size travel around a ring", Collective::all_gather_v, true, always, gather_layouts, build_all_gather,
       all_gather_cost, without_reduction, has_slots},
      {"ring", "partial sums of any size travel around a ring", Collective::reduce_scatter_v, true, always, partial_sum_layouts,
       build_reduce_scatter, reduce_scatter_cost, is_pair, has_snapshots_or_is_pair},
  };
}

}  // namespace peal::schedule
