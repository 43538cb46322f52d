// What selection may know, the same on all ranks: found by rank 0 on its host and handed to everybody.
#pragma once

#include <comm/world.hpp>
#include <tuning/environment.hpp>
#include <vector>

namespace peal::comm {

/// Collective over the world, before its watch starts. Hosts are taken to be alike: rank 0's is the measure.
Result<tuning::Environment> agreed_environment(World& world);

/// The protocols that messages between ranks of this host may take, as far as this process can say.
Result<std::vector<schedule::Protocol>> host_protocols();

}  // namespace peal::comm
