// The state of an interpretation: ranks, strands, channels, cores. Private to this room.
#pragma once

#include <deque>
#include <schedule/cursor.hpp>
#include <sim/engine.hpp>
#include <sim/interpret.hpp>
#include <tuning/core_turns.hpp>
#include <tuning/message_cost.hpp>
#include <unordered_map>

namespace peal::sim {

using Index = std::uint32_t;
inline constexpr Index kNobody = ~Index{0};

struct Channel {
  std::int32_t from = 0;
  std::int32_t to = 0;
  tuning::MessageCost cost;
  std::vector<std::uint32_t> wire;        // engine resources of the whole way
  std::vector<std::uint32_t> write_side;  // memory: what the sender's pass crosses
  std::vector<std::uint32_t> read_side;   // memory: what the receiver's pass crosses
  std::int64_t sent = 0;                  // messages begun
  std::int64_t arrived = 0;
  std::int64_t received = 0;
  std::int64_t credited = 0;   // received, and the sender knows
  std::int64_t posted = 0;     // rendezvous: receives announced
  std::int64_t announced = 0;  // ... and the sender knows
  Index waiting_sender = kNobody;
  Index waiting_receiver = kNobody;
};

struct Strand {
  std::int32_t rank = 0;
  std::int32_t number = 0;
  schedule::StrandCursor cursor;
  schedule::BoundOp bound;
  double whole = 0;  // bytes of the op
  double bytes = 0;  // of this slice
  std::int64_t slices = 0;
  bool has_copied = false;  // what a row of sends of the same bytes takes to several ranks
  std::int64_t slice = 0;   // 0 and not begun: the op is looked at afresh
  double began = 0;
  double turn = 0;     // what it waits for its core to come round to it
  Index in = kNobody;  // channels of the op at hand
  Index out = kNobody;
  bool is_at_work = false;
};

struct RankState {
  schedule::Program program;
  Index first_strand = 0;
  std::vector<std::int64_t> signals;
  std::unordered_map<std::uint64_t, std::int64_t> signals_from;
  std::vector<Index> waiting;  // strands that stand at a wait
  double done = 0;
};

struct Core {
  bool is_busy = false;
  std::int32_t last = -1;  // the rank that did the last op
  std::deque<Index> queue;
};

class World final : Engine::Listener {
 public:
  World(const tuning::Plan& plan, const topology::Resources& resources, std::span<const int> device_of_rank,
        const tuning::Environment& environment, tuning::Wires wires, const InterpretOptions& options);
  Result<Outcome> run();

 private:
  enum class Kind : std::uint8_t { begin, issued, worked, sent, arrived, credit, announce, signal, wire, pass, remote };
  static Tag tag(Kind kind, std::uint64_t index) { return (static_cast<std::uint64_t>(kind) << 56) | index; }

  // What schedule::may_start asks; a "no" leaves the strand's name where the answer will change.
  struct View {
    World& world;
    Index strand;
    bool can_send(int peer, int channel) { return world.can_send(strand, peer, channel); }
    bool can_receive(int peer, int channel) { return world.can_receive(strand, peer, channel); }
    std::int64_t signals(int event) const;
    std::int64_t signals_from(int peer, int event) const;
  };

  void on_timer(Tag tag) override;
  void on_flow_left(Tag tag) override;
  void on_flow_arrived(Tag tag) override;

  // interpret.cpp: the life of an op
  void consider(Index strand);
  void take_up(Index strand);
  bool step_sync(Index strand);
  void ask_for_core(Index strand);
  void take_core(Core& core, Index strand);
  void begin(Index strand);
  void issued(Index strand);
  void work_locally(Index strand);
  void worked(Index strand);
  void slice_done(Index strand);
  void op_done(Index strand);
  void release_core(Index strand);
  void note(const Strand& strand);
  Status check_finished() const;

  // channels.cpp: messages, credits, signals, ways
  bool can_send(Index strand, int peer, int number);
  bool can_receive(Index strand, int peer, int number);
  void arrived(Index channel);
  void credit(Index channel);
  void emit_signal(Index strand);
  void remote_signal(std::uint64_t index);
  void wake(Index& waiting);
  void wake_waiting(std::int32_t rank);
  Index channel(int from, int to, int number);
  void lay_way(Channel& channel);
  std::uint32_t engine_resource(topology::ResourceId id);
  std::vector<ResourceUse> uses(double time) const;

  const tuning::Plan& plan_;
  const topology::Resources& resources_;
  std::span<const int> device_of_rank_;
  const tuning::Environment& environment_;
  const tuning::Offer& offer_;
  const tuning::CoreTurns turns_;
  tuning::Wires wires_;
  InterpretOptions options_;
  Engine engine_;
  tuning::MessageCost local_;
  double launch_ = 0;
  std::vector<RankState> ranks_;
  std::vector<Strand> strands_;
  std::vector<Core> cores_;
  std::vector<Channel> channels_;
  std::unordered_map<std::uint64_t, Index> channel_of_;
  std::unordered_map<topology::ResourceId, std::uint32_t> resource_of_;
  std::vector<std::pair<topology::ResourceId, std::uint32_t>> used_;
  std::vector<std::uint32_t> pattern_;  // per rank: what it sends in all, where the protocol caps it; kNobody: not yet
  struct RemoteSignal {
    std::int32_t from;
    std::int32_t to;
    std::int32_t event;
  };
  std::vector<RemoteSignal> remote_signals_;
  std::deque<Index> to_consider_;
  bool is_considering_ = false;
  Status failure_;
  Outcome outcome_;
};

}  // namespace peal::sim
