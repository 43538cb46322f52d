// Predictions held against published measurements: each row of a table predicted by the library model, errors by case, by class and by
// size.
//
// The error of a row is |predicted - measured| / measured, of the time. A range of sizes is judged by two figures: the median over cases of
// each case's median error, and the 90th percentile over all rows. Percentiles are interpolated between neighbours.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <sim/library.hpp>
#include <sim/published.hpp>
#include <string>
#include <topology/library_constants.hpp>
#include <vector>

namespace peal::sim {

struct PredictedRow {
  PublishedRow measured;
  std::optional<LibraryAnswer> answer;  ///< none: `why_not` says why
  std::string why_not = {};

  /// (predicted - measured) / measured. Needs an answer.
  double signed_error() const { return answer->time.value * 1e-3 / measured.time_us - 1; }
  bool is_judged() const { return answer.has_value() && measured.set_apart.empty(); }
};

struct PredictedCase {
  PublishedCase published;   ///< without its rows
  std::string why_not = {};  ///< why the whole case is not predicted; empty: it is
  Library whose = Library::nccl;
  int ranks = 0;
  int nodes = 0;
  std::string title = {};       ///< of the machine
  std::string generation = {};  ///< of its GPUs: "sm 90", "gfx 942", else their name
  std::string setting = {};     ///< what the model was told besides the sizes; equal for cases that it cannot tell apart
  std::vector<std::string> remarks = {};
  std::vector<PredictedRow> rows;
};

/// Ranges of message sizes that are judged apart.
inline constexpr int kSizeRanges = 3;
std::string_view name_of_range(int range) noexcept;  ///< "below 1 MiB", "1 to 16 MiB", "16 MiB and more"
int range_of(Bytes size) noexcept;
Bytes begin_of_range(int range) noexcept;  ///< its smallest size; of the one behind the last: 10^18

/// Errors as shares (0.05: 5 %).
struct Errors {
  int cases = 0;
  int rows = 0;
  double median = 0;  ///< over cases, of each case's median
  double p90 = 0;     ///< over rows
  double worst = 0;   ///< of a row
  double bias = 0;    ///< median over cases of each case's median signed error: above zero is predicted too slow
};
using ErrorsBySize = std::array<Errors, kSizeRanges>;

/// Of the rows that are judged; `range` -1: all sizes.
Errors errors_of(const std::vector<const PredictedCase*>& cases, int range);
ErrorsBySize errors_by_size(const std::vector<const PredictedCase*>& cases);

struct ErrorClass {
  std::string kind;                   ///< "wires", "collective", "generation", "evidence"
  std::string name;                   ///< "between nodes", "all_gather", "sm 90"
  std::vector<std::string> machines;  ///< of the cases, for people
  ErrorsBySize errors;
};

/// Bounds as shares; none: not judged.
struct Bounds {
  std::array<std::optional<double>, kSizeRanges> median = {0.20, 0.15, 0.05};
  std::array<std::optional<double>, kSizeRanges> p90 = {0.50, 0.40, 0.20};
};
/// Percent: "10" every median; "20,15,5" medians by size, small first; "20,15,5,50,40,20" then the 90th percentiles by size.
Result<Bounds> parse_bounds(std::string_view text);

/// Fitting without the machines of one kind and predicting them: the honest figure beside the fitted one.
struct KeptOut {
  std::string machine;  ///< catalogue name
  int cases = 0;
  ErrorsBySize errors;
};

/// Cases that the model cannot tell apart, and how far apart their times are in the rows (size, in or out of place) that both have.
struct Disagreement {
  std::string a, b;       ///< labels
  int rows = 0;           ///< that both have
  int apart = 0;          ///< of them: by more than a quarter of the smaller time
  double difference = 0;  ///< median of |a - b| / the smaller
};

/// A rate that two cases rest on and would have far apart: medians of their rows from 16 MiB on, with sign.
struct Tension {
  std::string constant;
  std::string fast, slow;  ///< labels of the cases that are predicted fastest and slowest
  double fastest = 0;
  double slowest = 0;
};

struct Validation {
  std::string file;
  std::vector<PredictedCase> cases;
  ErrorsBySize errors;
  Errors all;
  std::vector<ErrorClass> classes;
  std::vector<topology::LibraryConstant> free;  ///< fitted ones that the predictions used; two machines or more make one evidence
  std::vector<KeptOut> kept_out;                ///< of machines whose generation occurs in other machines, too; empty: not asked for
  ErrorsBySize kept_out_errors;                 ///< over all their cases
  std::vector<Disagreement> disagreements;
  std::vector<Tension> tensions;
};

struct ValidateOptions {
  std::optional<topology::LibraryConstants> constants = {};  ///< none: those of data/
  std::optional<Library> whose;                              ///< behaviour; none: that of the library of the machine's GPUs
  std::string clusters = {};                                 ///< folder with <case_id>.yaml; empty: none
  std::function<void(const std::string&)> progress = {};     ///< one line a case
};

/// Predicts every row. Fails only where the constants cannot be read; a case that cannot be predicted says so in the answer.
Result<Validation> validate(std::string file, std::vector<PublishedCase> cases, const ValidateOptions& options);

/// Constants fitted to every row that is judged, with the accuracy that they then have. Weights: a case's rows of one range of sizes count
/// as one row, 2.25 times from 1 MiB and 16 times from 16 MiB on, where bandwidth decides; cases of one machine together as the square root
/// of their number; cases that say why they are not fitted (PublishedCase::not_fitted) not at all.
Result<topology::LibraryConstants> fit_to(const std::vector<PublishedCase>& cases, const ValidateOptions& options);

/// Leaves out one machine after another, fits to the others and predicts it; fills in `kept_out` of `validation`. A machine whose cases
/// rest on constants that no other machine has is left alone.
Status keep_out(Validation& validation, const std::vector<PublishedCase>& cases, const ValidateOptions& options);

/// What is above its bound, one line each; empty: all holds. Says so, too, where nothing was predicted.
std::vector<std::string> violations(const Validation& validation, const Bounds& bounds);

std::string validation_text(const Validation& validation, const Bounds& bounds);
std::string validation_json(const Validation& validation, const Bounds& bounds);  ///< schema peal.validate/1
/// Every row beside its prediction.
std::string validation_csv(const Validation& validation);

}  // namespace peal::sim
