#include <algorithm>
#include <base/text.hpp>

namespace peal {

namespace {
constexpr std::string_view kBlanks = " \t\r\n";
}

std::string_view trim(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string with_commas(std::string digits) {
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t place = digits.size(); place > first + 3; place -= 3) digits.insert(place - 3, 1, ',');
  return digits;
}

std::vector<std::string_view> words_of(std::string_view text, std::size_t most) {
  std::vector<std::string_view> words;
  for (auto begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos && words.size() < most;) {
    const auto end = std::min(text.find_first_of(kBlanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

}  // namespace peal
