// Copies past the caches.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "copy.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include <algorithm>
#include <base/copy.hpp>
#include <cstring>
#include <reduce/copy.hpp>

#include "elementwise-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {

void copy_with_vectors(void* dst, const void* src, std::size_t bytes, Stores stores, Reads reads) {
#if HWY_TARGET == HWY_SCALAR
  // No vectors, no stores past the caches (sanitizer builds): a byte at a time would be all that is left.
  static_cast<void>(stores);
  static_cast<void>(reads);
  if (bytes > 0) std::memcpy(dst, src, bytes);
#else
  Elementwise<Plain<std::uint8_t>, Plain<std::uint8_t>, Plain<std::uint8_t>, Same>::run(Same(), dst, nullptr, src, src, bytes, stores,
                                                                                        reads);
#endif
}

void copy_into_both(void* dst, void* also, const void* src, std::size_t bytes, Stores stores) {
#if HWY_TARGET == HWY_SCALAR
  static_cast<void>(stores);
  std::memcpy(dst, src, bytes);
  std::memcpy(also, src, bytes);
#else
  Elementwise<Plain<std::uint8_t>, Plain<std::uint8_t>, Plain<std::uint8_t>, Same>::run(Same(), dst, also, src, src, bytes, stores);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peal::reduce {
HWY_EXPORT(copy_with_vectors);
HWY_EXPORT(copy_into_both);

namespace {
// Source and one place fit a first-level cache of 48 KiB; with blocks of 8 KiB copies are slower by a fifth, with 2 and 4 KiB by half.
constexpr std::size_t kBlock = 16 << 10;

void copy_in_blocks(void* dst, void* also, const void* src, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += kBlock) {
    const std::size_t block = std::min(kBlock, bytes - at);
    const std::byte* const from = static_cast<const std::byte*>(src) + at;
    copy_bytes(static_cast<std::byte*>(dst) + at, from, block);
    copy_bytes(static_cast<std::byte*>(also) + at, from, block);
  }
}
}  // namespace

void copy(void* dst, const void* src, std::size_t bytes, Stores stores, Reads reads) noexcept {
  if (stores == Stores::streaming || (reads == Reads::in_lanes && bytes >= kLeastInLanes))
    return HWY_DYNAMIC_DISPATCH(copy_with_vectors)(dst, src, bytes, stores, reads);
  if (bytes) copy_bytes(dst, src, bytes);
}

void copy_twice(void* dst, Stores stores, void* also, Stores also_stores, const void* src, std::size_t bytes, Both both) noexcept {
  if (bytes == 0) return;
  if (both == Both::in_blocks && stores == Stores::cached && also_stores == Stores::cached) return copy_in_blocks(dst, also, src, bytes);
  if (also_stores == Stores::cached) return HWY_DYNAMIC_DISPATCH(copy_into_both)(dst, also, src, bytes, stores);
  copy(dst, src, bytes, stores);
  copy(also, src, bytes, also_stores);
}
}  // namespace peal::reduce
#endif
