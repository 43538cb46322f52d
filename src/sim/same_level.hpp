// When two levels of a filling are one. Private to this room.
#pragma once

namespace peal::sim {

inline constexpr double kSameLevel = 1e-9;  // relative: what rounding makes of levels that are equal

}  // namespace peal::sim
