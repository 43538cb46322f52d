// Whether this thread's core runs at full speed at this moment. A virtual machine's core is often one of two threads of a real one: while
// a neighbour works on the other, everything here takes up to 1.5 times as long, for some milliseconds at a time.
#pragma once

#include <algorithm>
#include <base/clock.hpp>
#include <cstdint>
#include <limits>

namespace peal::cli {

class CoreSpeed {
 public:
  /// Finds out what full speed is; it is also learnt later, from every look.
  void learn() {
    constexpr std::int64_t kLong = 20'000'000;  // ns: several times as long as a neighbour mostly works without a pause
    for (const std::int64_t begin = now_ns(); now_ns() - begin < kLong;) (void)slowness();
  }
  /// How many times as long as at full speed a quarter of a microsecond's work took just now.
  double slowness() {
    const std::int64_t begin = now_ns();
    work();
    const auto took = static_cast<double>(now_ns() - begin);
    least_ = std::min(least_, took);
    return took / std::max(1.0, least_);
  }

 private:
  // Four chains that fill a core's adders, so that another thread of it is felt.
  static void work() {
    std::uint64_t a = 1, b = 2, c = 3, d = 4;
    for (int i = 0; i < 200; ++i) {
      a = a * 3 + 1;
      b ^= b << 1;
      c += b;
      d += static_cast<std::uint64_t>(i);
      b += 7;
      c ^= 3;
      d ^= c >> 1;
      asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
  }

  double least_ = std::numeric_limits<double>::max();
};

}  // namespace peal::cli
