// What goes wrong at a seam of a copy is a byte of somebody else.
#include <gtest/gtest.h>

#include <algorithm>
#include <base/copy.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace peal {
namespace {

constexpr std::size_t kRoom = 64 * 1024;

std::byte byte_at(std::size_t at) { return static_cast<std::byte>(at * 131 >> 3 & 0xff); }

// Every byte arrives, and none beside it is touched, wherever the ranges begin.
template <class Copy>
void expect_copies(Copy&& copy, std::size_t least) {
  std::vector<std::byte> from(kRoom), to(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) from[i] = byte_at(i);
  for (const std::size_t bytes : {1u,    255u,  1535u, 1536u, 1537u, 1599u,  1600u,  2047u,  2048u,  2049u,  3072u,
                                  4095u, 4096u, 4097u, 8191u, 8192u, 12288u, 16383u, 16384u, 16385u, 20480u, 40000u}) {
    if (bytes < least) continue;
    for (const std::size_t to_at : {64u, 65u, 79u, 127u, 4096u}) {
      for (const std::size_t from_at : {0u, 1u, 17u, 63u, 4095u}) {
        std::fill(to.begin(), to.end(), std::byte{0xee});
        copy(to.data() + to_at, from.data() + from_at, bytes);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < bytes; ++i) wrong += to[to_at + i] != byte_at(from_at + i) ? 1 : 0;
        for (std::size_t i = 0; i < to_at; ++i) wrong += to[i] != std::byte{0xee} ? 1 : 0;
        for (std::size_t i = to_at + bytes; i < kRoom; ++i) wrong += to[i] != std::byte{0xee} ? 1 : 0;
        ASSERT_EQ(wrong, 0u) << bytes << " bytes from " << from_at << " to " << to_at;
      }
    }
  }
}

TEST(Copy, CopiesAllAndNothingElse) { expect_copies(copy_bytes, 0); }

TEST(Copy, CopiesWhatAnotherCoreWroteAllAndNothingElse) { expect_copies(copy_long_from_other_core, kLeastLongCopy); }

}  // namespace
}  // namespace peal
