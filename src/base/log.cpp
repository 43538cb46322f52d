#include <unistd.h>

#include <array>
#include <base/log.hpp>
#include <base/settings.hpp>
#include <string>

namespace peal {
namespace {

constexpr std::array<std::string_view, 5> kLevels = {"off", "error", "warn", "info", "debug"};

/// Standard error is all there is to say it on; if it is closed or full, the line is lost.
void write_once(const std::string& line) { [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size()); }

LogLevel wanted_level() {
  const std::string word = setting("PEAL_LOG_LEVEL");
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (word == kLevels[i]) return static_cast<LogLevel>(i);
  }
  write_once(fmt::format("peal[{}] warn: PEAL_LOG_LEVEL='{}' is no level; type off, error, warn, info or debug\n", ::getpid(),
                         word.substr(0, 64)));
  return LogLevel::warn;
}

}  // namespace

bool is_logged(LogLevel level) {
  static const LogLevel wanted = wanted_level();
  return level != LogLevel::off && level <= wanted;
}

void write_log_line(LogLevel level, std::string_view text) {
  write_once(fmt::format("peal[{}] {}: {}\n", ::getpid(), kLevels[static_cast<std::size_t>(level) % kLevels.size()], text));
}

}  // namespace peal
