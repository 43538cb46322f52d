// References: reading a peer's memory. Only reading, and only after a trial that read the right secret: a pid can mean another process
// in another pid namespace, and seccomp, Yama or user namespaces may refuse.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <transport/shm.hpp>

namespace peal::transport {
namespace {

constexpr std::uint8_t kProven = 1;
constexpr std::uint8_t kRefused = 2;

/// 0 or errno; ENODATA when the memory ended early.
int read_process(std::uint32_t pid, std::uint64_t address, std::byte* to, std::size_t bytes) {
  while (bytes > 0) {
    iovec local{to, bytes};
    iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(pid), &local, 1, &remote, 1, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (got == 0) return ENODATA;
    to += got;
    address += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
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

}  // namespace

int ShmTransport::try_reading(int owner, bool* is_self) const {
  *is_self = false;
  const ShmIdentity& identity = card(owner).identity;
  if (identity.is_filled.load(std::memory_order_acquire) != 1) return ENOTCONN;
  std::uint64_t read = 0;
  const int error = read_process(identity.pid, identity.nonce_address, reinterpret_cast<std::byte*>(&read), sizeof read);
  if (error != 0) return error;
  if (read != identity.nonce) return EBADMSG;
  // Reading our own pid gave the owner's secret, so it lives in this very process.
  *is_self = identity.pid == static_cast<std::uint32_t>(::getpid());
  return 0;
}

ShmTransport::Proof ShmTransport::prove_references() {
  Proof result{true, {}};
  for (int owner = 0; owner < layout_.ranks; ++owner) {
    bool is_self = false;
    const int error = try_reading(owner, &is_self);
    is_same_process_[static_cast<std::size_t>(owner)] = is_self ? 1 : 0;
    proof(rank_, owner).store(error == 0 ? kProven : kRefused, std::memory_order_release);
    if (error != 0 && result.can_read_all) {
      result.can_read_all = false;
      result.why_not = fmt::format("rank {} cannot read the memory of rank {} (process {}): {}; {}", rank_, owner, card(owner).identity.pid,
                                   errno_text(error), hint(error));
    }
  }
  return result;
}

Status ShmReceiver::read_reference(std::byte* data, std::size_t offset, std::size_t bytes) {
  if (!has_message_ || !message_.is_reference || offset > message_.bytes || bytes > message_.bytes - offset) {
    return fail(ErrorCode::internal, "reading {} bytes at {} of a message that is no such reference", bytes, offset);
  }
  if (bytes == 0) return {};
  const std::uint64_t address = reference_.address + offset;
  if (owner_->is_same_process_[static_cast<std::size_t>(peer_)] == 1) {
    std::memcpy(data, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address)), bytes);
    return {};
  }
  const std::uint32_t pid = owner_->card(peer_).identity.pid;
  const int error = read_process(pid, address, data, bytes);
  if (error == 0) return {};
  Failure failure{error == ESRCH ? ErrorCode::rank_dead : ErrorCode::system,
                  fmt::format("cannot read {} bytes of rank {}'s memory (process {}): {}; {}", bytes, peer_, pid, errno_text(error),
                              error == ESRCH ? "it has ended" : hint(error)),
                  peer_,
                  owner_->rank_,
                  {}};
  owner_->break_down(failure);
  return pass_on(std::move(failure));
}

}  // namespace peal::transport
