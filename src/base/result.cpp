#include <string.h>

#include <base/result.hpp>

namespace peal {

const char* name_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::ok: return "ok";
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::mismatch: return "mismatch";
    case ErrorCode::rank_dead: return "rank_dead";
    case ErrorCode::rank_stopped: return "rank_stopped";
    case ErrorCode::timeout: return "timeout";
    case ErrorCode::aborted: return "aborted";
    case ErrorCode::unreachable: return "unreachable";
    case ErrorCode::refused: return "refused";
    case ErrorCode::system: return "system";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

std::string errno_text(int error) {
  // The *desc_np and *name_np forms neither share a buffer between threads nor follow the locale.
  const char* description = strerrordesc_np(error);
  const char* name = strerrorname_np(error);
  if (description == nullptr || name == nullptr) return fmt::format("unknown error {}", error);
  return fmt::format("{} ({})", description, name);
}

void throw_failure(const Failure& failure) { throw Error(failure.code, failure.message, failure.rank, failure.peer, failure.operation); }

}  // namespace peal
