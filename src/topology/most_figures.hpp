// The most that any file of data/ may say. Private to this room.
#pragma once

namespace peal::topology {

inline constexpr double kMostGBps = 1e6;
inline constexpr double kMostNanoseconds = 1e12;

}  // namespace peal::topology
