#include "step_bound.hpp"

#include <algorithm>
#include <base/units.hpp>

namespace peal::training {

namespace {

using Part = BoundCosts::Part;

Part cost_part_of(const TaskCosts& costs, Task task) {
  const auto seconds = [&](TaskKind kind) {
    task.kind = kind;
    return costs.pass(task).time() * kSecondsOfNanosecond;
  };
  return {seconds(TaskKind::forward), seconds(TaskKind::backward_input), seconds(TaskKind::backward_weight)};
}

void add(Part& sum, const Part& part) {
  sum.forward += part.forward;
  sum.input += part.input;
  sum.weight += part.weight;
}

Part chunk_part(const Model& model, const Layout& layout, const BoundCosts& costs, int chunk) {
  Part sum;
  const LayerRange range = layers_of(model, layout, chunk);
  for (int layer = range.first; layer < range.first + range.count; ++layer) add(sum, costs.layers[static_cast<std::size_t>(layer)]);
  if (chunk == 0) add(sum, costs.embedding);
  if (chunk == layout.chunks() - 1) add(sum, costs.head);
  return sum;
}

}  // namespace

BoundCosts bound_costs(const Model& model, const TaskCosts& costs) {
  BoundCosts all;
  for (int layer = 0; layer < layers_in(model); ++layer) {
    Task task;
    task.layers = {layer, 1};
    all.layers.push_back(cost_part_of(costs, task));
  }
  Task end;
  end.has_embedding = true;
  all.embedding = cost_part_of(costs, end);
  end.has_embedding = false;
  end.has_head = true;
  all.head = cost_part_of(costs, end);
  return all;
}

double step_bound(const Model& model, const Layout& layout, const BoundCosts& costs, const ComputeModel& compute) {
  // Stage s starts when the first micro batch has passed the first chunks before it, and the gradient of the last one passes them again,
  // beside which a schedule without bubbles works on the stage's weights.
  const bool keeps_weights = layout.pipeline == PipelineKind::zero_bubble;
  double longest = 0, forward = 0, back = 0;
  for (int stage = 0; stage < layout.pp; ++stage) {
    double passed = 0, weights = 0;
    for (int chunk = stage; chunk < layout.chunks(); chunk += layout.pp) {
      const Part part = chunk_part(model, layout, costs, chunk);
      passed += part.forward + part.input;
      weights += part.weight;
    }
    const double work = layout.micro_batches() * (passed + weights);
    const double until_first = layout.micro_batches() * passed + back;
    longest = std::max(longest, forward + (keeps_weights ? std::max(work, until_first) : work + back));
    const Part first = chunk_part(model, layout, costs, stage);
    forward += first.forward;
    back += first.input;
  }
  return longest + compute.step_overhead().seconds();
}

}  // namespace peal::training
