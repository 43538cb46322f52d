// Calls beside computing, as data parallelism has them: every rank computes in equal parts, and after each part makes a call, which the
// next part does not wait for; calls follow one another.
#pragma once

#include <sim/simulate.hpp>

namespace peal::sim {

struct Overlapping {
  Nanoseconds compute;  ///< of every rank in all, where nothing else happens
  int parts = 1;
  double processors = 0;  ///< of a device; 0: not known, computing is not slowed
  double held = 0;        ///< of them by a call while it runs
};

/// Microseconds.
struct OverlapRow {
  std::uint64_t bytes = 0;  ///< of each call, as nccl-tests counts them
  std::string algorithm, protocol;
  int parts = 1;
  double compute_us = 0;   ///< alone, until the last rank is done with it
  double calls_us = 0;     ///< one after another, nothing computed
  double together_us = 0;  ///< until the last rank is done with both
  double slowed_us = 0;    ///< so much later the last rank has computed all, beside the calls
  double exposed_us() const { return together_us - compute_us; }
  /// The share of the calls that took no time of their own, 0 to 1.
  double hidden() const;
};

struct OverlapStudy {
  OverlapRow row;
  Outcome outcome;  ///< of both together
};

/// Ranks of several groups make the call in their groups. Stragglers are slow at computing too; those that begin late begin to compute
/// late. Fails where computing cannot be simulated (interpret.hpp).
Result<OverlapStudy> overlap(const Scene& scene, const tuning::Question& question, const InterpretOptions& options,
                             const Overlapping& asked);

std::string overlap_header(const Table& table, const Overlapping& asked);
std::string overlap_text(const OverlapRow& row);
std::string overlap_footer(const Overlapping& asked);
/// Schema peal.sim.overlap/1.
std::string overlap_json(const Table& table, const Overlapping& asked, std::span<const OverlapRow> rows);

}  // namespace peal::sim
