// Direct: every rank talks to every other one; no byte is forwarded. A star is the exception: all talk to rank 0 alone, who answers all.
//
//     one_shot               two_shot / reduce_scatter        all_pairs               star
//     0 --all--> 1,2,3       0 --chunk c--> c  (reduce)       round i: r --> r + i    1,2,3 --all--> 0
//     1 --all--> 0,2,3       c --sum c----> all                        r <-- r - i    0 --sum--> 1,2,3
//
// Where many ranks take turns on a core a star has the fewest messages that there can be, 2 (n - 1), and the fewest rounds for so many.
// One-shot and two-shot are the small-message all-reduces of TensorRT-LLM and MSCCL++; all-pairs is the linear exchange of Thakur,
// Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH" (2005).
// The owner of a sum holds all contributions at once and combines them in the canonical order: rounded once, canonical for every n.
// Pairwise makes the same rounds one after the other, by one strand; after the pairwise exchange there.
// Sends and receives are else separate strands and round i pairs r with r + i, so nothing blocks even without slots. Among groups (nodes)
// everybody goes equally far among them and within them in a round, and what stays inside goes beside: in the order of the ranks alone
// some cross while others stay inside, who runs ahead meets others at a port, and two nodes of eight take four times as long
// (bench/RESULTS.md).
#include <base/names.hpp>
#include <utility>
#include <vector>

#include "build_algorithms.hpp"
#include "cost_of_groups.hpp"
#include "group_map.hpp"
#include "ring_order.hpp"

namespace peal::schedule {

namespace {

// A reduce names its sources with 16 bits.
constexpr std::int32_t kMostSources = 65536;

// Of a star.
constexpr std::int32_t kCentre = 0;

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
Status few_blocks(const Request& request) { return blocks_fit(request.ranks, "direct"); }

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

// Rounds, in each of which the peer is `step` ranks further; step 0: one round.
struct Row {
  std::int32_t first = 0;
  std::int32_t step = 0;
  std::int32_t rounds = 1;
};
using Rows = std::vector<Row>;

// Everybody else, up the ranks (`way` 1) or down (-1).
Rows rank_by_rank(const Request& request, std::int32_t rank, std::int32_t way) {
  return {{wrap(rank + way, request.ranks), way, request.ranks - 1}};
}

// The same where ranks stand in groups, in two lists that know nothing of each other: who is in other groups, and who in the own one.
// Otherwise `inside` is empty.
struct Peers {
  Rows between;
  Rows inside;

