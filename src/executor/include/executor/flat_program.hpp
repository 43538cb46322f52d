// A short program with everything looked up: loops unrolled, chunks turned into byte offsets, the first message of every edge known.
// Unrolled once a plan by walking the cursor, so the order of ops is the cursor's, for all communicators that share the plan; placed in
// memory once a shape; what is left for the call is to try the op at hand of each strand.
#pragma once

#include <cstdint>
#include <memory>
#include <schedule/cursor.hpp>
#include <span>
#include <vector>

namespace peal::executor {

/// Flags of a FlatOp beside those of its Op: this message carries a tag. In a collective that is the first of its edge in the call; in
/// point to point it is every one.
inline constexpr std::uint8_t kTaggedSent = 64;
inline constexpr std::uint8_t kTaggedReceived = 128;
static_assert(((kTaggedSent | kTaggedReceived) & (schedule::kFinish | schedule::kCanonical | schedule::kStore | schedule::kRemoteSrc |
                                                  schedule::kRemoteDst | schedule::kHeld)) == 0);

struct FlatOp {
  schedule::OpKind kind = schedule::OpKind::copy;
  std::uint8_t flags = 0;
  std::uint8_t dst_buffer = 0;
  std::uint8_t src_buffer = 0;
  std::uint16_t event = 0;
  std::uint8_t same_before = 0;  ///< send: so many sends of the same bytes stand directly before it
  std::uint8_t same_after = 0;
  std::uint32_t from = 0;      ///< edge_index() of what it receives on
  std::uint32_t to = 0;        ///< of what it sends on
  std::int32_t threshold = 0;  ///< wait
  std::uint32_t more = 0;      ///< reduce: first of its further sources in FlatProgram::sources
  std::uint32_t more_count = 0;
  std::uint64_t dst = 0;  ///< bytes from the buffer's base
  std::uint64_t src = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  ///< elements
  bool operator==(const FlatOp&) const = default;
};
static_assert(sizeof(FlatOp) == 64);  // a cache line

/// Where the two ends towards a peer stand among those of all peers and channels.
constexpr std::uint32_t edge_index(int peer, int channel, int ranks) noexcept {
  return static_cast<std::uint32_t>(channel) * static_cast<std::uint32_t>(ranks) + static_cast<std::uint32_t>(peer);
}

/// Chunks of an operand, from which its place is worked out for each shape (but not those of user buffers, whose places are in the
/// operands of the call).
struct FlatChunks {
  std::int32_t first = 0;
  std::int32_t count = 0;  ///< 0: no data
  bool operator==(const FlatChunks&) const = default;
};

struct FlatRefs {
  FlatChunks dst;
  FlatChunks src;
  bool has_dst = false;
  bool has_src = false;
  bool is_plain = false;        ///< each operand is one chunk of input or output, or no data at all
  std::uint32_t dst_at = 0;     ///< plain: where the operands' extents stand in the binding's table of chunks
  std::uint32_t src_at = 0;     ///< plain
  std::uint32_t length_at = 0;  ///< plain: the extent that says how many elements the op moves
  std::uint32_t same_at = 0;    ///< plain: the extent that must be as long
  std::int32_t piece = 0;       ///< that it moves of each chunk
  std::uint64_t most_bytes = ~std::uint64_t{0};
};

struct FlatSource {
  std::uint8_t buffer = 0;
  std::uint64_t offset = 0;  ///< bytes
  FlatChunks chunks;
  bool operator==(const FlatSource&) const = default;
};

/// Where a flat op comes from: for the completion log.
struct FlatOrigin {
  std::uint32_t op = 0;  ///< place in the program
  std::int32_t iteration[2] = {0, 0};
};

/// What is the same for every shape of a plan.
struct FlatFrame {
  std::vector<FlatOp> ops;                ///< not placed
  std::vector<FlatSource> sources;        ///< not placed
  std::vector<FlatRefs> refs;             ///< of each op
  std::vector<FlatOrigin> origins;        ///< of each op
  std::vector<std::uint32_t> begin;       ///< strands + 1; empty: this program cannot be unrolled
  std::vector<std::uint32_t> first_sent;  ///< the edges that are sent on, each once
};

struct Plan;
/// Unrolls a plan's program for calls in so many pieces. `are_pairs`: every message carries a tag of its own (point to point). Some
/// microseconds.
std::shared_ptr<const FlatFrame> unroll(const Plan& plan, bool are_pairs, std::int32_t pieces = 1);

struct FlatProgram {
  static constexpr std::size_t kMostOps = 64;
  std::shared_ptr<const FlatFrame> frame;  ///< null: nobody has asked for it
  std::vector<FlatOp> ops;                 ///< the frame's, placed for the shape at hand
  std::vector<FlatSource> sources;
  // The frame's.
  std::span<const FlatOrigin> origins;
  std::span<const std::uint32_t> begin;
  std::span<const std::uint32_t> first_sent;
  bool is_placed = false;        ///< for the shape at hand
  std::uint64_t most_bytes = 0;  ///< of one op; placed, and not of point to point
  bool is_flat() const { return is_placed; }
  /// Takes over what is the same for every shape; nothing is placed by that.
  void adopt(std::shared_ptr<const FlatFrame> unrolled);
};

}  // namespace peal::executor
