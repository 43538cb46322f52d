// Multi-ring: several rings at once, each over wires of its own.
//
//     ring 0: 0 -> 1 -> 2 -> 3 -> 0        of every block the first quarter
//     ring 1: 0 -> 2 -> 1 -> 3 -> 0        the second
//     ring 2: 0 -> 3 -> 1 -> 2 -> 0        the third
//     ring 3: 0 -> 3 -> 2 -> 1 -> 0        the fourth
//
// One ring sends by one of a rank's ways out. Where ranks have several (GPUs wired to each other as a cube mesh or all to all, one network
// card each), as many rings as there are disjoint ones send by all of them: K rings of Patarasuk and Yuan (build_ring.cpp), each for a
// K-th of the data, in as many steps as one ring and with as many bytes. So do NCCL's channels: Jeaugey, "NCCL 2.0" (GTC 2017). The orders
// are part of the placement; that they are disjoint is for who makes them, any orders are right.
// Block b is chunks K b to K b + K - 1. One strand a ring, two slots a channel once lowered with fusion, as in the ring. Rings that share
// an edge take different channels there.
#include <algorithm>
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "cost_of_groups.hpp"
#include "ring_order.hpp"

namespace peal::schedule {

namespace {

Status needs_rings(const Request& request) {
  if (request.placement.rings.size() >= 2) return {};
  return fail(ErrorCode::unsupported,
              "multi_ring needs a placement of at least 2 rings, over different wires; where one takes all wires, use ring");
}

std::int32_t rings_of(const Request& request) { return static_cast<std::int32_t>(request.placement.rings.size()); }
RingOrder order_of(const Request& request, std::int32_t ring) {
  return {request.placement.rings[static_cast<std::size_t>(ring)], request.ranks};
}

// For each ring the lowest channel that no earlier ring with a common edge has.
std::vector<std::uint8_t> channels_of(const Request& request) {
  const auto n = static_cast<std::size_t>(request.ranks);
  std::vector<std::vector<std::int32_t>> next;
  std::vector<std::uint8_t> channels;
  for (std::int32_t k = 0; k < rings_of(request); ++k) {
    const RingOrder ring = order_of(request, k);
    std::vector<std::int32_t> after(n);
    for (std::int32_t p = 0; p < request.ranks; ++p) after[static_cast<std::size_t>(ring.rank_at(p))] = ring.rank_at(p + 1);
    std::vector<bool> taken(next.size() + 1, false);
    for (std::size_t j = 0; j < next.size(); ++j)
      for (std::size_t r = 0; r < n && !taken[channels[j]]; ++r) taken[channels[j]] = next[j][r] == after[r];
    channels.push_back(static_cast<std::uint8_t>(std::find(taken.begin(), taken.end(), false) - taken.begin()));
    next.push_back(std::move(after));
  }
  return channels;
}

std::string name_of_ring(std::int32_t ring) { return fmt::format("ring {}", ring); }

/// body(strand, ring number, its order, this rank's seat on it) for every ring.
template <class Body>
void each_ring(const Request& request, std::int32_t rank, RankBuilder& builder, Body&& body) {
  const std::vector<std::uint8_t> channels = channels_of(request);
  for (std::int32_t k = 0; k < rings_of(request); ++k) {
    const RingOrder ring = order_of(request, k);
    StrandBuilder strand = builder.strand(name_of_ring(k));
    body(strand, k, ring, seat_of(ring, rank, channels[static_cast<std::size_t>(k)]));
  }
}

// Every ring's part of ranks' blocks: numbered by rank, whatever the ring's order.
RingChunks parts_of_blocks(const RingOrder& ring, std::int32_t k, std::int32_t rings) {
  const std::int32_t n = ring.size();
  RingChunks chunks = RingChunks::in_order(n, k);
  chunks.stride = rings;
  if (!ring.is_rank_order()) {
    std::vector<std::int32_t> numbers;
    for (std::int32_t p = 0; p < n; ++p) numbers.push_back(rings * ring.rank_at(p) + k);
    chunks = RingChunks::numbered(std::move(numbers));
  }
  chunks.scratch_base = k * rings * n;
  return chunks;
}

Layouts all_reduce_layouts(const Request& request) { return standard_layouts(request, rings_of(request) * request.ranks); }
Layouts gather_layouts(const Request& request) { return standard_layouts(request, rings_of(request)); }
Layouts reduce_layouts(const Request& request) {
  Layouts layouts = gather_layouts(request);
  layouts.scratch_copies = request.ranks > 2 ? 1 : 0;
  return layouts;
}
// Room for one partial sum on its way in each ring.
Layouts partial_sum_layouts(const Request& request) {
  Layouts layouts = gather_layouts(request);
  layouts.scratch_like_input = true;
  layouts.scratch_is_compact = true;
  layouts.scratch_copies = request.ranks > 2 ? rings_of(request) : 0;
  return layouts;
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_ring(request, rank, builder, [&](StrandBuilder& strand, std::int32_t k, const RingOrder&, const RingSeat& seat) {
    const RingChunks chunks = RingChunks::in_order(request.ranks, k * request.ranks);
    const Ref mine = chunks.at(seat.position).in(kOutput);
    ring_reduce_scatter(strand, seat, chunks, kInput, kOutput, mine, true);
    ring_all_gather(strand, seat, chunks, mine, kOutput);
  });
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_ring(request, rank, builder, [&](StrandBuilder& strand, std::int32_t k, const RingOrder& ring, const RingSeat& seat) {
    ring_reduce_scatter(strand, seat, parts_of_blocks(ring, k, rings_of(request)), kInput, kScratch, output(k), true);
  });
}

void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t rings = rings_of(request);
  if (!request.in_place) builder.strand("copy").copy(output(rings * rank, rings), input(0, rings));
  each_ring(request, rank, builder, [&](StrandBuilder& strand, std::int32_t k, const RingOrder& ring, const RingSeat& seat) {
    ring_all_gather(strand, seat, parts_of_blocks(ring, k, rings), input(k), kOutput);
  });
}

// A chain from the root on every ring.
void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  if (rank == request.root && !request.in_place) builder.strand("copy").copy(output(0, rings_of(request)), input(0, rings_of(request)));
  each_ring(request, rank, builder, [&](StrandBuilder& strand, std::int32_t k, const RingOrder& ring, const RingSeat& seat) {
    ring_broadcast(strand, seat, ring.position_of(request.root), input(k), output(k));
  });
}

