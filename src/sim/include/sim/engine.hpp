// Virtual time. Timers fire at an instant; flows move bytes over shared resources at max-min fair rates and arrive a latency later.
//
// Time is in nanoseconds, rates in bytes a nanosecond (which is GB/s). Everything due within one part in 10^12 of the same instant is one
// instant: its events are handed out in the order in which they were made, then rates are worked out once. Not thread-safe; the same input
// gives the same order, bit for bit. Memory grows with what is under way, not with what has been.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <sim/crowd.hpp>
#include <sim/event_queue.hpp>
#include <sim/solver.hpp>
#include <span>
#include <vector>

namespace peal::sim {

/// Numbers that the owner gives to timers and flows and gets back in events.
using Tag = std::uint64_t;

class Engine {
 public:
  /// What whoever runs the engine is told; timers and flows may be started from inside. A listener of one's own derives from this and hides
  /// what it wants to know: run() is made for each kind, so that nothing is called by a table.
  struct Listener {
    enum class Event : std::uint8_t { timer, left, arrived, lets_pass };
    static constexpr int kSoon = 4;
    void on_timer(Tag) {}
    void on_flow_left(Tag) {}     ///< the last byte has left: the source and the resources are free
    void on_flow_arrived(Tag) {}  ///< `latency` after that
    /// Asked when the last byte has left, just before on_flow_left: is there to be an on_flow_arrived at that time?
    bool wants_arrival(Tag, double) { return true; }
    /// An event that comes soon, told once at each of kSoon distances, the furthest first (where rates are kept perhaps again): chances to
    /// fetch what it will need.
    void on_soon(int, Tag, Event) {}
  };

  struct Flow {
    double bytes = 0;
    std::span<const std::uint32_t> resources = {};  ///< no repeats
    double latency = 0;                             ///< nanoseconds
    double rate_cap = FairShare::kUnbounded;        ///< bytes a nanosecond
    bool wants_arrival = true;                      ///< false: nobody asks when the last byte arrives
    Tag tag = 0;
    /// A flow may stand for a class of flows that all do the same: how many of them cross each resource. Empty: one.
    std::span<const double> counts = {};
    double holds_up_for =
        std::numeric_limits<double>::infinity();  ///< nanoseconds in which those behind it in a line wait for it (solver.hpp)
  };

  /// A resource of so many bytes a nanosecond, a line or not (solver.hpp); returns its number, counted from 0.
  std::uint32_t add_resource(double capacity, bool is_line = false);
  /// What stands in front of a line that is full: the bytes, of so many flows that share so many bytes a nanosecond. What passes it
  /// arrives later by the time that these take. Without a law nothing stands there.
  using QueueLaw = std::function<double(double flows, double capacity)>;
  void set_queue_law(QueueLaw law) { queue_law_ = std::move(law); }
  /// From now on rates are not worked out at every instant at which a flow with bytes begins or leaves, but again when this share of the
  /// time that a flow takes (in the mean of those that left lately) has gone by since: approximate, and soon done where many flows are in
  /// each other's way (Crowd). `share` > 0; once. Not with lines nor with classes of flows.
  void keep_rates_for(double share);
  double now() const { return now_; }
  void at(double time, Tag tag);
  void after(double delay, Tag tag) { queue_.push_after(now_, delay, {tag, 0, 0, Kind::timer}); }
  void start(const Flow& flow);

  /// Hands out events until none is left, or `most_events` have been; true in the first case.
  template <class L>
  bool run(L& listener, std::uint64_t most_events = ~std::uint64_t{0});

  /// All that is under way happens so much later. Meanwhile `bytes` have crossed each resource.
  void delay_all(double delay, std::span<const double> bytes);

  /// Has the memory fetched that a flow needs to begin on a resource.
  void fetch(std::uint32_t resource) const { crowd_ ? crowd_->fetch_constraint(resource) : share_.fetch_constraint(resource); }

  std::uint64_t events() const { return events_; }
  /// Of flows that share resources, each time anew (FairShare::solved).
  std::uint64_t rates() const { return crowd_ ? crowd_->solved() : share_.solved(); }
  /// Bytes that crossed a resource in flows that have left.
  double bytes_over(std::uint32_t resource) const { return crowd_ ? crowd_->carried(resource) : share_.carried(resource); }
  std::size_t resources() const { return crowd_ ? crowd_->constraints() : share_.constraints(); }

 private:
  using Kind = Listener::Event;
  struct What {
    Tag tag = 0;
    std::uint32_t flow = 0;     // left: slot in flows_
    std::uint32_t version = 0;  // left: stale when the flow's differs; lets_pass: likewise its `birth`
    Kind kind = Kind::timer;
  };
  // One cache line.
  struct alignas(64) FlowState {
    double bytes = 0;
    double remaining = 0;
    double rate = 0;
    double since = 0;
    double latency = 0;
    Tag tag = 0;
    std::uint32_t version = 0;
    std::uint32_t birth = 0;
    bool wants_arrival = true;
  };
  static_assert(sizeof(FlowState) == 64);

