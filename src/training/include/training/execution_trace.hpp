// Execution traces of MLCommons Chakra: what every rank of a training job computed and communicated, with what each node waited for.
// Read are the protobuf form (NAME.RANK.et: github.com/mlcommons/chakra, schema/protobuf/et_def.proto) and the JSON of its tests.
#pragma once

#include <base/result.hpp>
#include <base/units.hpp>
#include <functional>
#include <optional>
#include <peal/types.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace peal::training {

enum class NodeKind : std::uint8_t { unknown, metadata, memory_load, memory_store, compute, send, receive, collective };
inline constexpr int kNodeKinds = 8;
std::string_view name_of(NodeKind kind) noexcept;

struct TraceNode {
  std::uint64_t id = 0;
  std::string name;
  NodeKind kind = NodeKind::unknown;
  std::vector<std::uint64_t> after;      ///< ids; control and data dependencies alike
  double duration_us = 0;                ///< as it was recorded
  bool is_on_cpu = false;                ///< of computing: the host's part
  std::optional<Collective> collective;  ///< of a collective; absent: a barrier, or none that is known
  double bytes = 0;                      ///< that it communicates (comm_size)
  int peer = -1;                         ///< rank of a send or receive
  std::int64_t tag = 0;                  ///< of a send or receive
  std::string group;                     ///< name of the process group; empty: all ranks
};

struct RankTrace {
  std::string file;
  int rank = 0;         ///< from the file's name; the number of the file where that has none
  std::string version;  ///< of the schema
  std::vector<TraceNode> nodes;
  std::string cut_off;  ///< where the file ends too early: what was read of it, one sentence
  int missing = 0;      ///< dependencies on nodes that are not there
};

/// Reads one rank's trace. A file that ends within a message gives what is before it (RankTrace::cut_off); what is no trace, a failure.
Result<RankTrace> read_trace(std::string_view bytes, const std::string& file);
/// One file a rank, of one job; ranks that are there twice are a failure.
Result<std::vector<RankTrace>> read_traces(const std::vector<std::string>& files);

/// Fails where nodes wait for one another in a circle, and names it.
Status check_order(const RankTrace& trace);

/// The longest way through a rank's dependencies by recorded times (where none are recorded, by the number of nodes).
struct LongestChain {
  std::vector<std::size_t> nodes;  ///< by number in the trace
  double duration_us = 0;
};
/// Of a trace that check_order() has passed.
LongestChain longest_chain(const RankTrace& trace);

/// Nodes by kind, bytes by collective, the longest chain; of many ranks, of all together and each one's line.
std::string traces_text(const std::vector<RankTrace>& traces);
/// Schema peal.trace/1.
std::string traces_json(const std::vector<RankTrace>& traces);

// ---- in virtual time -------------------------------------------------------------------------------------------------------------------

/// What a communication of `group` ranks (ascending; of a message sender and receiver) takes.
using CommunicationTime = std::function<Result<Nanoseconds>(Collective collective, double bytes, const std::vector<int>& group)>;

struct RankTime {
  double end_us = 0;
  double compute_us = 0;
  double exposed_us = 0;  ///< that neither its device nor its host computes, until its end
};
struct TraceStudy {
  double time_us = 0;           ///< until the last rank's end
  std::vector<RankTime> ranks;  ///< in the order of the traces
};

/// Runs the traces of all ranks together. A node begins when all that it waits for has ended; a rank's device computes one node at a time
/// and communicates beside it, one node at a time in a group; the host computes another one. Calls of a group meet in the order of each
/// rank's, messages by peer and tag; a send does not wait for its receive. Fails where ranks wait for ever, naming who waits for whom.
Result<TraceStudy> simulate_traces(const std::vector<RankTrace>& traces, const CommunicationTime& time);

}  // namespace peal::training
