// Bruck: log2 n rounds for any n, for small blocks.
//
//     all_gather, round k: rank r holds 2^k blocks,      all_to_all, round k: blocks with 2^k in the distance that they have to go
//     tells r - 2^k, hears r + 2^k                       travel 2^k ranks together
//         r: [r]                                             distance  1  2  3  4  5
//         r: [r r+1]                                         k = 0     *     *     *
//         r: [r r+1 r+2 r+3]                                 k = 1        *  *
//         then turned, so that block 0 comes first           k = 2              *  *
//
// After Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport message-passing
// systems" (1997). All-gather sends (n - 1) / n of the data, as few as a ring, and copies all of it once; all-to-all forwards each block
// up to log2 n times. Where n is a power of two, recursive doubling gathers in as many rounds without the copy.
// The blocks of an all-to-all message do not lie side by side, so they are packed from where they came in: area k of scratch holds
// what came in round k, a block at distance i at place_in_round(i, k).
#include <algorithm>
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "butterfly.hpp"
#include "cost_of_groups.hpp"
#include "ring_order.hpp"

namespace peal::schedule {

namespace {

constexpr std::int32_t kMostBlocks = 65535;  // a message or a copy names its blocks with 16 bits

Status few_blocks(const Request& request) {
  if (request.ranks <= kMostBlocks) return {};
  return fail(ErrorCode::unsupported, "bruck would copy more than {} blocks in one go among {} ranks; use ring or direct", kMostBlocks,
              request.ranks);
}
Status few_blocks_apart(const Request& request) {
  if (!request.in_place) return few_blocks(request);
  return fail(ErrorCode::unsupported, "{} cannot work in place; give it separate buffers", name_of(request.collective));
}

Layouts all_gather_layouts(const Request& request) {
  Layouts layouts = standard_layouts(request, 1);
  layouts.scratch_like_input = false;
  layouts.scratch_copies = 1;
  return layouts;
}
// Two areas a copy: what is to be sent, and what came in each round.
Layouts all_to_all_layouts(const Request& request) {
  Layouts layouts = standard_layouts(request, 1);
  layouts.scratch_copies = rounds_for(request.ranks) / 2 + 1;
  return layouts;
}

// Scratch holds the blocks in the order in which they come: first this rank's own.
void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t n = request.ranks;
  StrandBuilder strand = builder.strand("bruck");
  for (std::int32_t held = 1; held < n;) {
    const std::int32_t more = std::min(held, n - held);
    strand.send(wrap(rank - held, n), held == 1 ? input(0) : scratch(0, more));
    if (held == 1) strand.copy(scratch(0), input(0));
    strand.recv(wrap(rank + held, n), scratch(held, more));
    held += more;
  }
  const std::int32_t first = request.in_place ? 1 : 0;
  if (rank + first < n) strand.copy(output(rank + first, n - rank - first), scratch(first, n - rank - first));
  if (rank > 0) strand.copy(output(0, rank), scratch(n - rank, rank));
}

// How many of the distances below n have bit k: at most n / 2.
std::int32_t travellers(std::int32_t n, std::int32_t k) {
  const std::int32_t bit = 1 << k;
  return n / (2 * bit) * bit + std::max(0, n % (2 * bit) - bit);
}

// Where a distance with bit k stands among those that have it.
std::int32_t place_in_round(std::int32_t distance, std::int32_t k) {
  const std::int32_t bit = 1 << k;
  return distance / (2 * bit) * bit + distance % bit;
}

// Area 0 is packed for sending, area 1 + k holds what came in round k. No area lies across two copies of scratch.
Chunks in_area(std::int32_t n, std::int32_t area, std::int32_t place, std::int32_t count = 1) {
  return scratch(area / 2 * n + area % 2 * (n / 2) + place, count);
}

// Packs the distances with bit k that came last in round `from`: runs of 2^from, the last of which may be shorter.
void pack_from_round(StrandBuilder& strand, std::int32_t n, std::int32_t k, std::int32_t from) {
  const std::int32_t run = 1 << from;
  const std::int32_t stride = 2 << k;
  const std::int32_t first = (1 << k) + run;
  if (first >= n) return;
  const std::int32_t runs = (n - first - 1) / stride + 1;
  const std::int32_t last = std::min(run, n - (first + (runs - 1) * stride));
  const std::int32_t to = place_in_round(first, k);
  const std::int32_t at = place_in_round(first, from);
  const std::int32_t step = stride / 2;  // in both areas
  const std::int32_t whole = last == run ? runs : runs - 1;
  strand.loop(whole, [&] { strand.copy(in_area(n, 0, to, run).by(step), in_area(n, 1 + from, at, run).by(step)); });
  if (whole < runs) strand.copy(in_area(n, 0, to + whole * step, last), in_area(n, 1 + from, at + whole * step, last));
}

// Packs the distances whose lowest bit is k: they have not travelled yet.
void pack_from_input(StrandBuilder& strand, std::int32_t n, std::int32_t k, std::int32_t rank) {
  const std::int32_t first = 1 << k;
  const std::int32_t stride = 2 << k;
  strand.loop((n - first - 1) / stride + 1,
              [&] { strand.copy(in_area(n, 0, 0).by(first), input(wrap(rank + first, n)).by(stride)).modulus = n; });
}

void build_all_to_all(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t n = request.ranks;
  const std::int32_t rounds = rounds_for(n);
  StrandBuilder strand = builder.strand("bruck");
  for (std::int32_t k = 0; k < rounds; ++k) {
    pack_from_input(strand, n, k, rank);
    for (std::int32_t from = 0; from < k; ++from) pack_from_round(strand, n, k, from);
    const std::int32_t count = travellers(n, k);
    strand.send(wrap(rank + (1 << k), n), in_area(n, 0, 0, count));
    strand.recv(wrap(rank - (1 << k), n), in_area(n, 1 + k, 0, count));
  }
  strand.copy(output(rank), input(rank));
  // A block came last in the round of its highest bit; that from distance i is block rank - i.
  for (std::int32_t k = 0; k < rounds; ++k) {
    const std::int32_t first = 1 << k;
    strand.loop(std::min(first, n - first),
                [&] { strand.copy(output(wrap(rank - first, n)).by(-1), in_area(n, 1 + k, 0).by(1)).modulus = n; });
  }
}

// One message a round. With groups of consecutive ranks the first d ranks of a group send across in a round of distance d; what a
// group sends across is told as if all its ranks shared it. An estimate where groups are scattered.
template <class BlocksOfRound>
CostTerms cost_of_rounds(const Request& request, BlocksOfRound&& blocks) {
  const std::int32_t group = group_sizes(request).smallest;
  CostTerms cost;
  for (std::int32_t k = 0; k < rounds_for(request.ranks); ++k) {
    const std::int32_t distance = 1 << k;
    const double part = static_cast<double>(blocks(k)) / request.ranks;
    const double across = has_groups(request) ? std::min(1.0, static_cast<double>(distance) / group) : 0;
    CostTerms::Level& level = cost.level[across < 1 ? 0 : 1];
    level.rounds += 1;
    level.critical += part;
    if (across < 1) cost.level[0].messages += 1;
    if (across > 0) cost.level[1].messages += 1;
    if (across < 1) cost.level[0].sent += part;
    cost.level[1].sent += across * part;
  }
  return cost;
}

CostTerms all_gather_cost(const Request& request) {
  const std::int32_t n = request.ranks;
  CostTerms cost = cost_of_rounds(request, [n](std::int32_t k) { return std::min(1 << k, n - (1 << k)); });
  cost.copied = request.in_place ? 1 : 1 + 1.0 / n;
  return cost;
}

// Every block is packed once for each time that it travels, and goes to the output.
CostTerms all_to_all_cost(const Request& request) {
  const std::int32_t n = request.ranks;
  CostTerms cost = cost_of_rounds(request, [n](std::int32_t k) { return travellers(n, k); });
  cost.copied = 1;
  for (std::int32_t k = 0; k < rounds_for(n); ++k) cost.copied += static_cast<double>(travellers(n, k)) / n;
  return cost;
}

}  // namespace

std::vector<Algorithm> bruck_algorithms() {
  return {
      {"bruck", "tell what is known at doubling distances, then turn the blocks", Collective::all_gather, true, few_blocks,
       all_gather_layouts, build_all_gather, all_gather_cost, without_reduction, has_slots},
      {"bruck", "blocks travel bit by bit of their distance, many in a message", Collective::all_to_all, true, few_blocks_apart,
       all_to_all_layouts, build_all_to_all, all_to_all_cost, without_reduction, has_snapshots_or_is_pair},
  };
}

}  // namespace peal::schedule
