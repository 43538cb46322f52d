// Chunks cover their buffers without gaps, whatever the count; pieces cover their chunks.
#include <gtest/gtest.h>

#include <schedule/layout.hpp>
#include <schedule/op.hpp>
#include <vector>

namespace peal::schedule {
namespace {

TEST(EvenPart, CoversAnyCountWithoutGaps) {
  for (const std::uint64_t count : {0ULL, 1ULL, 7ULL, 64ULL, 1000ULL, 4097ULL, 5'000'000'000ULL})
    for (const std::int32_t parts : {1, 2, 3, 7, 64, 1000}) {
      std::uint64_t end = 0;
      std::uint64_t least = ~0ULL;
      std::uint64_t most = 0;
      for (std::int32_t i = 0; i < parts; ++i) {
        const Extent part = even_part(count, parts, i);
        ASSERT_EQ(part.offset, end) << count << " in " << parts << ", part " << i;
        end += part.count;
        least = std::min(least, part.count);
        most = std::max(most, part.count);
      }
      EXPECT_EQ(end, count) << parts;
      EXPECT_LE(most - least, 31U) << count << " in " << parts;
      EXPECT_EQ(most, even_part(count, parts, 0).count) << "the first is the largest";
    }
}

TEST(ExtentTable, PlacesBlocksBeyondFourBillionElements) {
  const ExtentTable table({Partition::blocks, 8, 2}, 3'000'000'000ULL);
  EXPECT_EQ(table.chunk(15).offset, 7 * 3'000'000'000ULL + 1'500'000'000ULL);
  EXPECT_EQ(table.chunk(15).count, 1'500'000'000ULL);
  EXPECT_EQ(table.total(), 24'000'000'000ULL);
}

TEST(ExtentTable, TakesVariedBlocksFromTheirCountsAndDisplacements) {
  const std::vector<std::uint64_t> counts{3, 0, 5};
  const std::vector<std::uint64_t> displs{10, 0, 2};
  const ExtentTable table({Partition::varied, 3, 1}, counts, displs);
  EXPECT_EQ(table.chunk(0).offset, 10U);
  EXPECT_EQ(table.chunk(1).count, 0U);
  EXPECT_EQ(table.chunk(2).count, 5U);
  EXPECT_EQ(table.largest_chunk(), 5U);
  EXPECT_EQ(table.total(), 13U);
}

TEST(ExtentTable, ListsEveryChunkAsItWouldGiveIt) {
  const std::vector<std::uint64_t> counts{300, 0, 5};
  const std::vector<std::uint64_t> displs{10, 7, 2};
  for (const std::int32_t parts : {1, 4}) {
    for (const ExtentTable& table : {ExtentTable({Partition::varied, 3, parts}, counts, displs),
                                     ExtentTable({Partition::blocks, 3, parts}, 77), ExtentTable({Partition::even, 3, parts}, 1000)}) {
      std::vector<Extent> all(static_cast<std::size_t>(table.layout().chunks()));
      EXPECT_EQ(table.list(all), table.largest_chunk());
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i].offset, table.chunk(static_cast<std::int32_t>(i)).offset);
        EXPECT_EQ(all[i].count, table.chunk(static_cast<std::int32_t>(i)).count);
      }
    }
  }
}

TEST(Extents, CompactScratchKeepsRoomForOneChunkACopy) {
  Extents extents;
  extents.layouts.input = {Partition::even, 1, 4};
  extents.layouts.output = extents.layouts.input;
  extents.layouts.scratch_copies = 3;
  extents.input = extents.output = ExtentTable(extents.layouts.input, 103);
  EXPECT_EQ(extents.scratch_elements(), 3 * 103U);
  EXPECT_EQ(extents.chunk(kScratch, 4 + 1).offset, 103 + extents.input.chunk(1).offset);
  extents.layouts.scratch_is_compact = true;
  EXPECT_EQ(extents.scratch_elements(), 3 * extents.input.largest_chunk());
  EXPECT_EQ(extents.chunk(kScratch, 4 + 1).offset, extents.input.largest_chunk());
  EXPECT_EQ(extents.chunk(kScratch, 4 + 1).count, extents.input.chunk(1).count);
  extents.layouts.scratch_width = 2;
  EXPECT_EQ(extents.scratch_elements(), 6 * extents.input.largest_chunk());
  EXPECT_EQ(extents.chunk(kScratch, 4 + 1).offset, 3 * extents.input.largest_chunk());
  EXPECT_EQ(extents.chunk(kScratch, 4 + 2).offset, 2 * extents.input.largest_chunk());
}

TEST(Pieces, CoverTheChunkAndFitTheSlot) {
  for (const std::uint64_t chunk : {0ULL, 1ULL, 63ULL, 64ULL, 65ULL, 1000ULL, 1'000'003ULL})
    for (const std::uint64_t slot : {1ULL, 8ULL, 64ULL, 100ULL, 65'536ULL})
      for (const std::int32_t chunks : {1, 3}) {
        if (slot < static_cast<std::uint64_t>(chunks)) continue;
        const Pieces pieces = cut_into_pieces(chunk, chunks, slot);
        std::uint64_t covered = 0;
        for (std::int32_t p = 0; p < pieces.count; ++p) {
          const Extent part = pieces.of({5, chunk}, p);
          ASSERT_EQ(part.offset, 5 + covered);
          ASSERT_LE(part.count * static_cast<std::uint64_t>(chunks), slot);
          covered += part.count;
        }
        EXPECT_EQ(covered, chunk) << "slot " << slot;
      }
}

}  // namespace
}  // namespace peal::schedule
