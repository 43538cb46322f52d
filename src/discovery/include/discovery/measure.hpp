// What no file says: how fast this host's cores copy and show each other flags, and how fast its loopback is. And which hosts share a rack,
// told by the latencies between them.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <discovery/discover.hpp>
#include <optional>
#include <string>
#include <vector>

namespace peal::discovery {

struct HostMeasurements {
  std::vector<int> cpus;  ///< one processor of every core that may be used, as the system numbers them; the order of the rows below
  /// exchange_ns[a][b]: each of the two stores a flag and waits for the other's; lower quartile of rounds. 0 on the diagonal and for pairs
  /// that were left out. Symmetric.
  std::vector<std::vector<double>> exchange_ns;
  Bandwidth core_copy;                          ///< one core, memcpy between buffers larger than its caches, bytes of result
  Bandwidth all_copy;                           ///< all cores at once, together
  std::optional<Nanoseconds> loopback_latency;  ///< one way of one byte over TCP on 127.0.0.1, half of a round trip; both ends poll
  std::optional<Bandwidth> loopback;            ///< one TCP stream
  double processor_share = 1;  ///< least share of its processor that a copying thread got; far below 1: others were at work
  std::string source;          ///< "measured 2026-11-23 on this host"
};

/// Measures with threads bound to cores; takes a second or two, and 128 MiB a core (at most a quarter of the memory that is free).
/// Disturbed by whatever else runs: lower quartiles of short rounds, but no promise; `processor_share` says how much. Above 64 cores pairs
/// are a sample: distances of powers of two.
Result<HostMeasurements> measure_host(const Roots& roots = {});

/// Which of `hosts` share a rack: latency_ns[a][b] is the time from a to b (the smaller of both directions counts; the diagonal does not).
///
/// Single linkage: hosts are joined in order of their latencies, which makes a tree of hosts-1 joins. Where one join takes at least
/// kRackGap times as long as the one before it, the tree is cut; where several do, at the largest such gap. No gap: the latencies show one
/// distance only, and all hosts are in one group (they share a rack, or none shares one: latency alone cannot tell).
/// Only the smallest latency between two groups matters, so slow single pairs (noise) do no harm, and fast ones would have to be wrong.
struct Racks {
  std::vector<int> rack_of;  ///< for each host, from 0 in order of first appearance
  int count = 0;
  double within_ns = 0;   ///< largest join within a rack; 0 without one
  double between_ns = 0;  ///< smallest join between racks; 0 for one group
};
inline constexpr double kRackGap = 1.3;
Racks find_racks(const std::vector<std::vector<double>>& latency_ns);

}  // namespace peal::discovery
