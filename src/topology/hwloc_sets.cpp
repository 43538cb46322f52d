#include "hwloc_sets.hpp"

#include "xml_tree.hpp"

namespace peal::topology {

std::vector<int> set_bits(std::string_view text) {
  std::vector<int> bits;
  long long base = 0;
  while (base < kMostPus) {
    const std::size_t comma = text.rfind(',');
    const std::string_view word = comma == std::string_view::npos ? text : text.substr(comma + 1);
    // "0xf...f" stands for all words above: an infinite set has no last PU to count.
    const std::uint64_t value = hex_of(word).value_or(0);
    for (int b = 0; b < 32; ++b)
      if ((value >> b & 1) != 0) bits.push_back(static_cast<int>(base) + b);
    if (comma == std::string_view::npos) break;
    text = text.substr(0, comma);
    base += 32;
  }
  return bits;
}

std::vector<std::string_view> words_of(std::string_view text, std::size_t most) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::vector<std::string_view> words;
  for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos && words.size() < most;) {
    const std::size_t end = text.find_first_of(kBlanks, at);
    words.push_back(text.substr(at, end - at));
    at = end == std::string_view::npos ? end : text.find_first_not_of(kBlanks, end);
  }
  return words;
}

}  // namespace peal::topology
