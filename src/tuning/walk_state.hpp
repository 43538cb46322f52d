// The state of a walk: strands, channels, cores, each with the instants at which things are seen. Private to this room.
#pragma once

#include <base/index.hpp>
#include <deque>
#include <map>
#include <queue>
#include <span>
#include <tuning/core_turns.hpp>
#include <tuning/message_cost.hpp>
#include <tuple>
#include <unordered_map>

#include "walk.hpp"

namespace peal::tuning::walking {

using schedule::BoundOp;
using schedule::Op;
using schedule::OpKind;
using schedule::Program;

enum Part { kLaunch, kLatency, kOverhead, kTransfer, kCopy, kReduce, kParts };

/// An instant, and what the path that led to it was made of.
struct Stamp {
  double at = 0;
  float parts[kParts] = {};

  Stamp plus(Part part, double ns) const {
    Stamp s = *this;
    s.at += ns;
    s.parts[part] += static_cast<float>(ns);
    return s;
  }
};
inline const Stamp& later(const Stamp& a, const Stamp& b) { return b.at > a.at ? b : a; }

/// The k-th entry is the instant from which k + 1 signals are seen.
inline void note(std::vector<Stamp>& signals, const Stamp& when) {
  signals.push_back(signals.empty() ? when : later(signals.back(), when));
}

struct Channel {
  MessageCost cost;
  const Wiring::Way* way = nullptr;  // null: the level's ways out and in
  int level = 0;
  int sender = 0;
  std::vector<Stamp> seen;      // when message i can be received
  std::vector<double> sent_at;  // where it matters what has left the caches: what sent_within_ was with message i
  std::vector<Stamp> freed;     // when the sender sees the place of message i free again
  std::size_t sent = 0;
  std::size_t received = 0;
  std::vector<Stamp> posted;  // rendezvous: when the sender sees that receive i stands ready
  int parked_sender = -1;
  int parked_receiver = -1;
};

struct Strand {
  int rank = 0;
  schedule::StrandCursor cursor;
  Stamp ready;
  std::int64_t slice = 0;
  bool has_copied = false;  // what a row of sends of the same bytes takes to several ranks
  bool is_queued = false;
  bool is_in_line = false;  // for its core
};

struct Core {
  Stamp free;              // when it has ended what it does
  std::int32_t last = -1;  // the rank that did it
  std::deque<int> line;    // strands that are ready but for it; the next of them is queued
};

struct Rank {
  std::vector<std::vector<Stamp>> events;
  std::unordered_map<std::uint64_t, std::vector<Stamp>> events_from;
  std::vector<int> waiting;  // strands parked at a wait
  Stamp done;
};

/// The members of an op that switches compute which stand at it already.
struct Meeting {
  std::vector<int> come;  // strands
};

/// Of one group to all others.
struct Link {
  double out = 0, in = 0;  // bytes
  int channels_in = 0;
};

class Walk {
 public:
  Walk(const Environment& environment, const Plan& plan, const std::vector<Program>& programs, const WalkExtent& extent);
  Result<Prediction> run();

 private:
  // What schedule::may_start asks: "known", not yet "seen"; the instant is settled in start_of.
  struct View {
    Walk& walk;
    int strand;
    bool can_send(int peer, int channel) { return walk.can_send(strand, peer, channel); }
    bool can_receive(int peer, int channel) { return walk.can_receive(strand, peer, channel); }
    std::int64_t signals(int event) const { return walk.signals(walk.strands_[static_cast<std::size_t>(strand)].rank, event); }
    std::int64_t signals_from(int peer, int event) const {
      return walk.signals_from(walk.strands_[static_cast<std::size_t>(strand)].rank, peer, event);
    }
    bool have_come(const BoundOp& bound) { return walk.have_come(strand, bound); }
  };
  struct Queued {
    double at;
    bool is_offer;  // of a core to whoever is next in its line: after all else of that instant, which may let its last rank go on
    std::uint64_t order;
    int strand;
    bool operator>(const Queued& o) const { return std::tie(at, is_offer, order) > std::tie(o.at, o.is_offer, o.order); }
  };

  Channel& channel(int from, int to, int number);
  const topology::ProtocolConstants& constants(int level) const { return offer_.constants[level]; }
  bool can_send(int strand, int peer, int number);
  bool can_receive(int strand, int peer, int number);
  std::int64_t signals(int rank, int event) const;
  std::int64_t signals_from(int rank, int peer, int event) const;
  void queue(int strand, double at, bool is_offer = false);
  void visit(int strand);
  Stamp start_of(int strand, const BoundOp& bound);
  Stamp do_messages(int strand, const BoundOp& bound, Stamp at, double bytes);
  std::span<const schedule::Source> group_of(int rank, const Op& op) const;
  Meeting& meeting_of(int rank, const Op& op);
  bool have_come(int strand, const BoundOp& bound);
  Stamp do_switch(int strand, const BoundOp& bound, const Stamp& start);
  Stamp cross_switch(int rank, const BoundOp& bound, const Stamp& start);
  Stamp do_local(int strand, const BoundOp& bound, Stamp at, double bytes);
  Stamp send_out(Channel& c, int from, int to, Stamp at, double bytes, double work);
  Stamp cross(const Channel& c, int from, int to, const Stamp& start, double bytes);
  Stamp cross_wires(const Channel& c, int from, const Stamp& start, double bytes);
  void note_free(Channel& c, const Stamp& at);
  bool has_turn(int strand, Stamp& start);
  void hold_core(int rank, const Stamp& until);
  void call_next(int rank);
  std::int64_t copies_at_once(schedule::StrandCursor& cursor, const Program& program) const;
  std::deque<int>::const_iterator next_in_line(const Core& core) const;
  void signal(int rank, const BoundOp& bound, const Stamp& at);
  void wake(int& parked, double at);
  void wake_waiting(int rank, double at);
  int outlet(int rank, int level) const { return level == 0 ? rank : outlet_[static_cast<std::size_t>(rank)]; }

  const Environment& environment_;
  const Plan& plan_;
  const std::vector<Program>& programs_;
  const Offer& offer_;
  const CoreTurns turns_;
  double scale_;
  bool packs_at_once_;  // all its copies are equally long
  MessageCost local_;
  std::vector<Strand> strands_;
  std::vector<Rank> ranks_;
  std::vector<Core> cores_;
  std::vector<int> outlet_;
  std::vector<Stamp> out_[kLevels];
  std::vector<Stamp> in_[kLevels];
  std::vector<Stamp> wires_;         // when each is free again
  double between_cores_ = 0;         // bytes
  std::vector<double> sent_within_;  // bytes, by group: those of channels that count what leaves the caches
  std::vector<double> sent_[kLevels];
  std::vector<Link> links_;  // by group
  std::unordered_map<std::uint64_t, Channel> channels_;
  std::map<std::tuple<int, int, std::size_t, int>, Meeting> meetings_;  // by lowest and highest member, how many, channel
  std::priority_queue<Queued, std::vector<Queued>, std::greater<>> queue_;
  std::uint64_t order_ = 0;
  double now_ = 0;
};

}  // namespace peal::tuning::walking
