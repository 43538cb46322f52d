// Independent wrong bits at a given rate: how far away the next one is, drawn once an error and not once a bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace peal::sim {

class BitErrors {
 public:
  BitErrors(double rate, std::uint64_t seed) : rate_(rate), state_(seed) { draw(); }

  /// True where one of the next so many bits is wrong.
  bool hit(double bits) {
    if (bits <= left_) {
      left_ -= bits;
      return false;
    }
    while (left_ < bits) {
      bits -= left_ + 1;
      draw();
      if (bits < 0) break;
    }
    if (bits > 0) left_ -= bits;
    return true;
  }

 private:
  // Right bits before the next wrong one: a geometric distribution.
  void draw() { left_ = rate_ > 0 ? std::floor(std::log(uniform()) / std::log1p(-rate_)) : std::numeric_limits<double>::infinity(); }
  // splitmix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014), in (0, 1].
  double uniform() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>(((z ^ (z >> 31)) >> 11) + 1) * 0x1p-53;
  }

  double rate_;
  double left_ = 0;
  std::uint64_t state_;
};

}  // namespace peal::sim
