// Sets of PUs and lists of numbers as hwloc writes them.
#pragma once

#include <string_view>
#include <vector>

namespace peal::topology {

inline constexpr long long kMostPus = 1 << 20;

/// "0x0000ffff,0xffffffff,,0x1": words of 32 bits, the highest first, an empty word is zero. Ascending; what is no such text gives fewer
/// bits.
std::vector<int> set_bits(std::string_view text);

}  // namespace peal::topology
