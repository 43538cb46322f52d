// The state of an interpretation: jobs, ranks, strands, channels, cores. Private to this room.
//
// The ranks of all jobs are numbered through, those of a job side by side in its order ("number" below); what a program calls a rank or a
// peer is counted within its job.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <schedule/cursor.hpp>
#include <sim/engine.hpp>
#include <sim/framing.hpp>
#include <sim/interpret.hpp>
#include <tuning/core_turns.hpp>
#include <tuning/message_cost.hpp>
#include <unordered_map>
#include <unordered_set>

#include "critical_path.hpp"
#include "flat_map.hpp"
#include "fold/folding.hpp"
#include "kept_ops.hpp"
#include "message_log.hpp"
#include "message_sizes.hpp"
#include "pair_table.hpp"
#include "repeat.hpp"
#include "works.hpp"

namespace peal::sim {

struct JobState {
  const Job* job = nullptr;
  const tuning::Offer* offer = nullptr;
  tuning::MessageCost local;  // of what a rank does alone
  double launch = 0;
  std::int32_t number = 0;  // of the job
  std::int32_t first = 0;   // number of its rank 0
  std::int32_t ranks = 0;
  bool snapshots = true;     // its protocol's senders may return before their data has been received
  bool is_measured = false;  // its rates are those of this host's own cores, and hold what memory gives
  std::optional<MessageSizes> sizes;
  std::unordered_map<int, std::int32_t> rank_on;  // with works, by device
};

/// What channels have in common: what a message costs, and what that is worked out of.
struct ChannelKind {
  struct Terms {
    const JobState* job = nullptr;
    int level = 0;
    bool is_on_one_core = false;
    double latency = 0;     // nanoseconds
    double bottleneck = 0;  // bytes a second
    double members = 1;     // of its class, where ranks are folded
    const Framing* framing = nullptr;
    bool is_socket = false;  // of GPUs: cores of its own copy (lines.cpp)
    bool operator==(const Terms&) const = default;
  };
  Terms terms;
  tuning::MessageCost cost;
  // What was asked for last: what so many bytes count as, and what receiving so many takes by an op.
  double framed = 0;
  double counted = 0;
  const schedule::Op* received_by = nullptr;
  double received = 0;
  double receive_work = 0;
};

/// One cache line: there may be millions. Most counts of messages wrap round, only what lies between two of them is asked for.
struct Channel {
  static constexpr std::uint32_t kFewWires = 2;
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  std::int32_t from = 0;  // numbers
  std::int32_t to = 0;
  std::uint32_t kind = 0;
  std::uint32_t sent = 0;  // messages begun
  union {
    std::size_t first_wire = 0;          // in ways_
    std::uint32_t few_wires[kFewWires];  // where the way is short and has no counts
  };
  // When a message arrives, and a credit, that nobody waited for when it set out: no event tells, who asks looks at the clock.
  double arrives = kNever;
  double credits = kNever;
  Index waiting_sender = kNobody;
  Index waiting_receiver = kNobody;
  std::uint16_t holders = 0;  // strands at whose op it is
  bool is_spare = false;      // among spare_
  bool is_for_good = false;   // never used again for other ranks
  std::uint16_t wires = 0;    // of its way
  std::uint16_t arrived = 0;
  std::uint16_t received = 0;
  std::uint16_t credited = 0;   // received, and the sender knows
  std::uint16_t posted = 0;     // rendezvous: receives announced
  std::uint16_t announced = 0;  // ... and the sender knows