  Rows all() const {
    Rows rows = inside;
    rows.insert(rows.end(), between.begin(), between.end());
    return rows;
  }
};

Peers peers_of(const Request& request, std::int32_t rank, std::int32_t way) {
  const GroupMap map = group_map(request);
  const std::int32_t g = map.groups();
  const std::int32_t m = map.size();
  if (!map.is_regular || g == 1 || m == 1) return {rank_by_rank(request, rank, way), {}};
  const GroupSeat at = group_seat(request, map, rank);
  Peers peers;
  for (std::int32_t l = 0; l < m; ++l) {
    const std::int32_t local = wrap(at.local + way * l, m);
    peers.between.push_back({map.member(wrap(at.group + way, g), local), g > 2 ? way * m : 0, g - 1});
    if (l > 0) peers.inside.push_back({map.member(at.group, local)});
  }
  return peers;
}

// op(peer, step) makes the op of the rounds of a row.
template <class MakeOp>
void each_round(StrandBuilder& strand, const Rows& rows, MakeOp&& op) {
  for (const Row& row : rows) {
    if (row.step == 0)
      op(row.first, 0);
    else
      strand.loop(row.rounds, [&] { op(row.first, row.step).peer_step = row.step; });
  }
}

struct Names {
  const char* all;
  const char* between;
  const char* inside;
};
constexpr Names kSend{"send", "send between", "send inside"};
constexpr Names kReceive{"receive", "receive between", "receive inside"};

// body(strand, its rows)
template <class Body>
void each_strand(RankBuilder& builder, const Names& names, const Peers& peers, Body&& body) {
  StrandBuilder strand = builder.strand(peers.inside.empty() ? names.all : names.between);
  body(strand, peers.between);
  if (peers.inside.empty()) return;
  StrandBuilder inside = builder.strand(names.inside);
  body(inside, peers.inside);
}

void send_to_all(StrandBuilder& strand, const Rows& rows, Ref same) {
  each_round(strand, rows, [&](std::int32_t to, std::int32_t) -> Op& { return strand.send(to, same); });
}
// In a loop the block and its peer move by `step` a round.
Op& send_block(StrandBuilder& strand, const Request& request, std::int32_t to, std::int32_t step) {
  Op& op = strand.send(to, input(to).by(step));
  op.modulus = request.ranks;
  op.peer_step = step;
  return op;
}
Op& receive_block(StrandBuilder& strand, const Request& request, std::int32_t from, std::int32_t step) {
  Op& op = strand.recv(from, output(from).by(step));
  op.modulus = request.ranks;
  op.peer_step = step;
  return op;
}
// To each its block. `answer`: the sums of the blocks come back into output.
void send_blocks(StrandBuilder& strand, const Request& request, const Rows& rows, bool answer = false) {
  each_round(strand, rows, [&](std::int32_t to, std::int32_t step) -> Op& {
    Op& op = send_block(strand, request, to, step);
    if (answer) op.dst = output(to).by(step);
    return op;
  });
}
void receive_blocks(StrandBuilder& strand, const Request& request, const Rows& rows) {
  each_round(strand, rows, [&](std::int32_t from, std::int32_t step) -> Op& { return receive_block(strand, request, from, step); });
}

// Gets the addends of all others and puts the canonical sum into `result`. Copy i of scratch is what came i-th;
// `chunk` is the index of the scratch chunk in copy 0, `stride` the distance between copies.
// `before_write` runs when all has come and nothing is written yet.
template <class BeforeWrite>
void receive_sum(StrandBuilder& strand, const Request& request, const Rows& rows, Ref mine, Ref result, std::int32_t chunk,
                 std::int32_t stride, BeforeWrite&& before_write) {
  const std::int32_t n = request.ranks;
  if (n == 2) {
    before_write();
    Op& op = strand.recv_reduce(rows.front().first, result, mine);
    op.wire = Wire::element;  // a contribution as it is: it is added to the last sum
    op.flags |= kFinish;
    return;
  }
  std::vector<Source> sources(static_cast<std::size_t>(n), {mine, -1});
  std::int32_t next = chunk;
  for (const Row& row : rows) {
    each_round(strand, {row}, [&](std::int32_t from, std::int32_t) -> Op& { return strand.recv(from, scratch(next).by(stride)); });
    for (std::int32_t i = 0; i < row.rounds; ++i, next += stride)
      sources[static_cast<std::size_t>(wrap(row.first + row.step * i, n))].ref = scratch(next);
  }
  before_write();
  strand.reduce(result, sources, true).flags |= kFinish;
}

void build_one_shot(const Request& request, std::int32_t rank, RankBuilder& builder) {
  std::vector<std::int32_t> sent;  // in place: by each strand
  each_strand(builder, kSend, peers_of(request, rank, 1), [&](StrandBuilder& send, const Rows& rows) {
    send_to_all(send, rows, input(0));
    if (request.in_place) send.signal(sent.emplace_back(builder.event()));
  });
  StrandBuilder reduce = builder.strand("reduce");
  receive_sum(reduce, request, peers_of(request, rank, -1).all(), input(0), output(0), 0, 1, [&] {
    for (const std::int32_t event : sent) reduce.wait(event, 1);
  });
}

void build_two_shot(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t reduced = builder.event();
  each_strand(builder, kSend, peers_of(request, rank, 1), [&](StrandBuilder& send, const Rows& rows) {
    send_blocks(send, request, rows, true);
    send.wait(reduced, 1);
    send_to_all(send, rows, output(rank));
  });
  const Rows senders = peers_of(request, rank, -1).all();
  StrandBuilder receive = builder.strand("reduce");
  receive_sum(receive, request, senders, input(rank), output(rank), rank, request.ranks, [] {});
  receive.signal(reduced);
  receive_blocks(receive, request, senders);
}

void build_reduce_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_strand(builder, kSend, peers_of(request, rank, 1), [&](StrandBuilder& send, const Rows& rows) { send_blocks(send, request, rows); });
  StrandBuilder receive = builder.strand("reduce");
  receive_sum(receive, request, peers_of(request, rank, -1).all(), input(rank), output(0), 0, 1, [] {});
}

// What goes to all is kept right behind that: who runs the program may do both in one pass over the input. Blocks of unequal length are not
// cut into pieces, and a rank with a long one would wait for its readers before it keeps it: there that is a strand of its own.
void build_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const bool is_cut = request.collective != Collective::all_gather_v;
  bool is_to_be_kept = !request.in_place;
  each_strand(builder, kSend, peers_of(request, rank, 1), [&](StrandBuilder& send, const Rows& rows) {
    send_to_all(send, rows, input(0));
    if (is_cut && std::exchange(is_to_be_kept, false)) send.copy(output(rank), input(0));
  });
  each_strand(builder, kReceive, peers_of(request, rank, -1),
              [&](StrandBuilder& receive, const Rows& rows) { receive_blocks(receive, request, rows); });
  if (!is_cut && is_to_be_kept) builder.strand("copy").copy(output(rank), input(0));
}

