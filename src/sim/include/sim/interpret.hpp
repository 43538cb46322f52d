// Runs plans in virtual time: every rank's program, op by op, on the devices and wires of a cluster.
//
// An op starts when schedule::may_start says so and its core is free; what it costs is tuning's message_cost.hpp; what it shares (wires,
// NICs, memory) is shared max-min fairly. Ranks on cores do their ops one at a time; GPUs do them side by side. Programs are asked for rank
// by rank. Pure: the same input gives the same outcome. Memory: programs and channels in use, O(ranks + pairs that talk).
//
// Several jobs share the wires, the NICs and the cores; ranks of different jobs may sit on one device. Where this header counts ranks of
// all jobs, those of the first come first, those of each in its own order. Jobs may wait for one another and for computations (Step).
#pragma once

#include <base/trace.hpp>
#include <functional>
#include <limits>
#include <optional>
#include <sim/congestion.hpp>
#include <tuning/plan.hpp>

namespace peal::sim {

/// What differs from the machine as described. Nobody who chooses a plan knows of it.
struct Perturbation {
  std::vector<std::pair<topology::ResourceId, double>> scaled_resources;  ///< capacity times so much, above 0
  /// Ranks that take so many times as long for whatever they do themselves: launching, issuing, copying, reducing, filling a wire.
  std::vector<std::pair<int, double>> slow_ranks;
};

/// Every launch and every op takes longer by an exponentially distributed share with mean `share` (0.05: 5 % longer in the mean): noise
/// only ever delays. The draws of a strand depend on nothing but the seed and the strand.
struct Jitter {
  double share = 0;
  std::uint64_t seed = 0;
};

/// A rank that does nothing more from `time` on (nanoseconds); what it has put on the wires arrives.
struct RankFailure {
  int rank = 0;
  double time = 0;
};

/// A message of which the times are wanted: one of those that a rank sends to another, counted from 0 on each of their channels. Ranks of
/// one job, counted through all of them.
struct MessageAsked {
  int from = 0;
  int to = 0;
  std::uint64_t number = 0;
  bool operator==(const MessageAsked&) const = default;
};

struct Progress {
  std::uint64_t events = 0;
  double now = 0;         ///< virtual time, nanoseconds
  double share_done = 0;  ///< of all ops, 0 to 1, as some of the strands show it
};

struct InterpretOptions {
  bool keeps_trace = false;  ///< a trace event for every op
  bool keeps_log = false;    ///< a completion for every op
  bool keeps_path = false;   ///< the critical path; about a hundred bytes for every slice of an op
  /// One rank is simulated for all that behave alike, and once every rank repeats itself piece by piece, the pieces up to the last are
  /// counted. The times are the same. Done for GPUs, for one job without late ranks, jitter and failure of which nothing single is kept.
  bool folds = true;
  std::uint64_t most_events = 2'000'000'000;
  /// Where more rates of messages would have to be worked out, as far as can be told from what is done, they are from then on worked out
  /// about once in the time that a message takes and not at every change (Engine::keep_rates_for). Not where ranks are folded, nor with
  /// lines in front of ports: then all of them are.
  double most_exact_rates = std::numeric_limits<double>::infinity();
  /// What would take more memory, about, is refused before it is taken.
  double most_bytes = std::numeric_limits<double>::infinity();
  /// Called every hundred thousand events or so; may be empty.
  std::function<void(const Progress&)> progress = {};
  Perturbation perturbation = {};
  std::vector<std::pair<int, double>> late_ranks = {};  ///< nanoseconds after the others; several for one rank add up
  Jitter jitter = {};
  std::optional<RankFailure> failure = {};
  std::vector<MessageAsked> messages = {};  ///< may be asked for in folded runs too
  bool is_staged = false;      ///< GPUs' messages to other machines lie in host memory on their way, at both ends: no GPUDirect RDMA
  Congestion congestion = {};  ///< what happens in front of the network's ports, beside max-min sharing
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
  double alike = 1;        ///< folded: so many resources, this one included, do the same
};

/// What the time of a part of the critical path went into.
enum class PathShare : std::uint8_t {
  late,     ///< a rank began after the others
  launch,   ///< from the call to the first op
  turn,     ///< a core came round to the rank
  issue,    ///< an op's fixed cost
  copy,     ///< a core, or a GPU where that takes longer than the wire
  wire,     ///< bytes crossed at the rate that the pair has alone
  sharing,  ///< what that took longer because others crossed the same wires or memory
  latency,  ///< the hop from the last byte's leaving to its being seen
  credit,   ///< word that a slot is free, or that the receiver stands ready
};
std::string_view name_of(PathShare share) noexcept;

/// A stretch of the critical path; parts follow one another without gaps, from 0 to the end of the call. Nanoseconds.
struct PathPart {
  PathShare what = PathShare::launch;
  schedule::OpKind kind = schedule::OpKind::end_loop;  ///< of the op; end_loop before the first
  int rank = 0;
  int peer = -1;           ///< whom the op sends to, or receives from where it only does that
  std::uint32_t step = 0;  ///< parts of one slice of an op have the same; ascending
  double start = 0;
  double end = 0;
};

/// A rank that stands still for ever because another has failed.
struct StuckRank {
  int rank = 0;
  double since = 0;    ///< nanoseconds: when its last op ended
  int waits_for = -1;  ///< another rank; -1: for a strand of its own that waits
  std::string op;      ///< where it stands
};

/// What became of a message that was asked for, on one channel.
struct MessageTimes {
  MessageAsked asked;
  int channel = 0;
  std::uint64_t count = 0;  ///< messages on that channel in all
  double began = -1;        ///< nanoseconds: when the sender took it up; below 0: there is no such message
  double arrived = -1;      ///< when its receiver could see the whole of it; below 0: never
};

/// Nanoseconds.
struct ComputationTimes {
  double began = -1;   ///< on its first device; below 0: never
  double ended = 0;    ///< on its last
  double longest = 0;  ///< that a device computed it
};

struct Outcome {
  Nanoseconds time;                            ///< until the last rank is done; of a call that never ends, until the last op
  std::vector<Nanoseconds> job_times;          ///< from a job's start (of those that wait, of its first rank's) until its last rank is done
  std::vector<ComputationTimes> computations;  ///< as in the step
  std::vector<double> rank_done;               ///< nanoseconds
  std::vector<ResourceUse> resources;          ///< those that were used, busiest first
  std::vector<PathPart> path;                  ///< empty unless asked for
  int last_rank = 0;                           ///< with a path: whose end it leads to
  std::vector<StuckRank> stuck;                ///< after a failure, in the order in which they came to stand; empty where all others finish
  std::int32_t simulated_ranks = 0;            ///< as many as there are, unless ranks that behave alike were folded
  std::int32_t repeated_pieces = 0;            ///< that were counted, not simulated
  /// Above 0: parts of a buffer were taken as equally long, because else too many ranks would differ; the longest is longer than the mean
  /// by this share of it.
  double chunk_spread = 0;
  double most_in_line = 0;          ///< flows in front of one full port of the network, at most
  std::vector<std::string> circle;  ///< ports of the network that can wait for one another for ever, as this call's ways lead; mostly none
  std::optional<Nanoseconds> kept_rates_from;  ///< since when rates were kept (InterpretOptions::most_exact_rates); mostly never
  double longest_queue = 0;                    ///< bytes that stood there, at most
  std::uint64_t events = 0;
  std::uint64_t messages = 0;
  Trace trace;
  std::vector<Completion> log;
  std::vector<MessageTimes> messages_asked;  ///< one for every channel between the two ranks that carried something
  /// The busiest resource, or null when only software was waited for.
  const ResourceUse* bottleneck() const { return resources.empty() ? nullptr : resources.data(); }
};

/// A plan on its ranks. `device_of_rank` in the cluster's numbering; `environment` is that of these ranks; `wires` as it was made with.
/// What is pointed at must outlive the interpretation.
struct Job {
  const tuning::Plan* plan = nullptr;
  std::span<const int> device_of_rank;
  const tuning::Environment* environment = nullptr;
  tuning::Wires wires = tuning::Wires::automatic;
  double start = 0;  ///< nanoseconds
  /// What each of its devices must have done before the rank there begins, by number in a step: jobs first, then computations. What has
  /// nothing to do on a device is not waited for there.
  std::vector<int> after = {};
  double processors = 0;  ///< of each of its devices, that it holds from a rank's launch to its end
};

/// What GPUs compute beside what they tell one another.
struct Computation {
  std::span<const int> devices;  ///< each computes all of it; none twice
  double time = 0;               ///< nanoseconds, where all processors are free
  std::vector<int> after = {};   ///< as of jobs
};

/// Jobs and computations, each of which begins on a device when what it waits for has ended there, as on the streams of a GPU. A device
/// computes one after another, in the order in which they may begin. While jobs hold h of its P processors, it computes at the rate
/// (P - h) / P: kernels of a collective keep their multiprocessors to themselves until they end (github.com/NVIDIA/nccl/issues/689), and
/// what is computed has blocks enough to fill those that are left. Not modelled: the memory's rate that both share; a last wave of blocks
/// that does not fill the processors; calls that wait for a processor.
struct Step {
  std::span<const Job> jobs;
  std::span<const Computation> computations = {};
  double processors = 0;  ///< of a device; 0: computing is never slowed
};

/// A step on GPUs. Fails as below, and when works wait for one another in a circle.
Result<Outcome> interpret(const Step& step, const topology::Resources& resources, const InterpretOptions& options = {});
/// At least one job; all on cores or all on GPUs.
/// Fails when a plan blocks (naming the lowest rank and its op), or when switches are to compute that do not.
Result<Outcome> interpret(std::span<const Job> jobs, const topology::Resources& resources, const InterpretOptions& options = {});
/// One job alone.
Result<Outcome> interpret(const tuning::Plan& plan, const topology::Resources& resources, std::span<const int> device_of_rank,
                          const tuning::Environment& environment, tuning::Wires wires, const InterpretOptions& options = {});

}  // namespace peal::sim
