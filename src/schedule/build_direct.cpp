// Direct: every rank talks to every other one; no byte is forwarded.
//
//     one_shot               two_shot / reduce_scatter        all_pairs
//     0 --all--> 1,2,3       0 --chunk c--> c  (reduce)       round i: r --> r + i
//     1 --all--> 0,2,3       c --sum c----> all                        r <-- r - i
//
// One-shot and two-shot are the small-message all-reduces of TensorRT-LLM and MSCCL++; all-pairs is the linear exchange of Thakur,
// Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
// The owner of a sum holds all contributions at once and combines them in the canonical order: rounded once, canonical for every n.
// Sends and receives are separate strands and round i pairs r with r + i, so nothing blocks even without slots.
#include <base/names.hpp>

#include "build_algorithms.hpp"
#include "cost_of_groups.hpp"
#include "ring_order.hpp"

namespace peal::schedule {

namespace {

// A reduce names its sources with 16 bits.
constexpr std::int32_t kMostSources = 65536;

Status always(const Request&) { return {}; }
Status apart(const Request& request) {
  if (!request.in_place) return {};
  return fail(ErrorCode::unsupported, "{} cannot work in place; give it separate buffers", name_of(request.collective));
}
Status few_sources(const Request& request) {
  if (request.ranks <= kMostSources) return {};
  return fail(ErrorCode::unsupported, "direct reductions hold one copy a rank: at most {} ranks, not {}; use ring or tree", kMostSources,
              request.ranks);
}

Layouts plain_layouts(const Request& request) { return standard_layouts(request, 1); }
// Room for what the others sent; two ranks add on arrival.
Layouts with_copies(Layouts layouts, const Request& request, bool like_input) {
  layouts.scratch_like_input = like_input;
  layouts.scratch_is_compact = true;
  layouts.scratch_copies = request.ranks > 2 ? request.ranks - 1 : 0;
  return layouts;
}
Layouts one_shot_layouts(const Request& request) { return with_copies(standard_layouts(request, 1), request, true); }
Layouts two_shot_layouts(const Request& request) { return with_copies(standard_layouts(request, request.ranks), request, true); }
Layouts scatter_sum_layouts(const Request& request) { return with_copies(standard_layouts(request, 1), request, false); }

// Rounds 1 .. n - 1: to rank + i, the same chunk or that peer's block.
void send_to_all(StrandBuilder& strand, const Request& request, std::int32_t rank, Ref same) {
  strand.loop(request.ranks - 1, [&] { strand.send(wrap(rank + 1, request.ranks), same).peer_step = 1; });
}
// `answer`: the sums of the blocks come back into output.
void send_blocks(StrandBuilder& strand, const Request& request, std::int32_t rank, bool answer = false) {
  const std::int32_t to = wrap(rank + 1, request.ranks);
  strand.loop(request.ranks - 1, [&] {
    Op& op = strand.send(to, input(to).by(1));
    op.peer_step = 1;
    op.modulus = request.ranks;
    if (answer) op.dst = output(to).by(1);
  });
}
void receive_blocks(StrandBuilder& strand, const Request& request, std::int32_t rank) {
  const std::int32_t from = wrap(rank - 1, request.ranks);
  strand.loop(request.ranks - 1, [&] {
    Op& op = strand.recv(from, output(from).by(-1));
    op.peer_step = -1;
    op.modulus = request.ranks;
  });
}

// Gets the addends of all others and puts the canonical sum into `result`. Copy i of scratch is what rank - 1 - i sent;
// `chunk` is the index of the scratch chunk in copy 0, `stride` the distance between copies.
// `before_write` runs when all has come and nothing is written yet.
template <class BeforeWrite>
void receive_sum(StrandBuilder& strand, const Request& request, std::int32_t rank, Ref mine, Ref result, std::int32_t chunk,
                 std::int32_t stride, BeforeWrite&& before_write) {
  const std::int32_t n = request.ranks;
  const std::int32_t from = wrap(rank - 1, n);
  if (n == 2) {
    before_write();
    Op& op = strand.recv_reduce(from, result, mine);
    op.wire = Wire::element;  // a contribution as it is: it is added to the last sum
    op.flags |= kFinish;
    return;
  }
  strand.loop(n - 1, [&] { strand.recv(from, scratch(chunk).by(stride)).peer_step = -1; });
  std::vector<Source> sources;
  sources.reserve(static_cast<std::size_t>(n));
  for (std::int32_t r = 0; r < n; ++r) sources.push_back({r == rank ? mine : scratch(chunk + stride * wrap(rank - 1 - r, n)), -1});
  before_write();
  strand.reduce(result, sources, true).flags |= kFinish;
}

void build_one_shot(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t sent = request.in_place ? builder.event() : -1;
  StrandBuilder send = builder.strand("send");
  send_to_all(send, request, rank, input(0));
  if (request.in_place) send.signal(sent);
  StrandBuilder reduce = builder.strand("reduce");
  receive_sum(reduce, request, rank, input(0), output(0), 0, 1, [&] {
    if (request.in_place) reduce.wait(sent, 1);
  });
}

void build_two_shot(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t reduced = builder.event();
  StrandBuilder send = builder.strand("send");
  send_blocks(send, request, rank, true);
  send.wait(reduced, 1);
  send_to_all(send, request, rank, output(rank));
  StrandBuilder receive = builder.strand("reduce");
  receive_sum(receive, request, rank, input(rank), output(rank), rank, request.ranks, [] {});
  receive.signal(reduced);
  receive_blocks(receive, request, rank);
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder send = builder.strand("send");
  send_blocks(send, request, rank);
  StrandBuilder receive = builder.strand("reduce");
  receive_sum(receive, request, rank, input(rank), output(0), 0, 1, [] {});
}

void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder send = builder.strand("send");
  send_to_all(send, request, rank, input(0));
  StrandBuilder receive = builder.strand("receive");
  if (!request.in_place) receive.copy(output(rank), input(0));
  receive_blocks(receive, request, rank);
}

void build_all_pairs(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder send = builder.strand("send");
  send_blocks(send, request, rank);
  StrandBuilder receive = builder.strand("receive");
  receive.copy(output(rank), input(rank));
  receive_blocks(receive, request, rank);
}

void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand(rank == request.root ? "send" : "receive");
  if (rank != request.root) {
    strand.recv(request.root, output(0));
    return;
  }
  send_to_all(strand, request, rank, input(0));
  if (!request.in_place) strand.copy(output(0), input(0));
}

