// A time that no simulation of a step goes below: computing, calls that computing waits for, and what a pipeline's filling and draining
// leave no way round. Gradients and messages between stages are taken as hidden. Private to this room.
#pragma once

#include <vector>

#include "pass_costs.hpp"

namespace peal::training {

/// Seconds of parts of a micro batch, with the calls that they wait for.
struct BoundCosts {
  struct Part {
    double forward = 0, input = 0, weight = 0;
  };
  std::vector<Part> layers;  ///< of the model's
  Part embedding, head;
};
BoundCosts bound_costs(const Model& model, const TaskCosts& costs);

/// `costs` and `compute` of this layout, or of one that differs in the pipeline alone.
double step_bound(const Model& model, const Layout& layout, const BoundCosts& costs, const ComputeModel& compute);

}  // namespace peal::training
