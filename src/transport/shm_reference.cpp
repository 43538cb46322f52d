// References: messages that stay in the sender's own memory. Only after a trial that read the right secret: a pid can mean another process
// in another pid namespace, and seccomp, Yama or user namespaces may refuse. The receiver reads, and the sender, when it has nothing else
// to do, writes: each claims a part of what is left, so that both cores copy.
#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <base/clock.hpp>
#include <base/copy.hpp>
#include <base/log.hpp>
#include <base/pages.hpp>
#include <cerrno>
#include <fstream>
#include <span>
#include <transport/shm.hpp>

namespace peal::transport {

using shm::Reference;

namespace {

constexpr std::uint8_t kProven = 1;
constexpr std::uint8_t kRefused = 2;
constexpr std::uint64_t kLeastPart = 16 * 1024;  // a system call costs as much as a copy of as many bytes
constexpr std::int64_t kLineBehindNs = 400;  // in which a sender that offers several has offered the next; a system call takes 2 to 4 us
constexpr std::int64_t kLongestWaitNs = 200'000'000;

enum class Way { read, write };

/// 0 or errno; ENODATA when the memory ended early.
int copy_process(Way way, std::uint32_t pid, std::uint64_t address, std::byte* own, std::size_t bytes) {
  while (bytes > 0) {
    iovec local{own, bytes};
    iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
    const auto process = static_cast<pid_t>(pid);
    const ssize_t done =
        way == Way::read ? ::process_vm_readv(process, &local, 1, &remote, 1, 0) : ::process_vm_writev(process, &local, 1, &remote, 1, 0);
    if (done < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (done == 0) return ENODATA;
    own += done;
    address += static_cast<std::uint64_t>(done);
    bytes -= static_cast<std::size_t>(done);
  }
  return 0;
}

const char* hint(int error) {
  switch (error) {
    case EPERM: return "kernel.yama.ptrace_scope must be 0, or the container needs CAP_SYS_PTRACE";
    case ENOSYS: return "a seccomp filter or an old kernel blocks process_vm_readv";
    case ESRCH: return "the ranks are in different pid namespaces, or the rank has ended";
    case ENOTCONN: return "it has not opened its transport yet";
    case EBADMSG: return "the ranks are in different pid namespaces";
    default: return "cross-memory attach is not possible here";
  }
}

struct Part {
  std::uint64_t offset;
  std::uint64_t bytes;
};

// A half for each; whoever is much earlier takes both.
std::uint64_t half_at(std::uint64_t offset, std::uint64_t whole) {
  const std::uint64_t half = std::max(kLeastPart, (whole / 2 + kPageBytes - 1) / kPageBytes * kPageBytes);
  return std::min(whole - offset, half);
}

/// False when nothing is left to claim.
bool claim(Reference& reference, Part& part) {
  const bool is_shared = reference.is_shared.load(std::memory_order_relaxed) != 0;
  std::uint64_t at = reference.next.load(std::memory_order_relaxed);
  do {
    if (at >= reference.bytes) return false;
    part = {at, is_shared ? half_at(at, reference.bytes) : reference.bytes - at};
  } while (!reference.next.compare_exchange_weak(at, at + part.bytes, std::memory_order_acq_rel, std::memory_order_relaxed));
  return true;
}

// Nothing can be claimed any more; waits until what was claimed is copied or given back, except `own_part` bytes that the caller claimed.
// Not for ever: who claimed may be dead.
void close_and_wait(Reference& reference, std::uint64_t own_part = 0) {
  const std::uint64_t next = reference.next.fetch_or(Reference::kClosed, std::memory_order_acq_rel) & ~Reference::kClosed;
  const std::uint64_t claimed = std::min(next, reference.bytes) - own_part;
  const std::int64_t until = now_ns() + kLongestWaitNs;
  const auto is_settled = [&] {
    const std::uint64_t returned = reference.returned.load(std::memory_order_acquire);
    const std::uint64_t left = returned == 0 ? 0 : half_at(returned - 1, reference.bytes);
    return reference.finished.load(std::memory_order_acquire) + left >= claimed;
  };
  while (!is_settled() && now_ns() < until) sched_yield();
}

}  // namespace

bool may_read_processes() {
  std::uint64_t here = 1, there = 0;
  const auto self = static_cast<std::uint32_t>(::getpid());
  if (copy_process(Way::read, self, reinterpret_cast<std::uintptr_t>(&here), reinterpret_cast<std::byte*>(&there), sizeof here) != 0)
    return false;
  int scope = 0;  // of Yama; absent: none
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope == 0 || (scope < 3 && ::geteuid() == 0);
}

int ShmTransport::try_reading(int owner, bool* is_beside) const {
  *is_beside = false;
  const ShmIdentity& identity = card(owner).identity;
  if (identity.is_filled.load(std::memory_order_acquire) != 1) return ENOTCONN;
  std::uint64_t read = 0;
  const int error = copy_process(Way::read, identity.pid, identity.nonce_address, reinterpret_cast<std::byte*>(&read), sizeof read);
  if (error != 0) return error;
  if (read != identity.nonce) return EBADMSG;
  // Reading our own pid gave the owner's secret, so it lives in this very process. Only where both use one mapping do the atomics in it
  // order what is copied beside it; else the kernel copies, as between processes.
  *is_beside = identity.pid == static_cast<std::uint32_t>(::getpid()) && identity.mapped_at == reinterpret_cast<std::uintptr_t>(&identity);
  return 0;
}

ShmTransport::Reach ShmTransport::reach(int owner) {
  Reach& known = reach_[static_cast<std::size_t>(owner)];
  if (known != Reach::unknown) return known;
  bool is_beside = false;
  const int error = try_reading(owner, &is_beside);
  known = error != 0 ? Reach::none : is_beside ? Reach::by_address : Reach::by_kernel;
  if (error != 0)
    log(LogLevel::info, "rank {} copies by slots from and to rank {}, whose memory (process {}) it cannot reach: {}; {}", rank_, owner,
        card(owner).identity.pid, errno_text(error), hint(error));
  return known;
}

bool ShmSender::send_reference(const std::byte* data, std::size_t bytes, const Tag* tag, bool is_idle) {
  if (!has_references() || bytes > slot_bytes_ || !wait_line()) return false;
  ShmLine& line = lines_[sent_ & line_mask_];
  put_tag(line, tag);
  new (line.body + shm::kReferenceAt)
      Reference{reinterpret_cast<std::uintptr_t>(data), bytes, {0}, {0}, {0}, {0}, {Reference::offered}, {is_idle ? 1u : 0u}};
  last_unsent_ = last_reference_ = sent_ + 1;
  commit(line, shm::by_reference, bytes, 0);
  return true;
}

// The receiver's memory is written only while the receiver waits for it: from `taken` on until all that was claimed is finished. Not where
// the sender receives, too: then every core copies already, and what one writes for another leaves that one's caches.
void ShmSender::help_receiver() {
  for (std::uint64_t number = std::max(helped_, credit_); number < last_reference_; helped_ = ++number) {
    ShmLine& line = lines_[number & line_mask_];
    if (line.kind != shm::by_reference) continue;
    Reference& reference = shm::reference_in(line);
    const std::uint32_t state = reference.state.load(std::memory_order_acquire);
    if (state == Reference::in_slot || (state == Reference::refused && copy_into_slot(line, number))) continue;
    // The receiver takes one message after the other, and may refuse this one yet.
    if (state == Reference::taken && reference.is_shared.load(std::memory_order_relaxed) != 0) write_parts(reference);
    return;
  }
}

void ShmSender::write_parts(Reference& reference) {
  const auto reach = cannot_write_ ? ShmTransport::Reach::none : owner_->reach(peer_);
  if (reach == ShmTransport::Reach::none) return;
  const std::uint64_t target = reference.target.load(std::memory_order_relaxed);
  for (Part part{}; claim(reference, part);) {
    auto* const from = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(reference.address + part.offset));
    if (reach == ShmTransport::Reach::by_address) {
      std::memcpy(reinterpret_cast<void*>(static_cast<std::uintptr_t>(target + part.offset)), from, part.bytes);
    } else if (copy_process(Way::write, owner_->card(peer_).identity.pid, target + part.offset, from, part.bytes) != 0) {
      cannot_write_ = true;
      reference.returned.store(part.offset + 1, std::memory_order_release);
      return;
    }
    reference.finished.fetch_add(part.bytes, std::memory_order_acq_rel);
  }
}

// `line` is the sender's alone while it does this.
bool ShmSender::copy_into_slot(ShmLine& line, std::uint64_t number) {
  if (!has_slot() || (data_ == nullptr && !find_data())) return false;
  Reference& reference = shm::reference_in(line);
  copy_bytes(data_ + find_place(reference.bytes) * place_bytes_,
             reinterpret_cast<const void*>(static_cast<std::uintptr_t>(reference.address)), reference.bytes);
  line.place = static_cast<std::uint16_t>(first_place_ + place_);
  slot_owner_[next_slot_] = number + 1;
  next_slot_ = (next_slot_ + 1) & slot_mask_;
  reference.state.store(Reference::in_slot, std::memory_order_release);
  return true;
}

bool ShmSender::copy_references() {
  if (is_drained()) return true;
  for (std::uint64_t number = credit_; number < last_unsent_; ++number) {
    ShmLine& line = lines_[number & line_mask_];
    if (line.kind == shm::shown || line.kind == shm::shown_to_answer) return false;
    if (line.kind != shm::by_reference) continue;
    Reference& reference = shm::reference_in(line);
    std::uint32_t state = Reference::offered;
    if (reference.state.compare_exchange_strong(state, Reference::moving, std::memory_order_acq_rel)) {
      if (copy_into_slot(line, number)) continue;
      reference.state.store(Reference::offered, std::memory_order_release);
      return false;
    }
    if (state != Reference::in_slot) return false;
  }
  last_unsent_ = last_reference_ = credit_;
  return true;
}

void ShmSender::withdraw_references() {
  refresh_credit();
  for (std::uint64_t number = credit_; number < last_reference_; ++number) {
    ShmLine& line = lines_[number & line_mask_];
    if (line.kind != shm::by_reference) continue;
    Reference& reference = shm::reference_in(line);
    std::uint32_t state = Reference::offered;
    if (!reference.state.compare_exchange_strong(state, Reference::withdrawn, std::memory_order_acq_rel) && state == Reference::taken)
      close_and_wait(reference);
  }
}

void ShmReceiver::prove() {
  has_proof_ = true;
  const bool is_reached = owner_->reach(peer_) != ShmTransport::Reach::none;
  owner_->proof(owner_->rank_, peer_).store(is_reached ? kProven : kRefused, std::memory_order_release);
}

bool ShmReceiver::fetch(ShmLine& line, std::byte* to, std::size_t most, std::size_t behind, bool is_read_next) {
  Reference& reference = shm::reference_in(line);
  if (fetched_ == nullptr && taken_ < ahead_until_ && reference.state.load(std::memory_order_acquire) == Reference::taken) {
    fetched_ = &reference;
    fetched_to_ = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(reference.target.load(std::memory_order_relaxed)));
  } else if (fetched_ == nullptr) {
    std::uint32_t state = Reference::offered;
    reference.target.store(reinterpret_cast<std::uintptr_t>(to), std::memory_order_relaxed);
    if (reference.bytes > most) reference.next.store(Reference::kClosed, std::memory_order_relaxed);  // nobody copies what is dropped
    if (is_read_next) reference.is_shared.store(0, std::memory_order_relaxed);
    if (reference.state.compare_exchange_strong(state, Reference::taken, std::memory_order_acq_rel)) {
      fetched_ = &reference;
      fetched_to_ = to;
      if (behind > 0 && reference.bytes == most) read_with_those_behind(reference, behind);
    } else if (state != Reference::in_slot) {
      is_waited_ = true;
      return false;
    }
  }
  if (fetched_ != nullptr && reference.bytes <= most) {
    if (!read_parts(reference) || reference.finished.load(std::memory_order_acquire) < reference.bytes) return false;
  }
  open_tag(line);
  message_.bytes = reference.bytes;
  message_.answer = nullptr;
  message_.data = fetched_to_;
  if (fetched_ == nullptr)
    open_slot(line);
  else
    has_fetched_ = true;
  fetched_ = nullptr;
  has_message_ = true;
  return true;
}

