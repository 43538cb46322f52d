// PAT (parallel aggregated trees): log2 n rounds for any n, the farthest first, and no block twice over the same link.
//
//     all_gather, a block's way from rank b (offsets from b, n = 8)          reduce_scatter: the same ways backwards,
//         round 0:  0 ------------- 4                                        nearest first, partial sums on them
//         round 1:  0 ----- 2       4 ----- 6
//         round 2:  0 - 1   2 - 3   4 - 5   6 - 7
//
// After the PAT of NCCL 2.23 (Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", 2025). A rank talks to
// log2 n others, sends (n - 1) / n of the data, as few as a ring, and most of it to its neighbour: where ranks are laid out by distance,
// the long links carry one block a rank and the short ones the rest. Every block is a message of its own, so nothing is turned or packed.
// In the round of distance d a rank passes on the blocks that it holds: those whose origin is a multiple of 2d away.
#include <algorithm>

#include "build_algorithms.hpp"
#include "butterfly.hpp"
#include "cost_of_groups.hpp"
#include "ring_order.hpp"

namespace peal::schedule {

namespace {

Status always(const Request&) { return {}; }

Layouts gather_layouts(const Request& request) { return standard_layouts(request, 1); }
// Partial sums of all blocks.
Layouts partial_sum_layouts(const Request& request) {
  Layouts layouts = standard_layouts(request, 1);
  layouts.scratch_like_input = true;
  layouts.scratch_copies = request.ranks > 2 ? 1 : 0;
  return layouts;
}

/// How many ways go a distance: offsets 0, 2d, 4d, ... whose neighbour at d further is below n.
std::int32_t ways(std::int32_t n, std::int32_t distance) { return (n - distance - 1) / (2 * distance) + 1; }

/// Of them, those on which a sum goes that others are in already: all but that of the rank n - 1 further on than a block's owner.
std::int32_t met(std::int32_t n, std::int32_t distance) {
  const std::int32_t all = ways(n, distance);
  return distance + (all - 1) * 2 * distance == n - 1 ? all - 1 : all;
}

// Sends and receives are separate strands, so that the messages of a round follow one another without waiting; only rounds do.
void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t n = request.ranks;
  const std::int32_t received = builder.event();
  StrandBuilder send = builder.strand("send");
  StrandBuilder receive = builder.strand("receive");
  if (!request.in_place) receive.copy(output(rank), input(0));
  for (std::int32_t k = rounds_for(n) - 1; k >= 0; --k) {
    const std::int32_t distance = 1 << k;
    const std::int32_t to = wrap(rank + distance, n);
    const std::int32_t from = wrap(rank - distance, n);
    const std::int32_t passed_on = ways(n, distance) - 1;
    send.send(to, input(0));
    if (passed_on > 0) send.wait(received, rounds_for(n) - 1 - k);
    send.loop(passed_on, [&] { send.send(to, output(wrap(rank - 2 * distance, n)).by(-2 * distance)).modulus = n; });
    receive.loop(passed_on + 1, [&] { receive.recv(from, output(from).by(-2 * distance)).modulus = n; });
    if (k > 0) receive.signal(received);
  }
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t n = request.ranks;
  const std::int32_t rounds = rounds_for(n);
  const std::int32_t reduced = builder.event();
  StrandBuilder send = builder.strand("send");
  StrandBuilder reduce = builder.strand("reduce");
  for (std::int32_t k = 0; k < rounds; ++k) {
    const std::int32_t distance = 1 << k;
    const std::int32_t to = wrap(rank - distance, n);
    const std::int32_t from = wrap(rank + distance, n);
    const std::int32_t sums = met(n, distance);
    const auto held = [&](std::int32_t block) { return k == 0 ? input(block) : scratch(block); };
    if (k > 0 && sums > 0) send.wait(reduced, k);
    send.loop(sums, [&] { send.send_addend(to, held(to).by(-2 * distance)).modulus = n; });
    if (sums < ways(n, distance)) send.send_addend(to, input(wrap(rank - (n - 1), n)));
    if (k + 1 == rounds) {
      reduce.recv_reduce(from, output(0), held(rank)).flags |= kFinish;
    } else {
      reduce.loop(ways(n, distance),
                  [&] { reduce.recv_reduce(from, scratch(rank).by(-2 * distance), held(rank).by(-2 * distance)).modulus = n; });
      reduce.signal(reduced);
    }
  }
}

// Farther ranks than a group is long are in another group; of nearer ones as many as the distance makes, and among them is always one that
// sends all of its messages across: each round waits for it. An estimate where groups are scattered. `waits(k)`: whether round k has
// messages that wait for the round before it.
template <class Waits>
CostTerms cost_of_ways(const Request& request, Waits&& waits) {
  const std::int32_t n = request.ranks;
  const std::int32_t group = group_sizes(request).smallest;
  const int slowest = has_groups(request) ? 1 : 0;
  CostTerms cost;
  for (std::int32_t k = 0; k < rounds_for(n); ++k) {
    const std::int32_t distance = 1 << k;
    const double messages = ways(n, distance);
    const double across = slowest == 0 ? 0 : std::min(1.0, static_cast<double>(distance) / group);
    cost.level[slowest].rounds += waits(k) ? 1 : 0;
    cost.level[slowest].messages += messages;
    cost.level[slowest].in_a_row += messages;
    cost.level[slowest].critical += messages / n;
    cost.level[0].sent += (1 - across) * messages / n;
    cost.level[1].sent += across * messages / n;
  }
  return cost;
}

CostTerms all_gather_cost(const Request& request) {
  const std::int32_t n = request.ranks;
  CostTerms cost = cost_of_ways(request, [n](std::int32_t k) { return k == rounds_for(n) - 1 || ways(n, 1 << k) > 1; });
  cost.copied = request.in_place ? 0 : 1.0 / n;
  return cost;
}

CostTerms reduce_scatter_cost(const Request& request) {
  const std::int32_t n = request.ranks;
  CostTerms cost = cost_of_ways(request, [n](std::int32_t k) { return k == 0 || met(n, 1 << k) > 0; });
  cost.reduced = static_cast<double>(n - 1) / n;
  return cost;
}

}  // namespace

std::vector<Algorithm> pat_algorithms() {
  return {
      {"pat", "blocks down binomial trees, the farthest ranks first", Collective::all_gather, true, always, gather_layouts,
       build_all_gather, all_gather_cost, without_reduction, has_slots},
      {"pat", "partial sums up binomial trees, the nearest ranks first", Collective::reduce_scatter, true, always, partial_sum_layouts,
       build_reduce_scatter, reduce_scatter_cost, is_pair, has_slots},
  };
}

}  // namespace peal::schedule
