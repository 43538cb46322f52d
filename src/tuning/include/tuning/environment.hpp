// What a choice depends on, as plain data: who sits with whom, what the ways between them cost, which protocols may be used.
// It is computed once a communicator. Two ranks that hold equal environments choose alike; so a communicator takes it from one rank
// (`to_json`, `environment_from_json`), never from each rank's own measurements.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <functional>
#include <schedule/placement.hpp>
#include <schedule/protocol.hpp>
#include <span>
#include <string>
#include <string_view>
#include <topology/constants.hpp>
#include <topology/resources.hpp>
#include <tuning/measured.hpp>
#include <tuning/wiring.hpp>
#include <vector>

namespace peal::tuning {

/// [0] between ranks of one group (node), [1] between groups.
inline constexpr int kLevels = 2;
std::string_view level_name(int level) noexcept;  ///< "inside a node", "between nodes"

/// The slowest way between two ranks of one level stands for all of them.
struct Level {
  bool is_used = false;
  std::string scope;  ///< which constants apply: "shm", "tcp", "nvlink-h100", "infiniband"
  topology::PathClass path_class = topology::PathClass::none;
  Nanoseconds latency;       ///< wires and switches
  Bandwidth bottleneck;      ///< one pair alone
  int ranks_per_outlet = 1;  ///< ranks of a group that share one way out (one NIC)
  int outlets = 1;           ///< inside a group of GPUs: wires of their own by which a rank's ways to the others begin
  bool operator==(const Level&) const = default;
};

/// The constants of sockets between containers of one machine.
inline constexpr std::string_view kContainersScope = "tcp-containers";

/// A protocol that may be used, with its constants at each used level.
struct Offer {
  schedule::Protocol protocol = schedule::Protocol::staged;
  topology::ProtocolConstants constants[kLevels];
  bool is_measured = false;  ///< by `peal tune` on this host: what `memory` says of the constants of data/ is not of these
  double receive_ns = 0;     ///< of those: issuing an op that only receives
  double local_ns = 0;       ///< of those: issuing one that is no message
  double written_share = 1;  ///< direct_read: of the rate of copying, where what is copied was written by its sender in the same call
};

/// A protocol that may not, and why.
struct Refusal {
  schedule::Protocol protocol = schedule::Protocol::staged;
  std::string why;
};

/// What the switches of a level can compute together (schedule/op.hpp).
struct SwitchOffer {
  bool computes = false;
  Bandwidth bottleneck;                   ///< of one rank's wires, one way
  Nanoseconds latency;                    ///< wires, NICs and switches of one op
  topology::ProtocolConstants constants;  ///< protocol "switch"
  std::string why_not;                    ///< one clause, and what to type instead

  double rate() const { return constants.efficiency * bottleneck.gigabytes(); }  ///< payload of one rank, one way, GB/s
  double hop() const { return constants.per_hop.value + latency.value; }         ///< of one op beside its bytes, ns
};

struct Environment {
  int ranks = 1;
  int nodes = 1;
  bool is_host = true;  ///< ranks are processes on cores, which do the copying; false: GPUs
  schedule::Placement placement;
  Wiring wiring;                      ///< inside nodes, where pairs of ranks are not all alike
  std::vector<std::int32_t> core_of;  ///< host ranks: ranks with equal numbers share one core; numbered from 0 without gaps
  Nanoseconds core_switch;            ///< from one rank to the next on the same core (core_turns.hpp)
  double same_core_gain = 1;          ///< of the rates at which messages between ranks of one core are copied and reduced
  Nanoseconds cold_end;               ///< more for a message at either end where a core goes round many (message_cost.hpp), at most
  double warm_ends = 0;               ///< that cost no more
  double half_cold_ends = 1;          ///< with so many beyond these half of `cold_end` is paid
  Bytes least_within_cores;        ///< ranks that share cores: of all-reduces from here to most_within_cores few bytes go from core to core
  Bytes most_within_cores;         ///< none where it is the smaller one
  Bytes least_plain_within_cores;  ///< of shorter reductions from here on few bytes do, in the fewest steps; 0: none
  /// Messages under direct_read that are shorter than its least_read go through slots; its most_read bounds the choice.
  topology::MemoryTerms memory;
  Level level[kLevels];
  SwitchOffer switches[kLevels];
  std::vector<Offer> offers;
  std::vector<Refusal> refusals;
  std::vector<MeasuredWay> measured;                  ///< what `peal tune` found here; empty: the cost model alone chooses
  std::vector<MeasuredConstants> measured_constants;  ///< what was fitted to it
  CoreDistance cores = CoreDistance::unknown;         ///< whose constants count; unknown: nothing was measured
  bool cores_stay_there = false;                      ///< else ways are judged by their mean over where the cores were; not sent
  std::string measured_by;                            ///< "peal tune on HOST, DATE", or why a table is not used; empty: there is none
  std::vector<std::string> fused;                     ///< "all_reduce/two_shot": schedules that have a hand-written routine

