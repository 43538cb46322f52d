// Vectors that may grow to many megabytes and are read here and there: they ask for large pages, so that an access does not also miss the
// tables of pages (half of the time of a simulation of 100,000 ranks went there). Elsewhere than on Linux they are ordinary vectors.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace peal::sim {

template <class T>
struct LargePages {
  using value_type = T;
  LargePages() = default;
  template <class U>
  LargePages(const LargePages<U>&) {}  // NOLINT(google-explicit-constructor): as allocators must

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    const bool is_large = bytes >= kLarge;
    const std::size_t alignment = is_large ? kLarge : kSmall;
    void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory == nullptr) throw std::bad_alloc();
#ifdef __linux__
    if (is_large) madvise(memory, (bytes + kLarge - 1) / kLarge * kLarge, MADV_HUGEPAGE);
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) { std::free(memory); }
  bool operator==(const LargePages&) const { return true; }

 private:
  static constexpr std::size_t kLarge = std::size_t{2} << 20;
  static constexpr std::size_t kSmall = 64;
  static_assert(alignof(T) <= kSmall);
};

template <class T>
using LargeVector = std::vector<T, LargePages<T>>;

}  // namespace peal::sim