  static std::uint16_t between(std::uint32_t later, std::uint32_t sooner) { return static_cast<std::uint16_t>(later - sooner); }
  std::uint16_t under_way() const { return between(sent, arrived); }
  std::uint16_t unread() const { return between(arrived, received); }
  std::uint16_t uncredited() const { return between(received, credited); }
  std::uint16_t unannounced() const { return between(posted, announced); }
  bool is_announced() const { return between(announced, sent) != 0; }
  /// Sent, and the sender does not know that it was received.
  std::uint16_t in_slots() const { return between(sent, credited); }
  /// Nothing will be heard of what it has carried.
  bool is_quiet() const { return in_slots() == 0 && arrived == received && received == credited && posted == announced; }
  /// Counts what has come by now.
  void catch_up(double now) {
    if (arrives <= now) {
      ++arrived;
      arrives = kNever;
    }
    if (credits <= now) {
      ++credited;
      credits = kNever;
    }
  }
};
static_assert(sizeof(Channel) == 64);

/// A group of ranks for which switches compute: what its ops cross, and who stands at the next of them.
struct Meeting {
  struct Member {
    std::vector<std::uint32_t> up;  // engine resources
    std::vector<std::uint32_t> down;
  };
  std::vector<Member> members;  // ascending
  std::vector<std::uint32_t> cables_up;
  std::vector<std::uint32_t> cables_down;
  std::vector<std::uint32_t> limits;  // of switches that serve few trees at a time
  double efficiency = 1;
  double bottleneck = 0;  // bytes a nanosecond
  double hop = 0;
  std::vector<Index> come;  // strands
  std::size_t issued = 0;   // of them
  // What the op at hand crosses, and how many of its bytes there.
  std::vector<std::uint32_t> crossed;
  std::vector<double> counts;
  double whole = 0;                    // bytes of the op
  const schedule::Op* full = nullptr;  // of the first member, where this is so in every piece of full length
};

/// Two cache lines, and a third of what is rarely asked for.
struct alignas(64) Strand {
  std::int32_t rank = 0;  // number
  std::int32_t number = 0;
  schedule::StrandCursor cursor;
  const JobState* job = nullptr;
  std::uint32_t first_op = 0;  // of its rank
  Index in = kNobody;          // channels of the op at hand
  Index out = kNobody;
  bool is_at_work = false;
  bool is_bound = false;    // `bound`, `in` and `out` are those of the op at hand
  bool has_copied = false;  // what a row of sends of the same bytes takes to several ranks

  schedule::BoundOp bound;
  double bytes = 0;  // of this slice
  double began = 0;
  double since = 0;         // when its last op ended
  std::int32_t slices = 0;  // of the op
  std::int32_t slice = 0;   // 0 and not begun: the op is looked at afresh

  double whole = 0;      // bytes of an op of several slices
  double stretch = 1;    // what this slice takes longer than it should (perturb.cpp)
  double turn = 0;       // what it waits for its core to come round to it
  Index step = kNobody;  // of this slice, for the critical path
  std::uint64_t draws = 0;
};
static_assert(sizeof(Strand) == 192 && offsetof(Strand, bound) == 64 && offsetof(Strand, whole) == 128);

struct RankState {
  const JobState* job = nullptr;
  schedule::Program program;  // its ops are kept elsewhere; folded: empty but for the first of a class
  Index first_strand = 0;
  std::vector<std::int64_t> signals;
  std::unordered_map<std::uint64_t, std::int64_t> signals_from;
  std::vector<Index> waiting;  // strands that stand at a wait
  double done = 0;
};

/// A message that its sender has begun to copy into a socket.
struct Leaving {
  Index strand = kNobody;
  double bytes = 0;  // on the wire
  double hop = 0;
  double rate_cap = 0;
};

struct Core {
  bool is_busy = false;
  std::int32_t last = -1;  // the rank that did the last op
  std::deque<Index> queue;
};

class World final : Engine::Listener {
 public:
  /// Folded: the step is one job.
  World(const Step& step, const topology::Resources& resources, const InterpretOptions& options, Fold fold);
  Result<Outcome> run();

 private:
  enum class Kind : std::uint8_t {
    begin,
    issued,
    worked,
    sent,
    arrived,
    credit,
    announce,
    signal,
    wire,
    pass,
    remote,
    switched,
    mark,
    computed,
    ended
  };
  // A kind, and one or two indices.
  static constexpr int kIndexBits = 28;
  static constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kIndexBits) - 1;
  static Tag tag(Kind kind, std::uint64_t index) { return (static_cast<std::uint64_t>(kind) << 56) | index; }
  static Tag tag(Kind kind, Index second, Index index) { return tag(kind, (static_cast<std::uint64_t>(second) << kIndexBits) | index); }

  static Index second_of(Tag tag) { return static_cast<Index>((tag >> kIndexBits) & kIndexMask); }

  // What schedule::may_start asks; a "no" leaves the strand's name where the answer will change.
  struct View {
    World& world;
    Index strand;
    bool can_send(int, int) { return world.can_send(strand); }
    bool can_receive(int, int) { return world.can_receive(strand); }
    std::int64_t signals(int event) const;
    std::int64_t signals_from(int peer, int event) const;
    bool have_come(const schedule::BoundOp&) { return world.have_come(strand); }
  };

