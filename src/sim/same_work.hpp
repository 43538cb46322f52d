// Do two plans make the same of a simulation? Private to this room.
#pragma once

#include <tuning/plan.hpp>

namespace peal::sim {

/// True where every rank runs the very same ops on equally cut buffers by the same protocol: then all that an interpretation looks at is
/// equal, and so is what comes out. False also where that would have to be looked at closer (v-collectives). O(ops of all ranks).
bool is_same_work(const tuning::Plan& a, const tuning::Plan& b);

}  // namespace peal::sim
