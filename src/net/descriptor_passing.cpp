#include <array>
#include <base/clock.hpp>
#include <cerrno>
#include <cstring>
#include <net/descriptor_passing.hpp>
#include <net/socket.hpp>
#include <string>

namespace peal::net {
namespace {

constexpr char kMark = 'F';
/// A few more than one, so that a sender who passes several is seen and none leaks.
constexpr std::size_t kRoom = 4;

std::size_t collect(msghdr& message, std::array<FileDescriptor, kRoom>& found) {
  std::size_t count = 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t passed = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < passed; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      if (count < kRoom) found[count++] = FileDescriptor(fd);
    }
  }
  return count;
}

}  // namespace

Status send_descriptor(int unix_socket, int fd, std::int64_t deadline_ns) {
  char mark = kMark;
  iovec piece{&mark, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &fd, sizeof(int));
  for (;;) {
    if (::sendmsg(unix_socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return {};
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET) return fail(ErrorCode::unreachable, "the receiver of a descriptor is gone");
    // ETOOMANYREFS: too many descriptors are in flight; receivers will take them.
    if (errno != EAGAIN && errno != ETOOMANYREFS) return fail(ErrorCode::system, "cannot pass a descriptor: {}", errno_text(errno));
    if (errno == ETOOMANYREFS) {
      if (now_ns() >= deadline_ns) return fail(ErrorCode::timeout, "too many descriptors are in flight");
      const timespec pause{0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
    PEAL_TRY(wait_writable(unix_socket, deadline_ns));
  }
}

Result<FileDescriptor> receive_descriptor(int unix_socket, std::int64_t deadline_ns) {
  char mark = 0;
  iovec piece{&mark, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kRoom)] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  for (;;) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = ::recvmsg(unix_socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got == 1) break;
    if (got == 0 || (got < 0 && errno == ECONNRESET))
      return fail(ErrorCode::unreachable, "the sender of a descriptor has closed the connection");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail(ErrorCode::system, "cannot receive a descriptor: {}", errno_text(errno));
    PEAL_TRY(wait_readable(unix_socket, deadline_ns));
  }
  std::array<FileDescriptor, kRoom> found;
  const std::size_t count = collect(message, found);
  if ((message.msg_flags & MSG_CTRUNC) != 0 && count == 0)
    return fail(ErrorCode::system, "a descriptor could not be taken: this process has no free descriptor; raise `ulimit -n`");
  if (mark != kMark || count != 1)
    return fail(ErrorCode::corrupt, "one descriptor was expected, {} came with mark {}", count, static_cast<int>(mark));
  return std::move(found[0]);
}

Result<FileDescriptor> open_offer(std::string_view name) {
  PEAL_ASSIGN(const Address address, Address::unix_name(name));
  return listen_on(address);
}

Status serve_offer(int offer, int fd, int receivers, std::int64_t deadline_ns) {
  for (int served = 0; served < receivers;) {
    auto taker = accept_before(offer, deadline_ns);
    if (!taker && taker.error().code == ErrorCode::timeout)
      return fail(ErrorCode::timeout, "{} of {} ranks took the shared segment in time: the others have not come or are stopped", served,
                  receivers);
    if (!taker) return pass_on(std::move(taker).error());
    if (!check_same_user(taker->get())) continue;
    // A taker that has died meanwhile does not count; the byte and the descriptor fit into any fresh socket, so this does not wait.
    if (send_descriptor(taker->get(), fd, deadline_ns)) ++served;
  }
  return {};
}

Status offer_descriptor(std::string_view name, int fd, int receivers, std::int64_t deadline_ns) {
  PEAL_ASSIGN(const FileDescriptor offer, open_offer(name));
  return serve_offer(offer.get(), fd, receivers, deadline_ns);
}

Result<FileDescriptor> take_descriptor(std::string_view name, std::int64_t deadline_ns) {
  PEAL_ASSIGN(const Address address, Address::unix_name(name));
  PEAL_ASSIGN(const FileDescriptor socket, connect_to(address, deadline_ns));
  PEAL_TRY(check_same_user(socket.get()));
  return receive_descriptor(socket.get(), deadline_ns);
}

}  // namespace peal::net