  friend Engine;
  void on_timer(Tag tag);
  bool wants_arrival(Tag tag, double time);
  void on_flow_left(Tag tag);
  void on_flow_arrived(Tag tag);
  void on_soon(int distance, Tag tag, Event event) const;
  void fetch_strand(Index strand) const;
  void fetch_op(Index strand) const;
  void fetch_next(Index strand, bool is_later) const;
  void fetch_next_pair(const Strand& strand, bool is_later) const;
  void fetch_wires(Index channel) const;

  // jobs.cpp: what runs where
  void add_job(const Job& job);
  void add_rank(const JobState& job, std::int32_t rank);
  void launch(std::int32_t number, double from);
  void number_cores();
  const tuning::Plan& plan_of(const Strand& s) const { return *s.job->job->plan; }
  KeptOps::OfRank ops_of(const Strand& s) const { return {ops_.at(s.first_op), s.job->ranks}; }
  /// Number of a rank of the same job.
  std::int32_t number_of(const Strand& s, std::int32_t rank) const { return s.job->first + rank; }
  int device_of(std::int32_t number) const;

  // step.cpp: jobs that wait, what is computed beside them
  void make_works(const Step& step);
  void begin_waiting(int job, int device);
  void launched(Index strand);
  void rank_ended(std::int32_t number);
  int trace_row(std::int32_t number) const { return works_ ? first_on_.at(device_of(number)) : number; }

  // interpret.cpp: the life of an op
  void consider(Index strand);
  void take_up(Index strand);
  void bind(Strand& strand);
  void advance(Index strand);
  bool step_sync(Index strand);
  void ask_for_core(Index strand);
  void take_core(Core& core, Index strand);
  void begin(Index strand);
  void pack_at_once(Strand& s);
  void issued(Index strand);
  double receive_work(const Strand& strand, ChannelKind& kind);
  double receive_work_after(const Strand& strand, const Channel& in);
  double& sent_within_host_of(std::int32_t number, const JobState& job) {
    return sent_within_[static_cast<std::size_t>(job.number)][job.job->environment->group_of(number - job.first)];
  }
  void work_locally(Index strand);
  void worked(Index strand);
  void put_on_wire(Index channel, const Leaving& message);
  void next_in_line(Index channel);
  void slice_done(Index strand);
  void op_done(Index strand);
  void release_core(Index strand);
  void note(const Strand& strand);
  void finish(std::int32_t rank);

  // perturb.cpp: what differs from the machine as described
  double slowness(std::int32_t rank) const;
  double noise(std::uint64_t stream, std::uint64_t draw) const;
  double stretch(Strand& strand) const;
  double stretch_of(const Strand& s) const { return is_perturbed_ ? s.stretch : 1; }
  PathRecorder::Step* step_of(const Strand& s) { return path_.is_on() ? path_.step(s.step) : nullptr; }
  double capacity_of(topology::ResourceId id) const;
  void slow_outlet(std::int32_t rank, topology::ResourceId wire);
  double starts_at(std::int32_t rank) const;
  const tuning::MessageCost& cost_to(const Strand& s, const tuning::MessageCost& cost);
  bool is_dead(std::int32_t rank) const { return may_fail_ && options_.failure->rank == rank && engine_.now() >= options_.failure->time; }

  // outcome.cpp
  Status run_events();
  bool may_keep_rates() const;
  void keep_rates_if_many(double share_done);
  double share_done() const;
  Status check_finished() const;
  std::uint64_t count_messages();
  void gather_times();
  void gather_path();
  void tell_who_waits();
  std::vector<ResourceUse> uses(double time) const;

