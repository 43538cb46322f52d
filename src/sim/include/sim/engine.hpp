// Virtual time. Timers fire at an instant; flows move bytes over shared resources at max-min fair rates and arrive a latency later.
//
// Time is in nanoseconds, rates in bytes a nanosecond (which is GB/s). Everything due within one part in 10^12 of the same instant is one
// instant: its events are handed out in the order in which they were made, then rates are worked out once. Not thread-safe; the same input
// gives the same order, bit for bit. Memory grows with what is under way, not with what has been.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <sim/event_queue.hpp>
#include <sim/solver.hpp>
#include <span>
#include <vector>

namespace peal::sim {

/// Numbers that the owner gives to timers and flows and gets back in events.
using Tag = std::uint64_t;

class Engine {
 public:
  /// Receives what happens; may start timers and flows from inside.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_timer(Tag tag) = 0;
    /// Asked when the last byte has left, just before on_flow_left: is there to be an on_flow_arrived at that time?
    virtual bool wants_arrival(Tag, double) { return true; }
    virtual void on_flow_left(Tag tag) = 0;     ///< the last byte has left: the source and the resources are free
    virtual void on_flow_arrived(Tag tag) = 0;  ///< `latency` after that
    enum class Event : std::uint8_t { timer, left, arrived, lets_pass };
    struct Soon {
      Tag tag;
      Event event;
      bool is_known;  ///< false: nothing is known to come at that distance
    };
    static constexpr int kSoon = 4;
    /// Events that come soon, each told once at each distance, the furthest first: chances to fetch what they will need.
    virtual void on_soon(const std::array<Soon, kSoon>&) {}
  };

  struct Flow {
    double bytes = 0;
    std::span<const std::uint32_t> resources = {};  ///< no repeats
    double latency = 0;                             ///< nanoseconds
    double rate_cap = FairShare::kUnbounded;        ///< bytes a nanosecond
    double weight = 1;
    bool wants_arrival = true;  ///< false: nobody asks when the last byte arrives
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
  double now() const { return now_; }
  void at(double time, Tag tag);
  void after(double delay, Tag tag) { queue_.push_after(now_, delay, {tag, 0, 0, Kind::timer}); }
  void start(const Flow& flow);

  /// Hands out events until none is left, or `most_events` have been; true in the first case.
  bool run(Listener& listener, std::uint64_t most_events = ~std::uint64_t{0});

  /// All that is under way happens so much later. Meanwhile `bytes` have crossed each resource.
  void delay_all(double delay, std::span<const double> bytes);

  /// Has the memory fetched that a flow needs to begin on a resource.
  void fetch(std::uint32_t resource) const { share_.fetch_constraint(resource); }

  std::uint64_t events() const { return events_; }
  /// Bytes that crossed a resource in flows that have left.
  double bytes_over(std::uint32_t resource) const { return share_.carried(resource); }
  std::size_t resources() const { return share_.constraints(); }

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

  void share_again();
  void look_ahead(Listener& listener) const;
  double queueing(std::uint32_t flow) const;
  void finish_flow(const What& what, Listener& listener);

  double now_ = 0;
  std::uint64_t events_ = 0;
  bool is_changed_ = false;
  EventQueue<What> queue_;
  FairShare share_;
  LargeVector<FlowState> flows_;  // index: the solver's variable
  std::vector<double> queueing_;  // likewise, where there is a law
  QueueLaw queue_law_;
};

}  // namespace peal::sim
