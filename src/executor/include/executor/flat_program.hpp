// A short program with everything looked up: loops unrolled, chunks turned into byte offsets, the first message of every edge known.
// Made once a binding by walking the cursor, so the order of ops is the cursor's; what is left for the call is to try the op at hand
// of each strand.
#pragma once

#include <cstdint>
#include <schedule/cursor.hpp>
#include <vector>

namespace peal::executor {

/// Flags of a FlatOp beside those of its Op: this message is the first of its edge in the call, so it carries the call's tag.
inline constexpr std::uint8_t kFirstSent = 64;
inline constexpr std::uint8_t kFirstReceived = 128;
static_assert(((kFirstSent | kFirstReceived) &
               (schedule::kFinish | schedule::kCanonical | schedule::kStore | schedule::kRemoteSrc | schedule::kRemoteDst)) == 0);

/// Buffers are input, output or scratch; user buffers are for point-to-point calls, which have no flat form.
struct FlatOp {
  schedule::OpKind kind = schedule::OpKind::copy;
  std::uint8_t flags = 0;
  std::uint8_t dst_buffer = 0;
  std::uint8_t src_buffer = 0;
  std::uint16_t event = 0;
  std::uint32_t from = 0;      ///< edge_index() of what it receives on
  std::uint32_t to = 0;        ///< of what it sends on
  std::int32_t threshold = 0;  ///< wait
  std::uint32_t more = 0;      ///< reduce: first of its further sources in FlatProgram::sources
  std::uint32_t more_count = 0;
  std::uint64_t dst = 0;  ///< bytes from the buffer's base
  std::uint64_t src = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;  ///< elements
};
static_assert(sizeof(FlatOp) == 64);  // a cache line

/// Where the two ends towards a peer stand among those of all peers and channels.
constexpr std::uint32_t edge_index(int peer, int channel, int ranks) noexcept {
  return static_cast<std::uint32_t>(channel) * static_cast<std::uint32_t>(ranks) + static_cast<std::uint32_t>(peer);
}

struct FlatSource {
  std::uint8_t buffer = 0;
  std::uint64_t offset = 0;  ///< bytes
};

/// Where a flat op comes from: for the completion log.
struct FlatOrigin {
  std::uint32_t op = 0;  ///< place in the program
  std::int32_t iteration[2] = {0, 0};
};

struct FlatProgram {
  static constexpr std::size_t kMostOps = 64;
  std::vector<FlatOp> ops;
  std::vector<FlatOrigin> origins;  ///< of each op
  std::vector<FlatSource> sources;
  std::vector<std::uint32_t> begin;       ///< strands + 1; empty: this program is not flat
  std::vector<std::uint32_t> first_sent;  ///< the edges that are sent on, each once
  bool is_flat() const { return !begin.empty(); }
};

}  // namespace peal::executor
