// Numbers that look random and are the same everywhere. For the reference interpreter alone.
#pragma once

#include <cstdint>

namespace peal::agreement {

inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return mix(a ^ (mix(b) + 0x632be59bd9b4e019)); }

}  // namespace peal::agreement
