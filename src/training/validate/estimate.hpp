// A step's time in closed form, with the constants left open: what a fit turns thousands of times. The step graph in virtual time
// (step.hpp) is the judge; this stands for it between two of its answers.
#pragma once

#include <training/step.hpp>
#include <training/validate_training.hpp>

#include "kernels.hpp"

namespace peal::training {

/// A pass with the time of each of its calls.
struct TimedPass {
  Pass pass;
  std::vector<Nanoseconds> calls;
};

struct StageLoad {
  std::vector<int> layers;  ///< how many of each kind
  bool has_embedding = false, has_head = false;
};

/// All that a row's time is made of but the constants.
struct OpenRun {
  RateKeys keys;
  Layout layout;
  std::vector<TimedPass> forward, input, weight;  ///< by kind of layer
  TimedPass embedding[2], head[2];                ///< forward, backward
  std::vector<StageLoad> stages;
  double send_us = 0;       ///< of a micro batch between stages
  double optimizer_us = 0;  ///< at a byte a parameter
  double gather_us = 0;     ///< of parameters of a layer (ZeRO 3), or of all after the optimiser (ZeRO 1 and 2)
  double reduce_us = 0;     ///< of gradients of a layer (ZeRO 3), or of all
  double ratio = 1;         ///< of the step graph's time to this one, with the constants of data/
};

Result<OpenRun> open_run(const TrainingRun& run, const topology::LibraryConstants& constants, Communication& communication);
/// Seconds.
double estimate(const OpenRun& run, const Rates& rates);

}  // namespace peal::training
