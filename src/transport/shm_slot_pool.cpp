#include <sys/mman.h>

#include <transport/shm_slot_pool.hpp>

namespace peal::transport {

ShmSlotPool::ShmSlotPool(std::shared_ptr<SharedSegment> segment, std::size_t offset, int ranks, int rank)
    : segment_(std::move(segment)), offset_(offset), ranks_(ranks), rank_(rank), areas_(static_cast<std::size_t>(ranks)) {
  // Address space without memory behind it for the most part: nothing for a core dump to walk through.
  ::madvise(segment_->data() + offset, bytes_for(ranks), MADV_DONTDUMP);
  for (int peer = 0; peer < ranks; ++peer) {
    to(peer).segment_ = segment_.get();
    to(peer).offset_ = offset_of(rank, peer);
  }
}

Result<std::byte*> ShmSlotPool::Area::lend(const void* borrower, const std::shared_ptr<const void>& owner, std::size_t bytes,
                                           bool* is_passing) {
  *is_passing = false;
  if (is_lent_.exchange(true, std::memory_order_acquire)) return nullptr;
  if (borrower_ != borrower) {
    if (!is_drained()) {
      *is_passing = true;
      is_lent_.store(false, std::memory_order_release);
      return nullptr;
    }
    borrower_ = borrower;
    owner_ = owner;
  }
  std::byte* data = segment_->data() + offset_;
  if (bytes <= allocated_) return data;
  PEAL_TRY(segment_->allocate(offset_, bytes));  // a failure ends the communicator: no need to give back
#ifdef MADV_POPULATE_WRITE
  // One call instead of hundreds of page faults in the first transfers; older kernels take the faults.
  ::madvise(data, bytes, MADV_POPULATE_WRITE);
#endif
  allocated_ = bytes;
  return data;
}

void ShmSlotPool::Area::give_back(std::span<const Sent> sent) {
  sent_.assign(sent.begin(), sent.end());
  is_lent_.store(false, std::memory_order_release);
}

void ShmSlotPool::Area::forget(const void* borrower) {
  if (is_lent_.exchange(true, std::memory_order_acquire)) return;  // another one's, or lost
  if (borrower_ == borrower && is_drained()) {
    borrower_ = nullptr;
    sent_.clear();
    owner_.reset();
  }
  is_lent_.store(false, std::memory_order_release);
}

std::unique_ptr<std::byte[]> ShmSlotPool::lend_aside(std::size_t bytes) {
  const std::lock_guard lock(asides_guard_);
  const auto fits = std::find_if(asides_.begin(), asides_.end(), [bytes](const Aside& aside) { return aside.bytes >= bytes; });
  if (fits == asides_.end()) return std::make_unique_for_overwrite<std::byte[]>(bytes);
  std::swap(*fits, asides_.back());
  std::unique_ptr<std::byte[]> memory = std::move(asides_.back().memory);
  asides_.pop_back();
  return memory;
}

void ShmSlotPool::give_back_aside(std::unique_ptr<std::byte[]> memory, std::size_t bytes) {
  const std::lock_guard lock(asides_guard_);
  asides_.push_back({std::move(memory), bytes});
}

}  // namespace peal::transport
