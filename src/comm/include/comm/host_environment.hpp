// What selection may know, the same on all ranks: found by rank 0 on its host and handed to everybody.
#pragma once

#include <comm/world.hpp>
#include <tuning/environment.hpp>

namespace peal::comm {

/// Collective over the world, before its watch starts. Hosts are taken to be alike: rank 0's is the measure.
Result<tuning::Environment> agreed_environment(World& world);

}  // namespace peal::comm
