// What Peal says beside its results: one line each on standard error, as far as PEAL_LOG_LEVEL asks for it. Any thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace peal {

enum class LogLevel : std::uint8_t { off, error, warn, info, debug };

/// True when lines of `level` are written. Reads PEAL_LOG_LEVEL at the first call; a word that is no level counts as the default and is
/// said once.
bool is_logged(LogLevel level);

/// "peal[PID] info: TEXT". One write, so lines of several ranks do not mix.
void write_log_line(LogLevel level, std::string_view text);

/// log(LogLevel::info, "rank {} listens on {}", rank, address); the text is made only when it is written.
template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  if (is_logged(level)) write_log_line(level, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace peal
