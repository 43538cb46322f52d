// The walk of the verifier through all ranks' programs, greedy and symbolic. Private to this room.
#pragma once

#include <deque>
#include <map>
#include <schedule/cursor.hpp>
#include <schedule/verify.hpp>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "verify_clocks.hpp"
#include "verify_memory.hpp"
#include "verify_values.hpp"

namespace peal::schedule {

/// How messages move in one walk.
struct WalkRules {
  std::int32_t slots = 4;  ///< 0: rendezvous
  bool snapshots = true;   ///< false: the receiver reads the sender's memory when it receives
  bool shows = false;      ///< without snapshots: those of what lies in no memory of the sender's are taken all the same
  bool answers = false;    ///< with shows: finished sums are written over the messages that made them
  std::int32_t pieces = 1;
};

/// A text for people: "recv_reduce from 3 into output[2]".
std::string describe(const BoundOp& bound);

class Walk {
 public:
  Walk(const Request& request, const Layouts& layouts, const std::vector<Program>& programs, WalkRules rules);
  Verdict run();

 private:
  struct StrandState {
    std::int32_t rank = 0;
    std::size_t index = 0;  // within its rank
    StrandCursor cursor;
    StrandClock clock;
    std::uint64_t step = 0;
    bool is_sending = false;  // rendezvous: its message is not taken yet
  };
  /// One chunk on its way.
  struct Item {
    Value value;          // snapshots
    Place place;          // else where it lies
    bool is_raw = false;  // read from an input: scale it
    std::int64_t shape = 0;
    // Where its answer is wanted: a chunk of a buffer of the sender's; -1: nowhere.
    BufferId answer_buffer = kInput;
    std::int32_t answer_chunk = -1;
  };
  struct Message {
    std::vector<Item> items;
    Stamp stamp;
    Wire wire = Wire::element;
    std::int32_t piece = 0;
    bool in_memory = false;  // to be read when received
    std::int64_t step = 0;
  };
  struct Channel {
    StrandId writer = kNoStrand;
    StrandId reader = kNoStrand;
    std::deque<Message> queue;
  };
  struct Event {
    std::vector<Stamp> signals;
    std::vector<std::int64_t> signal_steps;
    bool has_many_signallers = false;
  };
  /// A copy or a reduce that touched another rank's memory.
  struct RemoteAccess {
    std::int32_t owner;
    StrandId strand;
    std::uint32_t time;
  };
  struct Waited {
    std::uint64_t event;
    StrandId strand;
    std::uint32_t time;
    std::int64_t threshold;
    std::int64_t step;
  };

  /// Answers the cursor's questions for one rank.
  struct Readiness {
    Walk& walk;
    std::int32_t rank;
    bool can_send(std::int32_t peer, std::uint8_t number) const {
      const Channel& to = walk.channel(rank, peer, number);
      if (walk.rules_.slots > 0) return to.queue.size() < static_cast<std::size_t>(walk.rules_.slots);
      return to.queue.empty() && walk.stands_at_receive(peer, rank, number);
    }
    bool can_receive(std::int32_t peer, std::uint8_t number) const { return !walk.channel(peer, rank, number).queue.empty(); }
    std::int64_t signals(std::uint16_t event) const { return count(-1, event); }
    std::int64_t signals_from(std::int32_t peer, std::uint16_t event) const { return count(peer, event); }
    bool have_come(const BoundOp& bound) const { return walk.missing_member(rank, bound) < 0; }
    std::int64_t count(std::int32_t from, std::uint16_t event) const {
      const auto at = walk.events_.find(event_key(rank, from, event));
      return at == walk.events_.end() ? 0 : static_cast<std::int64_t>(at->second.signals.size());
    }
  };

  void pass();
  bool try_step(StrandId id);
  bool is_well_bound(StrandId id, const BoundOp& bound);
  bool refs_in_range(StrandId id, const BoundOp& bound, const Ref& ref, std::int32_t rank, const char* what);
  void execute(StrandId id, const BoundOp& bound);
  void finish_step(StrandId id);
  Channel& channel(std::int32_t from, std::int32_t to, std::uint8_t number) {
    return channels_[static_cast<std::uint64_t>(from) << 36 | static_cast<std::uint64_t>(to) << 8 | number];
  }
  static std::uint64_t event_key(std::int32_t rank, std::int32_t from, std::uint16_t event) {
    return static_cast<std::uint64_t>(rank) << 40 | static_cast<std::uint64_t>(from + 1) << 16 | event;
  }
  bool stands_at_receive(std::int32_t rank, std::int32_t from, std::uint8_t number);

