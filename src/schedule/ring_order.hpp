// Index arithmetic of rings: who stands where, and which chunks pass by. Private to this room.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <schedule/builder.hpp>
#include <utility>
#include <vector>

namespace peal::schedule {

/// (value mod n) in [0, n).
constexpr std::int32_t wrap(std::int32_t value, std::int32_t n) {
  const std::int32_t rest = value % n;
  return rest < 0 ? rest + n : rest;
}

/// Ranks in ring order. An empty order is rank order. The order must outlive this view.
class RingOrder {
 public:
  RingOrder(const std::vector<std::int32_t>& order, std::int32_t ranks) : order_(&order), size_(ranks) {}

  std::int32_t size() const { return size_; }
  std::int32_t rank_at(std::int32_t position) const {
    const std::int32_t at = wrap(position, size_);
    return order_->empty() ? at : (*order_)[static_cast<std::size_t>(at)];
  }
  /// Position of a rank; -1 where it is not in the ring. Linear in the size of a permuted ring.
  std::int32_t position_of(std::int32_t rank) const {
    if (order_->empty()) return rank;
    for (std::int32_t p = 0; p < size_; ++p)
      if ((*order_)[static_cast<std::size_t>(p)] == rank) return p;
    return -1;
  }
  bool is_rank_order() const {
    for (std::size_t p = 0; p < order_->size(); ++p)
      if ((*order_)[p] != static_cast<std::int32_t>(p)) return false;
    return true;
  }

 private:
  const std::vector<std::int32_t>* order_;
  std::int32_t size_;
};

/// One rank's place in a ring.
struct RingSeat {
  std::int32_t size = 1;
  std::int32_t position = 0;
  std::int32_t prev = 0;  ///< rank from which it receives
  std::int32_t next = 0;  ///< rank to which it sends
  std::uint8_t channel = 0;
};

/// The same place in the ring that runs the other way: position p becomes size - 1 - p.
inline RingSeat reversed(const RingSeat& seat, std::uint8_t channel) {
  return {seat.size, seat.size - 1 - seat.position, seat.next, seat.prev, channel};
}

inline RingSeat seat_of(const RingOrder& ring, std::int32_t rank, std::uint8_t channel = 0) {
  const std::int32_t position = ring.position_of(rank);
  return {ring.size(), position, ring.rank_at(position - 1), ring.rank_at(position + 1), channel};
}

/// Chunks of one or more loop iterations.
struct ChunkPlace {
  std::int32_t first = 0;
  std::int32_t width = 1;
  std::int32_t step = 0;
  std::int32_t modulus = 0;
  std::int32_t scratch_base = 0;  ///< index of chunk 0 in scratch
  Chunks in(BufferId buffer) const { return chunks_of(buffer, first + (buffer == kScratch ? scratch_base : 0), width).by(step); }
};

/// Which chunks belong to a ring position: `width` chunks from base + stride * position (where all of them are in one block of
/// |stride| * size, a walk along the ring is a loop of constant steps); or, where `numbers` are given, from numbers[position], moved by
/// `outer_step` in each iteration of a loop around the walk.
struct RingChunks {
  std::int32_t size = 1;
  std::int32_t base = 0;
  std::int32_t width = 1;
  std::int32_t stride = 1;
  std::vector<std::int32_t> numbers;
  std::int32_t outer_step = 0;
  std::int32_t scratch_base = 0;
  std::int32_t outer_modulus = 0;  ///< of the moves by outer_step

  /// Ring position p owns `width` chunks from base + width * p.
  static RingChunks in_order(std::int32_t size, std::int32_t base = 0, std::int32_t width = 1) {
    return {size, base, width, width, {}, 0, 0, 0};
  }
  static RingChunks numbered(std::vector<std::int32_t> numbers, std::int32_t outer_step = 0) {
    const auto size = static_cast<std::int32_t>(numbers.size());
    return {size, 0, 1, 1, std::move(numbers), outer_step, 0, 0};
  }

  ChunkPlace at(std::int32_t position) const {
    const std::int32_t p = wrap(position, size);
    if (numbers.empty()) return {base + stride * p, width, 0, 0, scratch_base};
    return {numbers[static_cast<std::size_t>(p)], width, outer_step, outer_modulus, scratch_base};
  }

  bool is_in_one_block() const {
    const std::int32_t within = base % (std::abs(stride) * size);
    return stride > 0 ? within < stride : within >= std::abs(stride) * (size - 1);
  }

  /// body(place) for the chunks of `first`, `first` - 1, ... : `times` positions, as one loop where that is possible.
  template <class Body>
  void backwards(StrandBuilder& strand, std::int32_t first, std::int32_t times, Body&& body) const {
    if (times <= 0) return;
    if (numbers.empty() && times > 1 && is_in_one_block()) {
      ChunkPlace place = at(first);
      place.step = -stride;
      place.modulus = std::abs(stride) * size;
      strand.loop(times, [&] { body(place); });
      return;
    }
    for (std::int32_t i = 0; i < times; ++i) body(at(first - i));
  }
};

/// Phases of ring algorithms, written to one strand. `own` is the buffer that holds this rank's addends (kInput: contributions),
/// `partial` the one for sums on their way.
///
/// In step s the rank at position p sends the sum of chunk p - 1 - s and receives that of p - 2 - s; the last it receives is its own.
void ring_reduce_scatter(StrandBuilder& strand, const RingSeat& seat, const RingChunks& chunks, BufferId own, BufferId partial, Ref result,
                         bool finish);
/// In step s it sends chunk p - s and receives p - s - 1 into `buffer`. `mine` is where its own chunk lies.
void ring_all_gather(StrandBuilder& strand, const RingSeat& seat, const RingChunks& chunks, Ref mine, BufferId buffer);

/// Chains along a ring, pipelined over pieces. From `root_position` to the one before it: the root sends `source`, all others keep `data`.
void ring_broadcast(StrandBuilder& strand, const RingSeat& seat, std::int32_t root_position, Ref source, Ref data);
/// From the position behind `root_position` to that: everybody adds `own`; `partial` holds the sum on its way, the root's `result` the
/// finished one.
void ring_reduce(StrandBuilder& strand, const RingSeat& seat, std::int32_t root_position, Ref own, Ref partial, Ref result);

}  // namespace peal::schedule
