#include "pass_costs.hpp"

#include <array>
#include <base/index.hpp>

namespace peal::training {

PassCost& PassCost::add(const PassCost& other, double sign) {
  compute += sign * other.compute;
  flops += sign * other.flops;
  for (int d = 0; d < kDimensions; ++d) {
    exposed[d] += sign * other.exposed[d];
    hidden[d] += sign * other.hidden[d];
  }
  return *this;
}

Result<PassCost> TaskCosts::cost_of(const PassWork& work) {
  PassCost cost;
  cost.compute = work.time.value;
  cost.flops = work.flops;
  for (const InnerCall& call : work.calls) {
    PEAL_ASSIGN(const Nanoseconds time, communication_.time(call.over, call.collective, call.bytes));
    const auto dimension = static_cast<std::size_t>(call.over);
    const double exposed = call.times * exposed_us(call, time) * 1e3;
    cost.exposed[dimension] += exposed;
    cost.hidden[dimension] += call.times * time.value - exposed;
  }
  return cost;
}

Result<TaskCosts> TaskCosts::make(const Model& model, const Layout& layout, const ComputeModel& compute, Communication& communication) {
  TaskCosts costs(layout, compute, communication);
  const int count = layers_in(model);
  std::vector<std::array<PassCost, kKinds>> of_kind;
  for (auto& sums : costs.before_) sums.resize(at(count) + 1);
  for (int layer = 0; layer < count; ++layer) {
    const std::size_t kind = at(compute.kind_of(layer));
    if (kind == of_kind.size()) {
      of_kind.emplace_back();
      PEAL_ASSIGN(of_kind[kind][kForward], costs.cost_of(compute.forward(layer)));
      PEAL_ASSIGN(of_kind[kind][kInput], costs.cost_of(compute.backward_input(layer)));
      PEAL_ASSIGN(of_kind[kind][kWeight], costs.cost_of(compute.backward_weight(layer)));
    }
    for (std::size_t pass = 0; pass < kKinds; ++pass) {
      costs.before_[pass][at(layer) + 1] = costs.before_[pass][at(layer)];
      costs.before_[pass][at(layer) + 1].add(of_kind[kind][pass]);
    }
  }
  if (!model.is_transformer()) return costs;
  for (const bool is_backward : {false, true}) {
    PEAL_ASSIGN(costs.embedding_[is_backward ? 1 : 0], costs.cost_of(compute.embedding(is_backward)));
    PEAL_ASSIGN(costs.head_[is_backward ? 1 : 0], costs.cost_of(compute.head(is_backward)));
  }
  return costs;
}

PassCost TaskCosts::layers(Kind kind, const LayerRange& range) const {
  PassCost sum = before_[kind][at(range.first + range.count)];
  return sum.add(before_[kind][at(range.first)], -1);
}

/// Where weights have a pass of their own, the head's are with its inputs (the loss needs both), the embedding has weights alone.
PassCost TaskCosts::pass(const Task& task) const {
  PassCost cost;
  switch (task.kind) {
    case TaskKind::forward:
      cost = layers(kForward, task.layers);
      if (task.has_embedding) cost.add(embedding_[0]);
      if (task.has_head) cost.add(head_[0]);
      break;
    case TaskKind::backward:
      cost = layers(kInput, task.layers);
      cost.add(layers(kWeight, task.layers));
      if (task.has_embedding) cost.add(embedding_[1]);
      if (task.has_head) cost.add(head_[1]);
      break;
    case TaskKind::backward_input:
      cost = layers(kInput, task.layers);
      if (task.has_head) cost.add(head_[1]);
      break;
    case TaskKind::backward_weight:
      cost = layers(kWeight, task.layers);
      if (task.has_embedding) cost.add(embedding_[1]);
      break;
    case TaskKind::optimizer: cost.compute = compute_.optimizer(static_cast<double>(task.elements + task.expert_elements)).value; break;
    default: break;
  }
  return cost;
}

/// With hybrid sharding what is reduced inside groups is summed between them.
Result<double> TaskCosts::data_call(Collective collective, double bytes, bool is_of_experts) {
  if (bytes <= 0) return 0.0;
  const Talkers who = is_of_experts ? Talkers::same_experts : Talkers::same_parameters;
  const int all = is_of_experts ? layout_.data_ranks() / layout_.ep : layout_.data_ranks();
  const int group = layout_.zero_group == 0 ? 0 : is_of_experts ? layout_.expert_zero_ranks() : layout_.zero_group;
  PEAL_ASSIGN(Nanoseconds time, communication_.time_of_data(who, collective, bytes, group));
  if (group > 0 && collective == Collective::reduce_scatter && group < all) {
    PEAL_ASSIGN(const Nanoseconds between, communication_.time_between(who, group, Collective::all_reduce, bytes / group));
    time = time + between;
  }
  return time.value;
}

Result<double> TaskCosts::bucket_call(const Task& task, Collective collective) {
  const double bytes = static_cast<double>(bytes_of(layout_.precision)) / task.calls;
  PEAL_ASSIGN(const double plain, data_call(collective, bytes * static_cast<double>(task.elements), false));
  PEAL_ASSIGN(const double experts, data_call(collective, bytes * static_cast<double>(task.expert_elements), true));
  return (plain + experts) * task.calls;
}

Result<double> TaskCosts::call(int stage, const Task& task) {
  switch (task.kind) {
    case TaskKind::gather_parameters: return bucket_call(task, Collective::all_gather);
    case TaskKind::reduce_gradients: return bucket_call(task, layout_.zero == 0 ? Collective::all_reduce : Collective::reduce_scatter);
    case TaskKind::share_embeddings: {
      PEAL_ASSIGN(const Nanoseconds time, communication_.time_of_ends(static_cast<double>(task.elements) * bytes_of(layout_.precision)));
      return time.value;
    }
    default: break;
  }
  const bool is_send = task.kind == TaskKind::send_forward || task.kind == TaskKind::send_backward;
  PEAL_ASSIGN(const Nanoseconds time, communication_.time_of_send(is_send ? stage : task.peer, is_send ? task.peer : stage,
                                                                  static_cast<double>(task.elements) * bytes_of(layout_.precision)));
  return time.value;
}

}  // namespace peal::training
