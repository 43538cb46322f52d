// Where everything stands in the shared segment of one communicator:
//
//   [control area of the rooms above][one card per rank][proofs, ranks x ranks bytes][rings][data]
//
// A ring belongs to one ordered pair of ranks and one channel: a credit line that its receiver writes, and `lines` descriptor lines
// that its sender writes, in one page. Its data are `slots` areas of `area_bytes()`, in each of which the messages of one slot go round.
// The segment reserves addresses for every pair; memory comes with first use: a ring's page with either end, its data with the first
// message that does not fit into a line.
#pragma once

#include <atomic>
#include <base/result.hpp>
#include <cstddef>
#include <cstdint>

namespace peal::transport {

// Two cache lines: the adjacent-line prefetcher moves lines in pairs.
inline constexpr std::size_t kLineStride = 128;
inline constexpr int kMaxShmSlots = 4;
/// As many messages as any plan has in flight on one channel (schedule/protocol.hpp): enough where memory counts more than streams.
inline constexpr int kFewLines = 8;
/// Every plan comes to its end with so many (tests/schedule/builder_test.cpp); who sends many messages one way waits more often.
inline constexpr int kFewestLines = 2;

/// Where in its slot's area a message may begin: at multiples of a part of it. Where areas are longer than slots, messages that follow one
/// another in a slot lie side by side.
inline constexpr std::uint32_t kPlaces = 128;
/// What the places are called in descriptors that lie in memory that the sender borrows: from here on.
inline constexpr std::uint32_t kLentPlaces = kMaxShmSlots * kPlaces;
/// Shorter messages, and those of more than half a slot that do not go one way, lie at the beginning of their slot's area.
inline constexpr std::size_t kLeastPlacedBytes = 4 * 1024;
/// Up to here messages go round in their slot's area from its end to its beginning; longer ones gain nothing by it.
inline constexpr std::size_t kMostBackwardsBytes = 8 * 1024;

/// One message. Sequence k + 1 marks message k of the ring; 0 never occurs. The sender writes it last, with release.
/// The body holds [tag, 24 bytes, when has_tag][payload, when inlined | where a shown message lies], or at its end a reference.
struct alignas(kLineStride) ShmLine {
  std::atomic<std::uint64_t> sequence;
  std::uint32_t length;
  std::uint8_t kind;
  std::uint8_t has_tag;
  std::uint16_t place;  ///< in the data, in parts of a slot's area; kLentPlaces and more: in what the sender borrows
  std::byte body[kLineStride - 16];
};
static_assert(sizeof(ShmLine) == kLineStride);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// Written by the receiver: how many messages it has released, and how long it took to take out those that it timed, and to read
/// references.
struct alignas(kLineStride) ShmCredit {
  std::atomic<std::uint64_t> released;
  std::atomic<std::uint64_t> drained_ns;
  std::atomic<std::uint64_t> drained_bytes;
  std::atomic<std::uint64_t> fetched_ns;
  std::atomic<std::uint64_t> fetched_bytes;
};

/// Where a rank sleeps (a futex shared between processes), and how many of its threads do.
struct ShmBell {
  std::atomic<std::uint32_t> word;
  std::atomic<std::uint32_t> sleepers;
};

/// Who a rank is, for trial reads: `nonce` stands also at `nonce_address` of process `pid`.
struct ShmIdentity {
  std::atomic<std::uint32_t> is_filled;
  std::uint32_t pid;
  std::uint64_t nonce_address;
  std::uint64_t nonce;
  std::uint64_t mapped_at;  ///< where the rank's process maps its card
};

/// One pair of lines: the identity is written once.
struct alignas(kLineStride) ShmCard {
  ShmBell bell;
  ShmIdentity identity;
};
static_assert(sizeof(ShmCard) == kLineStride);

struct ShmLayout {
  int ranks = 1;
  std::size_t base = 0;                 ///< where all of it begins in the segment: whole pages
  std::size_t slot_bytes = 256 * 1024;  ///< most bytes of a message; a multiple of 4096
  int slots = 4;                        ///< messages in flight that need a data area; a power of two, at most kMaxShmSlots
  int spread = 1;                       ///< messages of `slot_bytes` that lie side by side in the area of a slot
  std::size_t control_bytes = 0;        ///< zeroed area at the beginning for the rooms above
  int channels = 1;
  int lines = 16;  ///< messages in flight in all; a power of two, at least kFewestLines

  /// The default: slots of 256 KiB up to 16 ranks, 64 KiB up to 32, 16 KiB up to 128, 4 KiB beyond; few lines from 3 ranks on.
  static ShmLayout of(int ranks, int channels = 1, std::size_t control_bytes = 0);
  /// Same on every rank, or it is a bug of the caller.
  Status check() const;

  std::size_t card_offset(int rank) const { return cards() + static_cast<std::size_t>(rank) * sizeof(ShmCard); }
  std::size_t proof_offset(int reader, int owner) const {
    return proofs() + static_cast<std::size_t>(reader) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(owner);
  }
  /// `from` and `to` differ. Rings lie one behind the other, those of the first channel first: few pages for few ranks.
  std::size_t ring_offset(int from, int to, int channel) const { return rings() + ring(from, to, channel) * ring_bytes(); }
  std::size_t ring_bytes() const { return kLineStride * (1 + static_cast<std::size_t>(lines)); }
  std::size_t data_offset(int from, int to, int channel) const { return data() + ring(from, to, channel) * data_bytes(); }
  /// Of one slot.
  std::size_t area_bytes() const { return static_cast<std::size_t>(spread) * slot_bytes; }
  std::size_t data_bytes() const { return static_cast<std::size_t>(slots) * area_bytes(); }
  /// What a channel carries before its receiver comes.
  std::size_t held_bytes() const { return static_cast<std::size_t>(slots) * slot_bytes; }
  std::size_t place_bytes() const { return area_bytes() / kPlaces; }
  /// What every rank needs at once: control area, cards, proofs.
  std::size_t head_bytes() const { return rings() - base; }
  /// Whole pages.
  std::size_t total_bytes() const { return data() + ring_count() * data_bytes() - base; }

 private:
  static std::size_t up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }
  std::size_t cards() const { return base + up(control_bytes, kLineStride); }
  std::size_t proofs() const { return cards() + static_cast<std::size_t>(ranks) * sizeof(ShmCard); }
  std::size_t rings() const { return up(proofs() + static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks), kLineStride); }
  std::size_t data() const { return up(rings() + ring_count() * ring_bytes(), 4096); }
  std::size_t pairs() const { return static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks - 1); }
  std::size_t ring_count() const { return pairs() * static_cast<std::size_t>(channels); }
  std::size_t ring(int from, int to, int channel) const {
    const int other = to < from ? to : to - 1;
    return static_cast<std::size_t>(channel) * pairs() + static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks - 1) +
           static_cast<std::size_t>(other);
  }
};

}  // namespace peal::transport
