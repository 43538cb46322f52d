// Sizes of messages.
#pragma once

#include <cstdint>

namespace peal::sim {

inline constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGibi = std::uint64_t{1} << 30;

}  // namespace peal::sim
