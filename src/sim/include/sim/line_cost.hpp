// What lines in front of the network's ports cost a call (congestion.hpp), in words and as JSON.
#pragma once

#include <sim/simulate.hpp>

namespace peal::sim {

struct LineCost {
  Congestion congestion;
  double port = 0;  ///< GB/s of the widest NIC of the machine
  double time_us = 0;
  double fair_us = 0;                    ///< without them
  double pfc_us = 0;                     ///< dcqcn: with pause frames alone, as before rates are cut; else 0
  double most_in_line = 0;               ///< flows in front of one full port, at most
  double longest_queue = 0;              ///< bytes that stood there, at most
  std::vector<std::string> circle = {};  ///< as Outcome has it
};

/// Simulates the call of `study`, out of place, once more without lines, and where DCQCN applies once with pause frames alone: takes as
/// long as `study` did, once or twice. Fails as `study` does.
Result<LineCost> cost_of_lines(const Scene& scene, const tuning::Question& question, const InterpretOptions& options,
                               std::span<const Beside> beside, const Study& study);

/// Lines that start with #.
std::string line_cost_text(const LineCost& cost);
/// {"control","time_us","fair_us","pfc_us","flows","queue_bytes","converges_us"}
std::string line_cost_json(const LineCost& cost);

}  // namespace peal::sim
