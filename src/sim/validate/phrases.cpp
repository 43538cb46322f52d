#include "phrases.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace peal::sim {
namespace {

constexpr std::array<std::string_view, 9> kNumbers = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight"};
constexpr std::array<std::string_view, 20> kFillers = {"a",    "an", "per",     "node",   "nodes", "/node", "each",
                                                       "host", "of", "the",     "with",   "over",  "/host", "via",
                                                       "only", "in", "machine", "server", "rack",  "tray"};

bool is_setting_next(std::string_view text) {
  const std::size_t end = text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  return end != std::string_view::npos && end > 0 && text[end] == '=';
}

/// Length of what divides two phrases at the front of `text`; 0: nothing does.
std::size_t divider(std::string_view text) {
  if (text[0] == ';') return 1;
  if (text[0] == ',' && (text.size() == 1 || text[1] == ' ' || is_setting_next(text.substr(1)))) return 1;
  for (const std::string_view word : {" and ", " + ", " & "})
    if (text.substr(0, word.size()) == word) return word.size();
  return 0;
}

void add_phrase(std::string_view phrase, std::vector<std::string>& phrases) {
  phrase = trim(phrase);
  if (phrase.empty()) return;
  if (!is_setting_next(phrase)) {
    phrases.emplace_back(phrase);
    return;
  }
  // Settings follow each other with blanks, as on a command line.
  while (!phrase.empty()) {
    const std::size_t end = std::min(phrase.find_first_of(" \t"), phrase.size());
    phrases.emplace_back(phrase.substr(0, end));
    phrase = trim(phrase.substr(end));
    if (!is_setting_next(phrase)) break;
  }
  if (!phrase.empty()) phrases.emplace_back(phrase);
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (text = trim(text); !text.empty(); text = trim(text)) {
    const std::size_t end = std::min(text.find_first_of(" \t\r\n"), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::vector<std::string> phrases_of(std::string_view text) {
  std::vector<std::string> phrases;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = divider(text.substr(at));
    if (length == 0) {
      ++at;
      continue;
    }
    add_phrase(text.substr(begin, at - begin), phrases);
    begin = at += length;
  }
  add_phrase(text.substr(begin), phrases);
  return phrases;
}

std::optional<int> count_of(std::string_view word) {
  if (word == "single") return 1;
  if (const auto* const it = std::find(kNumbers.begin(), kNumbers.end(), word); it != kNumbers.end())
    return static_cast<int>(it - kNumbers.begin());
  if (word.empty() || word.size() > 6 || word.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  int value = 0;
  for (const char c : word) value = value * 10 + (c - '0');
  return value;
}

bool is_filler(std::string_view word) { return std::find(kFillers.begin(), kFillers.end(), word) != kFillers.end(); }

}  // namespace peal::sim
