// The op: the one unit that every interpreter of a schedule understands. Plain data, 64 bytes, no pointers.
//
// An op names *chunks* of *buffers*; where a chunk lies and how long it is comes from the extent table bound at the call
// (layout.hpp). Inside loops chunk and peer indices advance by constant steps, chunks modulo `modulus`, peers modulo the number
// of ranks, so that a ring over 100,000 ranks is a handful of ops.
//
// Ops that a switch computes (NVLink's multimem loads and stores, SHARP) have a group of ranks: the peers of the further sources,
// ascending, the rank itself among them. Every member comes to the op with one of its own; the k-th of each on one channel of the group are
// the same op, and one strand of a rank has that channel. It begins when all have come and ends for all at once, when the last byte is
// where it belongs: until then no member touches its src or dst, from then on each knows all that the others knew when they came.
//   switch_reduce     all bring equally many chunks; a chunk of the sum goes to at most one member, or to all. Each chunk crosses a
//                     member's way up once, and the way down of whoever takes it. The switch adds in an order that nobody promises and
//                     rounds once.
//   switch_multicast  members bring different chunks, or none; all take all of them, their own too. A chunk crosses its owner's way up
//                     once and every member's way down.
#pragma once

#include <cstdint>
#include <string_view>

namespace peal::schedule {

enum class OpKind : std::uint8_t {
  // The vocabulary of schedules.
  send,              ///< src -> peer; dst, if given: where the finished sum that src goes into will be received from that peer
  recv,              ///< peer -> dst
  recv_reduce,       ///< dst = src (+) what peer sent
  copy,              ///< dst = src; src or dst may be a peer's registered buffer (a get or a put)
  reduce,            ///< dst = src (+) more sources, in the order that flag `canonical` names
  signal,            ///< local (peer < 0): event += 1; else: the peer's event += 1
  wait,              ///< until event >= operand (+ steps); peer < 0: signals of this rank, else signals that came from a peer
  switch_reduce,     ///< a switch adds up the src of all members; dst takes so many chunks of the sum, from chunk `operand` of src on
  switch_multicast,  ///< a switch copies the src of every member to all: dst takes them side by side, in the order of members
  loop,              ///< repeats what stands up to its end_loop `operand` times; loops nest two deep
  end_loop,
  // Written by lowering only: two ops in one pass over the data.
  recv_send,         ///< recv from peer into dst (flag store) and send the same to peer2
  recv_reduce_send,  ///< dst (flag store) = src (+) what peer sent; and the result goes to peer2
};

std::string_view name_of(OpKind kind) noexcept;

/// Buffers of a program, bound late to base addresses. Programs of grouped send/recv use `kFirstUserBuffer + i`.
using BufferId = std::uint16_t;
inline constexpr BufferId kInput = 0;    ///< what the caller contributes; reads from it are *raw*: premul_sum scales them
inline constexpr BufferId kOutput = 1;   ///< what the caller gets
inline constexpr BufferId kScratch = 2;  ///< the communicator's own
/// fp32 partial sums on their way: in the shape of output and of scratch, the communicator's own too. Lowering alone names them.
inline constexpr BufferId kWideOutput = 3;
inline constexpr BufferId kWideScratch = 4;
inline constexpr BufferId kFirstUserBuffer = 5;
constexpr bool is_wide(BufferId buffer) noexcept { return buffer == kWideOutput || buffer == kWideScratch; }

/// `count` consecutive chunks of a buffer, the first of them at `first` + step[0] * i + step[1] * j in iteration i of the
/// innermost loop and j of the one around it.
/// With a modulus m the index wraps inside its own block of m: first / m * m + (first % m + steps) mod m.
/// A scratch index is `copy * chunks + c`: copy number and the chunk whose shape it takes (layout.hpp).
struct Ref {
  BufferId buffer = kInput;
  std::uint16_t count = 0;  ///< 0: no operand
  std::int32_t first = 0;
  std::int32_t step[2] = {0, 0};
  bool operator==(const Ref&) const = default;
};
static_assert(sizeof(Ref) == 16);

/// One further source of a reduce; `peer` >= 0 names that rank's registered buffer.
struct Source {
  Ref ref;
  std::int32_t peer = -1;
};

enum OpFlag : std::uint8_t {
  kFinish = 1,      ///< the result holds every contribution: avg divides here
  kCanonical = 2,   ///< reduce: the canonical tree over the sources in their order (else left to right)
  kStore = 4,       ///< fused ops: also store into dst
  kRemoteSrc = 8,   ///< copy: src lies in `peer`'s registered buffer
  kRemoteDst = 16,  ///< copy: dst lies in `peer`'s registered buffer
  kHeld = 32,  ///< recv, written by lowering only: read by the next reduce of its strand alone, so it may stay where it came until then
};

/// What travels: the element type itself, or fp32 partial sums of a float of 16 or 8 bits. Builders say `addend` of what its receiver
/// adds to a sum that is not its last; lowering makes it element, or fp32 where partial sums are wide.
enum class Wire : std::uint8_t { element, fp32, addend };

struct Op {
  OpKind kind = OpKind::end_loop;
  std::uint8_t flags = 0;
  Wire wire = Wire::element;
  std::uint8_t channel = 0;    ///< which of the channels between two ranks
  std::int32_t peer = -1;      ///< from or to whom
  std::int32_t peer2 = -1;     ///< fused ops: to whom the result goes
  std::int32_t peer_step = 0;  ///< peer and peer2 advance by it in each iteration of the innermost loop, modulo ranks
  std::int32_t modulus = 0;    ///< chunk indices wrap in blocks of it; 0: they do not wrap
  std::int32_t operand = 0;    ///< loop: iterations; wait: threshold (advances by src.step); switch_reduce: see there
  std::uint32_t more = 0;      ///< first further source in Program::sources; loop and end_loop: distance to the partner
  std::uint16_t more_count = 0;
  std::uint16_t event = 0;
  Ref dst;
  Ref src;
};
static_assert(sizeof(Op) == 64);

constexpr bool receives(OpKind k) noexcept {
  return k == OpKind::recv || k == OpKind::recv_reduce || k == OpKind::recv_send || k == OpKind::recv_reduce_send;
}
constexpr bool sends(OpKind k) noexcept { return k == OpKind::send || k == OpKind::recv_send || k == OpKind::recv_reduce_send; }
/// The rank that a sending op sends to.
constexpr std::int32_t target(const Op& op) noexcept { return op.kind == OpKind::send ? op.peer : op.peer2; }
constexpr bool is_switched(OpKind k) noexcept { return k == OpKind::switch_reduce || k == OpKind::switch_multicast; }
constexpr bool reduces(OpKind k) noexcept {
  return k == OpKind::recv_reduce || k == OpKind::reduce || k == OpKind::recv_reduce_send || k == OpKind::switch_reduce;
}

/// What a sending op sends: a sum that is finished goes on in its own type.
constexpr Wire sent_wire(const Op& op) noexcept {
  return op.kind == OpKind::recv_reduce_send && !is_wide(op.dst.buffer) ? Wire::element : op.wire;
}

}  // namespace peal::schedule
