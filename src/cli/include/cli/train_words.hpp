// What `peal train` takes and says.
#pragma once

#include <base/result.hpp>
#include <parallel/stale_train.hpp>
#include <parallel/train.hpp>
#include <string>

namespace CLI {
class App;
}

namespace peal::cli {

inline constexpr double kStepPatience_s = 30;  ///< that a step and a checkpoint may take after Ctrl-C
inline constexpr int kUnbounded = -1;          ///< --staleness where it is not given

struct TrainWords {
  int tp = 1, cp = 1, dp = 1, pp = 1, vpp = 1, zero = 0, micro_batch = 2, global_batch = 0;
  int layers = 4, heads = 4, experts = 0, chosen = 2, ep = 1;
  std::int64_t hidden = 64, ffn = 0, seq = 64, steps = 20, seed = 1, save_every = 0;
  double learning_rate = 1e-3, timeout_s = 0;
  int staleness = kUnbounded;
  double straggler = 1;
  bool tie_embeddings = false, sequence_parallel = false, no_overlap = false, check = false, asynchronous = false;
  std::string pipeline, recompute = "none", bucket = "64K", arithmetic = "auto", save, resume, json;
};

void add_train_options(CLI::App& command, TrainWords& words);
/// `ranks` that the job has; 0: they are started here, all on this host. Fails with one sentence for what cannot be.
Result<parallel::TrainOptions> train_options_of(const TrainWords& words, int ranks);

/// Asynchronous data parallel: a rank for the parameters beside dp workers.
Result<parallel::StaleOptions> stale_options_of(const TrainWords& words, int ranks);

std::string train_heading(const TrainWords& words, const parallel::TrainOptions& options);
/// Of few steps all, of many about twenty are printed, the first and the last among them. `taken`: of this run, from 1.
bool is_shown(std::int64_t steps, std::int64_t taken);
std::string train_line(const parallel::StepNote& note);
std::string train_ending(const parallel::TrainReport& report);
std::string stale_heading(const TrainWords& words, const parallel::StaleOptions& options);
std::string stale_line(const parallel::StaleNote& note);
std::string stale_ending(const parallel::StaleOptions& options, const parallel::StaleReport& report);
/// Schema peal.train/1.
std::string train_json(const parallel::TrainOptions& options, const parallel::TrainReport& report);

}  // namespace peal::cli
