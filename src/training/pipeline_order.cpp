// Who computes what in which order.
//
//   1f1b, stage 1 of 4, 6 micro batches:        F0 F1 | F2 B0  F3 B1  F4 B2  F5 B3 | B4 B5          warm-up, steady, drain
//   zero-bubble, the same (I input, W weight):  F0 F1 | F2 I0  F3 I1 W0  F4 I2 W1  F5 I3 W2 | I4 W3 I5 W4 | W5
#include <algorithm>
#include <training/step_graph.hpp>

namespace peal::training {

namespace {

using Order = std::vector<PipelineWork>;

Order gpipe(int stage, int micro_batches) {
  Order order;
  for (const TaskKind kind : {TaskKind::forward, TaskKind::backward})
    for (int m = 0; m < micro_batches; ++m) order.push_back({kind, stage, m});
  return order;
}

Order one_f_one_b(int stages, int micro_batches, int stage) {
  Order order;
  const int warm_up = std::min(micro_batches, stages - stage - 1);
  for (int m = 0; m < warm_up; ++m) order.push_back({TaskKind::forward, stage, m});
  for (int m = 0; m < micro_batches; ++m) {
    if (m + warm_up < micro_batches) order.push_back({TaskKind::forward, stage, m + warm_up});
    order.push_back({TaskKind::backward, stage, m});
  }
  return order;
}

/// Micro batches go in rounds of as many as there are stages, each round through all pieces of a stage (arXiv 2104.04473, 2.2).
Order interleaved(int stages, int vpp, int micro_batches, int stage) {
  const int all = micro_batches * vpp;
  const auto work = [&](TaskKind kind, int k) {
    const int turn = k / stages % vpp;
    const int piece = kind == TaskKind::forward ? turn : vpp - 1 - turn;
    return PipelineWork{kind, stage + piece * stages, k / (stages * vpp) * stages + k % stages};
  };
  Order order;
  const int warm_up = std::min(all, 2 * (stages - stage - 1) + (vpp - 1) * stages);
  for (int k = 0; k < warm_up; ++k) order.push_back(work(TaskKind::forward, k));
  for (int k = 0; k < all; ++k) {
    if (k + warm_up < all) order.push_back(work(TaskKind::forward, k + warm_up));
    order.push_back(work(TaskKind::backward, k));
  }
  return order;
}

/// As 1F1B, with weight gradients put off by as many micro batches as there are stages before this one; they fill the drain.
Order zero_bubble(int stages, int micro_batches, int stage) {
  Order order;
  const int warm_up = std::min(micro_batches, stages - stage - 1);
  int weights = 0;
  for (int m = 0; m < warm_up; ++m) order.push_back({TaskKind::forward, stage, m});
  for (int m = 0; m < micro_batches; ++m) {
    const bool is_draining = m + warm_up >= micro_batches;
    if (!is_draining) order.push_back({TaskKind::forward, stage, m + warm_up});
    order.push_back({TaskKind::backward_input, stage, m});
    if (is_draining || m - weights >= stage) order.push_back({TaskKind::backward_weight, stage, weights++});
  }
  while (weights < micro_batches) order.push_back({TaskKind::backward_weight, stage, weights++});
  return order;
}

}  // namespace

std::vector<PipelineWork> pipeline_order(PipelineKind kind, int stages, int vpp, int micro_batches, int stage) {
  switch (kind) {
    case PipelineKind::gpipe: return gpipe(stage, micro_batches);
    case PipelineKind::one_f_one_b: return one_f_one_b(stages, micro_batches, stage);
    case PipelineKind::interleaved: return interleaved(stages, vpp, micro_batches, stage);
    case PipelineKind::zero_bubble: return zero_bubble(stages, micro_batches, stage);
  }
  return {};
}

}  // namespace peal::training