bool ShmReceiver::fetch_aside(ShmLine& line) {
  if (ShmSlotPool* const pool = owner_->borrowing_.pool.get(); aside_ == nullptr && pool != nullptr) {
    aside_ = pool->lend_aside(slot_bytes_);
    owner_->with_aside_.push_back(this);
  } else if (aside_ == nullptr) {
    aside_ = std::make_unique_for_overwrite<std::byte[]>(slot_bytes_);
  }
  return fetch(line, aside_.get(), slot_bytes_, 0, true);
}

bool ShmReceiver::rest() {
  if (has_message_ || fetched_ != nullptr) return false;
  owner_->borrowing_.pool->give_back_aside(std::move(aside_), slot_bytes_);
  return true;
}

// What is there already and goes right behind a message is read by the same system call. Where that does not give all of it, each is read
// for itself when it is asked for.
void ShmReceiver::read_with_those_behind(Reference& first, std::size_t room) {
  if (owner_->reach(peer_) != ShmTransport::Reach::by_kernel || first.is_shared.load(std::memory_order_relaxed) != 0) return;
  std::array<Reference*, kMostReadAtOnce> read{};
  std::array<iovec, kMostReadAtOnce> there{};
  std::size_t count = 0, ranges = 0, total = 0;
  Part part{};
  const auto add = [&](Reference& reference) {
    if (!claim(reference, part)) return false;
    auto* const from = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(reference.address));
    read[count++] = &reference;
    total += reference.bytes;
    if (ranges > 0 && static_cast<std::byte*>(there[ranges - 1].iov_base) + there[ranges - 1].iov_len == from)
      there[ranges - 1].iov_len += reference.bytes;  // the kernel looks for the process's memory anew in each
    else
      there[ranges++] = {from, reference.bytes};
    return true;
  };
  const auto take = [&](std::uint64_t number) {
    ShmLine& line = lines_[number & line_mask_];
    if (line.sequence.load(std::memory_order_acquire) != number + 1 || line.kind != shm::by_reference || line.has_tag != 0) return false;
    Reference& reference = shm::reference_in(line);
    if (reference.is_shared.load(std::memory_order_relaxed) != 0 || total - first.bytes + reference.bytes > room) return false;
    std::uint32_t state = Reference::offered;
    reference.target.store(reinterpret_cast<std::uintptr_t>(fetched_to_ + total), std::memory_order_relaxed);
    if (!reference.state.compare_exchange_strong(state, Reference::taken, std::memory_order_acq_rel)) return false;
    ahead_until_ = number + 1;
    return add(reference);
  };
  if (!add(first)) return;
  for (std::uint64_t number = taken_ + 1; count < kMostReadAtOnce && total - first.bytes < room; ++number) {
    const ShmLine& line = lines_[number & line_mask_];
    const auto is_there = [&] { return line.sequence.load(std::memory_order_acquire) == number + 1; };
    for (const std::int64_t until = is_there() ? 0 : now_ns() + kLineBehindNs; !is_there() && now_ns() < until;) {
    }
    if (!take(number)) break;
  }
  const iovec here{fetched_to_, total};
  const std::int64_t since_ns = now_ns();
  const auto process = static_cast<pid_t>(owner_->card(peer_).identity.pid);
  const bool is_read = ::process_vm_readv(process, &here, 1, there.data(), ranges, 0) == static_cast<ssize_t>(total);
  if (is_read) note_fetched(since_ns, total);
  for (Reference* const each : std::span(read).first(count)) {
    std::uint64_t claimed = each->bytes;
    if (is_read)
      each->finished.store(claimed, std::memory_order_release);
    else
      each->next.compare_exchange_strong(claimed, 0, std::memory_order_acq_rel);
  }
}

