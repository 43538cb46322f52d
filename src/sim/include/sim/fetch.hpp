// Has memory fetched that will be written soon. To GCC 12 a function of nothing but __builtin_prefetch has no effect, and at -O2 it leaves
// out calls of it; so each hint comes with an empty instruction that may not be dropped.
#pragma once

namespace peal::sim {

inline void fetch_line(const void* line) {
  __builtin_prefetch(line, 1);
  __asm__ volatile("" : : "r"(line));
}

}  // namespace peal::sim
