// Cases that no model of this kind, or no value of a constant, could meet together. Private to this room.
#pragma once

#include <sim/validate.hpp>

namespace peal::sim {

/// Cases that are one run to the model and are a quarter apart in three rows and a tenth of them at least.
std::vector<Disagreement> disagreements_of(const std::vector<PredictedCase>& cases);
/// Rates that one case finds a fifth smaller than another, from 16 MiB on: the two that are farthest apart.
std::vector<Tension> tensions_of(const std::vector<PredictedCase>& cases);

}  // namespace peal::sim
