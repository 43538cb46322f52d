// Rings packed into wires: a ring takes one unit of every wire that it crosses, and there are as many units as fit a wire's capacity. Ring
// after ring is searched for depth first in shuffled order until none is found. Private to this room.
#pragma once

#include <algorithm>
#include <tuning/ring_set.hpp>

namespace peal::tuning {

/// The same numbers everywhere (xorshift64).
class Shuffler {
 public:
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[next() % i]);
  }

 private:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }
  std::uint64_t state_ = 0x9e3779b97f4a7c15ull;
};

class RingPacking {
 public:
  /// `unit`: GB/s.
  RingPacking(const Wiring& wiring, double unit);

  /// No packing can have more rings: what leaves a rank does so by the first wires of its ways.
  std::size_t most() const;

  /// Up to `most` rings. `in_pairs`: with every ring the one that runs the other way, as long as both fit.
  Rings pack(Shuffler& shuffler, std::size_t most, bool in_pairs);

  /// One ring more, if its units are left.
  bool take(const std::vector<std::int32_t>& ring);
  /// One ring more of those that fit, if one is found; else it is empty.
  std::vector<std::int32_t> find(Shuffler& shuffler);
  const std::vector<int>& units() const { return units_; }

 private:
  bool can_take(std::int32_t a, std::int32_t b) const;
  void take(std::int32_t a, std::int32_t b, int units);
  bool extend(std::vector<std::int32_t>& ring, std::vector<bool>& is_in, Shuffler& shuffler);

  const Wiring& wiring_;
  std::vector<int> units_;
  std::vector<int> left_;
  int steps_ = 0;
};

}  // namespace peal::tuning
