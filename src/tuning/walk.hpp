// One walk through all programs of a plan, with cores and ways out taken in turn. Private to this room.
#pragma once

#include <tuning/cost.hpp>

namespace peal::tuning {

/// How much of the plan to walk.
struct WalkExtent {
  std::int32_t pieces = 1;  ///< so many full pieces
  double scale = 1;         ///< of the bytes of every op (streamed plans)
};

/// Time, breakdown and bytes of that extent. Fails when the plan blocks.
Result<Prediction> walk(const Environment& environment, const Plan& plan, const std::vector<schedule::Program>& programs,
                        const WalkExtent& extent);

}  // namespace peal::tuning
