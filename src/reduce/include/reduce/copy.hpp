// Copying bytes, through the caches or past them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <reduce/combine.hpp>

namespace peal::reduce {

/// How to store a result of so many bytes that is not being read: from 32 MiB on past the caches, since nobody reads it before it would
/// be evicted (measured, bench/RESULTS.md).
constexpr Stores stores_for(std::uint64_t bytes) noexcept { return bytes >= std::uint64_t{32} << 20 ? Stores::streaming : Stores::cached; }

/// The same for a result that is only copied together: from 16 MiB on (at 4 MiB stores past the caches take half as long again).
constexpr Stores stores_for_copied(std::uint64_t bytes) noexcept {
  return bytes >= std::uint64_t{16} << 20 ? Stores::streaming : Stores::cached;
}

/// How messages of a call of so many bytes are read out of another core's cache, where lanes win: not where so long a result goes through
/// the caches (gathers of 64 MiB in place took 1.13 to 1.19 times as long).
constexpr Reads reads_for(std::uint64_t bytes, Stores stores) noexcept {
  return stores == Stores::streaming || bytes < std::uint64_t{32} << 20 ? Reads::in_lanes : Reads::in_a_row;
}

/// memcpy, or a copy whose stores bypass the caches and end with a store fence. The ranges must not overlap. Any alignment. `reads` counts
/// from kLeastInLanes bytes on.
void copy(void* dst, const void* src, std::size_t bytes, Stores stores, Reads reads = Reads::in_a_row) noexcept;
/// How copy_twice() goes through the caches. `at_once`: one loop stores into both places. `in_blocks`: a block into the one, then into the
/// other. Where another core has just read what is overwritten, long copies store at twice the rate of a loop on some processors, which
/// take such lines over without fetching them (bench/RESULTS.md, "What is kept beside a slot").
enum class Both : std::uint8_t { at_once, in_blocks };
/// copy() into two places; in one pass over the source where what goes to `also` goes through the caches. None of the three ranges may
/// overlap another.
void copy_twice(void* dst, Stores stores, void* also, Stores also_stores, const void* src, std::size_t bytes, Both both) noexcept;

}  // namespace peal::reduce
