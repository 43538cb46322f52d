// How many bytes an op moves, as plan.bytes_of has it, at the cost of a few multiplications where all chunks of a buffer are equally long.
//
// They may also be taken as equally long where they are not: parts of a buffer that is cut evenly differ by at most a granule of elements
// (schedule/layout.hpp). Sums over a buffer then stay as they are, and a message is wrong by less than a granule a chunk.
#pragma once

#include <algorithm>
#include <schedule/cursor.hpp>
#include <tuning/plan.hpp>

namespace peal::sim {

class MessageSizes {
 public:
  explicit MessageSizes(const tuning::Plan& plan, bool takes_chunks_as_equal = false);

  /// True where every op of equally many chunks of one buffer moves equally many bytes in each piece.
  bool are_equal() const { return are_equal_; }
  /// By how much the longest chunk exceeds the mean, as a share of that.
  double spread() const { return std::max(input_.spread, output_.spread); }
  /// The number of pieces, from the first on, in which every chunk is cut at its full length.
  std::int32_t full_pieces() const;
  double bytes_of(const schedule::BoundOp& bound) const {
    if (!are_equal_) return plan_.bytes_of(bound);
    const schedule::Ref* ref = tuning::moved_by(*bound.op);
    if (ref == nullptr || ref->count == 0) return 0;
    double elements = of(ref->buffer).elements;
    if (piece_ > 0) elements = std::clamp(elements - piece_ * bound.piece, 0.0, piece_);
    const std::uint32_t size =
        bound.op->wire == schedule::Wire::fp32 ? std::max<std::uint32_t>(4, plan_.element_bytes) : plan_.element_bytes;
    return elements * ref->count * size;
  }
  /// Elements of a chunk of a buffer; only where are_equal().
  double chunk_elements(schedule::BufferId buffer) const { return of(buffer).elements; }

 private:
  struct Chunks {
    double elements = 0;  // of each, in the mean
    double shortest = 0;
    double spread = 0;
    bool is_equal = true;
  };
  static Chunks chunks_of(const schedule::ExtentTable& table);
  const Chunks& of(schedule::BufferId buffer) const {
    if (buffer == schedule::kInput) return input_;
    const bool is_scratch = buffer == schedule::kScratch || buffer == schedule::kWideScratch;
    return is_scratch && plan_.extents.layouts.scratch_like_input ? input_ : output_;
  }

  const tuning::Plan& plan_;
  bool takes_as_equal_;
  Chunks input_;
  Chunks output_;
  bool are_equal_;
  double piece_;  // elements of a chunk in one piece; 0: it is in one
};

}  // namespace peal::sim
