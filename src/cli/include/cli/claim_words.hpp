// What claims ask of the simulator.
#pragma once

#include <string>
#include <topology/claims.hpp>

namespace peal::cli {

/// Out of place, of the words after `peal sim`: "all_reduce --machine dgx-a100 --library nccl -b 1G".
/// Of "step --model ...": the step's time, computing's share, "% MFU", "tokens/s", "samples/s" and "GB" of the fullest GPU.
Result<topology::ClaimAnswer> simulate_claim(const std::string& sentence);
/// Of the words after `peal cost`: "hours", "years", "kWh", and in the currency of data/prices "... of electricity", "... to rent", "... to
/// buy".
Result<topology::ClaimAnswer> price_claim(const std::string& sentence);

}  // namespace peal::cli
