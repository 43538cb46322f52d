// How many bytes an op moves, as plan.bytes_of has it, at the cost of a multiplication where all chunks of a buffer are equally long.
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
  bool are_equal() const { return takes_as_equal_ || (input_.is_equal && output_.is_equal); }
  /// By how much the longest chunk exceeds the mean, as a share of that.
  double spread() const { return std::max(input_.spread, output_.spread); }
  /// The number of pieces, from the first on, in which every chunk is cut at its full length.
  std::int32_t full_pieces() const;
  double bytes_of(const schedule::BoundOp& bound) const;
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
  const Chunks& of(schedule::BufferId buffer) const;

  const tuning::Plan& plan_;
  bool takes_as_equal_;
  Chunks input_;
  Chunks output_;
};

}  // namespace peal::sim
