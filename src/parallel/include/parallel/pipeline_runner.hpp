// A pipeline of stages for a program's own work: the step graph of a model of which only the number of chunks is known
// (<peal/parallel.hpp>).
#pragma once

#include <functional>
#include <parallel/step_runner.hpp>

namespace peal::parallel {

struct PipelineCalls {
  std::function<Status(int chunk, int micro_batch, const float* input, float* output)> forward;
  std::function<Status(int chunk, int micro_batch, const float* output_gradient, float* input_gradient)> backward;
  std::function<Status(int chunk, int micro_batch)> backward_weight;
};

class PipelineRunner final : private StageWork {
 public:
  /// `core` null: one stage. Fails with one sentence for an order that cannot be.
  static Result<std::unique_ptr<PipelineRunner>> make(std::shared_ptr<comm::Core> core, training::PipelineKind kind, int micro_batches,
                                                      int pieces, std::int64_t elements, PipelineCalls calls);
  Status step() { return runner_->run(); }
  int chunks() const { return graph_.layout.chunks(); }
  const CallStream::Times& times() const { return runner_->pipeline().times(); }

 private:
  PipelineRunner() = default;
  std::int64_t boundary() const override { return elements_; }
  Status compute(const training::Task& task, const float* input, float* output) override;
  Result<std::vector<DataCall>> calls_of(const training::Task&) override { return std::vector<DataCall>(); }
  Status end_calls(const training::Task&) override { return {}; }

  training::StepGraph graph_;
  std::int64_t elements_ = 0;
  PipelineCalls calls_;
  std::unique_ptr<StepRunner> runner_;
};

}  // namespace peal::parallel
