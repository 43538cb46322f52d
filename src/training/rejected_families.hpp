// Why the choices that the best layout does not make are not made. Private to this room.
#pragma once

#include "layout_candidates.hpp"

namespace peal::training {

/// Fills in the reports of those that have none.
using SimulateAll = std::function<Status(const std::vector<Candidate*>&)>;

/// A line for each choice that `best` does not make: it does not divide, it does not fit, or how much slower its best member is and what
/// it loses there. Its best member is the fastest of those that were simulated, and of those with the lowest bounds, which are simulated
/// now.
Result<std::vector<RejectedFamily>> rejected_families(std::vector<Candidate>& all, const LayoutSpace& space, double memory_limit,
                                                      const StepReport& best, const SimulateAll& simulate);

}  // namespace peal::training
