// Copies past the caches.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "copy.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <hwy/highway.h>

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

void copy(void* dst, const void* src, std::size_t bytes, Stores stores, Reads reads) noexcept {
  if (stores == Stores::streaming || (reads == Reads::in_lanes && bytes >= kLeastInLanes))
    return HWY_DYNAMIC_DISPATCH(copy_with_vectors)(dst, src, bytes, stores, reads);
  if (bytes) copy_bytes(dst, src, bytes);
}

void copy_twice(void* dst, Stores stores, void* also, Stores also_stores, const void* src, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  if (also_stores == Stores::cached) return HWY_DYNAMIC_DISPATCH(copy_into_both)(dst, also, src, bytes, stores);
  copy(dst, src, bytes, stores);
  copy(also, src, bytes, also_stores);
}
}  // namespace peal::reduce
#endif
