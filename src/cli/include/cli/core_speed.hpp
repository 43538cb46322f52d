// How fast this thread's core runs at this moment. A virtual machine's core is often one of two threads of a real one: while a neighbour
// works on the other, everything here takes up to 1.5 times as long, for some milliseconds at a time; and the clock goes up and down.
#pragma once

#include <base/clock.hpp>
#include <cstdint>

namespace peal::cli {

/// Four chains that fill a core's adders, so that another thread of it is felt.
inline void fill_adders(int rounds) {
  std::uint64_t a = 1, b = 2, c = 3, d = 4;
  for (int i = 0; i < rounds; ++i) {
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

/// Nanoseconds of a work that is always the same, some half a microsecond.
inline double time_of_work() {
  fill_adders(50);  // what was called before has its own code and branches in the core
  const std::int64_t begin = now_ns();
  fill_adders(400);
  return static_cast<double>(now_ns() - begin);
}

}  // namespace peal::cli
