// Multi-ring: several rings at once, each over wires of its own.
//
//     ring 0: 0 -> 1 -> 2 -> 3 -> 0        of every block the first quarter
//     ring 1: 0 -> 2 -> 1 -> 3 -> 0        the second
//     ring 2: 0 -> 3 -> 1 -> 2 -> 0        the third
//     ring 3: 0 -> 3 -> 2 -> 1 -> 0        the fourth
//
// One ring sends by one of a rank's ways out. Where ranks have several (GPUs wired to each other as a cube mesh or all to all, one network
// card each), as many rings as there are disjoint ones send by all of them: K rings of Patarasuk and Yuan (build_ring.cpp), each for its
// share of the data, in as many steps as one ring and with as many bytes. So do NCCL's channels: Jeaugey, "NCCL 2.0" (GTC 2017). The orders
// are part of the placement; that they are disjoint is for who makes them, any orders are right.
// Wires of unlike width are full when rings carry unlike shares. A share is a number of chunks: where the shares sum up to S, a block is S
// chunks, ring k has its share of them behind those of the rings before it, and a message carries all of these, so that rings of small
// shares send short messages as often as those of large ones send long ones. Equal shares are one chunk each. One strand a ring, two slots
// a channel once lowered with fusion, as in the ring. Rings that share an edge take different channels there.
#include <algorithm>
#include <base/names.hpp>
#include <numeric>

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

// O(rings^2 ranks), and every rank's program needs them.
void keep_channels(Request& request) {
  request.known.ring_channels = std::make_shared<const std::vector<std::uint8_t>>(channels_of(request));
}

/// The chunks of every block that a ring carries.
struct Part {
  std::int32_t first = 0;
  std::int32_t width = 1;
};
std::int32_t share_of(const Request& request, std::int32_t ring) {
  return request.placement.shares.empty() ? 1 : request.placement.shares[static_cast<std::size_t>(ring)];
}
std::int32_t shares_of(const Request& request) {
  const std::vector<std::int32_t>& shares = request.placement.shares;
  return shares.empty() ? rings_of(request) : std::accumulate(shares.begin(), shares.end(), 0);
}
double largest_share(const Request& request) {
  const std::vector<std::int32_t>& shares = request.placement.shares;
  return shares.empty() ? 1 : *std::max_element(shares.begin(), shares.end());
}
std::vector<Part> parts_of(const Request& request) {
  std::vector<Part> parts;
  std::int32_t first = 0;
  for (std::int32_t k = 0; k < rings_of(request); ++k) {
    parts.push_back({first, share_of(request, k)});
    first += parts.back().width;
  }
  return parts;
}

std::string name_of_ring(std::int32_t ring) { return fmt::format("ring {}", ring); }

/// body(strand, its part of every block, its order, this rank's seat on it) for every ring.
template <class Body>
void each_ring(const Request& request, std::int32_t rank, RankBuilder& builder, Body&& body) {
  const std::vector<std::uint8_t>& channels = *request.known.ring_channels;
  const std::vector<Part> parts = parts_of(request);
  for (std::int32_t k = 0; k < rings_of(request); ++k) {
    const RingOrder ring = order_of(request, k);
    StrandBuilder strand = builder.strand(name_of_ring(k));
    body(strand, parts[static_cast<std::size_t>(k)], ring, seat_of(ring, rank, channels[static_cast<std::size_t>(k)]));
  }
}

// Every ring's part of ranks' blocks: numbered by rank, whatever the ring's order.
RingChunks parts_of_blocks(const RingOrder& ring, Part part, std::int32_t shares) {
  RingChunks chunks = RingChunks::in_order(ring.size(), part.first);
  chunks.stride = shares;
  if (!ring.is_rank_order()) {
    std::vector<std::int32_t> numbers;
    for (std::int32_t p = 0; p < ring.size(); ++p) numbers.push_back(shares * ring.rank_at(p) + part.first);
    chunks = RingChunks::numbered(std::move(numbers));
  }
  chunks.width = part.width;
  return chunks;
}

Layouts all_reduce_layouts(const Request& request) { return standard_layouts(request, shares_of(request) * request.ranks); }
Layouts gather_layouts(const Request& request) { return standard_layouts(request, shares_of(request)); }
Layouts reduce_layouts(const Request& request) {
  Layouts layouts = gather_layouts(request);
  layouts.scratch_copies = request.ranks > 2 ? 1 : 0;
  return layouts;
}
// Room for one partial sum on its way in each ring: together one block.
Layouts partial_sum_layouts(const Request& request) {
  Layouts layouts = gather_layouts(request);
  layouts.scratch_like_input = true;
  layouts.scratch_is_compact = true;
  layouts.scratch_width = shares_of(request);
  layouts.scratch_copies = request.ranks > 2 ? 1 : 0;
  return layouts;
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_ring(request, rank, builder, [&](StrandBuilder& strand, Part part, const RingOrder&, const RingSeat& seat) {
    const RingChunks chunks = RingChunks::in_order(request.ranks, part.first * request.ranks, part.width);
    const Ref mine = chunks.at(seat.position).in(kOutput);
    ring_reduce_scatter(strand, seat, chunks, kInput, kOutput, mine, true);
    ring_all_gather(strand, seat, chunks, mine, kOutput);
  });
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_ring(request, rank, builder, [&](StrandBuilder& strand, Part part, const RingOrder& ring, const RingSeat& seat) {
    ring_reduce_scatter(strand, seat, parts_of_blocks(ring, part, shares_of(request)), kInput, kScratch, output(part.first, part.width),
                        true);
  });
}