// A chain to the root on every ring.
void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_ring(request, rank, builder, [&](StrandBuilder& strand, std::int32_t k, const RingOrder& ring, const RingSeat& seat) {
    ring_reduce(strand, seat, ring.position_of(request.root), input(k), scratch(k), output(k));
  });
}

// Ways on which ranks send on all rings, inside their groups and across. A chain leaves out its ring's edge into the root (broadcast) or
// out of it (reduce).
struct Ways {
  double all[2] = {0, 0};
  double most[2] = {0, 0};  ///< of one rank
  double share(int level) const { return all[level] / (all[0] + all[1]); }
};
Ways ways_of(const Request& request) {
  Ways ways;
  std::vector<double> of_rank[2];
  for (std::vector<double>& each : of_rank) each.assign(static_cast<std::size_t>(request.ranks), 0);
  for (std::int32_t k = 0; k < rings_of(request); ++k) {
    const RingOrder ring = order_of(request, k);
    const std::int32_t root = has_root(request.collective) ? ring.position_of(request.root) : -1;
    const std::int32_t left_out = request.collective == Collective::broadcast ? wrap(root - 1, request.ranks) : root;
    for (std::int32_t p = 0; p < request.ranks; ++p) {
      if (p == left_out) continue;
      const int level = group_of(request, ring.rank_at(p)) != group_of(request, ring.rank_at(p + 1)) ? 1 : 0;
      ways.all[level] += 1;
      ways.most[level] = std::max(ways.most[level], ++of_rank[level][static_cast<std::size_t>(ring.rank_at(p))]);
    }
  }
  return ways;
}

