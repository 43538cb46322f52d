// A number for a 64-bit key: open addressing in one array, for maps of millions. Keys are taken out all together alone. Private to this
// room.
#pragma once

#include <algorithm>
#include <base/mix_bits.hpp>
#include <cstddef>
#include <cstdint>
#include <sim/large_pages.hpp>

namespace peal::sim {

class FlatMap {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  /// The number of `key` (any but ~0); where it has none, it gets `number` and `is_new` is true.
  struct Place {
    std::uint32_t* number;
    bool is_new;
  };
  Place try_emplace(std::uint64_t key, std::uint32_t number) {
    if (2 * size_ >= slots_.size()) grow();
    Slot& slot = find_slot(key);
    const bool is_new = slot.key != key;
    if (is_new) {
      slot = {key, number};
      ++size_;
    }
    return {&slot.number, is_new};
  }
  /// kNone where there is none.
  std::uint32_t find(std::uint64_t key) const {
    if (slots_.empty()) return kNone;
    const Slot& slot = const_cast<FlatMap*>(this)->find_slot(key);
    return slot.key == key ? slot.number : kNone;
  }
  std::size_t size() const { return size_; }
  /// Forgets all keys; the memory of many, too, so that it takes no longer where few follow.
  void clear() {
    constexpr std::size_t kFewSlots = 1024;
    if (slots_.size() > kFewSlots) slots_ = {};
    std::fill(slots_.begin(), slots_.end(), Slot{});
    size_ = 0;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    std::uint32_t number = kNone;
  };

  /// That of `key`, or the free one where it belongs.
  Slot& find_slot(std::uint64_t key) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = mix_bits(key) & mask;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & mask;
    return slots_[at];
  }
  void grow() {
    LargeVector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old)
      if (slot.key != kFree) find_slot(slot.key) = slot;
  }

  LargeVector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace peal::sim
