// A small GPT in training on one rank: graph, groups, stage and runner of one layout. Alone (no communicator) it is the serial run.
#pragma once

#include <memory>
#include <parallel/gpt_stage.hpp>

namespace peal::parallel {

/// Seconds of this rank, since they were last forgotten.
struct StepTimes {
  double gradients_took = 0;    ///< calls over data-parallel ranks, from their start to their end
  double gradients_waited = 0;  ///< that computing stood still for them
  double pipeline_waited = 0;   ///< for messages of other stages, and so for the bubble
  double tensor_waited = 0;     ///< calls inside layers, all of which computing waits for
  double context_waited = 0;
  double experts_waited = 0;
};

class GptTrainer {
 public:
  /// Of a job that training::check() and check_job() pass. Collective over `world`, whose ranks are the layout's; null: the layout has one.
  static Result<std::unique_ptr<GptTrainer>> make(const GptJob& job, const std::shared_ptr<comm::Core>& world);

  /// Step `number` of the text.
  Status step(std::int64_t number);
  GptStage& stage() { return *stage_; }
  const GptJob& job() const { return job_; }
  StepTimes times() const;
  void forget_times();

 private:
  explicit GptTrainer(const GptJob& job) : job_(job) {}

  GptJob job_;
  training::StepGraph graph_;
  GptGroups groups_;
  std::unique_ptr<GptStage> stage_;
  std::unique_ptr<StepRunner> runner_;
};

/// The same job on one rank: micro batch by micro batch, nothing cut.
GptJob serial_job(const GptJob& job);

/// All of a parameter's values, gradients or moments on rank 0 of `world` (elsewhere what is returned says nothing). Collective.
Result<Buffer> collect_whole(GptStage& stage, Kept kept, const ParameterSpec& spec, const std::shared_ptr<comm::Core>& world);

}  // namespace peal::parallel
