#include <algorithm>
#include <base/copy.hpp>
#include <base/pages.hpp>
#include <cstdint>

#if defined(__x86_64__) && !defined(PEAL_MEMCPY_ONLY)
#include <cpuid.h>
#endif

namespace peal {

namespace {

#if defined(__x86_64__) && !defined(PEAL_MEMCPY_ONLY)
bool find_zen5() noexcept {
  constexpr unsigned kFamily = 26;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0 || ebx != signature_AMD_ebx || edx != signature_AMD_edx || ecx != signature_AMD_ecx)
    return false;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  const unsigned base = eax >> 8 & 0xf, extended = eax >> 20 & 0xff;
  return base == 0xf && base + extended == kFamily;
}
const bool kIsZen5 = find_zen5();
const bool kTakesWithVectors = kIsZen5 && __builtin_cpu_supports("avx512f") != 0;

using Vector [[gnu::vector_size(64)]] = long long;

/// At least one vector. The last bytes may be moved twice. One vector a turn: the compiler may not change the order of reads, and it
/// counts.
[[gnu::target("avx512f")]] void copy_with_vectors(void* dst, const void* src, std::size_t bytes) noexcept {
  auto* const to = static_cast<std::byte*>(dst);
  const auto* const from = static_cast<const std::byte*>(src);
  Vector v;
  for (std::size_t at = 0; at + sizeof v < bytes; at += sizeof v) {
    std::memcpy(&v, from + at, sizeof v);
    std::memcpy(to + at, &v, sizeof v);
  }
  std::memcpy(&v, from + bytes - sizeof v, sizeof v);
  std::memcpy(to + bytes - sizeof v, &v, sizeof v);
}

void move_string(void* dst, const void* src, std::size_t bytes) noexcept {
  asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
}
#else
constexpr bool kIsZen5 = false;
constexpr bool kTakesWithVectors = false;
void move_string(void* dst, const void* src, std::size_t bytes) noexcept { std::memcpy(dst, src, bytes); }
void copy_with_vectors(void* dst, const void* src, std::size_t bytes) noexcept { std::memcpy(dst, src, bytes); }
#endif
constexpr std::size_t kPiece = 2048;
constexpr std::size_t kMostFromOtherCore = 16 * 1024;  // of more a string is faster
constexpr std::size_t kLeastString = 4096;             // from here on one string is faster than strings of a piece

/// Within their pages.
bool is_just_behind(const void* dst, const void* src) noexcept {
  constexpr std::uintptr_t kBehind = 32;
  const std::uintptr_t behind = (reinterpret_cast<std::uintptr_t>(dst) - reinterpret_cast<std::uintptr_t>(src)) % kPageBytes;
  return behind != 0 && behind < kBehind;
}

template <class Copy>
void in_pieces(Copy&& copy, void* dst, const void* src, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += kPiece)
    copy(static_cast<std::byte*>(dst) + at, static_cast<const std::byte*>(src) + at, std::min(kPiece, bytes - at));
}

}  // namespace

void copy_long(void* dst, const void* src, std::size_t bytes) noexcept {
  if (kIsZen5 && bytes < kLeastString) return in_pieces(move_string, dst, src, bytes);
  if (!kIsZen5 && bytes > kPiece && is_just_behind(dst, src)) return in_pieces(std::memcpy, dst, src, bytes);
  std::memcpy(dst, src, bytes);
}

void copy_long_from_other_core(void* dst, const void* src, std::size_t bytes) noexcept {
  if (kTakesWithVectors && bytes <= kMostFromOtherCore) return copy_with_vectors(dst, src, bytes);
  copy_long(dst, src, bytes);
}

}  // namespace peal
