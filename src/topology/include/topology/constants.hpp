// Cost terms of each protocol on each kind of wire (data/constants/*.yaml), with their sources.
//
// Time of one message over a route:  route.latency + per_hop + per_op + bytes / min(efficiency * route.bottleneck, cap, copy or reduce
// rate). `launch` is paid once a call, `per_op` once an op of a program. Scopes are those of Route::scope.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace peal::topology {

/// Protocol names are those of schedule: line (data and flag in one cache line; NCCL's LL), line128 (LL128), staged (slots; NCCL's Simple),
/// direct_read, direct_write, inline, fused.
struct ProtocolConstants {
  std::string scope;
  std::string protocol;
  Nanoseconds launch;        ///< once a call: entering, signature, leaving (GPU: kernel launch and set-up, NCCL's base latency)
  Nanoseconds per_hop;       ///< software and protocol latency of one hop in a chain or ring, beyond the wires' latency
  Nanoseconds per_hop_tree;  ///< the same in a tree (NCCL measures it apart); equals per_hop where not given
  Nanoseconds per_op;        ///< issuing one op
  double receive_share = 1;  ///< of per_op: issuing what only receives; what sends takes so much longer as this is shorter
  double efficiency = 1;     ///< share of the usable link rate that payload gets
  Bandwidth copy;            ///< one rank moving bytes (one core, or one GPU's share); zero: never a limit
  Bandwidth reduce;          ///< one rank combining two streams into one, bytes of result a second; zero: never a limit
  /// Sockets within a host: bytes that all ranks there may send between a message's sending and its receiving before it begins to leave the
  /// caches; with twice as many it has. Zero: any number.
  Bytes kept;
  double left_share = 1;   ///< of `copy`: receiving what has left them
  Bandwidth cap_one_node;  ///< limit of the whole pattern inside one node; zero: none
  Bandwidth cap_two_nodes;
  Bandwidth cap_more_nodes;
  Bytes slice;    ///< bytes that one slot carries (pipelining grain); zero: does not slice
  int slots = 0;  ///< slots a channel; zero: does not use slots
  std::string source;

  /// The cap for a job over `nodes` machines; zero: none.
  Bandwidth cap(int nodes) const { return nodes <= 1 ? cap_one_node : nodes == 2 ? cap_two_nodes : cap_more_nodes; }
};

/// All sets of constants in data/, read once a process. Thread-safe.
Result<const std::vector<ProtocolConstants>*> all_constants();
/// One set; an unknown pair fails with what there is.
Result<ProtocolConstants> constants_for(std::string_view scope, std::string_view protocol);
/// Parses one file's text; `name` stands for the file in messages.
Result<std::vector<ProtocolConstants>> read_constants_text(std::string_view text, const std::string& name);

/// How messages that go from core to core through memory meet the caches.
struct MemoryTerms {
  double fetch_share = 1;    ///< time to fetch what is reduced where another core wrote it, of the time of a copy
  double shared_read = 0;    ///< share by which each further rank that reads the same bytes in a rank's memory slows the others
  Nanoseconds page_lock;     ///< in which a small page of another process is looked up while others wait for the same lock; 0: not known
  Nanoseconds small_page;    ///< in which a small page of another process is looked up, beside the copy at its rate; 0: in the rate
  Bytes least_read;          ///< messages from here on may be read in the sender's memory: shorter ones are copied twice in less time
  Bytes most_read;           ///< messages of collectives up to here: of longer ones both copies together have the higher rate
  Bytes least_in_blocks;     ///< messages from here on that are kept beside their slot are copied in blocks, not by one loop; 0: none
  Bytes least_halved;        ///< all_reduces of two ranks from here on are as fast by halves (two_shot) as whole (one_shot)
  Bytes most_halved;         ///< up to here; shorter and longer ones are faster whole; 0: not known
  Bandwidth slots_rate;      ///< of both copies through slots: calls of two ranks that are read more slowly go that way; 0: not known
  double written_share = 1;  ///< of the rate at which messages are read in place: sums that their sender has just written
  bool knows_own_copies = false;  ///< constants tell a sender's help from its own copy; else they were fitted as if it helped all the while
  bool is_read_in_lanes = false;  ///< long messages are taken out of their slots in lanes
  double lanes_gain = 1;          ///< how many times as fast they are reduced then
  bool is_read_by_several = false;  ///< what several ranks read in one rank's memory side by side, whatever its length
  bool is_read_overwritten = true;  ///< also an all_reduce in place, whose result lies where the next call will read its input
  bool operator==(const MemoryTerms&) const = default;
};

