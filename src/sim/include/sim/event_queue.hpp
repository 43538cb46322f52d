// Events in the order of their times; of equal times in the order in which they were pushed.
//
// Most events of a simulation lie one of a few delays ahead of now (a hop, a message of the usual size). Since now never goes back, events
// of one delay are pushed in the order of their times: each such delay has a lane, first in first out, and only the head of a lane stands
// in the heap. So the heap stays small however much is under way. A delay without a lane goes to the heap itself. Events that change
// their times again and again stand in a heap of their own, in which each is found by its name.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <sim/fetch.hpp>
#include <sim/movable_heap.hpp>
#include <sim/take_place.hpp>
#include <vector>

namespace peal::sim {

template <class Payload>
class EventQueue {
 public:
  bool empty() const { return heap_.empty() && named_.empty(); }
  double time() const { return is_named_first() ? named_.top().time : heap_.front().time; }

  /// At any instant.
  void push_at(double time, const Payload& payload) {
    const std::uint32_t place = take_place(alone_, free_);
    alone_[place] = payload;
    add({time, order_++, kNoLane, place});
  }

  /// `delay` (>= 0) after `now`, which is no earlier than at any call before.
  void push_after(double now, double delay, const Payload& payload) {
    const auto first = static_cast<std::size_t>((std::bit_cast<std::uint64_t>(delay) * 0x9e3779b97f4a7c15U) >> (64 - kLaneBits));
    // The lane of this delay, else the first that is free.
    std::size_t free = kLanes;
    for (std::size_t number = first; number < first + kTries; ++number) {
      Lane& lane = lanes_[number];
      if (lane.count > 0 && lane.delay == delay) return lane.push({now + delay, order_++, payload});
      if (lane.count == 0 && free == kLanes) free = number;
    }
    if (free == kLanes) return push_at(now + delay, payload);
    lanes_[free].delay = delay;
    lanes_[free].push({now + delay, order_, payload});
    add({now + delay, order_++, static_cast<std::int32_t>(free), 0});
  }

  /// The event of this name, which is set or moved. Names are small numbers.
  void set(std::uint32_t name, double time, const Payload& payload) {
    if (name >= named_payloads_.size()) named_payloads_.resize(name + 1);
    named_payloads_[name] = payload;
    named_.set({time, order_++, name});
  }
  void unset(std::uint32_t name) { named_.erase(name); }
  /// Of those with names: which one comes next, and of which few one comes after it.
  const Payload* next_named() const { return named_.empty() ? nullptr : &named_payloads_[named_.top().name]; }
  const Payload* second_named() const {
    const MovableHeap::Entry* second = named_.second();
    return second == nullptr ? nullptr : &named_payloads_[second->name];
  }
  template <class F>
  void each_named_after_next(F&& f) const {
    for (const MovableHeap::Entry& soon : named_.after_top()) {
      fetch_line(&named_payloads_[soon.name]);
      f(soon.name);
    }
  }

  struct Taken {
    double time;
    Payload payload;
  };
  /// Takes the first out.
  Taken pop() {
    if (is_named_first()) {
      last_lane_ = kNoLane;
      const MovableHeap::Entry first = named_.top();
      named_.erase(first.name);
      return {first.time, named_payloads_[first.name]};
    }
    const Head first = heap_.front();
    last_lane_ = first.lane;
    if (first.lane != kNoLane) {
      Lane& lane = lanes_[static_cast<std::size_t>(first.lane)];
      const Taken taken{first.time, lane.front().payload};
      lane.take();
      if (lane.count > 0)
        sift_down({lane.front().time, lane.front().order, first.lane, 0});
      else
        take_head();
      return taken;
    }
    free_.push_back(first.place);
    take_head();
    return {first.time, alone_[first.place]};
  }

