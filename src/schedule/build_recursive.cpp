// Recursive doubling and halving, dissemination: log2 n rounds.
//
//     doubling (all_reduce, all_gather)      halving (reduce_scatter)          dissemination (barrier)
//     0 <-> 1   2 <-> 3                      0 <-> 2   1 <-> 3  half of all    round k: r --> r + 2^k
//     0 <-> 2   1 <-> 3                      0 <-> 1   2 <-> 3  a quarter
//
// After Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005);
// the barrier is that of Hensgen, Finkel and Manber (1988).
// Doubling follows the canonical tree for every n: where n is no power of two, ranks of the shorter right range tell several of the
// left, so there are ceil(log2 n) rounds and the sum is canonical. Halving folds to a power of two (butterfly.hpp).
#include <base/names.hpp>
#include <cmath>

#include "build_algorithms.hpp"
#include "butterfly.hpp"
#include "cost_of_groups.hpp"
#include "ring_order.hpp"

namespace peal::schedule {

namespace {

constexpr std::int32_t kMostBlocks = 65535;  // a message names its blocks with 16 bits

Status always(const Request&) { return {}; }
Status half_fits(const Request& request) {
  if (power_below(request.ranks, 2) <= kMostBlocks) return {};
  return fail(ErrorCode::unsupported, "recursive doubling would send more than {} blocks in one message among {} ranks; use ring or direct",
              kMostBlocks, request.ranks);
}
Status all_fits(const Request& request) {
  if (request.ranks <= kMostBlocks) return {};
  return fail(ErrorCode::unsupported, "recursive halving would send more than {} blocks in one message among {} ranks; use ring or direct",
              kMostBlocks, request.ranks);
}

Layouts plain_layouts(const Request& request) { return standard_layouts(request, 1); }
Layouts halving_layouts(const Request& request) {
  Layouts layouts = standard_layouts(request, 1);
  layouts.scratch_copies = request.ranks > 2 ? 1 : 0;
  return layouts;
}

void tell(StrandBuilder& strand, const Exchange& step, Ref what, Wire wire = Wire::element) {
  if (step.targets == 0) return;
  strand.send(step.first_target, what).wire = wire;
  const std::int32_t second = step.first_target + step.stride;
  if (step.targets == 2)
    strand.send(second, what).wire = wire;
  else
    strand.loop(step.targets - 1, [&] {
      Op& op = strand.send(second, what);
      op.wire = wire;
      op.peer_step = step.stride;
    });
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand("doubling");
  const std::vector<Exchange> steps = doubling_exchanges(request.ranks, rank);
  Ref sum = input(0);
  for (const Exchange& step : steps) {
    tell(strand, step, sum, Wire::addend);
    Op& op = strand.recv_reduce(step.source, output(0), sum);
    if (&step == &steps.back()) op.flags |= kFinish;
    sum = output(0);
  }
}

void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand("doubling");
  const std::vector<Exchange> steps = doubling_exchanges(request.ranks, rank);
  for (const Exchange& step : steps) {
    const bool is_first = &step == &steps.front();
    tell(strand, step, is_first ? input(0) : output(step.mine_begin, step.mine_count));
    if (is_first && !request.in_place) strand.copy(output(rank), input(0));
    strand.recv(step.source, output(step.other_begin, step.other_count));
  }
}

// Blocks of the seats [first, first + size).
Ref blocks(const Fold& f, BufferId buffer, std::int32_t first, std::int32_t size) {
  return chunks_of(buffer, f.begin(first), f.begin(first + size) - f.begin(first));
}

// A seat's last exchange moves single blocks, so that each goes where it belongs: first those that go on to a standing rank, and in
// turns, so that one slot is enough.
void build_last_halving(StrandBuilder& strand, const Fold& f, std::int32_t seat, std::int32_t rank, BufferId own) {
  const std::int32_t partner = seat ^ 1;
  for (std::int32_t i = 1; i <= 2; ++i) {
    const std::int32_t theirs = f.begin(partner + 1) - i;
    if (theirs >= f.begin(partner)) strand.send_addend(f.sitting(partner), chunks_of(own, theirs));
    const std::int32_t mine = f.begin(seat + 1) - i;
    if (mine < f.begin(seat)) continue;
    const Ref result = mine == rank ? output(0) : scratch(mine);
    strand.recv_reduce(f.sitting(partner), result, chunks_of(own, mine)).flags |= kFinish;
    if (mine != rank) strand.send(mine, result);
  }
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const Fold f = fold(request.ranks);
  const std::int32_t seat = f.seat_of(rank);
  StrandBuilder strand = builder.strand("halving");
  if (f.sitting(seat) != rank) {
    strand.send_addend(f.sitting(seat), input(0, request.ranks));
    strand.recv(f.sitting(seat), output(0));
    return;
  }
  BufferId own = kInput;
  if (f.is_shared(seat)) {
    strand.recv_reduce(f.standing(seat), scratch(0, request.ranks), input(0, request.ranks));
    own = kScratch;
  }
  for (std::int32_t distance = f.seats / 2; distance > 1; distance /= 2) {
    const std::int32_t mine = seat / distance * distance;
    const std::int32_t theirs = mine ^ distance;
    const std::int32_t partner = f.sitting(seat ^ distance);
    strand.send_addend(partner, blocks(f, own, theirs, distance));
    strand.recv_reduce(partner, blocks(f, kScratch, mine, distance), blocks(f, own, mine, distance));
    own = kScratch;
  }
  build_last_halving(strand, f, seat, rank, own);
}

void build_barrier(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t n = request.ranks;
  StrandBuilder strand = builder.strand("dissemination");
  for (std::int64_t distance = 1; distance < n; distance *= 2) {
    strand.send(static_cast<std::int32_t>((rank + distance) % n), Ref{});
    strand.recv(static_cast<std::int32_t>((rank - distance + n) % n), Ref{});
  }
}

// The busiest rank of a doubling among n: messages, and blocks where a message carries all that its range holds.
struct Busiest {
  double messages = 0;
  double blocks = 0;
};
Busiest busiest_in_doubling(std::int32_t n) {
  if (n <= 1) return {};
  const std::int32_t left = power_below(n, 2);
  const std::int32_t right = n - left;
  const std::int32_t told = (left + right - 1) / right;
  const Busiest in_right = busiest_in_doubling(right);
  const double in_left = rounds_for(left);
  return {std::max(in_left + 1, in_right.messages + told), std::max(2.0 * left - 1, in_right.blocks + static_cast<double>(told) * right)};
}

// With groups of consecutive ranks the exchanges at distances below the group's size stay inside. An estimate where groups are scattered.
CostTerms at_distances(const Request& request, const CostTerms::Level& all, double bytes_inside) {
  CostTerms cost;
  cost.level[0] = all;
  if (!has_groups(request)) return cost;
  const double inside = std::min<double>(rounds_for(group_sizes(request).smallest), all.rounds);
  const double share = all.rounds > 0 ? inside / all.rounds : 1;
  cost.level[0] = {inside, all.messages * share, all.sent * bytes_inside, all.critical * bytes_inside};
  cost.level[1] = {all.rounds - inside, all.messages * (1 - share), all.sent * (1 - bytes_inside), all.critical * (1 - bytes_inside)};
  return cost;
}

CostTerms all_reduce_cost(const Request& request) {
  const Busiest busiest = busiest_in_doubling(request.ranks);
  const double rounds = rounds_for(request.ranks);
  const double inside = rounds_for(group_sizes(request).smallest) / rounds;
  CostTerms cost = at_distances(request, {rounds, busiest.messages, busiest.messages, busiest.messages}, std::min(1.0, inside));
  cost.reduced = rounds;
  return cost;
}

CostTerms all_gather_cost(const Request& request) {
  const double n = request.ranks;
  const Busiest busiest = busiest_in_doubling(request.ranks);
  const double inside = group_sizes(request).smallest / n;
  CostTerms cost =
      at_distances(request, {1.0 * rounds_for(request.ranks), busiest.messages, busiest.blocks / n, busiest.blocks / n}, inside);
  cost.copied = request.in_place ? 0 : 1 / n;
  return cost;
}

CostTerms reduce_scatter_cost(const Request& request) {
  const double n = request.ranks;
  const Fold f = fold(request.ranks);
  const double exchanges = rounds_for(f.seats);
  const double folded = f.shared > 0 ? 1 : 0;
  // The busiest sits in the first seat, which keeps the fewest others' blocks from leaving; a shared seat sends one more to its second
  // rank.
  double sent = 0;
  double messages = exchanges;
  double reduced = folded;
  for (std::int32_t seat = 0; seat < f.seats; ++seat) {
    const double shared = f.is_shared(seat) ? 1 : 0;
    const double kept = f.begin(seat + 1) - f.begin(seat);
    sent = std::max(sent, (n - kept + shared) / n);
    const double last = f.begin((seat ^ 1) + 1) - f.begin(seat ^ 1);
    messages = std::max(messages, exchanges - 1 + last + shared);
    double sums = 0;
    for (std::int32_t distance = f.seats / 2; distance >= 1; distance /= 2) {
      const std::int32_t mine = seat / distance * distance;
      sums += f.begin(mine + distance) - f.begin(mine);
    }
    reduced = std::max(reduced, (sums + shared * n) / n);
    if (f.shared == 0) break;  // all seats are alike
  }
  if (folded > 0) sent = std::max(sent, 1.0);
  const double inside = 1.0 - 1.0 * (request.ranks / group_sizes(request).smallest - 1) / std::max(1.0, n / group_sizes(request).smallest);
  CostTerms cost = at_distances(request, {exchanges + 2 * folded, messages, sent, (n - 1) / n + folded * (1 + 1 / n)}, inside);
  cost.reduced = reduced;
  return cost;
}

CostTerms barrier_cost(const Request& request) {
  const double rounds = rounds_for(request.ranks);
  return at_distances(request, {rounds, rounds, 0, 0}, 0);
}

// Among three ranks, 0 and 1 share a seat.
bool is_up_to_three(const Request& request) { return request.ranks <= 3; }
bool yes(const Request&) { return true; }

// The sum is overwritten in every exchange, so messages must be taken when they are sent.
bool has_snapshots(const Request&, const ProtocolTraits& protocol) { return !protocol.rendezvous && protocol.snapshots; }

}  // namespace

std::vector<Algorithm> recursive_algorithms() {
  using C = Collective;
  return {
      {"recursive_doubling", "exchange all at doubling distances; canonical for any n", C::all_reduce, true, always, plain_layouts,
       build_all_reduce, all_reduce_cost, yes, has_snapshots},
      {"recursive_doubling", "exchange all known blocks at doubling distances", C::all_gather, true, half_fits, plain_layouts,
       build_all_gather, all_gather_cost, yes, has_slots},
      {"recursive_halving", "exchange halves at halving distances", C::reduce_scatter, true, all_fits, halving_layouts,
       build_reduce_scatter, reduce_scatter_cost, is_up_to_three, has_slots},
      {"dissemination", "round k tells rank + 2^k", C::barrier, true, always, plain_layouts, build_barrier, barrier_cost, yes, has_slots},
  };
}

}  // namespace peal::schedule