void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand(rank == request.root ? "reduce" : "send");
  if (rank == request.root)
    receive_sum(strand, request, rank, input(0), output(0), 0, 1, [] {});
  else
    strand.send(request.root, input(0));
}

void build_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand(rank == request.root ? "receive" : "send");
  if (rank != request.root) {
    strand.send(request.root, input(0));
    return;
  }
  if (!request.in_place) strand.copy(output(rank), input(0));
  receive_blocks(strand, request, rank);
}

void build_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand(rank == request.root ? "send" : "receive");
  if (rank != request.root) {
    strand.recv(request.root, output(0));
    return;
  }
  send_blocks(strand, request, rank);
  if (!request.in_place) strand.copy(output(0), input(rank));
}

void build_barrier(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder send = builder.strand("send");
  send_to_all(send, request, rank, Ref{});
  StrandBuilder receive = builder.strand("receive");
  receive.loop(request.ranks - 1, [&] { receive.recv(wrap(rank - 1, request.ranks), Ref{}).peer_step = -1; });
}

// Every rank (or the root alone) sends `messages` of `fraction` in `rounds` rounds; ports serve one message at a time.
CostTerms direct_cost(const Request& request, double rounds, double messages_a_peer, double fraction) {
  const double n = request.ranks;
  const GroupSizes groups = group_sizes(request);
  const double far = n - groups.smallest;
  const double near = groups.largest - 1;
  const double peers[2] = {near, far};
  CostTerms cost;
  for (int level = 0; level < 2; ++level) {
    if (peers[level] <= 0) continue;
    cost.level[level].rounds = level == (far > 0 ? 1 : 0) ? rounds : 0;
    cost.level[level].messages = messages_a_peer * peers[level];
    cost.level[level].sent = messages_a_peer * peers[level] * fraction;
    cost.level[level].critical = messages_a_peer * peers[level] * fraction;
  }
  return cost;
}

// One root's ports carry everything; the others send at most one message.
CostTerms only_one_sends(CostTerms cost, double fraction) {
  for (CostTerms::Level& level : cost.level) {
    level.messages = std::min(level.messages, 1.0);
    level.sent = std::min(level.sent, fraction);
  }
  return cost;
}

