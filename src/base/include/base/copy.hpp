// memcpy without its one trap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace peal {

inline constexpr std::size_t kCopyPiece = 2048;
/// memcpy, kCopyPiece bytes at a time.
void copy_in_pieces(void* dst, const void* src, std::size_t bytes) noexcept;

/// memcpy. The ranges must not overlap; none may be null.
///
/// From 2 KiB on glibc copies with `rep movsb` where the processor calls that fast. On AMD Zen 3 it takes 13 to 25 times as long when the
/// destination lies 1 to 31 bytes behind the source within their pages (bench/RESULTS.md). Large blocks of malloc begin 16 bytes behind a
/// page and slots of shared memory at one, so every long message to such a block is such a copy. It is done in pieces, which glibc copies
/// with vectors.
inline void copy_bytes(void* dst, const void* src, std::size_t bytes) noexcept {
  constexpr std::uintptr_t kPage = 4096, kBehind = 32;
  const std::uintptr_t behind = (reinterpret_cast<std::uintptr_t>(dst) - reinterpret_cast<std::uintptr_t>(src)) % kPage;
  if (bytes > kCopyPiece && behind != 0 && behind < kBehind) [[unlikely]] {
    copy_in_pieces(dst, src, bytes);
  } else {
    std::memcpy(dst, src, bytes);
  }
}

}  // namespace peal