bool ShmReceiver::read_parts(Reference& reference) {
  Part part{};
  for (;;) {
    const std::uint64_t returned = reference.returned.load(std::memory_order_acquire);
    if (returned != 0) {
      reference.returned.store(0, std::memory_order_relaxed);  // whoever gives back once does not come again
      part = {returned - 1, half_at(returned - 1, reference.bytes)};
    } else if (!claim(reference, part)) {
      return true;
    }
    const std::uint64_t address = reference.address + part.offset;
    const std::int64_t since_ns = now_ns();
    if (owner_->reach(peer_) == ShmTransport::Reach::by_address) {
      copy_bytes(fetched_to_ + part.offset, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address)), part.bytes);
    } else {
      const std::uint32_t pid = owner_->card(peer_).identity.pid;
      const int error = copy_process(Way::read, pid, address, fetched_to_ + part.offset, part.bytes);
      if (error != 0) return stop_reading(reference, part.bytes, error);
    }
    if (part.bytes == reference.bytes) note_fetched(since_ns, part.bytes);
    reference.finished.fetch_add(part.bytes, std::memory_order_acq_rel);
  }
}

// Always false. Memory that its process can read and others cannot (a device's, mapped) comes by slots from now on.
bool ShmReceiver::stop_reading(Reference& reference, std::uint64_t part, int error) {
  close_and_wait(reference, part);
  fetched_ = nullptr;
  if (error == EFAULT) {
    owner_->proof(owner_->rank_, peer_).store(kRefused, std::memory_order_release);
    reference.state.store(Reference::refused, std::memory_order_release);
    return false;
  }
  const bool has_ended = error == ESRCH;
  owner_->break_down(Failure{has_ended ? ErrorCode::rank_dead : ErrorCode::system,
                             fmt::format("cannot read {} bytes of rank {}'s memory (process {}): {}; {}", part, peer_,
                                         owner_->card(peer_).identity.pid, errno_text(error), has_ended ? "it has ended" : hint(error)),
                             peer_,
                             owner_->rank_,
                             {}});
  return false;
}

void ShmReceiver::give_up() {
  if (fetched_ != nullptr) close_and_wait(*fetched_);
  fetched_ = nullptr;
}

}  // namespace peal::transport
