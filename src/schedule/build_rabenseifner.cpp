// Rabenseifner: recursive halving, then recursive doubling (all_reduce) or a gather along the same edges (reduce).
//
//     seats 0 1 2 3, chunks abcd      distance 1: 0 keeps ab, 1 keeps cd      distance 2: 0 a, 2 b, 1 c, 3 d
//                                     then back: distance 2, distance 1
//
// After Rabenseifner, "Optimization of collective reduction operations" (2004). log2 n rounds each way, 2 (n - 1) / n of the data.
// Distance 1 comes first, so that sums follow the canonical order; which chunk a seat ends with does not matter.
// Any n: the first n - 2^k pairs of ranks share a seat; the rank that stands by sends all and gets all (butterfly.hpp). That is canonical
// for powers of two and for some other n (3, 6, 7, 12, ...), which fold_is_canonical tells.
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "butterfly.hpp"
#include "cost_of_groups.hpp"

namespace peal::schedule {

namespace {

constexpr std::int32_t kMostChunks = 65535;  // a message names its chunks with 16 bits

Status few_chunks(const Request& request) {
  if (power_within(request.ranks) <= kMostChunks) return {};
  return fail(ErrorCode::unsupported, "rabenseifner would send more than {} chunks in one message among {} ranks; use ring or tree",
              kMostChunks, request.ranks);
}

Layouts all_reduce_layouts(const Request& request) { return standard_layouts(request, power_within(request.ranks)); }
Layouts reduce_layouts(const Request& request) {
  Layouts layouts = all_reduce_layouts(request);
  layouts.scratch_copies = 1;
  return layouts;
}

struct ChunkRange {
  std::int32_t begin = 0;
  std::int32_t count = 0;
  Ref in(BufferId buffer) const { return chunks_of(buffer, begin, count); }
  /// The half that a seat keeps in the exchange at `distance`, or the one that it gives away.
  ChunkRange half(std::int32_t seat, std::int32_t distance, bool kept) const {
    const bool upper = ((seat & distance) != 0) == kept;
    return {upper ? begin + count / 2 : begin, count / 2};
  }
};

// The sum of all seats' chunks in the range that the seat ends with, in `sum`. Returns the ranges before each exchange and after the last.
std::vector<ChunkRange> halve(StrandBuilder& strand, const Fold& f, std::int32_t seat, BufferId sum) {
  BufferId own = kInput;
  std::vector<ChunkRange> ranges{{0, f.seats}};
  if (f.is_shared(seat)) {
    strand.recv_reduce(f.standing(seat), ranges[0].in(sum), ranges[0].in(kInput));
    own = sum;
  }
  for (std::int32_t distance = 1; distance < f.seats; distance *= 2) {
    const ChunkRange kept = ranges.back().half(seat, distance, true);
    const std::int32_t partner = f.sitting(seat ^ distance);
    strand.send_addend(partner, ranges.back().half(seat, distance, false).in(own));
    Op& op = strand.recv_reduce(partner, kept.in(sum), kept.in(own));
    if (2 * distance == f.seats) op.flags |= kFinish;
    own = sum;
    ranges.push_back(kept);
  }
  return ranges;
}

void build_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const Fold f = fold(request.ranks);
  const std::int32_t seat = f.seat_of(rank);
  StrandBuilder strand = builder.strand("halving and doubling");
  if (f.sitting(seat) != rank) {
    strand.send_addend(f.sitting(seat), input(0, f.seats));
    strand.recv(f.sitting(seat), output(0, f.seats));
    return;
  }
  std::vector<ChunkRange> ranges = halve(strand, f, seat, kOutput);
  for (std::int32_t distance = f.seats / 2; distance >= 1; distance /= 2) {
    const std::int32_t partner = f.sitting(seat ^ distance);
    strand.send(partner, ranges.back().in(kOutput));
    ranges.pop_back();
    strand.recv(partner, ranges.back().half(seat, distance, false).in(kOutput));
  }
  if (f.is_shared(seat)) strand.send(f.standing(seat), output(0, f.seats));
}

void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const Fold f = fold(request.ranks, request.root);
  const std::int32_t seat = f.seat_of(rank);
  const std::int32_t goal = f.seat_of(request.root);
  const BufferId sum = rank == request.root ? kOutput : kScratch;
  StrandBuilder strand = builder.strand("halving and gather");
  if (f.sitting(seat) != rank) {
    strand.send_addend(f.sitting(seat), input(0, f.seats));
    return;
  }
  std::vector<ChunkRange> ranges = halve(strand, f, seat, sum);
  for (std::int32_t distance = f.seats / 2; distance >= 1; distance /= 2) {
    const std::int32_t partner = f.sitting(seat ^ distance);
    if ((seat & distance) != (goal & distance)) {
      strand.send(partner, ranges.back().in(sum));
      return;
    }
    ranges.pop_back();
    strand.recv(partner, ranges.back().half(seat, distance, false).in(sum));
  }
}

// With groups of consecutive ranks the first exchanges, which carry most, stay inside; an estimate where groups are scattered.
CostTerms cost_of(const Request& request, bool to_all) {
  const Fold f = fold(request.ranks);
  const double seats = f.seats;
  const double folded = f.shared > 0 ? 1 : 0;
  const double ways = to_all ? 2 : 1;
  double exchanges = 0;
  double inner_exchanges = 0;
  double inner_bytes = 0;
  const std::int32_t group = group_sizes(request).smallest;
  const std::int32_t apart = has_groups(request) && f.shared > 0 ? 2 : 1;  // who shares a seat stands between it and the next
  for (std::int32_t distance = 1; distance < f.seats; distance *= 2) {
    exchanges += 1;
    if (2 * distance * apart > group) continue;
    inner_exchanges += 1;
    inner_bytes += 0.5 / distance;
  }
  const double bytes = (seats - 1) / seats;
  CostTerms cost;
  // A reduce's busiest rank gives away half in each exchange and then one chunk range: the last to send has gathered half.
  const double gathered = to_all ? 0 : 0.5;
  const double waits = to_all ? 2 * folded : f.is_shared(f.seat_of(request.root)) ? 1 : 0;
  cost.level[0] = {2 * inner_exchanges + waits, ways * inner_exchanges + (to_all ? folded : 0),
                   ways * inner_bytes + (to_all ? folded : 0) + gathered, 2 * inner_bytes + ways * folded};
  if (!to_all) cost.level[0].messages += 1;
  if (folded > 0) cost.level[0].sent = std::max(cost.level[0].sent, 1.0);
  if (inner_exchanges < exchanges) {
    const double outer = exchanges - inner_exchanges;
    const double outer_bytes = bytes - inner_bytes;
    cost.level[1] = {2 * outer, ways * outer, ways * outer_bytes, 2 * outer_bytes};
  }
  cost.reduced = bytes + folded;
  return cost;
}

CostTerms all_reduce_cost(const Request& request) { return cost_of(request, true); }
CostTerms reduce_cost(const Request& request) { return cost_of(request, false); }

bool is_canonical(const Request& request) { return fold_is_canonical(fold(request.ranks)); }

}  // namespace

std::vector<Algorithm> rabenseifner_algorithms() {
  return {
      {"rabenseifner", "recursive halving, then recursive doubling", Collective::all_reduce, true, few_chunks, all_reduce_layouts,
       build_all_reduce, all_reduce_cost, is_canonical, has_slots},
      {"rabenseifner", "recursive halving, then a gather to the root", Collective::reduce, true, few_chunks, reduce_layouts, build_reduce,
       reduce_cost, is_canonical, has_slots},
  };
}

}  // namespace peal::schedule
