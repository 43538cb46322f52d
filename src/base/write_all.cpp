#include <unistd.h>
#include <base/write_all.hpp>
#include <cerrno>

namespace peal {

Status write_all(int file, const void* data, std::size_t bytes, std::string_view what) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(file, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(ErrorCode::system, "cannot write {}: {}", what, errno_text(errno));
    if (written == 0) return fail(ErrorCode::system, "cannot write {}: it takes no more bytes", what);
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return {};
}

}  // namespace peal