void build_all_pairs(const Request& request, std::int32_t rank, RankBuilder& builder) {
  each_strand(builder, kSend, peers_of(request, rank, 1), [&](StrandBuilder& send, const Rows& rows) { send_blocks(send, request, rows); });
  bool is_first = true;
  each_strand(builder, kReceive, peers_of(request, rank, -1), [&](StrandBuilder& receive, const Rows& rows) {
    if (std::exchange(is_first, false) && !request.in_place) receive.copy(output(rank), input(rank));
    receive_blocks(receive, request, rows);
  });
}

// In turns: what comes in a round is taken out before what goes out in the next is sent.
void build_pairwise(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const std::int32_t n = request.ranks;
  StrandBuilder strand = builder.strand("in turns");
  send_block(strand, request, wrap(rank + 1, n), 0);
  if (!request.in_place) strand.copy(output(rank), input(rank));
  receive_block(strand, request, wrap(rank - 1, n), 0);
  if (n == 2) return;
  strand.loop(n - 2, [&] {
    send_block(strand, request, wrap(rank + 2, n), 1);
    receive_block(strand, request, wrap(rank - 2, n), -1);
  });
}

// Up and down are two strands, and overlap over pieces. What comes down was sent after what went up had been taken: in place, too.
template <class Up, class Down>
void build_star(const Request& request, std::int32_t rank, RankBuilder& builder, Ref mine, Ref whole, Up&& up, Down&& down) {
  StrandBuilder inward = builder.strand("to the centre");
  StrandBuilder outward = builder.strand("from the centre");
  if (rank != kCentre) {
    inward.send(kCentre, mine);
    outward.recv(kCentre, whole);
    return;
  }
  const std::int32_t is_complete = builder.event();
  up(inward, rank_by_rank(request, rank, -1));
  inward.signal(is_complete);
  outward.wait(is_complete, 1);
  down(outward, rank_by_rank(request, rank, 1));
}

void build_star_all_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  build_star(
      request, rank, builder, input(0), output(0),
      [&](StrandBuilder& up, const Rows& rows) { receive_sum(up, request, rows, input(0), output(0), 0, 1, [] {}); },
      [&](StrandBuilder& down, const Rows& rows) { send_to_all(down, rows, output(0)); });
}

void build_star_all_gather(const Request& request, std::int32_t rank, RankBuilder& builder) {
  const Ref whole = chunks_of(kOutput, 0, request.ranks);
  build_star(
      request, rank, builder, input(0), whole,
      [&](StrandBuilder& up, const Rows& rows) {
        if (!request.in_place) up.copy(output(rank), input(0));
        receive_blocks(up, request, rows);
      },
      [&](StrandBuilder& down, const Rows& rows) { send_to_all(down, rows, whole); });
}

void build_star_barrier(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand("star");
  if (rank != kCentre) {
    strand.send(kCentre, Ref{});
    strand.recv(kCentre, Ref{});
    return;
  }
  each_round(strand, rank_by_rank(request, rank, -1), [&](std::int32_t from, std::int32_t) -> Op& { return strand.recv(from, Ref{}); });
  send_to_all(strand, rank_by_rank(request, rank, 1), Ref{});
}

void build_broadcast(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand(rank == request.root ? "send" : "receive");
  if (rank != request.root) {
    strand.recv(request.root, output(0));
    return;
  }
  send_to_all(strand, rank_by_rank(request, rank, 1), input(0));
  if (!request.in_place) strand.copy(output(0), input(0));
}

void build_reduce(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand(rank == request.root ? "reduce" : "send");
  if (rank == request.root)
    receive_sum(strand, request, rank_by_rank(request, rank, -1), input(0), output(0), 0, 1, [] {});
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
  receive_blocks(strand, request, rank_by_rank(request, rank, -1));
}

void build_scatter(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder strand = builder.strand(rank == request.root ? "send" : "receive");
  if (rank != request.root) {
    strand.recv(request.root, output(0));
    return;
  }
  send_blocks(strand, request, rank_by_rank(request, rank, 1));
  if (!request.in_place) strand.copy(output(0), input(rank));
}

