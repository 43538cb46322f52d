#include <algorithm>
#include <schedule/layout.hpp>
#include <schedule/op.hpp>

namespace peal::schedule {

namespace {
constexpr std::uint64_t kGranule = 16;
constexpr std::uint64_t kPieceGranule = 64;
}  // namespace

Extent even_part(std::uint64_t count, std::int32_t parts, std::int32_t index) {
  const auto n = static_cast<std::uint64_t>(parts);
  const auto i = static_cast<std::uint64_t>(index);
  const std::uint64_t granule = count >= 4 * kGranule * n ? kGranule : 1;
  const std::uint64_t units = (count + granule - 1) / granule;
  const std::uint64_t each = units / n;
  const std::uint64_t longer = units % n;
  const std::uint64_t first = i * each + std::min(i, longer);
  const std::uint64_t begin = std::min(first * granule, count);
  const std::uint64_t end = std::min((first + each + (i < longer ? 1 : 0)) * granule, count);
  return {begin, end - begin};
}

Extent ExtentTable::chunk(std::int32_t index) const {
  if (layout_.partition == Partition::even) return even_part(count_, layout_.chunks(), index);
  const bool is_whole = layout_.chunks_per_block == 1;
  const auto block = static_cast<std::uint64_t>(is_whole ? index : index / layout_.chunks_per_block);
  const bool varied = layout_.partition == Partition::varied;
  const std::uint64_t size = varied ? counts_[block] : count_;
  Extent part = is_whole ? Extent{0, size} : even_part(size, layout_.chunks_per_block, index % layout_.chunks_per_block);
  part.offset += varied ? displs_[block] : block * count_;
  return part;
}

std::uint64_t ExtentTable::list(std::span<Extent> chunks) const {
  std::uint64_t largest = 0;
  if (layout_.partition == Partition::varied && layout_.chunks_per_block == 1) {
    for (std::size_t b = 0; b < chunks.size(); ++b) {
      chunks[b] = {displs_[b], counts_[b]};
      largest = std::max(largest, counts_[b]);
    }
    return largest;
  }
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    chunks[i] = chunk(static_cast<std::int32_t>(i));
    largest = std::max(largest, chunks[i].count);
  }
  return largest;
}

std::uint64_t ExtentTable::largest_chunk() const {
  if (layout_.partition != Partition::varied) return chunk(0).count;
  std::uint64_t largest = 0;
  for (std::uint64_t size : counts_) largest = std::max(largest, even_part(size, layout_.chunks_per_block, 0).count);
  return largest;
}

std::uint64_t ExtentTable::total() const {
  if (layout_.partition == Partition::even) return count_;
  if (layout_.partition == Partition::blocks) return count_ * static_cast<std::uint64_t>(layout_.blocks);
  std::uint64_t end = 0;
  for (std::size_t b = 0; b < counts_.size(); ++b) end = std::max(end, displs_[b] + counts_[b]);
  return end;
}

Extent Extents::chunk(std::uint16_t buffer, std::int32_t index) const {
  if (buffer == kInput) return input.chunk(index);
  if (buffer != kScratch && buffer != kWideScratch) return output.chunk(index);
  const ExtentTable& shape = layouts.scratch_like_input ? input : output;
  const std::int32_t chunks = shape.layout().chunks();
  const auto copy = static_cast<std::uint64_t>(index / chunks);
  const Extent like = shape.chunk(index % chunks);
  if (layouts.scratch_is_compact) {
    const auto width = static_cast<std::uint64_t>(layouts.scratch_width);
    return {(copy * width + static_cast<std::uint64_t>(index % chunks) % width) * shape.largest_chunk(), like.count};
  }
  return {copy * shape.total() + like.offset, like.count};
}

std::uint64_t Extents::scratch_elements() const {
  const ExtentTable& shape = layouts.scratch_like_input ? input : output;
  const auto width = static_cast<std::uint64_t>(layouts.scratch_width);
  return static_cast<std::uint64_t>(layouts.scratch_copies) * (layouts.scratch_is_compact ? width * shape.largest_chunk() : shape.total());
}

std::uint64_t Extents::largest_chunk() const { return std::max(input.largest_chunk(), output.largest_chunk()); }

Pieces cut_into_pieces(std::uint64_t largest_chunk, std::int32_t chunks_a_message, std::uint64_t elements_a_slot) {
  const std::uint64_t room = std::max<std::uint64_t>(1, elements_a_slot / static_cast<std::uint64_t>(std::max(1, chunks_a_message)));
  if (largest_chunk <= room) return {};
  std::uint64_t piece = room >= kPieceGranule ? room / kPieceGranule * kPieceGranule : room;
  const std::uint64_t count = (largest_chunk + piece - 1) / piece;
  const std::uint64_t balanced = (largest_chunk + count - 1) / count;
  if (piece >= kPieceGranule) piece = std::min(piece, (balanced + kPieceGranule - 1) / kPieceGranule * kPieceGranule);
  return {static_cast<std::int32_t>((largest_chunk + piece - 1) / piece), piece};
}

}  // namespace peal::schedule
