// Numbers that look random and are always the same for the same input.
#pragma once

#include <cstdint>

namespace peal {

inline constexpr std::uint64_t kMixStep = 0x9e3779b97f4a7c15U;

/// splitmix64's finaliser (G. Steele, D. Lea, C. Flood, OOPSLA 2014).
constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x += kMixStep;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// The next number of splitmix64, whose state is `state`.
constexpr std::uint64_t next_mixed(std::uint64_t& state) noexcept {
  const std::uint64_t mixed = mix_bits(state);
  state += kMixStep;
  return mixed;
}

}  // namespace peal
