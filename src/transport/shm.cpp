#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <base/clock.hpp>
#include <cerrno>
#include <climits>
#include <transport/shm.hpp>

namespace peal::transport {
namespace {

constexpr std::int64_t kLongestSleepUs = 1000;
constexpr std::int64_t kLongestDrainNs = 20'000'000;

// Non-private: the ranks may be processes.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t timeout_us) {
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_us / 1'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_us % 1'000'000 * 1000);
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

/// Of sums that nobody else writes.
void add_time(std::atomic<std::uint64_t>& sum_ns, std::atomic<std::uint64_t>& sum_bytes, std::int64_t since_ns, std::uint64_t bytes) {
  const auto took = static_cast<std::uint64_t>(now_ns() - since_ns);
  if (took > shm::kSlowestNsPerByte * bytes) return;
  sum_ns.store(sum_ns.load(std::memory_order_relaxed) + took, std::memory_order_relaxed);
  sum_bytes.store(sum_bytes.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
}
}  // namespace

namespace shm {
void ring(ShmBell& bell) {
  bell.word.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&bell.word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
}  // namespace shm

ShmTransport::ShmTransport(SharedSegment& segment, const ShmLayout& layout, int rank, ShmBorrowing borrowing)
    : segment_(segment), layout_(layout), rank_(rank), borrowing_(std::move(borrowing)) {
  if (borrowing_.pool != nullptr && borrowing_.pool->area_bytes() < layout_.data_bytes()) borrowing_.pool.reset();
  if (borrowing_.pool != nullptr) borrowing_.pool->enter();
  reach_.assign(static_cast<std::size_t>(layout.ranks), Reach::unknown);
}

Result<std::unique_ptr<ShmTransport>> ShmTransport::open(SharedSegment& segment, const ShmLayout& layout, int rank,
                                                         ShmBorrowing borrowing) {
  PEAL_TRY(layout.check());
  if (rank < 0 || rank >= layout.ranks) return fail(ErrorCode::invalid_argument, "rank {} is not below {}", rank, layout.ranks);
  if (segment.bytes() < layout.total_bytes() || layout.base > segment.bytes() - layout.total_bytes()) {
    return fail(ErrorCode::invalid_argument, "a shared segment of {} bytes is too small for {} ranks and {} channels: {} are needed",
                segment.bytes(), layout.ranks, layout.channels, layout.total_bytes());
  }
  if (!borrowing.has_head) PEAL_TRY(segment.allocate(layout.base, layout.head_bytes()));
  std::unique_ptr<ShmTransport> transport(new ShmTransport(segment, layout, rank, std::move(borrowing)));
  if (::getrandom(&transport->nonce_, sizeof transport->nonce_, 0) != sizeof transport->nonce_) {
    return fail(ErrorCode::system, "the kernel's random generator gives nothing: {}", errno_text(errno));
  }
  ShmIdentity& identity = transport->card(rank).identity;
  identity.pid = static_cast<std::uint32_t>(::getpid());
  identity.nonce_address = reinterpret_cast<std::uintptr_t>(&transport->nonce_);
  identity.nonce = transport->nonce_;
  identity.mapped_at = reinterpret_cast<std::uintptr_t>(&identity);
  identity.is_filled.store(1, std::memory_order_release);
  return transport;
}

ShmTransport::~ShmTransport() {
  for (const auto& end : senders_)
    if (end != nullptr && end->area_ != nullptr) end->area_->forget(end->credit_line_);
  if (borrowing_.pool != nullptr) borrowing_.pool->to_several().forget(&card(rank_));
  if (borrowing_.pool != nullptr) borrowing_.pool->leave();
  card(rank_).identity.is_filled.store(0, std::memory_order_release);
}

void ShmTransport::rest_now() {
  for (ShmSender* end : with_data_) end->rest();
  with_data_.clear();
  std::erase_if(with_aside_, [](ShmReceiver* end) { return end->rest(); });
  rest_shared();
}

ShmCard& ShmTransport::card(int rank) const { return *reinterpret_cast<ShmCard*>(segment_.data() + layout_.card_offset(rank)); }

std::atomic<std::uint8_t>& ShmTransport::proof(int reader, int owner) const {
  return *reinterpret_cast<std::atomic<std::uint8_t>*>(segment_.data() + layout_.proof_offset(reader, owner));
}

void ShmTransport::break_down(Failure failure) {
  if (health_) health_ = pass_on(std::move(failure));
}

bool ShmTransport::prepare_ring(int from, int to, int channel) {
  if (from < 0 || to < 0 || from >= layout_.ranks || to >= layout_.ranks || from == to || channel < 0 || channel >= layout_.channels) {
    break_down(Failure{ErrorCode::invalid_argument,
                       fmt::format("there is no channel {} from rank {} to rank {}: {} ranks, {} channels", channel, from, to,
                                   layout_.ranks, layout_.channels),
                       rank_,
                       -1,
                       {}});
    return false;
  }
  if (auto done = segment_.allocate(layout_.ring_offset(from, to, channel), layout_.ring_bytes()); !done) {
    break_down(std::move(done).error());
    return false;
  }
  return true;
}

template <class End>
End* ShmTransport::keep(std::vector<std::unique_ptr<End>>& ends, std::unique_ptr<End> end, int peer, int channel) {
  const std::size_t channels = static_cast<std::size_t>(channel) + 1;
  const std::size_t wanted = channels * static_cast<std::size_t>(layout_.ranks);
  if (ends.size() < wanted) {
    ends.reserve(wanted);
    ends.resize(wanted);
  }
  return (ends[index(peer, channel)] = std::move(end)).get();
}

ShmSender* ShmTransport::open_sender(int peer, int channel) {
  if (!prepare_ring(rank_, peer, channel)) return nullptr;
  auto end = std::make_unique<ShmSender>();
  std::byte* ring = segment_.data() + layout_.ring_offset(rank_, peer, channel);
  end->credit_line_ = reinterpret_cast<ShmCredit*>(ring);
  end->lines_ = reinterpret_cast<ShmLine*>(ring + kLineStride);
  end->line_mask_ = static_cast<std::uint64_t>(layout_.lines) - 1;
  end->slot_mask_ = static_cast<std::uint32_t>(layout_.slots) - 1;
  end->slot_bytes_ = layout_.slot_bytes;
  end->place_bytes_ = layout_.place_bytes();
  end->takes_lowest_ = takes_lowest_;
  end->goes_round_ = goes_round();
  // The messages of further channels are few: they lie in slots of the communicator's own.
  if (borrowing_.pool != nullptr && channel == 0) end->area_ = &borrowing_.pool->to(borrowing_.numbers[static_cast<std::size_t>(peer)]);
  end->peer_bell_ = &card(peer).bell;
  end->proof_ = &proof(peer, rank_);
  end->owner_ = this;
  end->peer_ = peer;
  end->channel_ = channel;
  return keep(senders_, std::move(end), peer, channel);
}

ShmReceiver* ShmTransport::open_receiver(int peer, int channel) {
  if (!prepare_ring(peer, rank_, channel)) return nullptr;
  auto end = std::make_unique<ShmReceiver>();
  std::byte* ring = segment_.data() + layout_.ring_offset(peer, rank_, channel);
  end->credit_line_ = reinterpret_cast<ShmCredit*>(ring);
  end->lines_ = reinterpret_cast<ShmLine*>(ring + kLineStride);
  end->line_mask_ = static_cast<std::uint64_t>(layout_.lines) - 1;
  end->slot_bytes_ = layout_.slot_bytes;
  end->place_bytes_ = layout_.place_bytes();
  end->data_ = segment_.data() + layout_.data_offset(peer, rank_, channel);
  end->comes_round_ = goes_round();
  if (borrowing_.pool != nullptr) {
    const int number = borrowing_.numbers[static_cast<std::size_t>(peer)];
    if (channel == 0) end->lent_data_ = borrowing_.pool->from(number);
    end->shared_data_ = borrowing_.pool->to_several_from(number);
  }
  end->peer_bell_ = &card(peer).bell;
  end->owner_ = this;
  end->peer_ = peer;
  return keep(receivers_, std::move(end), peer, channel);
}

bool ShmSender::find_data() {
  if (area_ == nullptr) return allocate_own();
  bool is_passing = false;
  auto lent = area_->lend(credit_line_, owner_->borrowing_.owner, owner_->layout_.data_bytes(), &is_passing);
  if (!lent) {
    owner_->break_down(std::move(lent).error());
    return false;
  }
  if (*lent != nullptr) {
    data_ = *lent;
    first_place_ = kLentPlaces;
  } else {
    if (is_passing && !has_own_ && is_worth_waiting()) return false;
    if (!allocate_own()) return false;
  }
  waits_since_ns_ = 0;
  owner_->with_data_.push_back(this);
  return true;
}

bool ShmSender::is_worth_waiting() {
  const std::int64_t now = now_ns();
  if (waits_since_ns_ == 0) waits_since_ns_ = now;
  return now - waits_since_ns_ < kLongestDrainNs;
}

bool ShmSender::allocate_own() {
  const std::size_t offset = owner_->layout_.data_offset(owner_->rank_, peer_, channel_);
  if (auto done = has_own_ ? Status{} : owner_->segment_.allocate(offset, owner_->layout_.data_bytes()); !done) {
    Failure failure = std::move(done).error();
    failure.rank = peer_;
    owner_->break_down(std::move(failure));
    return false;
  }
  data_ = owner_->segment_.data() + offset;
  first_place_ = 0;
#ifdef MADV_POPULATE_WRITE
  // One call instead of hundreds of page faults in the first transfers; older kernels take the faults.
  if (!has_own_) ::madvise(data_, owner_->layout_.data_bytes(), MADV_POPULATE_WRITE);
#endif
  has_own_ = true;
  return true;
}

void ShmReceiver::begin_timing() { timed_since_ns_ = now_ns(); }

void ShmReceiver::end_timing() {
  add_time(credit_line_->drained_ns, credit_line_->drained_bytes, std::exchange(timed_since_ns_, 0), message_.bytes);
}

void ShmReceiver::note_fetched(std::int64_t since_ns, std::uint64_t bytes) {
  add_time(credit_line_->fetched_ns, credit_line_->fetched_bytes, since_ns, bytes);
}

void ShmSender::rest() {
  const ShmSlotPool::Sent sent[] = {{credit_line_, sent_}};
  if (first_place_ != 0) area_->give_back(sent);
  data_ = nullptr;
}

bool ShmTransport::has_news() {
  bool found = false;
  for (const auto& end : receivers_) {
    if (end == nullptr || !end->is_waited_) continue;
    if (end->lines_[end->taken_ & end->line_mask_].sequence.load(std::memory_order_acquire) != end->taken_ + 1) continue;
    end->is_waited_ = false;  // said once; whoever still waits for it will find it missing again
    found = true;
  }
  for (const auto& end : senders_) {
    if (end == nullptr || !end->is_waited_ || end->credit_line_->released.load(std::memory_order_acquire) == end->credit_) continue;
    end->is_waited_ = false;
    found = true;
  }
  return found;
}

void ShmTransport::sleep(std::int64_t timeout_us) {
  if (timeout_us <= 0) return;
  ShmBell& bell = card(rank_).bell;
  const std::uint32_t seen = bell.word.load(std::memory_order_acquire);
  // Announce, look once more, sleep. The publisher's half is unfenced (shm::wake_sleepers), so a wake can be missed: hence the bound.
  bell.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (!has_news()) futex_wait(bell.word, seen, std::min(timeout_us, kLongestSleepUs));
  bell.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace peal::transport