// What `steps` steps cost in which every rank sends a K-th of one n-th on each ring: of a rank's ways the more of one kind make it the
// busiest.
CostTerms rings_cost(const Request& request, double steps) {
  const double n = request.ranks;
  const Ways ways = ways_of(request);
  CostTerms cost;
  cost.both_levels_at_once = true;
  for (int level = 0; level < 2; ++level)
    cost.level[level] = {steps * ways.share(level), steps * ways.most[level], steps / n * ways.most[level] / rings_of(request),
                         steps / n * ways.share(level)};
  return cost;
}

CostTerms all_reduce_cost(const Request& request) {
  const double n = request.ranks;
  CostTerms cost = rings_cost(request, 2 * (n - 1));
  cost.reduced = (n - 1) / n;
  return cost;
}

CostTerms reduce_scatter_cost(const Request& request) {
  const double n = request.ranks;
  CostTerms cost = rings_cost(request, n - 1);
  cost.reduced = (n - 1) / n;
  return cost;
}

CostTerms all_gather_cost(const Request& request) {
  const double n = request.ranks;
  CostTerms cost = rings_cost(request, n - 1);
  cost.copied = request.in_place ? 0 : 1 / n;
  return cost;
}

// Every rank but the last of a chain sends its part once; the chains' parts pass behind one another.
CostTerms chains_cost(const Request& request) {
  const double rings = rings_of(request);
  const Ways ways = ways_of(request);
  CostTerms cost;
  cost.both_levels_at_once = true;
  for (int level = 0; level < 2; ++level) {
    if (ways.all[level] == 0) continue;
    const double rounds = (request.ranks - 1) * ways.share(level);
    cost.level[level] = {rounds, ways.most[level], ways.most[level] / rings, (rings - 1 + rounds) / rings};
  }
  cost.pipelined = true;
  const bool reduces_data = has_reduction(request.collective);
  cost.reduced = reduces_data ? 1 : 0;
  cost.copied = reduces_data || request.in_place ? 0 : 1;
  return cost;
}

}  // namespace

std::vector<Algorithm> multi_ring_algorithms() {
  using C = Collective;
  return {
      {"multi_ring", "several rings over different wires, each for a part of every chunk", C::all_reduce, true, needs_rings,
       all_reduce_layouts, build_all_reduce, all_reduce_cost, is_pair, has_slots},
      {"multi_ring", "partial sums of parts of blocks travel around several rings", C::reduce_scatter, true, needs_rings,
       partial_sum_layouts, build_reduce_scatter, reduce_scatter_cost, is_pair, has_snapshots_or_is_pair},
      {"multi_ring", "parts of blocks travel around several rings", C::all_gather, true, needs_rings, gather_layouts, build_all_gather,
       all_gather_cost, without_reduction, has_slots},
      {"multi_ring", "several pipelined chains from the root", C::broadcast, true, needs_rings, gather_layouts, build_broadcast,
       chains_cost, without_reduction},
      {"multi_ring", "several pipelined chains to the root", C::reduce, true, needs_rings, reduce_layouts, build_reduce, chains_cost,
       is_pair_or_three_to_the_last},
      {"multi_ring", "parts of blocks of any size travel around several rings", C::all_gather_v, true, needs_rings, gather_layouts,
       build_all_gather, all_gather_cost, without_reduction, has_slots},
      {"multi_ring", "partial sums of parts of blocks of any size travel around several rings", C::reduce_scatter_v, true, needs_rings,
       partial_sum_layouts, build_reduce_scatter, reduce_scatter_cost, is_pair, has_snapshots_or_is_pair},
  };
}

}  // namespace peal::schedule
