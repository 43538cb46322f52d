// Predictions of training steps held against a table of published runs: errors by source, order of layouts within a model, memory, and
// what the constants rest on.
//
// The error of a row is (predicted - measured) / measured, of the time of a step. A source is a publication (column source_group).
#pragma once

#include <base/result.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <topology/cluster.hpp>
#include <topology/library_constants.hpp>
#include <training/compute.hpp>
#include <training/layout.hpp>
#include <vector>

namespace peal::training {

/// One published run, as its row says; 0 and empty: it does not say.
struct PublishedRun {
  int line = 0;
  std::string id, source, software, hardware, gpu, model;
  std::string precision, recompute, schedule, sharding, formula, notes;
  int gpus = 0, tp = 0, pp = 0, vpp = 0, cp = 0, ep = 0, dp = 0, micro_batch = 0, global_batch = 0;
  int layers = 0, heads = 0, kv_heads = 0;
  std::int64_t hidden = 0, ffn = 0, vocab = 0, seq_len = 0;
  double seconds = 0;        ///< of a step: measured, or from a published rate of samples
  double tflops = 0;         ///< of a GPU, where there is no time
  double samples_per_s = 0;  ///< of all GPUs
  double peak_gib = 0;       ///< of the fullest GPU
  bool ran_out_of_memory = false;
};

/// True for a table with the columns of published training runs (case_id, gpu_type, tp, pp, dp, seq_len).
bool is_training_table(std::string_view text);
/// Takes any bytes. Errors name file, line and the mend.
Result<std::vector<PublishedRun>> read_training_text(std::string_view text, const std::string& name);

/// A run in the words of this room.
struct TrainingRun {
  Model model;
  Layout layout;
  Processor processor;
  std::string software;  ///< generation (data/constants/training/software.yaml)
  std::string machine;   ///< of the catalogue
  int nodes = 1;
  double seconds = 0;
  std::vector<std::string> assumptions;  ///< what the row does not say
};
/// Fails with the reason why nothing can be predicted.
Result<TrainingRun> run_of(const PublishedRun& published);
/// Its machines, with the row's GPUs in them.
Result<topology::Cluster> cluster_of(const TrainingRun& run);

struct PredictedRun {
  PublishedRun published;
  std::string why_not;  ///< why it is not predicted; empty: it is
  std::vector<std::string> assumptions;
  double measured = 0, predicted = 0;  ///< seconds
  double predicted_gib = 0;
  bool fits = true;
  double error() const { return predicted / measured - 1; }
};

/// Shares (0.05: 5 %).
struct RunErrors {
  int rows = 0;
  double mean = 0;    ///< of absolute errors
  double median = 0;  ///< of absolute errors
  double p90 = 0;     ///< of absolute errors
  double bias = 0;    ///< median with its sign: above zero is predicted too slow
};

/// How well the prediction orders the layouts of one model of one source.
struct ModelOrder {
  std::string source, model;
  int rows = 0;
  double spearman = 0;
};

struct TrainingValidation {
  std::string file;
  std::vector<PredictedRun> runs;
  RunErrors all;
  std::map<std::string, RunErrors> by_source;
  std::vector<ModelOrder> orders;  ///< of models with five rows or more
  RunErrors memory;
  int judged_to_fit = 0;  ///< of rows that ran
  int ran = 0;
  int called_possible = 0;  ///< of rows that ran out of memory
  int ran_out = 0;
  std::map<std::string, RunErrors> kept_out;  ///< by source, predicted by constants fitted without it; empty: not asked for
  RunErrors kept_out_all;
  std::vector<topology::LibraryConstant> free;  ///< fitted constants that the predictions used
};

struct TrainingBounds {
  double mean_error = 0.10, spearman = 0.95, memory = 0.05, misjudged = 0.05;
};

struct TrainingValidateOptions {
  std::optional<topology::LibraryConstants> constants = {};  ///< none: those of data/
  bool fits_anew = false;                                    ///< fit the constants to the table first
  bool keeps_out = false;
  std::function<void(const std::string&)> progress = {};
};

struct TrainingStudy {
  TrainingValidation validation;
  topology::LibraryConstants constants;  ///< that the predictions used, with their accuracy
};

/// Predicts every row; a row that cannot be predicted says why. Fails where constants cannot be read or nothing can be fitted.
Result<TrainingStudy> validate_training(std::string file, const std::vector<PublishedRun>& runs, const TrainingValidateOptions& options);

/// What is above its bound, one line each; empty: all holds.
std::vector<std::string> violations(const TrainingValidation& validation, const TrainingBounds& bounds);
std::string training_validation_text(const TrainingValidation& validation, const TrainingBounds& bounds);
std::string training_validation_json(const TrainingValidation& validation,
                                     const TrainingBounds& bounds);  ///< schema peal.validate_training/1
/// Every row beside its prediction.
std::string training_validation_csv(const TrainingValidation& validation);

}  // namespace peal::training