  int level_of(int a, int b) const {
    if (placement.group.empty()) return 0;
    return placement.group[static_cast<std::size_t>(a)] == placement.group[static_cast<std::size_t>(b)] ? 0 : 1;
  }
  std::size_t group_of(int rank) const {
    return placement.group.empty() ? 0 : static_cast<std::size_t>(placement.group[static_cast<std::size_t>(rank)]);
  }
  bool are_on_one_core(int a, int b) const {
    return is_host && core_of[static_cast<std::size_t>(a)] == core_of[static_cast<std::size_t>(b)];
  }
  const Offer* offer(schedule::Protocol protocol) const;
  void stay_at(CoreDistance distance) {
    cores = distance;
    cores_stay_there = true;
  }
  /// True where processes take turns on a core.
  bool shares_cores() const;
  /// How many cores the ranks of a host are on; 0: they are on devices.
  int core_count() const;
  bool is_used(int l) const { return level[l].is_used; }
  /// True where ranks of this level are processes that talk through sockets.
  bool is_by_sockets(int l) const {
    const topology::PathClass way = level[l].path_class;
    return is_host && level[l].is_used && (way == topology::PathClass::loopback || way == topology::PathClass::net);
  }
  /// True where groups are containers of one machine: what their links carry is not known.
  bool are_containers() const { return level[1].is_used && level[1].scope == kContainersScope; }
  /// Bytes of a message by sockets that is not cut. `is_reduced`: what is received is summed, and not only stored.
  std::uint64_t uncut_by_sockets(bool is_reduced = false) const {
    if (is_pair_by_sockets()) return is_reduced ? schedule::kSocketMessageBytes : schedule::kWholePairMessageBytes;
    return is_by_sockets(1) && ranks > 2 ? schedule::kWholeMeetingMessageBytes : schedule::kWholeSocketMessageBytes;
  }
  /// The most bytes that a message by sockets carries.
  std::uint64_t most_by_sockets(bool is_reduced = false) const {
    return is_pair_by_sockets() && !is_reduced ? schedule::kWholePairMessageBytes : schedule::kSocketMessageBytes;
  }
  /// True where two ranks of one host are all, and talk through sockets.
  bool is_pair_by_sockets() const { return ranks == 2 && is_by_sockets(0); }
  bool is_by_sockets_alone() const { return (!is_used(0) || is_by_sockets(0)) && (!is_used(1) || is_by_sockets(1)); }
  /// The distances that a choice is to serve, the weightiest first: where the cores were when these ranks were measured, or where they are
  /// said to stay. Empty: nothing was measured, or the ranks are on several hosts.
  std::vector<DistanceShare> distances() const;
  /// What was measured for these ranks with the cores at that distance; null where nothing was.
  const MeasuredWay* measured_way(Collective collective, std::string_view algorithm, schedule::Protocol protocol, CoreDistance at,
                                  bool is_in_place = false) const;
  /// Whether calls in place of so many bytes were measured, too: those which may be read in their senders' memory.
  bool is_measured_in_place(Collective collective, std::uint64_t bytes) const;
  /// What was fitted for these ranks under a protocol, with the cores where they are said to be; else null.
  const MeasuredConstants* constants_of(schedule::Protocol protocol) const { return constants_of(protocol, cores); }
  /// The same with the cores at that distance.
  const MeasuredConstants* constants_of(schedule::Protocol protocol, CoreDistance distance) const;
};

/// Gives the environment the table of this host, if there is one that applies. A table that does not apply (another host's) is said in
/// `measured_by` and leaves the choice to the model; one that cannot be read is an error. `fingerprint` tells which host this is: to find
/// out takes a look at the whole machine, so it is called only where there is a table.
/// The constants are those of the distance at which most was measured for so many ranks; who knows where the cores are calls stay_at().
Status add_measurements(Environment& environment, const std::function<Result<std::string>()>& fingerprint);

enum class Wires : std::uint8_t { automatic, shared_memory, socket };

struct EnvironmentOptions {
  Wires wires = Wires::automatic;  ///< automatic: shared memory inside a host, the NICs between machines; GPUs: whatever is best
  /// Protocols that the transports can carry; empty: all that have constants. direct_read on a host must have been proven by a trial read.
  std::vector<schedule::Protocol> protocols;
  std::vector<std::string> fused;
  /// Of every rank of a host, in any numbering: ranks of one number share a core, also across nodes that are containers of one machine.
  /// Empty: ranks share a core that are on one device.
  std::vector<std::int32_t> core_of = {};
  /// All nodes are containers of one machine: their sockets lead from one to another without leaving its kernel, whatever NIC they name.
  bool is_one_machine = false;
  /// Of every rank, where the cluster has no fabric that says it: ring orders go rack by rack. Empty: unknown.
  std::vector<std::int32_t> rack_of = {};
};

/// `device_of_rank` in the cluster's numbering. Fails when two ranks have no way to each other, or no protocol is left.
Result<Environment> environment_of(const topology::Resources& resources, std::span<const int> device_of_rank,
                                   const EnvironmentOptions& options);

/// Which links the ways of two ranks use under these options.
topology::Via via_of(Wires wires, bool is_host, bool is_one_node) noexcept;

std::string to_json(const Environment& environment);
Result<Environment> environment_from_json(std::string_view text);

}  // namespace peal::tuning
