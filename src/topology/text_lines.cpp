#include "text_lines.hpp"

#include <algorithm>
#include <charconv>

namespace peal::topology {
namespace {

constexpr std::size_t kMostLineBytes = 4u << 20;

/// Length of the escape sequence at the front of `text`, which begins with ESC.
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2) return 1;
  if (text[1] == ']') {
    const auto bell = text.find('\a');
    return bell == std::string_view::npos ? 2 : bell + 1;
  }
  if (text[1] != '[') return 2;
  std::size_t i = 2;
  while (i < text.size() && (text[i] < 0x40 || text[i] > 0x7e)) ++i;
  return std::min(i + 1, text.size());
}

void clean_into(std::string_view raw, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < raw.size();) {
    const char c = raw[i];
    if (c == '\x1b') {
      i += escape_length(raw.substr(i));
      continue;
    }
    if (c == '\xc2' && i + 1 < raw.size() && raw[i + 1] == '\xa0') {
      out += ' ';
      i += 2;
      continue;
    }
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    out += is_control && c != '\t' ? ' ' : c;
    ++i;
  }
}

}  // namespace

LineReader::LineReader(std::string_view text) : rest_(text) {
  if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
}

bool LineReader::next(TextLine& line) {
  if (is_put_back_) {
    is_put_back_ = false;
    line = last_;
    return true;
  }
  if (rest_.empty()) return false;
  const auto end = rest_.find('\n');
  std::string_view raw = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  if (raw.ends_with('\r')) raw.remove_suffix(1);
  ++last_.number;
  clean_into(raw.substr(0, kMostLineBytes), last_.text);
  line = last_;
  return true;
}

Status check_text_size(std::string_view text, const std::string& name) {
  if (text.size() <= kMostTextBytes) return {};
  return fail(ErrorCode::corrupt, "{}:1: the file has {} bytes, more than 64 MiB: give the part that describes the machine", name,
              text.size());
}

std::string_view without_comment_mark(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t#/>|;*");
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

std::optional<int> whole_number(std::string_view text, int most) noexcept {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text[0] == '-' || error != std::errc{} || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

std::string short_name(std::string_view text, std::size_t most) { return std::string(text.substr(0, most)); }

std::string free_id(const Graph& graph, const std::string& wanted) {
  if (!wanted.empty() && graph.find(wanted) < 0) return wanted;
  for (int i = 2;; ++i)
    if (std::string id = fmt::format("{}~{}", wanted, i); graph.find(id) < 0) return id;
}

void Remarks::finish() {
  if (count_ > kMost) graph_.add_warning(fmt::format("{}: {} further warnings are left out", name_, count_ - kMost));
  count_ = 0;
}

}  // namespace peal::topology
