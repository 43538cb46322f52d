// The ops of all ranks in one array, few bytes each. What ops say beside their peers is the same for most ranks: it is written down once.
// Private to this room.
#pragma once

#include <base/mix_bits.hpp>
#include <cstdint>
#include <cstring>
#include <deque>
#include <schedule/schedule.hpp>
#include <sim/large_pages.hpp>

#include "flat_map.hpp"

namespace peal::sim {

class KeptOps {
 public:
  static constexpr std::uint32_t kNoChannel = ~std::uint32_t{0};

  struct Line {
    const schedule::Op* op = nullptr;  // whatever its peers say, they are these
    std::int32_t peer = -1;
    std::int32_t peer2 = -1;
    std::uint32_t in = kNoChannel;  // channels of an op whose peers do not move, once they are known
    std::uint32_t out = kNoChannel;
  };

  /// Those of one rank, as a cursor walks them.
  struct OfRank {
    const Line* lines;
    std::int32_t ranks;
    const schedule::Op& op(std::uint32_t i) const { return *lines[i].op; }
    std::int32_t peer(std::uint32_t i) const { return lines[i].peer; }
    std::int32_t peer2(std::uint32_t i) const { return lines[i].peer2; }
  };

  /// Returns the number of the first.
  std::uint32_t add(const std::vector<schedule::Op>& ops) {
    const auto first = static_cast<std::uint32_t>(lines_.size());
    for (const schedule::Op& op : ops) lines_.push_back({&shape_of(op), op.peer, op.peer2, kNoChannel, kNoChannel});
    return first;
  }
  Line& line(std::uint32_t number) { return lines_[number]; }
  const Line* at(std::uint32_t number) const { return lines_.data() + number; }
  /// With its peers.
  schedule::Op whole(std::uint32_t number) const {
    schedule::Op op = *lines_[number].op;
    op.peer = lines_[number].peer;
    op.peer2 = lines_[number].peer2;
    return op;
  }

 private:
  static_assert(sizeof(schedule::Op) % sizeof(std::uint64_t) == 0);

  /// The last of its hash, if it is the same.
  const schedule::Op& shape_of(schedule::Op op) {
    op.peer = op.peer2 = -1;
    std::uint64_t words[sizeof(schedule::Op) / sizeof(std::uint64_t)];
    std::memcpy(words, &op, sizeof op);
    std::uint64_t hash = 0;
    for (const std::uint64_t word : words) hash = mix_bits(hash + word);
    const FlatMap::Place known = shape_with_.try_emplace(hash, 0);
    if (known.is_new || std::memcmp(&shapes_[*known.number], &op, sizeof op) != 0) {
      *known.number = static_cast<std::uint32_t>(shapes_.size());
      shapes_.push_back(op);
    }
    return shapes_[*known.number];
  }

  LargeVector<Line> lines_;
  std::deque<schedule::Op> shapes_;
  FlatMap shape_with_;  // by hash
};

}  // namespace peal::sim
