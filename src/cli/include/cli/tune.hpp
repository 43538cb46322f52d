// `peal tune`: what one rank measures, and how the choice is held against sizes that were kept out.
#pragma once

#include <base/result.hpp>
#include <cli/bench.hpp>
#include <comm/core.hpp>
#include <optional>
#include <string>
#include <tuning/measured.hpp>
#include <vector>

namespace peal::cli {

/// Sizes beyond it take long and vary little: they are measured in the first rounds, and then rarely.
inline constexpr std::uint64_t kTunedFinely = 8 << 20;
/// Rounds that have a spread, and that a judgement rests on.
inline constexpr int kFewestRounds = 3;

struct TuneOptions {
  std::vector<Collective> collectives;
  std::vector<std::uint64_t> sizes;     ///< measured for the table
  std::vector<std::uint64_t> kept_out;  ///< measured to judge the choice; none: no judgement
  double budget_s = 20;  ///< for the table; with a judgement twice that for both, a fifth of it for what is in doubt. The first round is
                         ///< always done, and two of doubts
};

/// A round, with where the cores were; the same on every rank.
struct TunedSample {
  double us = 0;           ///< BenchHalf::middle_us
  double exchange_ns = 0;  ///< between two cores, the shorter of before and after; 0: ranks share cores
  tuning::CoreDistance cores = tuning::CoreDistance::unknown;
  double full_speed = 1;  ///< share of the round's calls that `us` is of: the others met a core that a neighbour slowed
  double all_us = 0;      ///< the median of all of them
  double work_ns = 0;     ///< how fast the slowest core was in those (core_speed.hpp)
};

/// What a measured half row says. Nothing when the cores were moved while it was measured.
Result<std::optional<TunedSample>> sample_of(const BenchHalf& half);

/// One way at one size. Rounds during which cores were moved leave nothing.
struct TunedPoint {
  Collective collective = Collective::all_reduce;
  std::uint64_t bytes = 0;
  std::string algorithm;
  schedule::Protocol protocol = schedule::Protocol::staged;
  std::vector<TunedSample> samples;
  bool is_dropped = false;   ///< much slower than the best of its case so far: not measured again
  bool is_in_place = false;  ///< how it is called

  /// The rounds with the cores there, those at their best speed alone: their lower quartile (others' work on the machine only ever makes a
  /// round longer), the width of their middle half over it (of all rounds there, where fewer than kFewestRounds were at that speed: one
  /// alone has no width), and the median of their exchanges. Nothing where there was no such round. The first round, and that after the
  /// cores were moved, count only where there is no other: how slots are filled best is still being learnt (executor::FillChoice).
  std::optional<tuning::MeasuredPoint> typical(tuning::CoreDistance cores) const;
};

/// All ways of all collectives at these sizes, out of place; where some are read in their senders' memory, the same ways also in place: one
/// choice serves both, and slots are faster in place by the copy that a rank does not make. What must not be read in place goes through
/// slots there, and is measured as that. None has samples yet; equal environments give equal points, on every rank. Fails where there is
/// nothing to choose.
Result<std::vector<TunedPoint>> points_of(const tuning::Environment& environment, const std::vector<Collective>& collectives,
                                          const std::vector<std::uint64_t>& sizes);

/// Drops the ways that take more than `hopeless` times the best of their case wherever the cores were, each by the best of its rounds
/// there, since the first call of all waits for pages; of sizes beyond kTunedFinely those that take more than `hopeless_long` times. One
/// that was not met at a distance may be the best there, and stays.
void drop_hopeless(std::vector<TunedPoint>& points, double hopeless, double hopeless_long);

/// The places in `points` of what is measured in a round (counted from 1), in turn. The ways of one case come one behind the other: what
/// the machine does to one of them, it mostly does to all. Each round begins a case with another way, since what was measured just before
/// has a part in what comes after it. Sizes beyond kTunedFinely come in rounds 1, 2 and every sixth.
std::vector<std::size_t> order_of_round(const std::vector<TunedPoint>& points, int round);

/// What was chosen for a size that was kept out, against the best way there. Times are means over where the cores were, as those that
/// choose (tuning::mean_over_distances).
struct Judgement {
  Collective collective = Collective::all_reduce;
  std::uint64_t bytes = 0;
  int ranks = 0;
  std::string best, tuned, untuned;  ///< "ring staged": the fastest, the table's choice, the cost model's
  double best_us = 0, tuned_us = 0, untuned_us = 0;
  double noise = 0;  ///< the larger spread of best and tuned, each where it is largest
  bool is_in_place = false;
  int rounds = 0;  ///< that count of the one of these ways that has the fewest
  bool is_tuned_good() const { return tuned_us <= best_us * (1 + std::max(0.05, noise)); }
  bool is_untuned_good() const { return untuned_us <= best_us * 1.20; }
  /// Whether it stands on too few rounds: a miss needs more of them, since several ways, each measured a few times, have one that was
  /// lucky.
  bool is_in_doubt() const {
    constexpr int kFewestOfMiss = 9;
    return rounds < (is_tuned_good() && is_untuned_good() ? kFewestRounds : kFewestOfMiss);
  }
};

/// The places in `points` of what is measured again for the judgements that are in doubt, in a round (counted from 1), in turn: the ways
/// of their cases that were not dropped, and those that were chosen.
std::vector<std::size_t> order_of_doubts(const std::vector<TunedPoint>& points, const std::vector<Judgement>& judgements, int round);

struct TuneResult {
  std::vector<tuning::MeasuredWay> ways;
  std::vector<Judgement> judgements;
  int rounds = 0;
};

/// Every rank of `world` calls it. `say` gets lines of progress.
Result<TuneResult> run_tune(comm::Core& world, const TuneOptions& options, const std::function<void(const std::string&)>& say);

/// The ways of the table that these points make for `ranks` ranks, one for each distance of cores.
std::vector<tuning::MeasuredWay> ways_of(const std::vector<TunedPoint>& points, int ranks, const std::string& scope);
/// Holds the choices for the sizes of `points` against what was measured of them.
Result<std::vector<Judgement>> judge(const tuning::Environment& environment, const std::vector<tuning::MeasuredWay>& ways,
                                     const std::vector<TunedPoint>& points);

/// The report: cases that miss, and the shares that hold.
std::string tune_report(const std::vector<Judgement>& judgements);
std::string judgements_json(const std::vector<Judgement>& judgements);
Result<std::vector<Judgement>> judgements_from_json(const std::string& text);

}  // namespace peal::cli
