#include <algorithm>
#include <base/pages.hpp>
#include <bit>
#include <cmath>
#include <limits>
#include <schedule/cursor.hpp>
#include <set>
#include <tuning/measured_constants.hpp>
#include <tuning/message_cost.hpp>
#include <tuning/plan.hpp>

namespace peal::tuning {

using schedule::Protocol;

namespace {

constexpr std::uint64_t kAnySize = ~std::uint64_t{0};
constexpr std::int32_t kMostRanksLookedAt = 1024;
constexpr std::int32_t kMostRanksWorked = 16;
/// Measured: two ranks of an Emerald Rapids, broadcasts and scatters of 2 to 16 messages take 0.82 to 0.91 of the time without help.
constexpr double kHelpBesideCopy = 1.0 / 6;
constexpr std::size_t kMostOpsLookedAt = 1 << 22;         // some 0.2 s
constexpr std::uint64_t kLeastSwitchedBytes = 64 * 1024;  // of a piece; shorter ones are all latency
// What all channels of ranks that share cores may hold in their first slots: more does not stay in a cache from the copy into a slot to the
// copy out of it, because ranks take turns in between (bench/RESULTS.md).
constexpr std::uint64_t kMostInSlots = 4 * 1024 * 1024;
// Two ranks with a core each on a mesh that pass all of a long call both ways: half a slot a message, which then goes round in its slot's
// area (docs/decisions/messages-go-round-in-their-slots.md).
constexpr std::uint64_t kLeastBothWays = 64 * 1024 * 1024;
constexpr std::uint64_t kBothWaysMessageBytes = schedule::kSlotMessageBytes / 2;
// The pages of so many bytes of a process are looked up under one lock (Linux: one page of its page table). Of 16 ranks that scatter by
// direct_read on an Emerald Rapids each has its block after 0.2 us for every page of all blocks in these bytes (512 KiB to 4 MiB in all).
constexpr std::uint64_t kLockedBytes = kHugePageBytes;

schedule::ExtentTable table_of(schedule::Layout layout, std::uint64_t elements, const std::uint64_t* varied) {
  const auto blocks = static_cast<std::uint64_t>(std::max(1, layout.blocks));
  switch (layout.partition) {
    case schedule::Partition::even: return {layout, elements};
    case schedule::Partition::blocks: return {layout, elements / blocks};
    case schedule::Partition::varied: return {layout, std::span(varied, blocks), std::span(varied + blocks, blocks)};
  }
  return {};
}

/// What ranks' programs say together about messages. Where ranks are thousands, so many spread over them look like all.
struct MessageShape {
  std::int32_t chunks = 1;
  bool is_fp32 = false;
  std::uint64_t channels = 0;           // from a rank to a rank; counted where ranks share cores, one for a row of sends of the same bytes
  std::uint64_t messages = 0;           // counted there: a channel each, but for those that follow one another to the same rank
  std::int32_t switched[kLevels] = {};  // chunks of an op that switches compute; 0: there is none
  // Counted where ranks read in place:
  std::int32_t readers = 1;                                            // most of the same bytes, in one row of sends
  std::int32_t row = 1;                                                // most sends of a rank right after one another
  std::int32_t fewest_row = std::numeric_limits<std::int32_t>::max();  // the same of the rank that has fewest
  std::int32_t helped = 0;                                             // by a rank that only sends
  bool is_mixed = false;                                               // a rank sends and receives
  bool is_copied = false;                                              // a rank that sends makes a copy of its own, too
  bool is_reduced = false;                                             // a receiver reduces what it reads, and copies all of it itself
};

// A row of sends of the same bytes is stored once for all its peers, so that it counts as one.
std::size_t channels_sent_on(const schedule::Program& program) {
  constexpr std::int32_t kEverybody = -1;
  std::set<std::pair<std::int32_t, std::int32_t>> channels;
  for (std::size_t s = 0; s < program.strands(); ++s) {
    for (schedule::StrandCursor at(program, s, 1); !at.done(); at.advance(program)) {
      const schedule::BoundOp bound = at.current(program);
      if (!schedule::sends(bound.op->kind)) continue;
      const bool is_send = bound.op->kind == schedule::OpKind::send;
      const bool is_shared = is_send && at.same_sends(program).has_others();
      channels.emplace(is_shared ? kEverybody : is_send ? bound.peer : bound.peer2, bound.op->channel);
    }
  }
  return channels.size();
}

// To whom it sends again and again counts once.
std::uint64_t peers_sent_to(const schedule::Program& program) {
  std::uint64_t peers = 0;
  schedule::each_counted(program, [&](const schedule::Op& op, std::int64_t times) {
    if (schedule::sends(op.kind)) peers += op.peer_step != 0 ? static_cast<std::uint64_t>(times) : 1;
  });
  return peers;
}

void count_readers(const schedule::Program& program, MessageShape& shape) {
  std::set<std::int32_t> peers;
  bool receives = false, copies = false;
  std::int32_t readers = 1, longest_row = 1;
  for (std::size_t s = 0; s < program.strands(); ++s) {
    std::int32_t row = 0;
    for (schedule::StrandCursor at(program, s, 1); !at.done(); at.advance(program)) {
      const schedule::BoundOp bound = at.current(program);
      copies |= bound.op->kind == schedule::OpKind::copy;
      if (schedule::receives(bound.op->kind)) {
        receives = true;
        shape.is_reduced |= schedule::reduces(bound.op->kind);
        row = 0;
      }
      if (!schedule::sends(bound.op->kind)) continue;
      longest_row = std::max(longest_row, ++row);
      peers.insert(bound.op->kind == schedule::OpKind::send ? bound.peer : bound.peer2);
      const schedule::SameSends same = at.same_sends(program);
      readers = std::max(readers, same.before + 1 + same.after);
    }
  }
  shape.readers = std::max(shape.readers, readers);
  shape.row = std::max(shape.row, longest_row);
  shape.fewest_row = std::min(shape.fewest_row, longest_row);
  shape.helped = std::max(shape.helped, static_cast<std::int32_t>(peers.size()));
  shape.is_mixed |= receives && !peers.empty();
  shape.is_copied |= copies && !peers.empty();
}

/// How many ranks may read at once in the memory of the one that sends most in a row. Where every rank sends as many its readers come to it
/// in turns.
std::int32_t side_by_side(const MessageShape& shape) { return shape.fewest_row == shape.row ? 1 : shape.row; }

/// How many ranks at once look up small pages of one sender under one lock, where they read blocks of `block_bytes` side by side. None
/// where all it sends is long enough to lie in huge pages. (Those that read the same bytes fall in step or do not, which nobody knows
/// beforehand.)
std::int32_t waiting_for_pages(const MessageShape& shape, std::uint64_t block_bytes, std::uint64_t input_bytes) {
  const std::int32_t most = side_by_side(shape);
  if (most == 1 || shape.readers > 1 || input_bytes >= kLockedBytes) return 1;
  const std::uint64_t fit = kLockedBytes / std::max<std::uint64_t>(1, block_bytes);
  return static_cast<std::int32_t>(std::clamp<std::uint64_t>(fit, 1, static_cast<std::uint64_t>(most)));
}

MessageShape shape_of(const Environment& environment, const schedule::Schedule& schedule, Protocol protocol) {
  MessageShape shape;
  const std::int32_t n = schedule.request.ranks;
  std::int32_t stride = std::max(1, n / kMostRanksLookedAt);
  const bool counts_channels = environment.is_host && environment.shares_cores();
  const bool is_read = environment.is_host && protocol == Protocol::direct_read;
  for (std::int32_t rank = 0; rank < n; rank += stride) {
    const schedule::Program program = schedule::program_for(schedule, rank);
    if (rank == 0) stride = std::max(stride, static_cast<std::int32_t>(n * program.ops.size() / kMostOpsLookedAt));
    shape.chunks = std::max(shape.chunks, program.chunks_a_message);
    if (is_read) count_readers(program, shape);
    if (counts_channels) {
      shape.channels += static_cast<std::uint64_t>(stride) * channels_sent_on(program);
      shape.messages += static_cast<std::uint64_t>(stride) * peers_sent_to(program);
    }
    for (const schedule::Op& op : program.ops) {
      shape.is_fp32 |= op.wire == schedule::Wire::fp32;
      if (!schedule::is_switched(op.kind)) continue;
      std::int32_t& most = shape.switched[level_of_switches(environment, program, op)];
      most = std::max<std::int32_t>(most, std::max(op.src.count, op.dst.count));
    }
  }
  return shape;
}

/// The most that each of so many channels carries in a message where their ranks share cores; a power of two.
std::uint64_t most_in_a_slot(std::uint64_t channels) {
  const std::uint64_t share = std::bit_floor(kMostInSlots / std::max<std::uint64_t>(1, channels));
  return std::clamp(share, schedule::kWholeMessageBytes, schedule::kSlotMessageBytes);
}

/// The most that a message carries through a slot, by what call it is of.
std::uint64_t most_of_call(const Environment& environment, const Call& call) {
  const bool is_both_ways = call.collective == Collective::all_reduce || call.collective == Collective::all_to_all;
  const bool goes_round = environment.ranks == 2 && environment.memory.is_read_in_lanes && !environment.shares_cores();
  return is_both_ways && goes_round && call.bytes.value >= kLeastBothWays ? kBothWaysMessageBytes : schedule::kSlotMessageBytes;
}

/// Messages are cut so that both ends work at once. Ranks that share cores take turns instead, and where all of them send and receive each
/// message more is a turn more: 4 ranks on 2 cores take 0.8 to 0.95 times as long with whole ones (bench/RESULTS.md, "Whole messages").
std::uint64_t message_through_a_slot(const Environment& environment, const Call& call, bool is_pipelined, std::uint64_t whole) {
  const bool all_exchange = !has_root(call.collective) && !goes_one_way(call.collective);
  const bool takes_turns = environment.shares_cores() && all_exchange && !is_pipelined;
  if (!takes_turns) return schedule::staged_message_bytes(whole);
  return std::clamp(whole, schedule::kWholeMessageBytes, schedule::kSlotMessageBytes);
}

/// A host's slots are the transport's; GPUs stream a message whatever its size, and a pipelined program moves in slices of the protocol.
/// `whole`: bytes of the longest message of the call.
std::uint64_t message_limit(const Environment& environment, const Offer& offer, const Call& call, const MessageShape& shape,
                            bool is_pipelined, std::uint64_t whole) {
  if (environment.is_host && offer.protocol == Protocol::direct_read) return schedule::kMostReferencedBytes;
  if (environment.is_host && offer.protocol != Protocol::staged) return schedule::traits_of(offer.protocol).message_bytes;
  if (environment.is_host) {
    if (!environment.is_by_sockets(0) && !environment.is_by_sockets(1))
      return std::min({message_through_a_slot(environment, call, is_pipelined, whole), most_in_a_slot(shape.channels),
                       most_of_call(environment, call)});
    const bool is_long = environment.is_by_sockets_alone() && (!is_pipelined || environment.ranks == 2);
    const bool is_reduced = has_reduction(call.collective);
    return schedule::socket_message_bytes(whole, environment.uncut_by_sockets(is_reduced),
                                          is_long ? environment.most_by_sockets(is_reduced) : schedule::kRelayedSocketMessageBytes);
  }
  if (!is_pipelined) return kAnySize;
  std::uint64_t limit = kAnySize;
  for (int l = 0; l < kLevels; ++l)
    if (environment.is_used(l) && offer.constants[l].slice.value > 0) limit = std::min(limit, offer.constants[l].slice.value);
  return limit;
}

/// Bytes of a chunk in one piece where switches compute: what of a call of B bytes a member does not overlap is one piece at the start and
/// a latency L a piece, so that pieces of sqrt(B x rate x L) bytes cost least. Messages beside these ops are cut alike. 0: no such ops.
double switched_chunk(const Environment& environment, const MessageShape& shape, double chunk) {
  double bytes = 0;
  for (int l = 0; l < kLevels; ++l) {
    const SwitchOffer& offer = environment.switches[l];
    if (shape.switched[l] > 0) bytes = std::max(bytes, std::sqrt(chunk / shape.switched[l] * offer.rate() * offer.hop()));
  }
  return bytes;
}

/// The most pieces that pay where a strand makes `strand_rounds` of hops for a piece before it takes up the next (schedule::CostTerms):
/// each piece costs these, and what the other level takes shows in one piece alone (of that in one round, where rounds of both levels go
/// beside one another), so that with p of them p R + A / p is least. 0: no such strands.
double most_pieces(const Environment& environment, const Offer& offer, const schedule::CostTerms& terms, double bytes) {
  double most_hops = 0;  // R
  double wires[kLevels] = {};
  int slowest = 0;  // the level of these hops
  for (int l = 0; l < kLevels; ++l) {
    if (!environment.is_used(l)) continue;
    const Level& level = environment.level[l];
    const MessageCost message = message_cost(environment, offer.constants[l], offer.protocol, l, level.latency, level.bottleneck);
    wires[l] = wire_time(message, terms.level[l].sent * bytes);
    const double hops = terms.level[l].strand_rounds * message.hop;
    if (hops <= most_hops) continue;
    most_hops = hops;
    slowest = l;
  }
  if (most_hops == 0) return 0;
  const int other = 1 - slowest;
  const double shows = terms.rounds_at_once ? wires[other] / std::max(1.0, terms.level[other].rounds) : wires[other];
  return std::max(1.0, std::sqrt(shows / most_hops));
}

int slots_of(const Environment& environment, const Offer& offer) {
  const int own = schedule::traits_of(offer.protocol).slots;
  if (environment.is_host || own == 0) return own;
  int slots = 0;
  for (int l = 0; l < kLevels; ++l)
    if (environment.is_used(l) && offer.constants[l].slots > 0)
      slots = slots == 0 ? offer.constants[l].slots : std::min(slots, offer.constants[l].slots);
  return slots > 0 ? slots : own;
}

}  // namespace

Elements elements_of(const Call& call, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t count = call.collective == Collective::barrier ? 0 : call.bytes.value / size_of(call.type);
  const std::uint64_t block = count / n;
  switch (call.collective) {
    case Collective::all_gather:
    case Collective::all_gather_v:
    case Collective::gather:
    case Collective::gather_v: return {block, block * n};
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_v:
    case Collective::scatter:
    case Collective::scatter_v: return {block * n, block};
    case Collective::all_to_all:
    case Collective::all_to_all_v: return {block * n, block * n};
    default: return {count, count};
  }
}

Bytes size_of_call(const Call& call, int ranks) {
  const Elements e = elements_of(call, ranks);
  return {std::max(e.input, e.output) * size_of(call.type)};
}

double bus_factor(Collective collective, int ranks) {
  const double n = ranks;
  if (collective == Collective::all_reduce) return 2 * (n - 1) / n;
  return has_blocks(collective) ? (n - 1) / n : 1;
}

schedule::Request request_of(const Environment& environment, const Call& call) {
  schedule::Request request;
  request.collective = call.collective;
  request.ranks = environment.ranks;
  request.root = call.root;
  request.peer = call.peer;
  request.in_place = call.is_in_place;
  request.placement = environment.placement;
  request.wide_partials = call.wide_partials && has_reduction(call.collective) && is_narrow(call.type) && environment.ranks > 2;
  return request;
}

double Plan::bytes_of(schedule::BufferId buffer, std::int32_t first, std::int32_t count, std::int32_t piece, schedule::Wire wire) const {
  std::uint64_t elements = 0;
  if (pieces.count == 1 && count > 1 && varied == nullptr && !extents.layouts.scratch_is_compact) {
    const schedule::Extent last = extents.chunk(buffer, first + count - 1);  // chunks lie side by side
    elements = last.offset + last.count - extents.chunk(buffer, first).offset;
  } else {
    for (std::int32_t i = 0; i < count; ++i) elements += pieces.of(extents.chunk(buffer, first + i), piece).count;
  }
  const std::uint64_t size = wire == schedule::Wire::fp32 ? std::max<std::uint64_t>(4, element_bytes) : element_bytes;
  return static_cast<double>(elements * size);
}

int level_of_switches(const Environment& environment, const schedule::Program& program, const schedule::Op& op) {
  return environment.level_of(program.sources[op.more].peer, program.sources[op.more + op.more_count - 1U].peer);
}

double Plan::bytes_of(const schedule::BoundOp& bound) const {
  const schedule::Ref* ref = moved_by(*bound.op);
  return ref == nullptr ? 0 : bytes_of(ref->buffer, bound.chunk(*ref), ref->count, bound.piece, bound.op->wire);
}

std::int64_t Plan::slices(double bytes) const {
  if (schedule.pieced || message_bytes == kAnySize || bytes <= static_cast<double>(message_bytes)) return 1;
  return static_cast<std::int64_t>(std::ceil(bytes / static_cast<double>(message_bytes)));
}

bool Plan::has_equal_chunks() const {
  const auto are_equal = [](const schedule::ExtentTable& table) {
    return table.chunk(0).count == table.chunk(std::max(1, table.layout().chunks()) - 1).count;
  };
  return are_equal(extents.input) && are_equal(extents.output);
}

namespace {

/// Times that an op goes over its bytes where messages are read in their senders' memory: sending is only saying where they lie.
int passes_of(const schedule::Op& op) {
  if (op.kind == schedule::OpKind::send) return 0;
  if (op.kind == schedule::OpKind::reduce) return op.more_count + 3;
  return schedule::reduces(op.kind) ? 3 : 2;
}

/// Bytes that the rank which works most reads and writes, in its own memory and in that of others.
double most_passed(const Plan& plan) {
  const std::int32_t n = plan.schedule.request.ranks;
  double most = 0;
  for (std::int32_t rank = 0; rank < n; rank += std::max(1, n / kMostRanksWorked)) {
    double bytes = 0;
    schedule::each_counted(schedule::program_for(plan.schedule, rank), [&](const schedule::Op& op, std::int64_t times) {
      if (const schedule::Ref* const ref = moved_by(op); ref != nullptr)
        bytes += static_cast<double>(times * passes_of(op)) * plan.bytes_of(ref->buffer, ref->first, ref->count, 0, op.wire);
    });
    most = std::max(most, bytes);
  }
  return most;
}

/// Plan::worked. Slots are few and stay in the caches, so that the buffers of the call decide what does not.
double worked_bytes(const Environment& environment, const Plan& plan, const Elements& elements) {
  if (!environment.is_host || environment.nodes > 1) return 0;
  if (plan.protocol == Protocol::direct_read) return most_passed(plan);
  return static_cast<double>((elements.input + elements.output) * plan.element_bytes);
}

Result<Plan> make_plan(const Environment& environment, schedule::Schedule schedule, const schedule::CostTerms& terms, Protocol protocol,
                       const Call& call) {
  const Offer* offer = environment.offer(protocol);
  if (offer == nullptr)
    return fail(ErrorCode::unsupported, "the protocol {} cannot be used between these ranks", schedule::name_of(protocol));
  Plan plan;
  plan.schedule = std::move(schedule);
  plan.protocol = protocol;
  plan.call = call;
  plan.call.bytes = size_of_call(call, environment.ranks);
  plan.element_bytes = static_cast<std::uint32_t>(size_of(call.type));
  plan.slots = slots_of(environment, *offer);

  const Elements elements = elements_of(call, environment.ranks);
  const auto n = static_cast<std::size_t>(environment.ranks);
  const schedule::Layouts& layouts = plan.schedule.layouts;
  if (layouts.input.partition == schedule::Partition::varied || layouts.output.partition == schedule::Partition::varied) {
    plan.varied = std::make_unique<std::uint64_t[]>(2 * n);
    const std::uint64_t block = std::min(elements.input, elements.output) / (call.collective == Collective::all_to_all_v ? n : 1);
    for (std::size_t i = 0; i < n; ++i) {
      plan.varied[i] = block;
      plan.varied[n + i] = i * block;
    }
  }
  plan.extents = {table_of(layouts.input, elements.input, plan.varied.get()), table_of(layouts.output, elements.output, plan.varied.get()),
                  layouts};
  const MessageShape shape = plan.schedule.pieced ? shape_of(environment, plan.schedule, protocol) : MessageShape{};
  plan.has_wide_partials = shape.is_fp32;
  if (!shape.is_mixed && !shape.is_reduced && !environment.shares_cores()) plan.helped = shape.helped;
  plan.has_sums = shape.is_reduced;
  const std::uint64_t size = shape.is_fp32 ? std::max<std::uint64_t>(4, plan.element_bytes) : plan.element_bytes;
  plan.side_by_side = side_by_side(shape);
  plan.readers = plan.side_by_side > 1 ? shape.readers : 1;
  plan.waiting = waiting_for_pages(shape, plan.extents.largest_chunk() * size, elements.input * size);
  plan.small_pages =
      std::min(1.0, static_cast<double>(kHugePageBytes) / static_cast<double>(std::max<std::uint64_t>(1, elements.input * size)));
  if (environment.shares_cores()) plan.readers = std::min(plan.readers, environment.core_count());  // the others wait for a core
  if (shape.messages > 0) plan.ends_a_core = 2.0 * static_cast<double>(shape.messages) / environment.core_count();
  plan.whole = plan.extents.largest_chunk() * size * static_cast<std::uint64_t>(std::max(1, shape.chunks));
  plan.message_bytes = message_limit(environment, *offer, plan.call, shape, terms.pipelined, plan.whole);
  plan.longest = std::min(plan.message_bytes, plan.whole);
  if (shape.is_copied) plan.help_share = plan.whole > plan.message_bytes ? kHelpBesideCopy : 0;
  plan.worked = worked_bytes(environment, plan, elements);
  plan.offer = offer_for(environment, plan.call, plan.longest, plan.worked, *offer);
  const double switched =
      terms.pipelined ? switched_chunk(environment, shape, static_cast<double>(plan.extents.largest_chunk() * size)) : 0;
  if (switched > 0) plan.message_bytes = std::max(kLeastSwitchedBytes, static_cast<std::uint64_t>(switched * shape.chunks));
  if (!plan.schedule.pieced || plan.message_bytes == kAnySize) return plan;
  const double most = environment.is_host ? 0 : most_pieces(environment, plan.offer, terms, static_cast<double>(plan.call.bytes.value));
  if (most > 0) plan.message_bytes = std::max(plan.message_bytes, static_cast<std::uint64_t>(static_cast<double>(plan.whole) / most));

  const std::uint64_t room = plan.message_bytes / size / static_cast<std::uint64_t>(std::max(1, shape.chunks));
  if (plan.extents.largest_chunk() / std::max<std::uint64_t>(1, room) > 1'000'000'000)
    return fail(ErrorCode::unsupported, "{} bytes are too much for messages of {} bytes ({})", call.bytes.value, plan.message_bytes,
                schedule::name_of(protocol));
  plan.pieces = schedule::cut_into_pieces(plan.extents.largest_chunk(), shape.chunks, plan.message_bytes / size);
  return plan;
}

}  // namespace

Result<Plan> make_plan(const Environment& environment, schedule::Schedule schedule, bool is_pipelined, Protocol protocol,
                       const Call& call) {
  schedule::CostTerms terms;
  terms.pipelined = is_pipelined;
  return make_plan(environment, std::move(schedule), terms, protocol, call);
}

Result<Plan> make_plan(const Environment& environment, const schedule::Algorithm& algorithm, Protocol protocol, const Call& call) {
  const schedule::Request request = request_of(environment, call);
  PEAL_ASSIGN(schedule::Schedule schedule, schedule::make_schedule(algorithm, request));
  const schedule::CostTerms terms = environment.ranks > 1 ? algorithm.cost(request) : schedule::CostTerms{};
  PEAL_ASSIGN(Plan plan, make_plan(environment, std::move(schedule), terms, protocol, call));
  plan.algorithm = &algorithm;
  return plan;
}

}  // namespace peal::tuning
