#include "xml_tree.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace peal::topology {
namespace {

constexpr std::size_t kMostBytes = 64u << 20;
constexpr std::size_t kMostTags = 2'000'000;  // opening and closing
constexpr std::size_t kMostAttributes = 4'000'000;
constexpr std::size_t kMostWarnings = 200;
constexpr int kMostMends = 8;
constexpr std::size_t kBlock = 4096;  // of text, for counting lines

constexpr unsigned kParse = pugi::parse_minimal | pugi::parse_escapes | pugi::parse_wconv_attribute | pugi::parse_fragment;

/// Where to stop reading so that the tree stays within its limits; npos: nowhere.
std::size_t limit_of(std::string_view text) {
  std::size_t tags = 0;
  std::size_t attributes = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    tags += text[i] == '<' ? 1 : 0;
    attributes += text[i] == '=' ? 1 : 0;
    if (tags > kMostTags || attributes > kMostAttributes) return i;
  }
  return std::string_view::npos;
}

}  // namespace

Result<XmlFile> XmlFile::parse(std::string_view text, const std::string& name) {
  if (text.size() > kMostBytes) return fail(ErrorCode::corrupt, "{}:1: the file is larger than 64 MiB: split it", name);
  XmlFile file;
  file.name_ = name;
  file.text_ = text;
  std::uint32_t lines = 0;
  for (std::size_t at = 0; at <= text.size(); at += kBlock) {
    file.lines_before_.push_back(lines);
    const std::string_view block = text.substr(at, kBlock);
    lines += static_cast<std::uint32_t>(std::count(block.begin(), block.end(), '\n'));
  }
  if (const std::size_t limit = limit_of(text); limit != std::string_view::npos) {
    file.warn(file.line_at(limit), "the file has more than 2,000,000 tags or 4,000,000 attributes; what follows here is not read");
    text = text.substr(0, limit);
  }
  file.load(std::string(text));
  const auto is_element = [](const pugi::xml_node& n) { return n.type() == pugi::node_element; };
  if (!file.document_->find_child(is_element)) {
    return fail(ErrorCode::corrupt, "{}:1: no XML element can be read: is the file complete?", name);
  }
  return file;
}

/// A tag that cannot be read would end everything, so it is blanked out and the text is read again, a few times.
void XmlFile::load(std::string text) {
  document_ = std::make_unique<pugi::xml_document>();
  for (int mends = 0;; ++mends) {
    const pugi::xml_parse_result result = document_->load_buffer(text.data(), text.size(), kParse, pugi::encoding_utf8);
    if (result || result.status == pugi::status_no_document_element) return;
    const std::size_t offset = std::min(static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0)), text.size());
    const std::size_t end = text.find('>', offset);
    if (end == std::string::npos) {
      warn(line_at(text.empty() ? 0 : text.size() - 1), "the file breaks off here; what stands before was read");
      if (result.status == pugi::status_bad_start_element || result.status == pugi::status_bad_attribute) drop_broken_element();
      return;
    }
    if (mends == kMostMends) {
      warn(line_at(offset), fmt::format("the text from here on is not read: {}", result.description()));
      return;
    }
    const std::size_t begin = std::min(text.rfind('<', offset), offset);
    warn(line_at(offset), fmt::format("not XML here ({}); this tag is left out", result.description()));
    std::replace_if(
        text.begin() + static_cast<std::ptrdiff_t>(begin), text.begin() + static_cast<std::ptrdiff_t>(end) + 1,
        [](char c) { return c != '\n'; }, ' ');
  }
}

/// The last element began in front of the break: what its attributes would have been is unknown.
void XmlFile::drop_broken_element() {
  pugi::xml_node last = *document_;
  while (last.last_child()) last = last.last_child();
  while (last && last.type() != pugi::node_element && last.type() != pugi::node_document) last = last.parent();
  if (last.type() == pugi::node_element) last.parent().remove_child(last);
}

int XmlFile::line_at(std::size_t offset) const {
  offset = std::min(offset, text_.size());
  const std::size_t block = offset / kBlock;
  const auto begin = text_.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
  return static_cast<int>(lines_before_[block] + std::count(begin, text_.begin() + static_cast<std::ptrdiff_t>(offset), '\n')) + 1;
}

int XmlFile::line_of(const pugi::xml_node& node) const {
  return line_at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(node.offset_debug(), 0)));
}

std::string XmlFile::where(const pugi::xml_node& node) const { return fmt::format("{}:{}", name_, line_of(node)); }

void XmlFile::warn(int line, std::string_view text) {
  if (warnings_.size() == kMostWarnings) {
    ++unsaid_;
    return;
  }
  warnings_.emplace_back(line, text);
}

void XmlFile::give_warnings(Graph& graph) const {
  auto sorted = warnings_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [line, text] : sorted) graph.add_warning(fmt::format("{}:{}: {}", name_, line, text));
  if (unsaid_ > 0) graph.add_warning(fmt::format("{}: {} more warnings of these kinds", name_, unsaid_));
}

std::string_view text_of(const pugi::xml_node& node, const char* attribute) {
  return std::string_view(node.attribute(attribute).value()).substr(0, 255);
}

std::optional<long long> whole_of(const pugi::xml_node& node, const char* attribute) { return whole_number(text_of(node, attribute)); }

std::optional<long long> whole_number(std::string_view text) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  if (is_hex) text.remove_prefix(2);
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, is_hex ? 16 : 10);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> hex_of(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace peal::topology
