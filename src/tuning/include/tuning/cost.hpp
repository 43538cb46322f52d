// The predicted time of a call: nothing else runs, no resource is congested by other traffic.
//
// Small groups are walked: every op of every rank's program once, with the terms of message_cost.hpp, cores and ways out taken in turn;
// long calls are walked at two shorter lengths and continued in a straight line. Large groups take the closed form of the
// registry's CostTerms. Both are pure functions of the environment and the plan: every rank gets the same bits.
#pragma once

#include <tuning/plan.hpp>

namespace peal::tuning {

/// Where the time of the critical path goes, nanoseconds.
struct Breakdown {
  double launch = 0;    ///< entering and leaving the call
  double latency = 0;   ///< hops: flags, wires, switches, their software
  double overhead = 0;  ///< issuing ops
  double transfer = 0;  ///< bytes crossing wires
  double copy = 0;      ///< cores or GPUs moving bytes
  double reduce = 0;
  double total() const { return launch + latency + overhead + transfer + copy + reduce; }
};

struct Prediction {
  Nanoseconds time;
  Breakdown breakdown;
  bool is_walked = false;      ///< false: closed form
  double steps = 0;            ///< messages one after another (of one piece)
  double bytes[kLevels] = {};  ///< payload that the busiest rank sends at each level
  /// Payload that all ranks together send between groups; on one host between cores. 0 where is_walked is not, and in one group of GPUs.
  double crossed = 0;
  /// Of that, bytes out of one group, or into one: the most. 0 as above, and on one host.
  double busiest_group = 0;
  int channels_into_group = 0;  ///< from other groups, the most; 0 as above
};

/// The walk takes this many op visits before the closed form takes over (about 0.1 us each).
inline constexpr std::int64_t kMostVisits = 20000;

Prediction predict(const Environment& environment, const Plan& plan);
/// The closed form alone; needs plan.algorithm.
Prediction predict_closed(const Environment& environment, const Plan& plan);
/// The walk alone, whatever it costs. Fails when the plan blocks.
Result<Prediction> predict_walked(const Environment& environment, const Plan& plan);

}  // namespace peal::tuning
