#include <algorithm>
#include <charconv>
#include <topology/hostlist.hpp>

namespace peal::topology {
namespace {

constexpr std::size_t kMostNameBytes = 256;
constexpr std::size_t kMostDigits = 18;

/// Numbers from first to last, written with at least `width` digits.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;
};

/// A literal, or the ranges of one bracket.
struct Part {
  std::string literal;
  std::vector<Range> ranges;
};

tl::unexpected<Failure> refuse(std::string_view text, std::size_t at, std::string_view why) {
  const std::string_view near = text.substr(at, 40);
  return fail(ErrorCode::corrupt, "host list: {} at '{}' (character {}); write it as node[01-04,7]", why, near, at + 1);
}

bool read_number(std::string_view digits, std::uint64_t& value) {
  if (digits.empty() || digits.size() > kMostDigits) return false;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc{} && end == digits.data() + digits.size();
}

std::string padded(std::uint64_t value, std::size_t width) { return fmt::format("{:0{}}", value, width); }

std::string_view without_front_blanks(std::string_view text) { return text.substr(std::min(text.find_first_not_of(" \t\n"), text.size())); }

std::string_view without_back_blanks(std::string_view text) { return text.substr(0, text.find_last_not_of(" \t\n") + 1); }

/// The inside of one bracket, which begins at `at` of the whole text.
Result<std::vector<Range>> read_ranges(std::string_view text, std::size_t at, std::string_view inside) {
  std::vector<Range> ranges;
  while (true) {
    const auto comma = inside.find(',');
    const std::string_view item = without_back_blanks(without_front_blanks(inside.substr(0, comma)));
    const auto dash = item.find('-');
    const std::string_view low = item.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : item.substr(dash + 1);
    Range range;
    range.width = low.size();
    if (!read_number(low, range.first) || !read_number(high, range.last)) return refuse(text, at, "no range of numbers");
    if (range.last < range.first) return refuse(text, at, "a range that runs backwards");
    ranges.push_back(range);
    if (ranges.size() > kMostHosts) return refuse(text, at, "more than 100,000 ranges");
    if (comma == std::string_view::npos) return ranges;
    inside.remove_prefix(comma + 1);
  }
}

Status append_names(std::string_view text, std::size_t at, const std::vector<Part>& parts, std::vector<std::string>& names) {
  std::uint64_t count = 1;
  for (const Part& part : parts) {
    std::uint64_t here = part.ranges.empty() ? 1 : 0;
    for (const Range& r : part.ranges) here += std::min<std::uint64_t>(r.last - r.first + 1, kMostHosts + 1);
    count = std::min<std::uint64_t>(count * std::min<std::uint64_t>(here, kMostHosts + 1), kMostHosts + 1);
  }
  if (names.size() + count > kMostHosts) return refuse(text, at, "more than 100,000 names");
  std::vector<std::string> grown = {""};
  for (const Part& part : parts) {
    if (part.ranges.empty()) {
      for (std::string& name : grown) name += part.literal;
      continue;
    }
    std::vector<std::string> next;
    for (const std::string& name : grown)
      for (const Range& r : part.ranges)
        for (std::uint64_t i = r.first; i <= r.last; ++i) next.push_back(name + padded(i, r.width));
    grown = std::move(next);
  }
  for (std::string& name : grown) {
    if (name.size() > kMostNameBytes) return refuse(text, at, "a name of more than 256 bytes");
    names.push_back(std::move(name));
  }
  return {};
}

/// One item between commas that are outside brackets; advances `at` behind it.
Result<std::vector<Part>> read_item(std::string_view text, std::size_t& at) {
  std::vector<Part> parts;
  std::size_t literal_bytes = 0;
  while (at < text.size() && text[at] != ',') {
    if (text[at] == ']') return refuse(text, at, "a bracket that was not opened");
    if (text[at] != '[') {
      const std::size_t end = std::min(text.find_first_of("[],", at), text.size());
      std::string_view literal = text.substr(at, end - at);
      // Blanks may stand around an item, not in it.
      if (parts.empty()) literal = without_front_blanks(literal);
      if (end == text.size() || text[end] == ',') literal = without_back_blanks(literal);
      if (literal.find_first_of(" \t\n") != std::string_view::npos) return refuse(text, at, "a blank inside a name");
      if (!literal.empty()) parts.push_back({std::string(literal), {}});
      literal_bytes += end - at;
      if (literal_bytes > kMostNameBytes) return refuse(text, at, "a name of more than 256 bytes");
      at = end;
      continue;
    }
    const std::size_t close = text.find(']', at);
    if (close == std::string_view::npos) return refuse(text, at, "a bracket that is not closed");
    PEAL_ASSIGN(std::vector<Range> ranges, read_ranges(text, at, text.substr(at + 1, close - at - 1)));
    parts.push_back({{}, std::move(ranges)});
    if (parts.size() > 64) return refuse(text, at, "more than 32 brackets in one name");
    at = close + 1;
  }
  return parts;
}

/// "node007x" -> "node", "007", "x"; the digits are empty where there is no number that fits.
struct Split {
  std::string_view stem;
  std::string_view digits;
  std::string_view tail;
  std::uint64_t value = 0;
};

Split split(std::string_view name) {
  std::size_t end = name.size();
  while (end > 0 && (name[end - 1] < '0' || name[end - 1] > '9')) --end;
  std::size_t begin = end;
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  Split s{name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
  if (!read_number(s.digits, s.value)) s.digits = {};
  return s;
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t begin = at;
    PEAL_ASSIGN(const std::vector<Part> parts, read_item(text, at));
    if (!parts.empty()) PEAL_TRY(append_names(text, begin, parts, names));
  }
  return names;
}

std::string fold_hostlist(std::span<const std::string> names) {
  std::string out;
  for (std::size_t i = 0; i < names.size();) {
    const Split head = split(names[i]);
    // All neighbours with this stem and tail, as ranges.
    std::string ranges;
    std::size_t ranges_count = 0;
    std::size_t end = i;
    while (!head.digits.empty() && end < names.size()) {
      const Split low = split(names[end]);
      if (low.digits.empty() || low.stem != head.stem || low.tail != head.tail) break;
      std::size_t last = end;
      for (std::uint64_t value = low.value + 1; last + 1 < names.size(); ++value, ++last) {
        const Split next = split(names[last + 1]);
        if (next.stem != head.stem || next.tail != head.tail || next.digits != padded(value, low.digits.size())) break;
      }
      ranges += ranges_count++ > 0 ? "," : "";
      ranges += low.digits;
      if (last > end) ranges += fmt::format("-{}", split(names[last]).digits);
      end = last + 1;
    }
    out += out.empty() ? "" : ",";
    if (end - i < 2) {
      out += names[i];
      end = i + 1;
    } else {
      out += fmt::format("{}[{}]{}", head.stem, ranges, head.tail);
    }
    i = end;
  }
  return out;
}

}  // namespace peal::topology
