// A short program with everything looked up: loops unrolled, chunks turned into byte offsets. Made once a binding by walking the
// cursor, so the order of ops is the cursor's; what is left for the call is to try the op at hand of each strand.
#pragma once

#include <cstdint>
#include <schedule/cursor.hpp>
#include <vector>

namespace peal::executor {

struct FlatOp {
  schedule::OpKind kind = schedule::OpKind::copy;
  std::uint8_t flags = 0;
  std::uint8_t channel = 0;
  std::uint16_t dst_buffer = 0;
  std::uint16_t src_buffer = 0;
  std::uint16_t event = 0;
  std::int32_t peer = -1;
  std::int32_t threshold = 0;  ///< wait
  std::uint64_t dst = 0;       ///< bytes from the buffer's base
  std::uint64_t src = 0;
  std::uint64_t count = 0;     ///< elements
  std::uint32_t op = 0;        ///< place in the program, and the iteration: for the completion log
  std::int32_t iteration[2] = {0, 0};
};

struct FlatProgram {
  static constexpr std::size_t kMostOps = 64;
  std::vector<FlatOp> ops;
  std::vector<std::uint32_t> begin;  ///< strands + 1; empty: this program is not flat
  bool is_flat() const { return !begin.empty(); }
};

}  // namespace peal::executor
