// What claims ask of the simulator.
#pragma once

#include <string>
#include <topology/claims.hpp>

namespace peal::cli {

/// Out of place, of the words after `peal sim`: "all_reduce --machine dgx-a100 --library nccl -b 1G".
Result<topology::ClaimAnswer> simulate_claim(const std::string& sentence);

}  // namespace peal::cli
