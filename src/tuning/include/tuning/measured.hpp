// What `peal tune` measured on a host: the time of every collective by every algorithm and protocol that can serve it, at some sizes. Where
// a table has figures for a call, they choose; elsewhere the cost model does. A table speaks only for the host whose fingerprint it
// carries, and for communicators whose ranks all sit there. A virtual machine's cores are moved together and apart while it runs, so every
// measurement says how far they were from each other, and a way has a line for each such distance. Where they will be nobody knows: a way
// is as good as its mean over where they were.
#pragma once

#include <array>
#include <base/result.hpp>
#include <functional>
#include <optional>
#include <peal/types.hpp>
#include <schedule/protocol.hpp>
#include <string>
#include <string_view>
#include <tuning/core_distance.hpp>
#include <tuning/measured_constants.hpp>
#include <vector>

namespace peal::tuning {

struct MeasuredPoint {
  std::uint64_t bytes = 0;  ///< size of the call as nccl-tests counts it
  double us = 0;            ///< lower quartile of the repeats' means of the middle half of calls (aligned starts, maximum over ranks)
  double spread = 0;        ///< width of the middle half of the repeats' means / us; 0 for one repeat
  double exchange_ns = 0;   ///< median over the repeats of the time in which two cores showed each other a flag; 0: not measured
  int repeats = 1;
  bool operator==(const MeasuredPoint&) const = default;
};

/// One way to do a collective.
struct MeasuredWay {
  Collective collective = Collective::all_reduce;
  int ranks = 0;
  std::string scope;  ///< "shm", "tcp-loopback": as in Level
  std::string algorithm;
  schedule::Protocol protocol = schedule::Protocol::staged;
  std::vector<MeasuredPoint> points;           ///< sizes ascend
  CoreDistance cores = CoreDistance::unknown;  ///< where the cores were, before and after every repeat
  bool is_in_place = false;                    ///< how it was called
  bool operator==(const MeasuredWay&) const = default;

  /// What a call of so many bytes takes by a model, above 0 in any unit; nothing where it cannot say.
  using Shape = std::function<std::optional<double>(std::uint64_t bytes)>;
  /// Microseconds of a call of `bytes`: by how much longer it took than by the model is, between two points, on a straight line in log-log,
  /// and below the first point as there; above the last the time grows with the bytes. A model that says nothing is taken to say that all
  /// sizes take as long. Nothing without points.
  std::optional<double> time_us(std::uint64_t bytes, const Shape& shape) const;
};

/// How much of what was measured found the cores there.
struct DistanceShare {
  CoreDistance cores = CoreDistance::unknown;
  double share = 0;  ///< 0 to 1
};

/// Shares of all repeats for these ranks and wires, the largest first; distances that were met too seldom to tell anything are left out,
/// and the others sum to 1. Empty where nothing was measured.
std::vector<DistanceShare> distance_shares(const std::vector<MeasuredWay>& ways, int ranks, std::string_view scope);

/// Microseconds by CoreDistance; 0: not measured.
using DistanceTimes = std::array<double, kCoreDistances>;
/// The mean, weighed by `shares`, of every way to do one call; 0 for a way that was measured at none of them. A way that was not measured
/// at one of them is taken to be as many times as long as the best there as it is where it was measured: slow ones are measured a few times
/// only.
std::vector<double> mean_over_distances(const std::vector<DistanceTimes>& ways, const std::vector<DistanceShare>& shares);

struct MeasuredTable {
  std::string host;  ///< discovery::host_fingerprint()
  std::string date;  ///< of the measurement, as 2026-11-22
  std::vector<MeasuredWay> ways;
  std::vector<MeasuredConstants> constants;  ///< fitted to `ways` (fit_constants.hpp)
  bool operator==(const MeasuredTable&) const = default;
};

/// Adds what was measured anew: it replaces points of the same way, size and distance of cores, and leaves the others, so that a table
/// grows in parts.
void merge(MeasuredTable& table, const std::vector<MeasuredWay>& ways);

/// Largest text and most ways that are read; the text bounds the points.
inline constexpr std::size_t kMostTableBytes = 64u << 20;
inline constexpr std::size_t kMostWays = 100'000;
inline constexpr std::size_t kMostConstants = 1000;

/// JSON, schema peal.tuning/3, a way a line; ways that were called in place say so ("in_place").
std::string to_text(const MeasuredTable& table);
/// `name` stands for the file in messages.
Result<MeasuredTable> measured_table_from_text(std::string_view text, const std::string& name);

/// PEAL_TUNING, or peal/tuning.json in $XDG_CONFIG_HOME or ~/.config; empty for PEAL_TUNING=off and where there is no home.
std::string measured_table_path();

/// The table at that place, whatever host it is of. Without a file at the default place an empty table. An error for a file that was named
/// and cannot be read, and for one that does not parse.
Result<MeasuredTable> load_measured_table();

}  // namespace peal::tuning
