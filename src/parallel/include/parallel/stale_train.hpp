// Asynchronous data parallel training: one rank keeps the parameters, the others push gradients and pull parameters when they are ready,
// nobody in step with anybody. Over windows alone: put, signal, wait, get.
//
//   worker  put gradient -> server   signal(pushed)   wait(released)   get parameters <- server
//   server  wait(pushed) by whoever comes first, step, and release the worker with a snapshot of what is there now
//
// With a bound of s a worker is not released while it would begin a step s or more ahead of the slowest (stale synchronous parallel,
// NIPS 2013, Ho et al.); without one nobody waits for anybody. What a gradient is worth is shown: its staleness is how many other gradients
// were taken between the pull of its parameters and its push.
#pragma once

#include <atomic>
#include <functional>
#include <parallel/gpt_stage.hpp>

namespace peal::parallel {

struct StaleOptions {
  GptJob job;               ///< layout: dp workers, nothing else cut
  std::int64_t steps = 20;  ///< of every worker
  int bound = -1;           ///< steps that a worker may be ahead of the slowest; below 0: unbounded
  double straggler = 1;     ///< the last worker takes so many times as long for a step
  const std::atomic<bool>* stop = nullptr;
};

struct StaleNote {
  std::int64_t updates = 0;   ///< gradients taken so far
  double loss = 0;            ///< mean of the last `workers` gradients'
  double mean_staleness = 0;  ///< of those
};

struct StaleReport {
  std::vector<std::int64_t> staleness;   ///< how many gradients were so stale, from 0
  std::int64_t largest_lead = 0;         ///< steps that some worker had begun before the slowest had
  double first_loss = 0, last_loss = 0;  ///< of fixed text that no worker learns from
  double tokens_per_s = 0;
  bool was_stopped = false;
  double mean_staleness() const;
  std::int64_t largest_staleness() const { return static_cast<std::int64_t>(staleness.size()) - 1; }
};

/// Collective over `world`, whose rank 0 keeps the parameters and whose others, job.layout.dp of them, are the workers. All on one host.
/// What is reported is rank 0's.
Result<StaleReport> train_stale(const StaleOptions& options, const std::shared_ptr<comm::Core>& world,
                                const std::function<void(const StaleNote&)>& progress);

}  // namespace peal::parallel
