// Slot memory that the communicators of one rank share, so that a hundred groups over the same ranks do not hold a hundred times the
// slots of one: for every other rank of the host one area, in which this rank's messages to it lie, and one for messages that go to
// several of them and are stored once (ShmSharedSlots).
//
// An area is lent to one communicator at a time, from its first message that needs a slot until the end of its call (`rest`). The next one
// gets it only when every message that the former one sent has been released by its receiver: then nobody reads what lies there. Who
// cannot have it takes slots of its own, so communicators do not wait for each other (a little for the last messages of a call that is
// over: their receiver is mostly about to take them, but it may be waiting for this very call). A communicator that meets a fault never
// rests: its areas are lost, and no memory of a faulty call is used again.
//
// Memory of the rank alone, for what its receivers have read in their senders' memory and look at, is lent in the same way.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <transport/shared_segment.hpp>
#include <transport/shm_layout.hpp>
#include <vector>

namespace peal::transport {

class ShmSlotPool {
 public:
  /// What one host needs for `ranks` ranks; reserved, not allocated.
  static std::size_t bytes_for(int ranks) { return static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks) * area_bytes(ranks); }
  /// As much as any layout's slots of one channel take, where the address space allows it.
  static std::size_t area_bytes(int ranks) { return ranks <= 128 ? ShmLayout::of(2).data_bytes() : ShmLayout::of(ranks).data_bytes(); }

  /// The pool of `rank` among `ranks`, in [offset, offset + bytes_for(ranks)) of a segment that all of them map. Any thread may use it.
  ShmSlotPool(std::shared_ptr<SharedSegment> segment, std::size_t offset, int ranks, int rank);

  /// What may still be read: the ring with that credit line has carried so many messages.
  struct Sent {
    const ShmCredit* credit;
    std::uint64_t messages;
    bool is_released() const { return credit->released.load(std::memory_order_acquire) >= messages; }
  };

  /// This rank's area for messages to one other rank, or to several.
  class Area {
   public:
    /// For the communicator that is known by `borrower`, an address in its segment that is the same each time; at least `bytes` have memory
    /// behind them then. Null while another one is in a call, or, with *is_passing set, while its last messages have not been released.
    /// `owner` keeps that segment mapped.
    Result<std::byte*> lend(const void* borrower, const std::shared_ptr<const void>& owner, std::size_t bytes, bool* is_passing);
    /// The communicator's call is over; what it has sent out of the area, and may still be read.
    void give_back(std::span<const Sent> sent);
    /// The communicator is destroyed; its call is over.
    void forget(const void* borrower);

   private:
    friend class ShmSlotPool;
    bool is_drained() const {
      return std::all_of(sent_.begin(), sent_.end(), [](const Sent& sent) { return sent.is_released(); });
    }

    std::atomic<bool> is_lent_{false};  // guards what follows
    const void* borrower_ = nullptr;
    std::vector<Sent> sent_;
    std::shared_ptr<const void> owner_;
    SharedSegment* segment_ = nullptr;
    std::size_t offset_ = 0;
    std::size_t allocated_ = 0;
  };
  Area& to(int peer) { return areas_[static_cast<std::size_t>(peer)]; }
  Area& to_several() { return to(rank_); }
  /// Where the messages from `peer` lie.
  const std::byte* from(int peer) const { return segment_->data() + offset_of(peer, rank_); }
  const std::byte* to_several_from(int peer) const { return segment_->data() + offset_of(peer, peer); }
  std::size_t area_bytes() const { return area_bytes(ranks_); }

  /// Memory that was given back, or new; at least `bytes` long, and the caller's until it gives it back or lets it go. Any thread.
  std::unique_ptr<std::byte[]> lend_aside(std::size_t bytes);
  /// `bytes`: what it was lent for.
  void give_back_aside(std::unique_ptr<std::byte[]> memory, std::size_t bytes);

  /// Communicators that may borrow. While there is one, it need not give anything back.
  void enter() { users_.fetch_add(1, std::memory_order_relaxed); }
  void leave() { users_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_shared() const { return users_.load(std::memory_order_relaxed) > 1; }

 private:
  // (r, r) is r's for several.
  std::size_t offset_of(int from, int to) const {
    return offset_ +
           (static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(to)) * area_bytes(ranks_);
  }

  std::shared_ptr<SharedSegment> segment_;
  std::size_t offset_;
  int ranks_;
  int rank_;
  std::atomic<int> users_{0};
  std::vector<Area> areas_;  // by peer; its own: for several
  struct Aside {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes;
  };
  std::mutex asides_guard_;
  std::vector<Aside> asides_;  // not lent
};

/// What one communicator has from others: memory of the pool, by the pool's number of each of its ranks on this host.
struct ShmBorrowing {
  std::shared_ptr<ShmSlotPool> pool;  ///< null: slots of its own
  std::vector<int> numbers;
  std::shared_ptr<const void> owner;  ///< keeps the communicator's segment mapped
  bool has_head = false;              ///< the head of its segment has memory already
};

}  // namespace peal::transport