  // channels.cpp: messages, credits, signals, ways
  bool can_send(Index strand);
  bool can_receive(Index strand);
  void arrived(Index channel);
  bool keep_arrival(Index channel, double time);
  void credit_later(Index channel);
  void credit(Index channel);
  void announced(Index channel);
  void emit_signal(Index strand);
  void remote_signal(std::uint64_t index);
  void wake(Index& waiting);
  void wake_waiting(std::int32_t rank);
  bool is_message_there(const Strand& s, const schedule::BoundOp& bound);
  Index channel(int from, int to, int number);
  Index add_channel(int from, int to, const Folding::Kin& kin);
  bool may_reuse_channels(const Step& step) const;
  Index hold(int from, int to, const schedule::Op& op);
  void let_go(Index channel);
  void free_spare_channels();
  Index new_channel();
  void move_into_spare_way(Channel& channel);
  std::uint32_t log_of(Index channel) const { return logs_.empty() ? MessageLog::kNone : logs_[channel]; }
  Folding::Kin kin_of(int from, int to, int number) const;
  void ask_for_messages();
  void lay_way(Channel& channel, double members);
  void cross(Channel& channel, topology::ResourceId id, double members);
  std::uint32_t kind_of(const ChannelKind::Terms& terms);
  const tuning::MessageCost& cost_of(const Channel& c) const { return kinds_[c.kind].cost; }
  using Way = std::span<const std::uint32_t>;
  Way wire_of(const Channel& c) const {
    return {c.wires <= Channel::kFewWires && !has_counts() ? c.few_wires : ways_.data() + c.first_wire, c.wires};
  }
  /// Where channels stand for classes, and where ways may lead through one memory twice.
  bool has_counts() const { return fold_.folding != nullptr || options_.is_staged; }
  std::span<const double> counts_of(const Channel& c) const {
    return has_counts() ? std::span(way_counts_.data() + c.first_wire, c.wires) : std::span<const double>();
  }
  // Memory: one pass of the sender's core into it, one of the receiver's out of it; the middle of the way is crossed by both.
  Way write_side(const Channel& c) const { return wire_of(c).first((c.wires + 1) / 2); }
  Way read_side(const Channel& c) const { return wire_of(c).last((c.wires + 1) / 2); }
  std::uint32_t engine_resource(topology::ResourceId id);
  double framed(const Channel& c, double bytes) {
    ChannelKind& kind = kinds_[c.kind];
    if (kind.framed != bytes) kind.counted = kind.terms.framing->counted(kind.framed = bytes);
    return kind.counted;
  }
  double on_wire(const Channel& c, double bytes) { return framed(c, bytes) / cost_of(c).efficiency; }

  // lines.cpp, staging.cpp, circle.cpp: lines in front of ports, cores that run TCP, host memory on the way
  void make_lines();
  void lay_lines(const Channel& channel);
  double holds_up_for(Index channel);
  bool is_learning() const { return engine_.now() < learnt_; }
  void lay_sockets(const Channel& channel, double members);
  void add_to_way(const Channel& channel, std::uint32_t resource, bool is_first, double count = 1);
  const Framing* framing(const Channel& channel, const topology::Route& route, bool is_memory);
  void stage(topology::Route& route, int from, int to) const;
  void find_circle();
  void add_socket_uses(std::vector<ResourceUse>& uses, double time) const;

  // switch_ops.cpp: what switches compute
  std::span<const schedule::Source> group_of(const Strand& s) const;
  Index meeting_of(const Strand& s);
  Status lay_meeting(const Strand& s, Meeting& meeting);
  bool have_come(Index strand);
  void issue_switched(Index strand);
  void start_switched(Index meeting);
  void cross_all(Meeting& meeting, std::span<const Index> strands);
  void switched(Index meeting);
  int missing_member(const Strand& s);

  // repeat.cpp: pieces that repeat
  void piece_done(Index strand);
  void look_back();
  StateMark mark(std::size_t step, StateMark mark);
  bool add_sample();
  bool find_one_that_cannot_repeat();
  void repeat(const StateMark& now, const StateMark& then);
  bool signals_keep_up(std::span<const std::int32_t> pieces) const;
  void skip_messages(const std::vector<Channel>& before, std::int32_t times, double period);
  std::vector<Channel> logged_channels() const;
  void count_pieces(const Strand& strand, double pieces, std::vector<double>& bytes);
  void count_switched(const Strand& strand, const schedule::BoundOp& bound, double pieces, std::vector<double>& bytes);

