// memcpy without its traps.
#pragma once

#include <cstddef>
#include <cstring>

namespace peal {

/// Shorter copies meet no trap.
inline constexpr std::size_t kLeastLongCopy = 1536;
/// As copy_bytes, of kLeastLongCopy bytes and more.
void copy_long(void* dst, const void* src, std::size_t bytes) noexcept;

/// memcpy. The ranges must not overlap; none may be null.
///
/// From 2 KiB on glibc copies with `rep movsb` where the processor calls that fast. On AMD Zen 3 it takes 13 to 25 times as long when the
/// destination lies 1 to 31 bytes behind the source within their pages (bench/RESULTS.md). Large blocks of malloc begin 16 bytes behind a
/// page and slots of shared memory at one, so every long message to such a block is such a copy. It is done in pieces, which glibc copies
/// with vectors; not on Zen 5, which has no such trap, and where pieces take up to 1.8 times as long.
///
/// On AMD Zen 5 it is the vectors that are slow, where the destination's lines lie in the caches of a far core, as a slot's do whose last
/// message was taken out there: a message of 1.5 to 2 KiB takes twice as long as one of 3 (bench/RESULTS.md). There `rep movsb` begins
/// with kLeastLongCopy, and up to 4 KiB goes 2 KiB at a time, because longer strings take another way through the caches.
inline void copy_bytes(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes < kLeastLongCopy) {
    std::memcpy(dst, src, bytes);
  } else {
    copy_long(dst, src, bytes);
  }
}

/// As copy_long (so of kLeastLongCopy bytes and more), of what another core has just written at `src`, and will write anew.
///
/// Between near cores of an AMD Zen 5 that core takes four times as long to write 4 KiB anew when `rep movsb` has read them while this
/// core's prefetcher was at work, as it is for seconds after long copies: it no longer finds in the common cache what was prefetched. Up to
/// 16 KiB are read with vectors there, which takes no longer, and has no such consequence (bench/RESULTS.md, "How messages are taken out").
void copy_long_from_other_core(void* dst, const void* src, std::size_t bytes) noexcept;

}  // namespace peal