void build_barrier(const Request& request, std::int32_t rank, RankBuilder& builder) {
  StrandBuilder send = builder.strand("send");
  send_to_all(send, rank_by_rank(request, rank, 1), Ref{});
  StrandBuilder receive = builder.strand("receive");
  each_round(receive, rank_by_rank(request, rank, -1), [&](std::int32_t from, std::int32_t) -> Op& { return receive.recv(from, Ref{}); });
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
CostTerms exchange_cost_in(const Request& request, double rounds) {
  const double n = request.ranks;
  CostTerms cost = direct_cost(request, rounds, 1, 1 / n);
  cost.copied = request.in_place ? 0 : 1 / n;
  return cost;
}
CostTerms exchange_cost(const Request& request) { return exchange_cost_in(request, 1); }
CostTerms pairwise_cost(const Request& request) { return exchange_cost_in(request, request.ranks - 1); }
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

// The centre's ports carry everything, first inward, then outward: `up` of every other rank, `down` to each.
CostTerms star_cost(const Request& request, double up, double down) {
  CostTerms cost = direct_cost(request, 2, 1, down);
  for (CostTerms::Level& level : cost.level) level.critical *= down > 0 ? 1 + up / down : 1;
  return cost;
}
CostTerms star_all_reduce_cost(const Request& request) {
  CostTerms cost = star_cost(request, 1, 1);
  cost.reduced = request.ranks - 1;
  return cost;
}
CostTerms star_all_gather_cost(const Request& request) {
  CostTerms cost = star_cost(request, 1.0 / request.ranks, 1);
  cost.copied = request.in_place ? 0 : 1.0 / request.ranks;
  return cost;
}
CostTerms star_barrier_cost(const Request& request) { return star_cost(request, 0, 0); }

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
constexpr std::string_view kStar = "all to rank 0 and back; fewest messages, for ranks that share cores";

}  // namespace

std::vector<Algorithm> direct_algorithms() {
  using C = Collective;
  return {
      {"one_shot", kOneShot, C::all_reduce, true, few_sources, one_shot_layouts, build_one_shot, one_shot_cost, yes, is_taken_when_sent,
       true},
      {"two_shot", kTwoShot, C::all_reduce, true, few_sources, two_shot_layouts, build_two_shot, two_shot_cost, yes, nullptr, true},
      {"star", kStar, C::all_reduce, true, few_sources, one_shot_layouts, build_star_all_reduce, star_all_reduce_cost, yes, nullptr, true},
      {"direct", kOwner, C::reduce_scatter, true, few_sources, scatter_sum_layouts, build_reduce_scatter, reduce_scatter_cost, yes, nullptr,
       true},
      {"direct", kBlocks, C::all_gather, true, always, plain_layouts, build_all_gather, exchange_cost, yes},
      {"star", kStar, C::all_gather, true, few_blocks, plain_layouts, build_star_all_gather, star_all_gather_cost, yes},
      {"direct", "the root sends to everybody", C::broadcast, true, always, plain_layouts, build_broadcast, broadcast_cost, yes},
      {"direct", kToRoot, C::reduce, true, few_sources, one_shot_layouts, build_reduce, reduce_cost, yes, nullptr, true},
      {"direct", kToRoot, C::gather, true, always, plain_layouts, build_gather, gather_cost, yes},
      {"direct", kFromRoot, C::scatter, true, always, plain_layouts, build_scatter, exchange_cost, yes},
      {"all_pairs", "each round sends to ranks equally far away", C::all_to_all, true, apart, plain_layouts, build_all_pairs, exchange_cost,
       yes},
      {"pairwise", "each round sends to one rank and then takes out what another has sent", C::all_to_all, true, apart, plain_layouts,
       build_pairwise, pairwise_cost, yes, has_slots},
      {"direct", "everybody tells everybody", C::barrier, true, always, plain_layouts, build_barrier, barrier_cost, yes},
      {"star", kStar, C::barrier, true, always, plain_layouts, build_star_barrier, star_barrier_cost, yes, has_slots},
      {"direct", kBlocks, C::all_gather_v, false, always, plain_layouts, build_all_gather, exchange_cost, yes},
      {"direct", kOwner, C::reduce_scatter_v, false, few_sources, scatter_sum_layouts, build_reduce_scatter, reduce_scatter_cost, yes,
       nullptr, true},
      {"all_pairs", "each round sends to ranks equally far away", C::all_to_all_v, false, apart, plain_layouts, build_all_pairs,
       exchange_cost, yes},
      {"direct", kToRoot, C::gather_v, false, always, plain_layouts, build_gather, gather_cost, yes},
      {"direct", kFromRoot, C::scatter_v, false, always, plain_layouts, build_scatter, exchange_cost, yes},
  };
}

}  // namespace peal::schedule
