// Copies past the caches.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "copy.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

#include <base/copy.hpp>
#include <cstddef>
#include <cstring>
#include <reduce/copy.hpp>

#include "elementwise-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace peal::reduce {
namespace HWY_NAMESPACE {

void copy_streaming(void* dst, const void* src, std::size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  // No vectors, no stores past the caches (sanitizer builds): a byte at a time would be all that is left.
  if (bytes > 0) std::memcpy(dst, src, bytes);
#else
  Elementwise<Plain<std::uint8_t>, Plain<std::uint8_t>, Plain<std::uint8_t>, Same>::combine_streaming(dst, src, src, bytes);
#endif
}

template <bool kStream>
void copy_into_both(void* past, void* cached, const void* src, std::size_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(past, src, bytes);
  std::memcpy(cached, src, bytes);
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto* const to = static_cast<std::uint8_t*>(past);
  auto* const also = static_cast<std::uint8_t*>(cached);
  const auto* const from = static_cast<const std::uint8_t*>(src);
  const auto both = [&](std::size_t begin, std::size_t end) {
    copy_bytes(to + begin, from + begin, end - begin);
    copy_bytes(also + begin, from + begin, end - begin);
  };
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(past) % lanes;
  std::size_t i = misaligned == 0 ? 0 : lanes - misaligned;
  if (i > bytes) i = bytes;
  if (i > 0) both(0, i);
  for (; i + 2 * lanes <= bytes; i += 2 * lanes) {
    const auto v0 = hn::LoadU(d, from + i);
    const auto v1 = hn::LoadU(d, from + i + lanes);
    if constexpr (kStream) {
      hn::Stream(v0, d, to + i);
      hn::Stream(v1, d, to + i + lanes);
    } else {
      hn::Store(v0, d, to + i);
      hn::Store(v1, d, to + i + lanes);
    }
    hn::StoreU(v0, d, also + i);
    hn::StoreU(v1, d, also + i + lanes);
  }
  if (kStream) hwy::FlushStream();
  if (i < bytes) both(i, bytes);
#endif
}

void copy_both_ways(void* past, void* cached, const void* src, std::size_t bytes) { copy_into_both<true>(past, cached, src, bytes); }
void copy_both_cached(void* one, void* other, const void* src, std::size_t bytes) { copy_into_both<false>(one, other, src, bytes); }

}  // namespace HWY_NAMESPACE
}  // namespace peal::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace peal::reduce {
HWY_EXPORT(copy_streaming);
HWY_EXPORT(copy_both_ways);
HWY_EXPORT(copy_both_cached);

void copy(void* dst, const void* src, std::size_t bytes, Stores stores) noexcept {
  if (stores == Stores::streaming) return HWY_DYNAMIC_DISPATCH(copy_streaming)(dst, src, bytes);
  if (bytes) copy_bytes(dst, src, bytes);
}

void copy_twice(void* dst, Stores stores, void* also, Stores also_stores, const void* src, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  if (also_stores == Stores::cached) {
    if (stores == Stores::streaming) return HWY_DYNAMIC_DISPATCH(copy_both_ways)(dst, also, src, bytes);
    return HWY_DYNAMIC_DISPATCH(copy_both_cached)(dst, also, src, bytes);
  }
  copy(dst, src, bytes, stores);
  copy(also, src, bytes, also_stores);
}
}  // namespace peal::reduce
#endif
