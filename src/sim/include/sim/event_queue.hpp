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
#include <sim/movable_heap.hpp>

namespace peal::sim {

template <class Payload>
class EventQueue {
 public:
  struct Event {
    double time = 0;
    std::uint64_t order = 0;
    std::int32_t lane = kNoLane;
    Payload payload = {};
  };

  bool empty() const { return heap_.empty() && named_.empty(); }
  double time() const { return is_named_first() ? named_.top().time : heap_.front().time; }
  Payload payload() const { return is_named_first() ? named_payloads_[named_.top().name] : heap_.front().payload; }

  /// At any instant.
  void push_at(double time, const Payload& payload) { add({time, order_++, kNoLane, payload}); }

  /// `delay` (>= 0) after `now`, which is no earlier than at any call before.
  void push_after(double now, double delay, const Payload& payload) {
    const auto number = static_cast<std::size_t>((std::bit_cast<std::uint64_t>(delay) * 0x9e3779b97f4a7c15U) >> (64 - kLaneBits));
    Lane& lane = lanes_[number];
    if (!lane.is_used) {
      lane.is_used = true;
      lane.delay = delay;
    } else if (lane.delay != delay) {
      return push_at(now + delay, payload);
    } else {
      return lane.push({now + delay, order_++, static_cast<std::int32_t>(number), payload});
    }
    add({now + delay, order_++, static_cast<std::int32_t>(number), payload});
  }

  /// The event of this name, which is set or moved. Names are small numbers.
  void set(std::uint32_t name, double time, const Payload& payload) {
    if (name >= named_payloads_.size()) named_payloads_.resize(name + 1);
    named_payloads_[name] = payload;
    named_.set({time, order_++, name});
  }
  void unset(std::uint32_t name) { named_.erase(name); }

  void pop() {
    if (is_named_first()) {
      last_lane_ = kNoLane;
      return named_.erase(named_.top().name);
    }
    const std::int32_t number = last_lane_ = heap_.front().lane;
    if (number != kNoLane) {
      Lane& lane = lanes_[static_cast<std::size_t>(number)];
      if (lane.count > 0) {
        heap_.front() = lane.take();
        return sift_down();
      }
      lane.is_used = false;
    }
    heap_.front() = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down();
  }

  /// Of the lane of the event popped last, what comes after `ahead` others; null where nothing is known to.
  const Payload* upcoming(std::size_t ahead) const {
    if (last_lane_ == kNoLane) return nullptr;
    const Lane& lane = lanes_[static_cast<std::size_t>(last_lane_)];
    return ahead < lane.count ? &lane.ring[(lane.first + ahead) & (lane.ring.size() - 1)].payload : nullptr;
  }

  /// Everything happens so much later.
  void delay_all(double by) {
    named_.delay_all(by);
    for (Event& event : heap_) event.time += by;
    for (Lane& lane : lanes_)
      for (Event& event : lane.ring) event.time += by;
  }

 private:
  static constexpr std::int32_t kNoLane = -1;
  static constexpr int kLaneBits = 6;

  // The events behind the head, in a ring of a power of two.
  struct Lane {
    double delay = 0;
    bool is_used = false;  // its head stands in the heap
    LargeVector<Event> ring;
    std::size_t first = 0;
    std::size_t count = 0;

    void push(const Event& event) {
      if (count == ring.size()) grow();
      ring[(first + count++) & (ring.size() - 1)] = event;
    }
    Event take() {
      const Event event = ring[first];
      first = (first + 1) & (ring.size() - 1);
      --count;
      return event;
    }
    void grow() {
      LargeVector<Event> larger(ring.empty() ? 16 : 2 * ring.size());
      for (std::size_t i = 0; i < count; ++i) larger[i] = ring[(first + i) & (ring.size() - 1)];
      ring.swap(larger);
      first = 0;
    }
  };

  bool is_named_first() const {
    if (named_.empty()) return false;
    if (heap_.empty()) return true;
    const MovableHeap::Entry& named = named_.top();
    const Event& other = heap_.front();
    return named.time != other.time ? named.time < other.time : named.order < other.order;
  }

  static bool is_before(const Event& a, const Event& b) { return a.time != b.time ? a.time < b.time : a.order < b.order; }

  void add(const Event& event) {
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

  void sift_down() {
    const Event event = heap_.front();
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
  LargeVector<Event> heap_;
  std::array<Lane, std::size_t{1} << kLaneBits> lanes_;
  MovableHeap named_;
  LargeVector<Payload> named_payloads_;  // by name
};

}  // namespace peal::sim
