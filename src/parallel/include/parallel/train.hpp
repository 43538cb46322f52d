// A whole training run on one rank of a job: steps, check, checkpoints, a clean end when asked for.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <parallel/gradient_check.hpp>
#include <string>
#include <vector>

namespace peal::parallel {

struct TrainOptions {
  GptJob job;
  std::int64_t steps = 20;
  bool checks = false;
  std::string save;                         ///< file of the checkpoint, written at the end; empty: none
  std::int64_t save_every = 0;              ///< steps; 0: at the end only
  std::string resume;                       ///< file of a checkpoint to go on from, of whatever layout
  const std::atomic<bool>* stop = nullptr;  ///< set from outside: ends after the step that is being taken
};

/// Of all ranks: the mean loss, the slowest rank's time, communication as a mean over ranks.
struct StepNote {
  std::int64_t step = 0;  ///< from 1
  double loss = 0;
  double seconds = 0;
  double tokens_per_s = 0;
  StepTimes times;
};

struct TrainReport {
  std::vector<StepNote> steps;
  std::int64_t first_step = 0;  ///< that were taken before, by who wrote the checkpoint
  bool was_stopped = false;
  std::string saved;                 ///< file of the last checkpoint
  std::int64_t state_bytes = 0;      ///< parameters, gradients and moments of the rank that holds most, after the last step
  std::optional<CheckResult> check;  ///< on rank 0
  /// Share of the gradients' and parameters' communication that computing did not wait for, of all steps but the first; below 0: there was
  /// none.
  double hidden_share() const;
};

/// Collective over `world`, whose ranks are the layout's; null: one rank. `progress` on rank 0, after every step. A signal that sets `stop`
/// on any rank stops all after the same step.
Result<TrainReport> train(const TrainOptions& options, const std::shared_ptr<comm::Core>& world,
                          const std::function<void(const StepNote&)>& progress);

}  // namespace peal::parallel
