// Cost terms fitted to measured times of whole calls. The model is the walk that predicts (cost.hpp): what is fitted is what is read later,
// and nothing else knows how terms make a time.
//
// Fitted are five collectives at the sizes of the table; every other collective, and every size between, is predicted without having been
// seen, which is what `peal validate --host` holds against new measurements.
#pragma once

#include <tuning/select.hpp>
#include <vector>

namespace peal::tuning {

/// All that others are made of: among all, from one and to one, with and without a sum.
inline constexpr Collective kFittedCollectives[] = {Collective::all_reduce, Collective::all_gather, Collective::broadcast,
                                                    Collective::reduce, Collective::gather};
bool is_fitted(Collective collective) noexcept;

/// What a call takes by the way that is chosen for it, in microseconds.
struct PredictedTime {
  /// Of fitted collectives what `peal tune` found for the way, between its sizes by the model's steps; where it has not measured the way,
  /// and of all other collectives, what the model says, as if nobody had measured them.
  double us = 0;
  double model_us = 0;
};
PredictedTime predicted_time(const Selection& selection);

/// Within a distance the hypervisor has nearer and farther places, and clocks go up and down: the exchange of flags tells both, and calls
/// through memory take as much longer as it does. How many times as long as the table says (whose constants hold for the median exchange
/// of its measurements) calls take with the cores at that distance where an exchange takes `exchange_ns`. 1 for sockets, where the kernel's
/// work is most of the time, for more than two ranks, of which two tell little, and where either exchange is not known.
double exchange_ratio(const Environment& environment, schedule::Protocol protocol, CoreDistance cores, double exchange_ns);

/// One set for every distance of cores and every protocol that `ways` has for this environment's ranks and wires; in the order of `ways`.
/// Nothing for a distance at which all_reduce and all_gather, or broadcast and reduce, were not measured, and nothing where ranks share
/// cores: there the time of a call is that of the kernel's turns. Deterministic; some seconds at most.
std::vector<MeasuredConstants> fit_constants(const Environment& environment, const std::vector<MeasuredWay>& ways);

}  // namespace peal::tuning
