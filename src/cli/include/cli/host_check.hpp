// `peal validate --host`: predicted times of this host's collectives against what they take now, on collectives and at sizes that the
// constants were not fitted to.
#pragma once

#include <cli/tune.hpp>

namespace peal::cli {

/// What was typed.
struct HostCheckWords {
  int ranks = 2;
  std::string transports;   ///< shm or tcp; empty: both
  std::string collectives;  ///< empty: all that have a choice, but for those whose blocks vary
  std::string bound, json;
  std::string part;  ///< where a rank writes what it found; empty: this is no rank
  double budget_s = 60;
};
/// The command: 0 where the bounds are kept, 1 where they are not.
Result<int> validate_host(const HostCheckWords& words);

struct HostCheckOptions {
  std::vector<Collective> collectives;
  std::uint64_t largest = 8u << 20;
  double budget_s = 20;
};

/// One call with the cores at one distance. Times in microseconds.
struct HostCell {
  std::string transport;
  Collective collective = Collective::all_reduce;
  std::uint64_t bytes = 0;
  std::string algorithm, protocol;
  tuning::CoreDistance cores = tuning::CoreDistance::unknown;
  int rounds = 0;
  double exchange_ns = 0;   ///< median over the rounds
  double us = 0;            ///< as TunedPoint::typical over one communicator, the median of three
  double least_us = 0;      ///< of the three
  double most_us = 0;       ///< ... how far the machine agrees with itself
  double predicted_us = 0;  ///< tuning::PredictedTime; 0: the table has no constants for this distance and protocol
  double model_us = 0;      ///< the same by the constants alone
  double full_speed = 1;    ///< share of the calls that `us` is of (core_speed.hpp)
  double all_us = 0;        ///< the median over all rounds of the median of all calls

  double error() const { return predicted_us / us - 1; }
  double noise() const;  ///< most over least, less 1
};

/// What is asked: every collective of one way to choose or several, at sizes that no table has (48 B, and on in fours).
std::vector<TunedPoint> points_to_check(const HostCheckOptions& options);

/// Every rank of `world` calls it; its environment holds the table. Cells with fewer than four rounds are left out.
Result<std::vector<HostCell>> run_host_check(comm::Core& world, const HostCheckOptions& options,
                                             const std::function<void(const std::string&)>& say);

/// Of the cells that have a prediction: median and worst of |error|, and of the noise.
struct HostErrors {
  int cells = 0;
  int unpredicted = 0;
  double median = 0, worst = 0, median_noise = 0, worst_noise = 0;
  double model_median = 0, model_worst = 0;  ///< of the model alone
  double median_of_all = 0;                  ///< of |predicted / median of all calls - 1|
  double full_speed = 0;                     ///< share of the calls that were made at full speed, mean over the cells
};
HostErrors errors_of(const std::vector<HostCell>& cells);

/// A line for every cell, medians and worst by transport, and those beyond `worst`.
std::string host_check_text(const std::vector<HostCell>& cells, double median, double worst);
std::string host_check_json(const std::vector<HostCell>& cells);
Result<std::vector<HostCell>> host_cells_from_json(const std::string& text);

}  // namespace peal::cli
