// `peal topo --measure` under a launcher: every pair of running ranks in turn, and which hosts share a rack.
#pragma once

#include <base/result.hpp>
#include <bootstrap/job.hpp>
#include <discovery/measure.hpp>
#include <optional>
#include <string>
#include <vector>

namespace peal::cli {

struct RankMeasurements {
  std::vector<std::vector<double>> latency_us;  ///< [a][b]: one way of 8 bytes, half of a round trip; symmetric, 0 on the diagonal
  std::vector<std::vector<double>> GBps;        ///< one way of 1 MiB, half of a round trip
  std::vector<std::string> host_of;             ///< of each rank, for people
  std::vector<int> host_index;                  ///< of each rank: equal for ranks of one host, from 0
  std::vector<std::string> hosts;               ///< by host index
  discovery::Racks racks;                       ///< of the hosts; none for a single one
  std::string source;
};

inline constexpr int kMostMeasuredRanks = 256;

/// Every rank of the job calls it; nothing on all ranks but rank 0. Messages go as grouped sends and receives do,
/// the cost of a call included, one pair at a time; the fastest of 5 to 24 rounds counts. Time: about 10 ms a pair in shared memory, up to
/// half a second over slow networks.
Result<std::optional<RankMeasurements>> measure_ranks(const bootstrap::Job& job);

/// Smallest latency between any ranks of two hosts; hosts by index. What find_racks is asked with.
std::vector<std::vector<double>> host_latencies(const RankMeasurements& found);

std::string rank_measurements_text(const RankMeasurements& found);
std::string rank_measurements_json(const RankMeasurements& found);

}  // namespace peal::cli
