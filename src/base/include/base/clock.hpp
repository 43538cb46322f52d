// The monotonic clock.
#pragma once

#include <time.h>

#include <cstdint>

namespace peal {

inline constexpr std::int64_t kNanosecondsOfSecond = 1'000'000'000;

/// CLOCK_MONOTONIC in nanoseconds; about 20 ns a call.
inline std::int64_t now_ns() noexcept {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<std::int64_t>(ts.tv_sec) * 1'000'000'000 + ts.tv_nsec;
}

}  // namespace peal