  Value read(StrandId id, const BoundOp& bound, const Place& place, bool is_raw, std::int32_t rank);
  void write(StrandId id, const BoundOp& bound, std::int32_t rank, const Ref& ref, std::int32_t i, Value value) {
    write_to(id, bound, rank, ref.buffer, bound.chunk(ref) + i, value);
  }
  void write_to(StrandId id, const BoundOp& bound, std::int32_t rank, BufferId buffer, std::int32_t chunk, Value value);
  void answer(StrandId id, const BoundOp& bound, const Item& item, Value value);
  bool touch(StrandId id, const BoundOp& bound, std::int32_t owner);
  Value combine(StrandId id, const BoundOp& bound, Value a, Value b);
  Value finished(StrandId id, const BoundOp& bound, Value value);
  bool is_unfinished_sum(const Value& value) const;
  Place place_of(const BoundOp& bound, std::int32_t rank, const Ref& ref, std::int32_t i) const {
    return memory_.place(rank, ref.buffer, bound.chunk(ref) + i);
  }
  bool reads_raw(const Ref& ref) const { return ref.buffer == kInput && sums_; }

  void do_send(StrandId id, const BoundOp& bound, const Ref& ref, std::vector<Value>* results);
  void do_receive(StrandId id, const BoundOp& bound);
  void do_copy(StrandId id, const BoundOp& bound);
  void do_reduce(StrandId id, const BoundOp& bound);
  Value tree_over(StrandId id, const BoundOp& bound, const std::vector<Value>& values, std::size_t first, std::size_t count);
  // verify_switch.cpp
  std::span<const Source> group_of(std::int32_t rank, const BoundOp& bound) const;
  bool is_good_group(StrandId id, const BoundOp& bound);
  StrandId standing_at(std::int32_t member, std::int32_t rank, const BoundOp& bound) const;
  std::int32_t missing_member(std::int32_t rank, const BoundOp& bound) const;
  struct Member {
    StrandId strand = kNoStrand;
    BoundOp bound;
  };
  void do_switch(StrandId id, const BoundOp& bound);
  void meet(const std::vector<Member>& members);
  void own_channel(const Member& member);
  std::vector<Value> bring(const Member& member, std::vector<std::int64_t>& shapes);
  void take(const Member& member, std::span<const Value> values, std::span<const std::int64_t> shapes);
  void do_switch_reduce(const std::vector<Member>& members);
  void do_switch_multicast(const std::vector<Member>& members);
  void do_signal(StrandId id, const BoundOp& bound);
  void do_wait(StrandId id, const BoundOp& bound);

  void check_blocked();
  std::string blocked_why(const StrandState& strand, const BoundOp& bound);
  void check_unreceived();
  void check_waits();
  void check_outputs();
  void check_remote();
  void check_barrier();
  void report(std::int64_t step, std::int32_t rank, std::string why);
  void report_at(StrandId id, const BoundOp& bound, std::string_view why);
  std::string strand_text(StrandId id) const;

  const Request& request_;
  const std::vector<Program>& programs_;
  WalkRules rules_;
  bool sums_;
  Trees trees_;
  Memory memory_;
  std::vector<StrandState> strands_;
  std::vector<StrandId> first_strand_;  // of each rank, and one past the end
  std::unordered_map<std::uint64_t, Channel> channels_;
  // Own cell and peer: where the same sum lies in the peer's memory.
  std::map<std::pair<std::size_t, std::int32_t>, Place> answered_;
  std::unordered_map<std::uint64_t, Event> events_;
  std::map<std::tuple<std::int32_t, std::uint8_t, std::int32_t>, StrandId> switch_strands_;  // by rank, channel and lowest member
  std::vector<Waited> waits_;
  std::vector<RemoteAccess> remote_;
  std::uint64_t steps_ = 0;
  bool is_broken_ = false;  // an op that cannot be walked over
  bool canonical_ = true;
  Verdict verdict_;
};

}  // namespace peal::schedule
