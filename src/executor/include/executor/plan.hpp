// A plan as one rank holds it: a schedule chosen for a call class with its protocol bound, this rank's program, and what was worked
// out for the last count (so that calls of the same count pay nothing for it).
#pragma once

#include <algorithm>
#include <cstdint>
#include <executor/flat_program.hpp>
#include <memory>
#include <peal/types.hpp>
#include <schedule/cursor.hpp>
#include <schedule/layout.hpp>
#include <schedule/protocol.hpp>
#include <schedule/schedule.hpp>
#include <string>
#include <vector>

namespace peal::executor {

struct Plan {
  std::string algorithm;
  schedule::Protocol protocol = schedule::Protocol::staged;
  schedule::Layouts layouts;
  bool pieced = true;
  std::uint64_t message_bytes = 256 * 1024;  ///< most bytes of one message; the same on all ranks
  /// Streams only: each transfer is cut by its own length, because only its two ends know that (groups,
  /// all_to_all_v, gather_v, scatter_v).
  bool is_cut_by_transfer = false;
  std::uint64_t uncut_by_sockets = 0;  ///< of these, where all goes by sockets: the longest message that is not cut; else 0
  /// Of these: from so many bytes on the receiver may read the sender's memory, and each message costs system calls. 0: it may not.
  std::uint64_t least_referenced = 0;
  std::int32_t chunks_a_message = 1;  ///< of all ranks' programs (schedule::widest_message): decides the pieces
  bool wide_partials = false;         ///< fp32 partial sums travel (schedule::sends_wide_partials)
  std::uint32_t hash = 0;             ///< of what ranks must agree on
  double predicted_ns = 0;
  bool canonical = false;
  schedule::Program program;
  std::shared_ptr<const FlatFrame> frame;  ///< unroll(); null: each binding unrolls for itself

  /// The most that one message of a streamed transfer of `bytes` carries.
  std::uint64_t message_bytes_of(std::uint64_t bytes) const {
    if (uncut_by_sockets > 0) return schedule::socket_message_bytes(bytes, uncut_by_sockets, message_bytes);
    if (!is_cut_by_transfer) return message_bytes;
    return std::min(message_bytes, least_referenced > 0 ? schedule::referenced_message_bytes(bytes, least_referenced)
                                                        : schedule::staged_message_bytes(bytes));
  }
  /// The longest streamed transfer that is one message.
  std::uint64_t longest_message() const {
    if (!is_cut_by_transfer) return message_bytes;
    return std::min(message_bytes, uncut_by_sockets > 0 ? uncut_by_sockets : schedule::kWholeMessageBytes);
  }
};

/// A hash of what both sides of an edge must have chosen alike. Stable over processes.
/// `wide_partials`: partial sums are wanted as f32, which its highest bit says (kWidePartialsHash).
std::uint32_t plan_hash(const std::string& algorithm, schedule::Protocol protocol, std::uint64_t message_bytes, bool wide_partials = false);

/// Elements of the caller's buffers for one call.
struct Shape {
  std::uint64_t count = 0;
  std::size_t element_bytes = 1;
  /// Partition::varied only; empty: no elements (the buffer that only the root of a gather_v or scatter_v has).
  std::span<const std::uint64_t> input_counts, input_displs;
  std::span<const std::uint64_t> output_counts, output_displs;
};

/// One buffer of a grouped send or receive; the memory is the caller's.
struct UserBuffer {
  std::byte* data = nullptr;
  std::uint64_t count = 0;  ///< elements of `type`
  std::uint64_t bytes = 0;
  DataType type = DataType::u8;
};

/// Chunk extents in elements for one shape, as flat tables.
class Binding {
 public:
  /// Cheap when count and element size (and the counts and displacements of each rank, where these vary) are those of the last call.
  void bind(const Plan& plan, const Shape& shape);
  bool is_bound_to(const Shape& shape) const;

