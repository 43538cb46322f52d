// Plans by hand, for what the registry does not use: events between strands, puts into a peer's memory, credits in loops.
#pragma once

#include <schedule/schedule.hpp>
#include <vector>

namespace peal::mutants {

/// all_reduce: one strand sends, one receives into scratch and signals, one waits and reduces.
schedule::Schedule three_strands(std::int32_t ranks);
/// all_gather by puts: "I am here", put, "it is there".
schedule::Schedule puts(std::int32_t ranks);
/// all_gather by gets from the peers' inputs.
schedule::Schedule gets(std::int32_t ranks);
/// 0 sends eight chunks to 1 through two places of scratch, with credits, in nested loops.
schedule::Schedule double_buffer();

std::vector<schedule::Schedule> hand_made();

}  // namespace peal::mutants
