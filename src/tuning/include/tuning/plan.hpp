// A plan: a schedule chosen for a call, with its protocol bound: how large messages are, in how many pieces the program is walked.
#pragma once

#include <algorithm>
#include <base/names.hpp>
#include <memory>
#include <schedule/cursor.hpp>
#include <schedule/registry.hpp>
#include <tuning/environment.hpp>

namespace peal::tuning {

/// What is called. `bytes` is the size as nccl-tests counts it: of all_gather and gather the receive buffer, of reduce_scatter, scatter and
/// all_to_all the send buffer, else the buffer. v-collectives are judged as if all blocks were equal.
struct Call {
  Collective collective = Collective::all_reduce;
  Bytes bytes;
  DataType type = DataType::f32;
  std::int32_t root = 0;
  std::int32_t peer = 1;  ///< send_recv: the receiver (the root sends)
  bool is_in_place = false;
  bool wide_partials = false;  ///< sums of floats of 16 and 8 bits are to travel as f32 until they are finished; else of no effect
};

/// Elements in a rank's input and output, as nccl-tests rounds them (whole elements, whole blocks).
struct Elements {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};
Elements elements_of(const Call& call, int ranks);
/// The size that such a call really has: a multiple of the blocks.
Bytes size_of_call(const Call& call, int ranks);
/// busbw / algbw, as nccl-tests has it.
double bus_factor(Collective collective, int ranks);

/// The level between the members of an op that switches compute.
int level_of_switches(const Environment& environment, const schedule::Program& program, const schedule::Op& op);
/// The operand whose bytes an op moves (of an op that switches compute: what every member brings, or takes); null where it moves none.
inline const schedule::Ref* moved_by(const schedule::Op& op) {
  if (op.kind == schedule::OpKind::signal || op.kind == schedule::OpKind::wait) return nullptr;
  const bool is_source = op.kind == schedule::OpKind::send || op.kind == schedule::OpKind::switch_reduce || op.dst.count == 0;
  return is_source ? &op.src : &op.dst;
}

/// Movable, not copyable: extents may point into `counts` and `displs`.
struct Plan {
  const schedule::Algorithm* algorithm = nullptr;  ///< null: imported
  schedule::Schedule schedule;
  schedule::Protocol protocol = schedule::Protocol::staged;
  Offer offer;  ///< of the protocol, with the constants that hold for a call of this size
  Call call;
  schedule::Extents extents;
  schedule::Pieces pieces;
  std::uint64_t message_bytes = 0;  ///< the most that one message (or one slice of a streamed op) carries
  std::uint64_t longest = 0;        ///< bytes of the longest message, or of the longest chunk of a stream, that this call has
  std::uint64_t whole = 0;          ///< the same before it is cut
  double worked = 0;       ///< bytes over which caches are filled: of a rank's input and output, or that it goes over (direct_read)
  int slots = 0;           ///< messages that a channel holds
  double ends_a_core = 0;  ///< of channels, through which a core goes in a call; counted where ranks share cores
  std::uint32_t element_bytes = 4;
  bool has_wide_partials = false;  ///< fp32 partial sums travel
  std::int32_t side_by_side = 1;   ///< direct_read: ranks that read in the memory of one that sends to more than others do, at most
  std::int32_t readers = 1;        ///< direct_read: ranks that read the same bytes at once, or as many as wait as long
  std::int32_t waiting = 1;        ///< direct_read: ranks that wait for one lock of the kernel's to look up each small page they read
  double small_pages = 0;          ///< direct_read: share of what is read that lies in small pages, wherever in a huge one it begins
  std::int32_t helped = 0;         ///< direct_read: ranks that share the help of a sender; 0: senders receive, too, or receivers reduce
  double help_share = 1;  ///< of a sender's time that it has for that help; one that makes its own copy leaves the first message alone
  bool has_sums = false;  ///< direct_read: messages are reduced, so that what is only stored is a sum that its sender has just written
  std::unique_ptr<std::uint64_t[]> varied;  ///< counts and displacements of equal blocks

  /// Payload bytes of `count` chunks from chunk `first` of a buffer in one piece.
  double bytes_of(schedule::BufferId buffer, std::int32_t first, std::int32_t count, std::int32_t piece, schedule::Wire wire) const;
  /// The same of the operand that a bound op moves.
  double bytes_of(const schedule::BoundOp& bound) const;
  double bytes_of(const schedule::BoundOp& bound, const schedule::Ref& ref) const {
    return bytes_of(ref.buffer, bound.chunk(ref), ref.count, bound.piece, bound.op->wire);
  }
  /// What a sending op sends of `bytes` that it moves: less where a finished sum goes on in its own type.
  double sent_of(const schedule::Op& op, double bytes) const {
    return schedule::sent_wire(op) == op.wire ? bytes : bytes * element_bytes / std::max<std::uint32_t>(4, element_bytes);
  }
  /// Where every op moves one message through a slot, several sends can share its copy and a reduction can read it there.
  bool is_one_message_an_op() const { return schedule.pieced && protocol == schedule::Protocol::staged; }
  /// An op's flags as this plan can use them.
  std::uint8_t flags_of(const schedule::Op& op) const {
    return is_one_message_an_op() ? op.flags : static_cast<std::uint8_t>(op.flags & ~schedule::kHeld);
  }
  /// Messages that an op of `bytes` is sent in.
  std::int64_t slices(double bytes) const;
  /// True where all chunks of the input are equally long, and those of the output.
  bool has_equal_chunks() const;
  /// Under direct_read on a host: all of its messages are too short to be read in their senders' memory, and go as those of staged do.
  bool goes_through_slots(const Environment& environment) const {
    return protocol == schedule::Protocol::direct_read && environment.is_host && longest < environment.memory.least_read.value;
  }
  /// Under direct_read on a host: what is read is so long that two copies through slots have the higher rate.
  bool is_too_long_to_read(const Environment& environment) const {
    if (side_by_side > 1 && environment.memory.is_read_by_several) return false;
    return protocol == schedule::Protocol::direct_read && environment.is_host && whole > environment.memory.most_read.value;
  }
};

/// Sizes messages and pieces. The protocol must be one of the environment's offers.
Result<Plan> make_plan(const Environment& environment, const schedule::Algorithm& algorithm, schedule::Protocol protocol, const Call& call);
/// The same for a schedule that is at hand (imported, or of the registry).
Result<Plan> make_plan(const Environment& environment, schedule::Schedule schedule, bool is_pipelined, schedule::Protocol protocol,
                       const Call& call);

schedule::Request request_of(const Environment& environment, const Call& call);

}  // namespace peal::tuning