  static constexpr double kSameInstant = 1e-12;  // relative; with a floor of a femtosecond

  std::uint32_t enter(const Flow& flow);
  void share_again();
  void share_again_among_all();
  void change_rate(std::uint32_t flow, double rate);
  void note_lifetime();
  template <class L>
  void look_ahead(L& listener) const;
  template <class L>
  void look_ahead_in_crowd(L& listener) const;
  template <class L>
  void leave_crowd(const What& what, L& listener);
  void fetch_flow(std::uint32_t flow) const {
    fetch_line(&flows_[flow]);
    crowd_ ? crowd_->fetch(flow) : share_.fetch(flow);
  }
  void fetch_links(std::uint32_t flow) const { crowd_ ? crowd_->fetch_links(flow) : share_.fetch_links(flow); }
  double queueing(std::uint32_t flow) const;
  template <class L>
  void finish_flow(const What& what, L& listener);

  double now_ = 0;
  std::uint64_t events_ = 0;
  bool is_changed_ = false;
  std::optional<Crowd> crowd_;  // instead of share_, where rates are kept
  double kept_for_ = 0;         // of a lifetime
  double lifetime_ = 0;         // of a flow, in the mean
  double shared_at_ = 0;        // when rates were worked out last
  std::uint64_t left_since_ = 0;
  EventQueue<What> queue_;
  FairShare share_;
  LargeVector<FlowState> flows_;  // index: the solver's variable
  std::vector<double> queueing_;  // likewise, where there is a law
  QueueLaw queue_law_;
};

template <class L>
void Engine::finish_flow(const What& what, L& listener) {
  FlowState& flow = flows_[what.flow];
  ++flow.version;
  if (flow.bytes > 0) {
    is_changed_ = true;
    ++left_since_;
  }
  const Tag tag = flow.tag;
  const double delay = flow.latency + (queue_law_ ? queueing_[what.flow] : 0);
  if (crowd_) [[unlikely]]
    leave_crowd(what, listener);
  else
    share_.remove_variable(what.flow, flow.bytes);
  if (flow.wants_arrival && listener.wants_arrival(tag, now_ + delay)) queue_.push_after(now_, delay, {tag, 0, 0, Kind::arrived});
  listener.on_flow_left(tag);
}

template <class L>
[[gnu::noinline]] void Engine::leave_crowd(const What& what, L& listener) {
  listener.on_soon(2, what.tag, Kind::left);
  crowd_->remove_variable(what.flow, flows_[what.flow].bytes);
  listener.on_soon(3, what.tag, Kind::left);
}

/// What events need lies anywhere in memory: the four fetches of a later one go on while the next ones are dealt with.
template <class L>
void Engine::look_ahead(L& listener) const {
  static constexpr std::size_t kAhead[Listener::kSoon] = {12, 9, 6, 3};
  queue_.each_upcoming(kAhead, [&](int distance, const What& soon) {
    if (soon.kind == Kind::left && distance == 0)
      fetch_flow(soon.flow);
    else if (soon.kind == Kind::left && distance == 1)
      fetch_links(soon.flow);
    listener.on_soon(distance, soon.tag, soon.kind);
  });
}

/// Of flows whose times change all the time nobody knows which comes a dozen later: it is one of a few that come next.
template <class L>
[[gnu::noinline]] void Engine::look_ahead_in_crowd(L& listener) const {
  queue_.each_named_after_next([&](std::uint32_t flow) { fetch_flow(flow); });
  if (const What* second = queue_.second_named()) {
    fetch_links(second->flow);
    listener.on_soon(0, second->tag, second->kind);
  }
  if (const What* next = queue_.next_named()) listener.on_soon(1, next->tag, next->kind);
}

template <class L>
bool Engine::run(L& listener, std::uint64_t most_events) {
  const std::uint64_t last = events_ + std::min(most_events, ~std::uint64_t{0} - events_);
  for (;;) {
    if (is_changed_) {
      // Everything of this instant first, so that a step of a thousand equal flows is shared out once.
      const double window = std::max(now_ + std::max(1e-6, now_ * kSameInstant), shared_at_ + kept_for_ * lifetime_);
      if (queue_.empty() || queue_.time() > window) share_again();
    }
    if (queue_.empty()) return true;
    if (events_ >= last) return false;
    const auto [time, what] = queue_.pop();
    look_ahead(listener);
    if (crowd_) [[unlikely]]
      look_ahead_in_crowd(listener);
    if (what.kind == Kind::left && flows_[what.flow].version != what.version) continue;
    if (what.kind == Kind::lets_pass && (flows_[what.flow].birth != what.version || !share_.is_used(what.flow))) continue;
    ++events_;
    now_ = std::max(now_, time);
    switch (what.kind) {
      case Kind::timer: listener.on_timer(what.tag); break;
      case Kind::arrived: listener.on_flow_arrived(what.tag); break;
      case Kind::left: finish_flow(what, listener); break;
      case Kind::lets_pass:
        share_.let_pass(what.flow);
        is_changed_ = true;
        break;
    }
  }
}

}  // namespace peal::sim
