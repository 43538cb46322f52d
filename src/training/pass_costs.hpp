// What every task of a step graph takes: passes by layers summed up once, calls by Communication. Private to this room.
#pragma once

#include <training/step.hpp>

namespace peal::training {

/// Nanoseconds.
struct PassCost {
  double compute = 0;
  double exposed[kDimensions] = {};  ///< of calls inside, that computing waits for
  double hidden[kDimensions] = {};
  double flops = 0;

  double time() const {
    double sum = compute;
    for (const double part : exposed) sum += part;
    return sum;
  }
  PassCost& add(const PassCost& other, double sign = 1);
};

class TaskCosts {
 public:
  static Result<TaskCosts> make(const Model& model, const Layout& layout, const ComputeModel& compute, Communication& communication);

  /// Of a computation.
  PassCost pass(const Task& task) const;
  /// Of a task that is none; nanoseconds.
  Result<double> call(int stage, const Task& task);

 private:
  /// The first three are of layers.
  enum Kind : std::uint8_t { kForward, kInput, kWeight, kKinds };

  TaskCosts(const Layout& layout, const ComputeModel& compute, Communication& communication)
      : layout_(layout), compute_(compute), communication_(communication) {}
  Result<PassCost> cost_of(const PassWork& work);
  PassCost layers(Kind kind, const LayerRange& range) const;
  Result<double> data_call(Collective collective, double bytes, bool is_of_experts);
  Result<double> bucket_call(const Task& task, Collective collective);

  const Layout& layout_;
  const ComputeModel& compute_;
  Communication& communication_;
  std::vector<PassCost> before_[kKinds];  // sums over the layers in front
  PassCost embedding_[2], head_[2];       // forward, backward
};

}  // namespace peal::training
