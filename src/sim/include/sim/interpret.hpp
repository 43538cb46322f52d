// Runs a plan in virtual time: every rank's program, op by op, on the devices and wires of a cluster.
//
// An op starts when schedule::may_start says so and its core is free; what it costs is tuning's message_cost.hpp; what it shares (wires,
// NICs, memory) is shared max-min fairly. Ranks on cores do their ops one at a time; GPUs do them side by side. Programs are asked for rank
// by rank. Pure: the same input gives the same outcome. Memory: programs and channels in use, O(ranks + pairs that talk).
#pragma once

#include <base/trace.hpp>
#include <tuning/plan.hpp>

namespace peal::sim {

struct InterpretOptions {
  bool keeps_trace = false;  ///< a trace event for every op
  bool keeps_log = false;    ///< a completion for every op
  std::uint64_t most_events = 2'000'000'000;
};

/// An op that has ended; the log is in the order in which ops ended.
struct Completion {
  std::int32_t rank = 0;
  std::int32_t strand = 0;
  std::uint32_t position = 0;          ///< of the op in Program::ops
  std::int32_t iteration[2] = {0, 0};  ///< innermost first
  std::int32_t piece = 0;
  double time = 0;  ///< nanoseconds
};

struct ResourceUse {
  std::string name;
  double bytes = 0;  ///< on the wire, both data and what the protocol adds
  Bandwidth capacity;
  double utilisation = 0;  ///< of the capacity over the whole call, 0 to 1
};

struct Outcome {
  Nanoseconds time;                    ///< until the last rank is done
  std::vector<double> rank_done;       ///< nanoseconds
  std::vector<ResourceUse> resources;  ///< those that were used, busiest first
  std::uint64_t events = 0;
  std::uint64_t messages = 0;
  Trace trace;
  std::vector<Completion> log;
  /// The busiest resource, or null when only software was waited for.
  const ResourceUse* bottleneck() const { return resources.empty() ? nullptr : resources.data(); }
};

/// `device_of_rank` in the cluster's numbering; `environment` is that of these ranks; `wires` as it was made with.
/// Fails when the plan blocks (naming the lowest rank and its op), or when an op is not simulated yet (switch_reduce, switch_multicast).
Result<Outcome> interpret(const tuning::Plan& plan, const topology::Resources& resources, std::span<const int> device_of_rank,
                          const tuning::Environment& environment, tuning::Wires wires, const InterpretOptions& options = {});

}  // namespace peal::sim