  const topology::Resources& resources_;
  const InterpretOptions& options_;
  Fold fold_;
  Engine engine_;
  std::deque<JobState> jobs_;
  bool is_host_ = true;
  std::optional<tuning::CoreTurns> turns_;
  std::vector<std::int32_t> core_of_;  // by number
  std::unordered_map<topology::ResourceId, double> scale_;
  std::unordered_map<std::int32_t, double> slow_;
  std::unordered_set<topology::ResourceId> slow_outlets_;
  tuning::MessageCost slowed_;
  // What most runs have nothing of, at hand since each op asks.
  const bool is_perturbed_;  // slow ranks or jitter
  const bool may_fail_;
  const bool notes_ops_;  // for the log or the trace
  PathRecorder path_;
  LargeVector<RankState> ranks_;
  KeptOps ops_;
  LargeVector<Strand> strands_;
  std::vector<Core> cores_;
  LargeVector<Channel> channels_;
  PairTable pairs_;                                         // number + 1 of the first channel of two ranks, where they are not folded
  FlatMap channel_of_;                                      // all others
  bool reuses_channels_ = false;                            // the first ones of two ranks that are done with each other are others' next
  std::vector<Index> free_;                                 // channels
  std::deque<Index> spare_;                                 // channels whose last message was received, in that order: soon free
  std::vector<std::vector<std::size_t>> spare_ways_;        // by their length: places in ways_
  double messages_before_ = 0;                              // that channels have carried for others than now
  std::vector<std::uint32_t> logs_;                         // by channel, where somebody asks for messages: of message_log_
  std::unordered_map<Index, std::deque<Leaving>> in_line_;  // of hosts' sockets; the first is on its channel's wire
  std::vector<std::vector<double>> sent_within_;            // bytes, by job and group: of channels that count what leaves the caches
  std::unordered_map<Index, std::deque<double>> sent_at_;   // by such a channel: what that was with its messages
  std::vector<ChannelKind> kinds_;
  FlatMap kind_of_;                  // the last of a hash of its terms
  LargeVector<std::uint32_t> ways_;  // engine resources of the whole way of each channel
  LargeVector<double> way_counts_;   // has_counts(): how many channels of the class cross each, and how often
  std::vector<double> since_;        // with lines, by channel: when its first message began to leave; -1: none has
  topology::Route route_;
  std::vector<Meeting> meetings_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::size_t, int>, Index> meeting_of_;  // lowest and highest number, how many, channel
  std::unordered_map<std::uint32_t, std::uint32_t> switch_limit_;                         // by switch: engine resource
  std::vector<std::uint32_t> resource_of_;                                                // by id: the engine's number; kNobody: not yet
  std::unordered_map<std::uint64_t, topology::ResourceId> class_resource_;                // folded: the first of each class
  std::vector<std::pair<topology::ResourceId, std::uint32_t>> used_;
  std::unordered_set<topology::ResourceId> lines_;                          // ports and cables of the network, where flows stand in line
  double learnt_ = 0;                                                       // no channel is as young as that its sender holds up others
  std::vector<std::pair<const char*, std::unique_ptr<Framing>>> framings_;  // by where a route's scope lies: a string of its link or NIC
  struct Sockets {  // a rank's core that sends, and one that receives; kNobody: not yet
    std::uint32_t out = kNobody;
    std::uint32_t in = kNobody;
    double alike = 1;
  };
  std::vector<Sockets> sockets_;                     // by rank, where GPUs use TCP
  std::vector<std::uint32_t> pattern_;               // per rank: what it sends in all, where the protocol caps it; kNobody: not yet
  std::optional<Works> works_;                       // of a step in which something waits
  std::unordered_map<int, std::int32_t> first_on_;   // with works, by device: the lowest number there
  std::unordered_map<int, std::uint64_t> computed_;  // by device: how often
  std::vector<std::int32_t> strands_left_;           // with works, by number: that have not ended
  std::vector<double> job_began_;                    // with works: its first rank; below 0: none has
  struct RemoteSignal {
    std::int32_t from;  // rank in its job
    std::int32_t to;    // number
    std::int32_t event;
    Index step;
  };
  std::vector<RemoteSignal> remote_signals_;
  bool may_repeat_ = false;
  bool keeps_times_ = false;  // of arrivals and credits that nobody waits for: not where it is asked why or what was on its way
  Index beat_ = 0;
  std::size_t unlike_ = 0;  // a strand whose state could not repeat when that was asked last
  StateHistory history_{2 * kLongestPeriod};
  StateHistory samples_{kLongestPeriod};  // marks of some strands
  std::uint64_t marked_at_ = 0;           // events
  double switched_ = 0;                   // messages to and from switches
  MessageLog message_log_;
  std::deque<Index> to_consider_;
  bool is_considering_ = false;
  Status failure_;
  Outcome outcome_;
};

}  // namespace peal::sim
