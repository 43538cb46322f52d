// A number for every pair of ranks, at first 0, in one array: a quarter of the time that a hash takes where millions of pairs talk. Private
// to this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sim/large_pages.hpp>

namespace peal::sim {

class PairTable {
 public:
  PairTable() = default;
  /// Empty where there are too many for a table.
  explicit PairTable(std::size_t ranks) : ranks_(ranks), numbers_(ranks <= kMostRanks ? ranks * ranks : 0) {}
  bool is_empty() const { return numbers_.empty(); }
  std::uint32_t& of(int from, int to) { return numbers_[place(from, to)]; }
  const std::uint32_t& of(int from, int to) const { return numbers_[place(from, to)]; }

 private:
  std::size_t place(int from, int to) const { return static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to); }

  static constexpr std::size_t kMostRanks = 8192;  // 256 MiB
  std::size_t ranks_ = 0;
  LargeVector<std::uint32_t> numbers_;
};

}  // namespace peal::sim
