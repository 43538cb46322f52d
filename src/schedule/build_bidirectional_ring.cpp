// Bidirectional ring: half of every block travels one way round, half the other.
//
//     .-> 0 --> 1 --> 2 --> 3 -.      first halves, channel 0
//     '------------------------'
//     .------------------------.
//     '-> 0 <-- 1 <-- 2 <-- 3 <'      second halves, channel 1
//
// Two rings of Patarasuk and Yuan (build_ring.cpp) in opposite directions, as on torus networks: Jain and Sabharwal, "Optimal bucket
// algorithms for large MPI collectives on torus interconnects" (2010). As many steps as a ring and as many bytes, in twice as many
// messages. It pays between groups: half of the data leaves a group at each end, by two ways out instead of one. In one group the ring
// does the same with half of the messages.
// Block b is chunks 2b and 2b + 1. One strand a direction; each needs two slots once lowered with fusion, as in the ring.
#include <algorithm>
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "cost_of_groups.hpp"
#include "ring_order.hpp"

namespace peal::schedule {

namespace {

constexpr std::int32_t kWays = 2;
constexpr const char* kNames[kWays] = {"forwards", "backwards"};

RingOrder order_of(const Request& request) { return {request.placement.ring, request.ranks}; }

Status needs_groups(const Request& request) {
  if (has_groups(request)) return {};
  return fail(ErrorCode::unsupported, "bidirectional_ring needs a placement of at least 2 groups; in one group use ring");
}

Layouts all_reduce_layouts(const Request& request) { return standard_layouts(request, kWays * request.ranks); }
Layouts gather_layouts(const Request& request) { return standard_layouts(request, kWays); }
// Room for one partial sum on its way in each direction.
Layouts partial_sum_layouts(const Request& request) {
  Layouts layouts = gather_layouts(request);
  layouts.scratch_like_input = true;
  layouts.scratch_is_compact = true;
  layouts.scratch_copies = request.ranks > 2 ? kWays : 0;
  return layouts;
}

RingSeat seat_on(const RingOrder& ring, std::int32_t way, std::int32_t rank) {
  const RingSeat seat = seat_of(ring, rank);
  return way == 0 ? seat : reversed(seat, 1);
}

// Halves numbered by position: 2p one way, 2p + 1 the other, where the second ring counts positions from the end.
RingChunks halves_in_order(std::int32_t n, std::int32_t way) {
  RingChunks chunks = RingChunks::in_order(n);
  chunks.stride = way == 0 ? kWays : -kWays;
  chunks.base = way == 0 ? 0 : kWays * n - 1;
  chunks.scratch_base = way * kWays * n;
  return chunks;
}

// Halves of ranks' blocks: numbered by rank, whatever the ring's order.
RingChunks halves_of_blocks(const RingOrder& ring, std::int32_t way) {
  const std::int32_t n = ring.size();
  if (ring.is_rank_order()) return halves_in_order(n, way);
  std::vector<std::int32_t> numbers;
  for (std::int32_t p = 0; p < n; ++p) numbers.push_back(kWays * ring.rank_at(way == 0 ? p : n - 1 - p) + way);
  RingChunks chunks = RingChunks::numbered(std::move(numbers));
  chunks.scratch_base = way * kWays * n;
  return chunks;
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const RingOrder ring = order_of(request);
  for (std::int32_t way = 0; way < kWays; ++way) {
    const RingSeat seat = seat_on(ring, way, rank);
    const RingChunks chunks = halves_in_order(request.ranks, way);
    const Ref mine = chunks.at(seat.position).in(kOutput);
    StrandBuilder strand = builder.strand(kNames[way]);
    ring_reduce_scatter(strand, seat, chunks, kInput, kOutput, mine, true);
    ring_all_gather(strand, seat, chunks, mine, kOutput);
  }
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const RingOrder ring = order_of(request);
  for (std::int32_t way = 0; way < kWays; ++way) {
    StrandBuilder strand = builder.strand(kNames[way]);
    ring_reduce_scatter(strand, seat_on(ring, way, rank), halves_of_blocks(ring, way), kInput, kScratch, output(way), true);
  }
}

void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const RingOrder ring = order_of(request);
  if (!request.in_place) builder.strand("copy").copy(output(kWays * rank, kWays), input(0, kWays));
  for (std::int32_t way = 0; way < kWays; ++way) {
    StrandBuilder strand = builder.strand(kNames[way]);
    ring_all_gather(strand, seat_on(ring, way, rank), halves_of_blocks(ring, way), input(way), kOutput);
  }
}

// What `steps` steps cost in which every rank sends half of one n-th each way. A chain passes each edge of the ring in turn; of a
// group's ranks one sends over the border forwards and one backwards, the same where the group is alone between two borders.
CostTerms ring_cost(const Request& request, double steps) {
  const RingOrder ring = order_of(request);
  const double n = request.ranks;
  const auto crosses = [&](std::int32_t p) { return group_of(request, ring.rank_at(p)) != group_of(request, ring.rank_at(p + 1)); };
  std::int32_t crossing = 0;
  std::int32_t most[2] = {0, 0};  // ways of one rank that stay inside, and that cross
  for (std::int32_t p = 0; p < request.ranks; ++p) {
    const std::int32_t across = (crosses(p) ? 1 : 0) + (crosses(p - 1) ? 1 : 0);
    crossing += crosses(p) ? 1 : 0;
    most[0] = std::max(most[0], kWays - across);
    most[1] = std::max(most[1], across);
  }
  CostTerms cost;
  cost.both_levels_at_once = true;
  cost.rows_at_once = kWays;
  const double share[2] = {1 - crossing / n, crossing / n};
  for (int level = 0; level < 2; ++level) {
    cost.level[level] = {steps * share[level], steps * most[level], steps / n * most[level] / kWays, steps / n * share[level]};
    cost.level[level].ways = std::max(1, most[level]);
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

}  // namespace

std::vector<Algorithm> bidirectional_ring_algorithms() {
  using C = Collective;
  return {
      {"bidirectional_ring", "two opposite rings, each for half of every chunk", C::all_reduce, true, needs_groups, all_reduce_layouts,
       build_all_reduce, all_reduce_cost, is_pair, has_slots},
      {"bidirectional_ring", "partial sums of half blocks travel both ways round", C::reduce_scatter, true, needs_groups,
       partial_sum_layouts, build_reduce_scatter, reduce_scatter_cost, is_pair, has_snapshots_or_is_pair},
      {"bidirectional_ring", "half blocks travel both ways round", C::all_gather, true, needs_groups, gather_layouts, build_all_gather,
       all_gather_cost, without_reduction, has_slots},
  };
}

}  // namespace peal::schedule
