// Kinds of collectives that libraries treat alike. Private to this room.
#pragma once

#include <peal/types.hpp>

namespace peal::sim {

constexpr bool is_gather(Collective c) { return c == Collective::all_gather || c == Collective::reduce_scatter; }
constexpr bool is_rooted(Collective c) { return c == Collective::broadcast || c == Collective::reduce; }

}  // namespace peal::sim
