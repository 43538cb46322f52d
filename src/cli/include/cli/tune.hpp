// `peal tune`: what one rank measures, and how the choice is held against sizes that were kept out.
#pragma once

#include <base/result.hpp>
#include <comm/core.hpp>
#include <string>
#include <tuning/measured.hpp>
#include <vector>

namespace peal::cli {

struct TuneOptions {
  std::vector<Collective> collectives;
  std::vector<std::uint64_t> sizes;     ///< measured for the table
  std::vector<std::uint64_t> kept_out;  ///< measured to judge the choice; none: no judgement
  double budget_s = 20;                 ///< for the table, and as much again for the judgement; the first round is always done
};

/// One way at one size, with the median of every round in microseconds; they are the same on every rank.
struct TunedPoint {
  Collective collective = Collective::all_reduce;
  std::uint64_t bytes = 0;
  std::string algorithm;
  schedule::Protocol protocol = schedule::Protocol::staged;
  std::vector<double> us;
  bool is_dropped = false;    ///< slower than twice the best of the first round: not measured again
  double typical_us() const;  ///< lower quartile of the rounds: others' work on the machine only ever makes a round longer
  double spread() const;      ///< width of the middle half of the rounds / typical_us
};

/// What was chosen for a size that was kept out, against the best way there.
struct Judgement {
  Collective collective = Collective::all_reduce;
  std::uint64_t bytes = 0;
  int ranks = 0;
  std::string best, tuned, untuned;  ///< "ring staged": the fastest, the table's choice, the cost model's
  double best_us = 0, tuned_us = 0, untuned_us = 0;
  double noise = 0;  ///< the larger spread of best and tuned
  bool is_tuned_good() const { return tuned_us <= best_us * (1 + std::max(0.05, noise)); }
  bool is_untuned_good() const { return untuned_us <= best_us * 1.20; }
};

struct TuneResult {
  std::vector<tuning::MeasuredWay> ways;
  std::vector<Judgement> judgements;
  int rounds = 0;
};

/// Every rank of `world` calls it. `say` gets lines of progress.
Result<TuneResult> run_tune(comm::Core& world, const TuneOptions& options, const std::function<void(const std::string&)>& say);

/// The ways of the table that these points make for `ranks` ranks.
std::vector<tuning::MeasuredWay> ways_of(const std::vector<TunedPoint>& points, int ranks, const std::string& scope);
/// Holds the choices for the sizes of `points` against what was measured of them.
Result<std::vector<Judgement>> judge(const tuning::Environment& environment, const std::vector<tuning::MeasuredWay>& ways,
                                     const std::vector<TunedPoint>& points);

/// The report: cases that miss, and the shares that hold.
std::string tune_report(const std::vector<Judgement>& judgements);
std::string judgements_json(const std::vector<Judgement>& judgements);
Result<std::vector<Judgement>> judgements_from_json(const std::string& text);

}  // namespace peal::cli