  /// Calls f(i, payload) with what comes after ahead[i] others in the lane of the event popped last; not at all where the first of them,
  /// which is the furthest, is not known.
  template <std::size_t kCount, class F>
  void each_upcoming(const std::size_t (&ahead)[kCount], F&& f) const {
    if (last_lane_ == kNoLane) return;
    const Lane& lane = lanes_[static_cast<std::size_t>(last_lane_)];
    if (lane.count <= ahead[0]) return;
    const std::size_t mask = lane.ring.size() - 1;
    const Event* ring = lane.ring.data();
    for (std::size_t i = 0; i < kCount; ++i) f(static_cast<int>(i), ring[(lane.first + ahead[i]) & mask].payload);
  }

  /// Everything happens so much later.
  void delay_all(double by) {
    named_.delay_all(by);
    for (Head& head : heap_) head.time += by;
    for (Lane& lane : lanes_)
      for (Event& event : lane.ring) event.time += by;
  }

 private:
  static constexpr std::int32_t kNoLane = -1;
  struct Event {
    double time = 0;
    std::uint64_t order = 0;
    Payload payload = {};
  };
  // What comes first of a lane, or alone.
  struct Head {
    double time = 0;
    std::uint64_t order = 0;
    std::int32_t lane = kNoLane;
    std::uint32_t place = 0;  // alone: of its payload
  };
  static constexpr int kLaneBits = 8;
  static constexpr std::size_t kSmallRing = 1024;
  static constexpr std::size_t kAhead = 16;  // further than anybody looks
  static constexpr std::size_t kTries = 4;   // of lanes that a delay may have
  static constexpr std::size_t kLanes = (std::size_t{1} << kLaneBits) + kTries;

  // Events in a ring of a power of two, which shrinks again: all of it is gone through, whatever it holds.
  struct Lane {
    double delay = 0;
    LargeVector<Event> ring;
    std::size_t first = 0;
    std::size_t count = 0;

    void push(const Event& event) {
      if (count == ring.size()) resize(ring.empty() ? 16 : 2 * ring.size());
      ring[(first + count++) & (ring.size() - 1)] = event;
    }
    const Event& front() const { return ring[first]; }
    void take() {
      first = (first + 1) & (ring.size() - 1);
      --count;
      if (8 * count < ring.size() && ring.size() > kSmallRing)
        resize(ring.size() / 4);
      else
        fetch_line(&ring[(first + kAhead) & (ring.size() - 1)]);
    }
    void resize(std::size_t size) {
      LargeVector<Event> other(size);
      for (std::size_t i = 0; i < count; ++i) other[i] = ring[(first + i) & (ring.size() - 1)];
      ring.swap(other);
      first = 0;
    }
  };

  void take_head() {
    const Head last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
  }

  bool is_named_first() const {
    if (named_.empty()) return false;
    if (heap_.empty()) return true;
    const MovableHeap::Entry& named = named_.top();
    const Head& other = heap_.front();
    return named.time != other.time ? named.time < other.time : named.order < other.order;
  }

  static bool is_before(const Head& a, const Head& b) { return a.time != b.time ? a.time < b.time : a.order < b.order; }

  void add(const Head& event) {
    heap_.push_back(event);
    std::size_t at = heap_.size() - 1;
    while (at > 0) {
      const std::size_t parent = (at - 1) / 2;
      if (!is_before(event, heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }

  /// In place of the first.
  void sift_down(const Head event) {
    const std::size_t size = heap_.size();
    std::size_t at = 0;
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && is_before(heap_[child + 1], heap_[child])) ++child;
      if (!is_before(heap_[child], event)) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = event;
  }

  std::uint64_t order_ = 0;
  std::int32_t last_lane_ = kNoLane;
  LargeVector<Head> heap_;
  LargeVector<Payload> alone_;  // of those in the heap that stand for no lane
  std::vector<std::uint32_t> free_;
  std::array<Lane, kLanes> lanes_;
  MovableHeap named_;
  LargeVector<Payload> named_payloads_;  // by name
};

}  // namespace peal::sim
