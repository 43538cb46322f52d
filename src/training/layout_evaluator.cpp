// What the planner asks of the models of computing, memory and communication, each asked once.
#include <algorithm>
#include <map>
#include <mutex>
#include <training/planner.hpp>

#include "step_bound.hpp"

namespace peal::training {

namespace {

/// Layouts with equal keys have the same groups of ranks.
std::vector<int> shape_key(const Layout& l) {
  std::vector<int> key = {l.tp, l.cp, l.dp, l.pp, l.ep};
  for (const Dimension dimension : l.order) key.push_back(static_cast<int>(dimension));
  return key;
}

/// Layouts with equal keys compute a layer in the same time.
std::vector<int> compute_key(const Layout& l) {
  return {l.tp, l.cp, l.dp, l.pp, l.ep, l.micro_batch, static_cast<int>(l.recompute), l.zero >= 3 ? 1 : 0};
}

/// One thread at a time.
struct Shape {
  std::mutex mutex;
  std::optional<Communication> communication;
};

class Evaluator {
 public:
  Evaluator(const Model& model, const topology::Cluster& cluster, sim::Library whose, Processor processor)
      : model_(model), cluster_(cluster), whose_(whose), processor_(std::move(processor)) {}

  Result<double> memory(const Layout& layout) const {
    PEAL_ASSIGN(const std::vector<StageMemory> stages, memory_of(model_, layout));
    return fullest(stages).total();
  }

  Result<std::vector<std::array<Dimension, 4>>> orders(const Layout& layout) {
    PEAL_ASSIGN(const ComputeModel* compute, compute_for(layout));
    return orders_of(layout, traffic_of(model_, layout, *compute));
  }

  Result<std::vector<std::string>> placement(const Layout& layout) {
    PEAL_ASSIGN(const ComputeModel* compute, compute_for(layout));
    PEAL_ASSIGN(const std::vector<DimensionPlace> places, places_of(cluster_, layout, traffic_of(model_, layout, *compute)));
    std::vector<std::string> sentences;
    for (const DimensionPlace& place : places) sentences.push_back(place_text(place, places));
    return sentences;
  }

  Result<double> bound(const Layout& layout) {
    PEAL_ASSIGN(const ComputeModel* compute, compute_for(layout));
    PEAL_ASSIGN(const BoundCosts* costs, costs_for(layout, *compute));
    return step_bound(model_, layout, *costs, *compute);
  }

  Result<StepReport> simulate(const Layout& layout) {
    Shape& shape = shape_for(layout);
    const std::lock_guard hold(shape.mutex);
    PEAL_TRY(make(shape, layout));
    StepOptions options;
    options.whose = whose_;
    PEAL_ASSIGN(StepStudy study, simulate_step(model_, cluster_, layout, *shape.communication, options));
    return std::move(study.report);
  }

 private:
  Result<const ComputeModel*> compute_for(const Layout& layout) {
    const std::lock_guard hold(mutex_);
    const std::vector<int> key = compute_key(layout);
    const auto found = computes_.find(key);
    if (found != computes_.end()) return found->second.get();
    PEAL_ASSIGN(ComputeModel made, ComputeModel::make(model_, layout, processor_));
    return (computes_[key] = std::make_unique<ComputeModel>(std::move(made))).get();
  }

  Shape& shape_for(const Layout& layout) {
    const std::lock_guard hold(mutex_);
    std::unique_ptr<Shape>& shape = shapes_[shape_key(layout)];
    if (shape == nullptr) shape = std::make_unique<Shape>();
    return *shape;
  }

  Status make(Shape& shape, const Layout& layout) const {
    if (shape.communication) return {};
    PEAL_ASSIGN(Communication made, Communication::make(cluster_, layout, whose_));
    shape.communication.emplace(std::move(made));
    return {};
  }

  Result<const BoundCosts*> costs_for(const Layout& layout, const ComputeModel& compute) {
    std::vector<int> key = compute_key(layout);
    const std::vector<int> shape_part = shape_key(layout);
    key.insert(key.end(), shape_part.begin(), shape_part.end());
    {
      const std::lock_guard hold(mutex_);
      const auto found = costs_.find(key);
      if (found != costs_.end()) return found->second.get();
    }
    Shape& shape = shape_for(layout);
    const std::lock_guard hold(shape.mutex);
    PEAL_TRY(make(shape, layout));
    PEAL_ASSIGN(const TaskCosts tasks, TaskCosts::make(model_, layout, compute, *shape.communication));
    const std::lock_guard hold_all(mutex_);
    std::unique_ptr<BoundCosts>& costs = costs_[key];  // another thread may have been as far
    if (costs == nullptr) costs = std::make_unique<BoundCosts>(bound_costs(model_, tasks));
    return costs.get();
  }

  const Model& model_;
  const topology::Cluster& cluster_;
  sim::Library whose_;
  Processor processor_;
  std::mutex mutex_;  // of the maps; what they point to stays. Taken after a shape's, never before.
  std::map<std::vector<int>, std::unique_ptr<ComputeModel>> computes_;
  std::map<std::vector<int>, std::unique_ptr<Shape>> shapes_;
  std::map<std::vector<int>, std::unique_ptr<BoundCosts>> costs_;
};

}  // namespace

Result<LayoutEvaluator> make_evaluator(const Model& model, const topology::Cluster& cluster, sim::Library whose) {
  PEAL_ASSIGN(Processor processor, processor_of(cluster));
  LayoutEvaluator answers;
  answers.memory_limit = processor.memory_bytes;
  const auto evaluator = std::make_shared<Evaluator>(model, cluster, whose, std::move(processor));
  answers.memory = [evaluator](const Layout& layout) { return evaluator->memory(layout); };
  answers.orders = [evaluator](const Layout& layout) { return evaluator->orders(layout); };
  answers.placement = [evaluator](const Layout& layout) { return evaluator->placement(layout); };
  answers.bound = [evaluator](const Layout& layout) { return evaluator->bound(layout); };
  answers.simulate = [evaluator](const Layout& layout) { return evaluator->simulate(layout); };
  return answers;
}

}  // namespace peal::training
