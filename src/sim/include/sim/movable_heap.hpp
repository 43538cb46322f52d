// A heap of times, each of which has a name and can be moved or taken out by it. Names are small numbers: memory grows with the largest.
// Times have the owner's unit. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <sim/large_pages.hpp>
#include <span>

namespace peal::sim {

class MovableHeap {
 public:
  struct Entry {
    double time = 0;
    std::uint64_t order = 0;  ///< of equal times the lower comes first
    std::uint32_t name = 0;
  };

  bool empty() const { return heap_.empty(); }
  const Entry& top() const { return heap_.front(); }
  /// What comes next after the top; null: nothing does.
  const Entry* second() const {
    const Entry* first = nullptr;
    for (const Entry& entry : after_top())
      if (first == nullptr || is_before(entry, *first)) first = &entry;
    return first;
  }
  /// Those of whom one comes next after the top.
  std::span<const Entry> after_top() const {
    const std::size_t few = std::min<std::size_t>(heap_.size(), 1 + kChildren);
    return std::span(heap_.data(), few).subspan(std::min<std::size_t>(few, 1));
  }

  /// Enters a name, or moves it.
  void set(const Entry& entry) {
    if (entry.name >= place_.size()) place_.resize(entry.name + 1, kNowhere);
    std::uint32_t at = place_[entry.name];
    if (at == kNowhere) {
      at = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back(entry);
    }
    settle(at, entry);
  }

  /// Takes a name out, if it is in.
  void erase(std::uint32_t name) {
    if (name >= place_.size() || place_[name] == kNowhere) return;
    const std::uint32_t at = place_[name];
    place_[name] = kNowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (last.name != name) settle(at, last);
  }

  void delay_all(double by) {
    for (Entry& entry : heap_) entry.time += by;
  }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  static constexpr std::uint32_t kChildren = 4;  // those of one entry lie in two cache lines

  static bool is_before(const Entry& a, const Entry& b) { return a.time != b.time ? a.time < b.time : a.order < b.order; }

  void put(std::uint32_t at, const Entry& entry) {
    heap_[at] = entry;
    place_[entry.name] = at;
  }

  /// Puts an entry where it belongs, up or down from a place that is free.
  void settle(std::uint32_t at, const Entry& entry) {
    while (at > 0 && is_before(entry, heap_[(at - 1) / kChildren])) {
      put(at, heap_[(at - 1) / kChildren]);
      at = (at - 1) / kChildren;
    }
    const auto size = static_cast<std::uint32_t>(heap_.size());
    for (;;) {
      const std::uint32_t begin = kChildren * at + 1;
      if (begin >= size) break;
      std::uint32_t first = begin;
      for (std::uint32_t child = begin + 1; child < std::min(begin + kChildren, size); ++child)
        if (is_before(heap_[child], heap_[first])) first = child;
      if (!is_before(heap_[first], entry)) break;
      put(at, heap_[first]);
      at = first;
    }
    put(at, entry);
  }

  LargeVector<Entry> heap_;
  LargeVector<std::uint32_t> place_;  // by name
};

}  // namespace peal::sim
