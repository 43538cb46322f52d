#include <algorithm>
#include <base/copy.hpp>

namespace peal {

void copy_in_pieces(void* dst, const void* src, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += kCopyPiece)
    std::memcpy(static_cast<std::byte*>(dst) + at, static_cast<const std::byte*>(src) + at, std::min(kCopyPiece, bytes - at));
}

}  // namespace peal
