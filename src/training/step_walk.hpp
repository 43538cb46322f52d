// The step graph in virtual time. Private to this room.
#pragma once

#include "pass_costs.hpp"

namespace peal::training {

/// Threads of a stage in the trace: computing, data, and each kind of transfer of the pipeline's stream, which has its own turn.
inline constexpr int kLanes = 6;

/// Of one stage; nanoseconds.
struct StageTimes {
  PassCost passes;  ///< all passes together
  double optimizer = 0;
  double waited[kDimensions] = {};  ///< for transfers and calls between passes
  double called[kDimensions] = {};  ///< those transfers and calls, whether waited for or not
  double idle = 0;                  ///< before a computation, that no call explains: for other stages
  double behind = 0;                ///< calls after its last computation
  double end = 0;

  double busy() const { return passes.time() + optimizer; }
};

struct StepTimes {
  std::vector<StageTimes> stages;
  double time = 0;  ///< nanoseconds, until the last stage is done
};

/// `trace` may be null.
Result<StepTimes> walk_step(const StepGraph& graph, TaskCosts& costs, Trace* trace);

}  // namespace peal::training