  schedule::Extent chunk(std::uint16_t buffer, std::int32_t index) const {
    if (buffer == schedule::kInput) return chunks_[static_cast<std::size_t>(index)];
    if (buffer == schedule::kOutput) return chunks_[outputs_ + static_cast<std::size_t>(index)];
    if (buffer == schedule::kScratch || buffer == schedule::kWideScratch) return scratch_chunk(index);
    if (buffer == schedule::kWideOutput) return chunks_[outputs_ + static_cast<std::size_t>(index)];
    return {0, user_[buffer - schedule::kFirstUserBuffer].bytes};
  }
  const schedule::Pieces& pieces() const { return pieces_; }
  std::uint64_t scratch_bytes() const { return scratch_bytes_; }
  /// Where fp32 partial sums lie in scratch: bytes from its base.
  std::uint64_t wide_offset(std::uint16_t buffer) const { return buffer == schedule::kWideOutput ? wide_output_at_ : wide_scratch_at_; }
  /// True when consecutive chunks of the buffer lie behind one another in memory (whole messages may be moved in one go).
  bool is_contiguous(std::uint16_t buffer) const { return pieces_.count == 1 && (buffer != schedule::kScratch || !compact_) && !varied_; }

  /// The program with everything looked up, where it is short and each of its ops is one message or one run of memory.
  const FlatProgram& flat() const { return flat_; }
  /// flat(), also where a call of this shape goes in several pieces: then made for the caller, in some microseconds, and not kept.
  FlatProgram flat_in_pieces(const Plan& plan) const;

  /// For grouped send and receive instead of bind(): the user buffers, which the program counts in bytes. Not owned; they must stay as
  /// they are while the call runs.
  void bind_user(const Plan& plan, std::span<const UserBuffer> buffers);

 private:
  schedule::Extent scratch_chunk(std::int32_t index) const {
    std::int32_t copy = index;
    std::int32_t like = 0;
    if (scratch_chunks_ != 1) {
      copy = index / scratch_chunks_;
      like = index % scratch_chunks_;
    }
    const schedule::Extent e = chunks_[(scratch_like_input_ ? 0 : outputs_) + static_cast<std::size_t>(like)];
    const std::uint64_t copy_at = static_cast<std::uint64_t>(copy) * scratch_stride_;
    if (!compact_) return {copy_at + e.offset, e.count};
    return {copy_at + (scratch_width_ == 1 ? 0 : static_cast<std::uint64_t>(like % scratch_width_) * scratch_room_), e.count};
  }

  void place_wide(const schedule::Program& program, std::uint64_t output_elements, std::uint64_t scratch_elements);
  void flatten(const Plan& plan);
  bool place(FlatProgram& flat) const;
  bool place_plain(FlatOp& op, const FlatRefs& refs) const;
  bool place_general(FlatOp& op, const FlatRefs& refs, std::span<FlatSource> sources) const;
  schedule::Extent place_of(std::uint8_t buffer, FlatChunks chunks, std::int32_t piece) const;

  FlatProgram flat_;
  std::vector<std::uint64_t> varied_shape_;  // its counts and displacements, one behind the other
  bool bound_ = false;
  std::uint64_t count_ = 0;
  std::size_t element_bytes_ = 0;
  std::vector<schedule::Extent> chunks_;  // of input, of output, and one without elements
  std::size_t outputs_ = 0;               // where those of output begin
  std::span<const UserBuffer> user_;
  std::int32_t scratch_chunks_ = 1;
  bool scratch_like_input_ = true;
  bool compact_ = false;
  bool varied_ = false;
  std::int32_t scratch_width_ = 1;  // chunks a copy of compact scratch
  std::uint64_t scratch_room_ = 0;  // elements of each of them
  std::uint64_t scratch_stride_ = 0;
  std::uint64_t scratch_bytes_ = 0;
  std::uint64_t wide_output_at_ = 0;
  std::uint64_t wide_scratch_at_ = 0;
  schedule::Pieces pieces_;
};

}  // namespace peal::executor