/// Processors whose cores pass messages through memory in another way than those of `shm` in the constants: their sets have the scope
/// "shm-<name>", and what they lack is that of `shm`.
struct ProcessorDefaults {
  std::string name;
  std::vector<std::string> cpus;                     ///< as discovery names them: "GenuineIntel 6 207", maker, family and model
  int most_ranks = std::numeric_limits<int>::max();  ///< of a communicator: it holds for no more
  bool is_for_shared_cores = false;                  ///< it holds only where ranks share cores
  Nanoseconds core_switch;                           ///< HostDefaults::core_switch of it; 0: that of any host
  double same_core_gain = 0;                         ///< HostDefaults::same_core_gain of it; 0: that of any host
  Bytes least_within_cores;                          ///< HostDefaults::least_within_cores of it; 0: that of any host
  Bytes least_plain_within_cores;  ///< ranks that share cores: reductions shorter than those, from here on, take few bytes
                                   ///< from core to core in the fewest steps; 0: none
  MemoryTerms memory;
  std::string source;
};

/// What discovery assumes of a host where nothing was measured: exchange of a flag, a switch of processes, one core's copy, memory,
/// loopback, a NIC of unknown speed.
struct HostDefaults {
  Nanoseconds near_exchange;        ///< a cache line between two cores under one cache
  Nanoseconds far_exchange;         ///< between sockets, or vCPUs that the hypervisor placed apart
  Nanoseconds siblings_below;       ///< an exchange of flags that takes less: threads of one core
  Nanoseconds near_below;           ///< the same: cores under one cache; what takes longer is far
  Nanoseconds core_switch;          ///< from a process that yields to the next one on its core
  Nanoseconds core_switch_polling;  ///< the same where every process looks at its sockets before it yields again
  double same_core_gain = 1;  ///< how many times as fast messages between ranks of one core are copied and reduced: they lie in its caches
  Nanoseconds cold_end;       ///< more for a message at either end, at most: of so many that a core goes round none is left in its caches
  double warm_ends = 0;       ///< of channels through which a core goes in a call, that its nearest caches keep
  double half_cold_ends = 1;  ///< with so many beyond these half of `cold_end` is paid
  Bytes least_within_cores;   ///< ranks that share cores: all-reduces from here on go the way that takes few bytes from core to core...
  Bytes most_within_cores;    ///< ... up to here
  MemoryTerms memory;
  Bandwidth core_copy;        ///< one core, large copies
  Bandwidth domain_memory;    ///< all cores of a NUMA domain together
  Bandwidth between_domains;  ///< one way between two NUMA domains
  Bandwidth loopback;         ///< one TCP stream over lo
  Nanoseconds loopback_latency;
  Bandwidth unknown_nic;  ///< a NIC that does not say its speed
  std::string source;
  std::vector<ProcessorDefaults> processors;

  /// The first entry for a processor that discovery names so whose conditions hold in a communicator of `ranks`, which share cores or do
  /// not; null: it is like all. Owned by this.
  const ProcessorDefaults* of_processor(std::string_view cpu, int ranks, bool shares_cores) const;
};
Result<HostDefaults> host_defaults();

}  // namespace peal::topology