void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t shares = shares_of(request);
  if (!request.in_place) builder.strand("copy").copy(output(shares * rank, shares), input(0, shares));
  each_ring(request, rank, builder, [&](StrandBuilder& strand, Part part, const RingOrder& ring, const RingSeat& seat) {
    ring_all_gather(strand, seat, parts_of_blocks(ring, part, shares), input(part.first, part.width), kOutput);
  });
}

// A chain from the root on every ring.
void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  if (rank == request.root && !request.in_place) builder.strand("copy").copy(output(0, shares_of(request)), input(0, shares_of(request)));
  each_ring(request, rank, builder, [&](StrandBuilder& strand, Part part, const RingOrder& ring, const RingSeat& seat) {
    ring_broadcast(strand, seat, ring.position_of(request.root), input(part.first, part.width), output(part.first, part.width));
  });
}

// A chain to the root on every ring.
void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_ring(request, rank, builder, [&](StrandBuilder& strand, Part part, const RingOrder& ring, const RingSeat& seat) {
    ring_reduce(strand, seat, ring.position_of(request.root), input(part.first, part.width), scratch(part.first, part.width),
                output(part.first, part.width));
  });
}

// Ways on which ranks send on all rings, inside their groups and across. A chain leaves out its ring's edge into the root (broadcast) or
// out of it (reduce).
struct Ways {
  double all[2] = {0, 0};
  double most[2] = {0, 0};       ///< of one rank
  double all_moved[2] = {0, 0};  ///< the same in shares of the data
  double most_moved[2] = {0, 0};
  double share(int level) const { return all[level] / (all[0] + all[1]); }
  double moved_share(int level) const { return all_moved[level] / (all_moved[0] + all_moved[1]); }
};
Ways ways_of(const Request& request) {
  Ways ways;
  const auto ranks = static_cast<std::size_t>(request.ranks);
  std::vector<double> of_rank[2], moved[2];
  for (auto* const each : {&of_rank[0], &of_rank[1], &moved[0], &moved[1]}) each->assign(ranks, 0);
  for (std::int32_t k = 0; k < rings_of(request); ++k) {
    const RingOrder ring = order_of(request, k);
    const std::int32_t root = has_root(request.collective) ? ring.position_of(request.root) : -1;
    const std::int32_t left_out = request.collective == Collective::broadcast ? wrap(root - 1, request.ranks) : root;
    for (std::int32_t p = 0; p < request.ranks; ++p) {
      if (p == left_out) continue;
      const int level = group_of(request, ring.rank_at(p)) != group_of(request, ring.rank_at(p + 1)) ? 1 : 0;
      const auto rank = static_cast<std::size_t>(ring.rank_at(p));
      ways.all[level] += 1;
      ways.all_moved[level] += share_of(request, k);
      ways.most[level] = std::max(ways.most[level], ++of_rank[level][rank]);
      ways.most_moved[level] = std::max(ways.most_moved[level], moved[level][rank] += share_of(request, k));
    }
  }
  return ways;
}

// What `steps` steps cost in which every rank sends each ring's share of one n-th: of a rank's ways the more of one kind make it the
// busiest.
CostTerms rings_cost(const Request& request, double steps) {
  const double n = request.ranks;
  const Ways ways = ways_of(request);
  CostTerms cost;
  cost.both_levels_at_once = true;
  cost.rows_at_once = shares_of(request) / largest_share(request);
  for (int level = 0; level < 2; ++level)
    cost.level[level] = {steps * ways.share(level), steps * ways.most[level], steps / n * ways.most_moved[level] / shares_of(request),
                         steps / n * ways.moved_share(level)};
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

// Every rank but the last of a chain sends its part once; the chains' parts pass behind one another, the largest last.
CostTerms chains_cost(const Request& request) {
  const double shares = shares_of(request);
  const double largest = largest_share(request);
  const Ways ways = ways_of(request);
  CostTerms cost;
  cost.both_levels_at_once = true;
  for (int level = 0; level < 2; ++level) {
    if (ways.all[level] == 0) continue;
    const double rounds = (request.ranks - 1) * ways.share(level);
    cost.level[level] = {rounds, ways.most[level], ways.most_moved[level] / shares, (shares - largest + rounds * largest) / shares};
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
  std::vector<Algorithm> algorithms = {
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
  for (Algorithm& each : algorithms) each.prepare = keep_channels;
  return algorithms;
}

}  // namespace peal::schedule
