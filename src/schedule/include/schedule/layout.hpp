// Where chunks lie. A schedule speaks of chunks; a layout says how a buffer is cut into them; the extent table, bound at the call,
// knows the elements. Everything here counts elements, never bytes.
#pragma once

#include <cstdint>
#include <span>

namespace peal::schedule {

/// How a buffer is cut.
///   even:   `count` elements in `blocks * chunks_per_block` parts of nearly the same size
///   blocks: `blocks` blocks (one a rank) of `count` elements each, every block cut evenly into chunks_per_block
///   varied: block b has counts[b] elements at displacement displs[b], cut evenly (the v-collectives)
enum class Partition : std::uint8_t { even, blocks, varied };

struct Layout {
  Partition partition = Partition::even;
  std::int32_t blocks = 1;
  std::int32_t chunks_per_block = 1;
  constexpr std::int32_t chunks() const { return blocks * chunks_per_block; }
};

/// Layouts of a schedule's three buffers. Scratch holds `scratch_copies` copies of `shape` (that of input or output): scratch index
/// `copy * shape.chunks() + c` has the length of chunk c. Compact scratch keeps room for `scratch_width` chunks a copy, and chunk c lies in
/// the (c mod scratch_width)-th place (which holds one chunk at a time); otherwise a copy has room for the whole shape.
struct Layouts {
  Layout input;
  Layout output;
  bool scratch_like_input = true;
  bool scratch_is_compact = false;
  std::int32_t scratch_width = 1;
  std::int32_t scratch_copies = 0;
  /// All chunks are equally long: the plan serves only calls whose count is a multiple of its chunks (imported plans).
  bool uniform = false;
  const Layout& shape() const { return scratch_like_input ? input : output; }
};

struct Extent {
  std::uint64_t offset = 0;  ///< elements from the base of the buffer
  std::uint64_t count = 0;   ///< elements
};

/// Part `index` of `parts` of `count` elements. Parts differ by at most one granule; a granule is 16 elements where every part has
/// several of them, else one element. A function of its arguments alone, so all ranks agree.
Extent even_part(std::uint64_t count, std::int32_t parts, std::int32_t index);

/// One buffer's chunks in elements. For Partition::varied the spans must outlive the table.
class ExtentTable {
 public:
  ExtentTable() = default;
  ExtentTable(Layout layout, std::uint64_t count) : layout_(layout), count_(count) {}
  ExtentTable(Layout layout, std::span<const std::uint64_t> counts, std::span<const std::uint64_t> displs)
      : layout_(layout), counts_(counts), displs_(displs) {}

  Extent chunk(std::int32_t index) const;
  /// All chunks in order: as many as the layout has. Returns the elements of the largest.
  std::uint64_t list(std::span<Extent> chunks) const;
  std::uint64_t largest_chunk() const;
  /// Elements from the base to the end of the last block.
  std::uint64_t total() const;
  const Layout& layout() const { return layout_; }

 private:
  Layout layout_;
  std::uint64_t count_ = 0;
  std::span<const std::uint64_t> counts_;
  std::span<const std::uint64_t> displs_;
};

/// The extent tables of one call: input, output, and scratch derived from them.
struct Extents {
  ExtentTable input;
  ExtentTable output;
  Layouts layouts;

  Extent chunk(std::uint16_t buffer, std::int32_t index) const;
  /// Elements of scratch that the schedule needs.
  std::uint64_t scratch_elements() const;
  std::uint64_t largest_chunk() const;
};

/// Pieces: a plan walks its whole program once a piece, so that every message of an op with `c` chunks fits a slot.
/// Piece p of a chunk is elements [p * piece, (p + 1) * piece) of it, where piece is the same for all chunks of the call.
struct Pieces {
  std::int32_t count = 1;
  std::uint64_t elements = ~std::uint64_t{0};  ///< of one chunk in one piece

  Extent of(Extent chunk, std::int32_t index) const {
    if (count == 1) return chunk;
    const std::uint64_t begin = static_cast<std::uint64_t>(index) * elements;
    if (begin >= chunk.count) return {chunk.offset + chunk.count, 0};
    const std::uint64_t left = chunk.count - begin;
    return {chunk.offset + begin, left < elements ? left : elements};
  }
};

/// The fewest pieces in which messages of up to `chunks_a_message` chunks of at most `largest_chunk` elements fit
/// `elements_a_slot`; piece sizes are multiples of 64 elements where more than one is needed.
Pieces cut_into_pieces(std::uint64_t largest_chunk, std::int32_t chunks_a_message, std::uint64_t elements_a_slot);

}  // namespace peal::schedule
