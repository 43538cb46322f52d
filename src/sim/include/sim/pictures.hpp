// Pictures of simulated calls as SVG: who did what when, and bus bandwidth over size. Pure functions.
#pragma once

#include <base/trace.hpp>
#include <span>
#include <string>
#include <vector>

namespace peal::sim {

/// Rows of a timeline; of more ranks some are shown, evenly spread, the first and the last among them.
inline constexpr std::size_t kMostTimelineRanks = 32;

/// The ops of an interpretation (its trace) as bars: a row a rank, a lane a strand, a colour a kind of op. Ops of one kind that stand
/// closer than a pixel are one bar. `lines` stand below the title.
std::string timeline_svg(const std::string& title, std::span<const std::string> lines, std::span<const TraceEvent> events, int ranks);

/// One line of a plot.
struct Series {
  std::string name;
  std::vector<double> bytes;  ///< ascending, above 0
  std::vector<double> busbw;  ///< GB/s
};

/// Bus bandwidth over size as nccl-tests' figures are drawn: sizes on a log2 axis, GB/s from 0, a legend with the best rate of each.
std::string busbw_svg(const std::string& title, std::span<const std::string> lines, std::span<const Series> series);

}  // namespace peal::sim
