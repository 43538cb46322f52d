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

}  // namespace peal::topology