CostTerms one_shot_cost(const Request& request) {
  CostTerms cost = direct_cost(request, 1, 1, 1);
  cost.reduced = request.ranks - 1;
  return cost;
}
CostTerms two_shot_cost(const Request& request) {
  const double n = request.ranks;
  CostTerms cost = direct_cost(request, 2, 2, 1 / n);
  cost.reduced = (n - 1) / n;
  return cost;
}
CostTerms reduce_scatter_cost(const Request& request) {
  const double n = request.ranks;
  CostTerms cost = direct_cost(request, 1, 1, 1 / n);
  cost.reduced = (n - 1) / n;
  return cost;
}
CostTerms exchange_cost(const Request& request) {
  const double n = request.ranks;
  CostTerms cost = direct_cost(request, 1, 1, 1 / n);
  cost.copied = request.in_place ? 0 : 1 / n;
  return cost;
}
CostTerms broadcast_cost(const Request& request) {
  CostTerms cost = direct_cost(request, 1, 1, 1);
  cost.copied = request.in_place ? 0 : 1;
  return cost;
}
CostTerms reduce_cost(const Request& request) {
  CostTerms cost = only_one_sends(direct_cost(request, 1, 1, 1), 1);
  cost.reduced = request.ranks - 1;
  return cost;
}
CostTerms gather_cost(const Request& request) { return only_one_sends(exchange_cost(request), 1.0 / request.ranks); }
CostTerms barrier_cost(const Request& request) { return direct_cost(request, 1, 1, 0); }

bool yes(const Request&) { return true; }
// In place the sum overwrites what the others may still have to read.
bool is_taken_when_sent(const Request& request, const ProtocolTraits& protocol) {
  return !request.in_place || (protocol.snapshots && !protocol.rendezvous);
}

constexpr std::string_view kOneShot = "everybody sends all to everybody; lowest latency";
constexpr std::string_view kTwoShot = "everybody owns one chunk: direct reduce-scatter, direct all-gather";
constexpr std::string_view kOwner = "blocks go straight to their owner, who sums in canonical order";
constexpr std::string_view kBlocks = "blocks go straight to everybody";
constexpr std::string_view kToRoot = "everybody sends to the root";
constexpr std::string_view kFromRoot = "the root sends everybody its block";

}  // namespace

std::vector<Algorithm> direct_algorithms() {
  using C = Collective;
  return {
      {"one_shot", kOneShot, C::all_reduce, true, few_sources, one_shot_layouts, build_one_shot, one_shot_cost, yes, is_taken_when_sent,
       true},
      {"two_shot", kTwoShot, C::all_reduce, true, few_sources, two_shot_layouts, build_two_shot, two_shot_cost, yes, nullptr, true},
      {"direct", kOwner, C::reduce_scatter, true, few_sources, scatter_sum_layouts, build_reduce_scatter, reduce_scatter_cost, yes, nullptr,
       true},
      {"direct", kBlocks, C::all_gather, true, always, plain_layouts, build_all_gather, exchange_cost, yes},
      {"direct", "the root sends to everybody", C::broadcast, true, always, plain_layouts, build_broadcast, broadcast_cost, yes},
      {"direct", kToRoot, C::reduce, true, few_sources, one_shot_layouts, build_reduce, reduce_cost, yes, nullptr, true},
      {"direct", kToRoot, C::gather, true, always, plain_layouts, build_gather, gather_cost, yes},
      {"direct", kFromRoot, C::scatter, true, always, plain_layouts, build_scatter, exchange_cost, yes},
      {"all_pairs", "round i sends to rank + i", C::all_to_all, true, apart, plain_layouts, build_all_pairs, exchange_cost, yes},
      {"direct", "everybody tells everybody", C::barrier, true, always, plain_layouts, build_barrier, barrier_cost, yes},
      {"direct", kBlocks, C::all_gather_v, false, always, plain_layouts, build_all_gather, exchange_cost, yes},
      {"direct", kOwner, C::reduce_scatter_v, false, few_sources, scatter_sum_layouts, build_reduce_scatter, reduce_scatter_cost, yes,
       nullptr, true},
      {"all_pairs", "round i sends to rank + i", C::all_to_all_v, false, apart, plain_layouts, build_all_pairs, exchange_cost, yes},
      {"direct", kToRoot, C::gather_v, false, always, plain_layouts, build_gather, gather_cost, yes},
      {"direct", kFromRoot, C::scatter_v, false, always, plain_layouts, build_scatter, exchange_cost, yes},
  };
}

}  // namespace peal::schedule
