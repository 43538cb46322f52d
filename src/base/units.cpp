#include <base/units.hpp>
#include <charconv>
#include <cmath>

namespace peal {
namespace {

constexpr std::string_view kSizeLetters = "KMGTPE";

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Power of 1024 that a suffix ("", "B", "K", "KB", "KiB") stands for, or -1.
int power_of(std::string_view suffix) {
  if (suffix.empty()) return 0;
  if (suffix.size() == 1 && upper(suffix[0]) == 'B') return 0;
  const std::size_t letter = kSizeLetters.find(upper(suffix[0]));
  if (letter == std::string_view::npos) return -1;
  const std::string_view rest = suffix.substr(1);
  const bool known =
      rest.empty() || (rest.size() == 1 && upper(rest[0]) == 'B') || (rest.size() == 2 && upper(rest[0]) == 'I' && upper(rest[1]) == 'B');
  return known ? static_cast<int>(letter) + 1 : -1;
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  const std::string_view word = trimmed(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc::result_out_of_range) {
    return fail(ErrorCode::invalid_argument, "size '{}' is too large: the limit is 2^64 - 1 bytes.", word.substr(0, 64));
  }
  const std::string_view suffix = trimmed(word.substr(static_cast<std::size_t>(end - word.data())));
  const int power = error == std::errc() ? power_of(suffix) : -1;
  if (power < 0) {
    return fail(ErrorCode::invalid_argument,
                "'{}' is not a size. Type a whole number of bytes with an optional suffix: 8, 64K, 1M, 8G (powers of 1024).",
                word.substr(0, 64));
  }
  const unsigned shift = 10U * static_cast<unsigned>(power);
  if (shift != 0 && value > (UINT64_MAX >> shift)) {
    return fail(ErrorCode::invalid_argument, "size '{}' is too large: the limit is 2^64 - 1 bytes.", word.substr(0, 64));
  }
  return Bytes{value << shift};
}

std::string to_text(Bytes size) {
  if (size.value < 1024) return fmt::format("{} B", size.value);
  int power = 0;
  std::uint64_t unit = 1;
  while (power < 6 && size.value / unit >= 1024) {
    unit *= 1024;
    ++power;
  }
  const char letter = kSizeLetters[static_cast<std::size_t>(power) - 1];
  if (size.value % unit == 0) return fmt::format("{} {}iB", size.value / unit, letter);
  return fmt::format("{:.2f} {}iB", static_cast<double>(size.value) / static_cast<double>(unit), letter);
}

std::string to_text(Nanoseconds time) {
  const double ns = time.value;
  if (std::isnan(ns)) return "unknown";
  if (std::isinf(ns)) return ns > 0 ? "never" : "-inf";
  const double size = std::fabs(ns);
  // The borders lie where two decimals would round up to 1000 of the smaller unit.
  if (size < 999.995) return fmt::format("{:.2f} ns", ns);
  if (size < 999.995e3) return fmt::format("{:.2f} us", ns * 1e-3);
  if (size < 999.995e6) return fmt::format("{:.2f} ms", ns * 1e-6);
  return fmt::format("{:.2f} s", ns * 1e-9);
}

}  // namespace peal
