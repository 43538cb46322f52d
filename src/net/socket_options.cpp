// The part of socket.hpp that asks and tells: options, addresses, credentials.
#include <fcntl.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <net/socket.hpp>

#include "set_option.hpp"

namespace peal::net {
Status set_option(int fd, int level, int name, int value, const char* what) {
  if (setsockopt(fd, level, name, &value, sizeof(value)) == 0) return {};
  return fail(ErrorCode::system, "the socket refuses {}={}: {}", what, value, errno_text(errno));
}

Status set_nonblocking(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return fail(ErrorCode::system, "cannot read the flags of descriptor {}: {}", fd, errno_text(errno));
  const int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
  if (wanted != flags && fcntl(fd, F_SETFL, wanted) != 0)
    return fail(ErrorCode::system, "cannot set the flags of descriptor {}: {}", fd, errno_text(errno));
  return {};
}

Status set_no_delay(int fd) { return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY"); }

void set_quick_ack(int fd) noexcept {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
}

Status set_buffer_sizes(int fd, int send_bytes, int receive_bytes) {
  PEAL_TRY(set_option(fd, SOL_SOCKET, SO_SNDBUF, send_bytes, "SO_SNDBUF"));
  return set_option(fd, SOL_SOCKET, SO_RCVBUF, receive_bytes, "SO_RCVBUF");
}

Status set_keepalive(int fd, int idle_s, int interval_s, int count) {
  PEAL_TRY(set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE"));
  PEAL_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s, "TCP_KEEPIDLE"));
  PEAL_TRY(set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval_s, "TCP_KEEPINTVL"));
  return set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, count, "TCP_KEEPCNT");
}

std::string congestion_control_of(int fd) {
  char name[32] = {};
  socklen_t size = sizeof(name) - 1;
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0) return {};
  return name;
}

std::string system_congestion_control() {
  for (const int family : {AF_INET, AF_INET6}) {
    const FileDescriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd) return congestion_control_of(fd.get());
  }
  return {};
}

Result<CongestionControl> request_congestion_control(int fd, std::string_view wish) {
  CongestionControl out;
  const std::string name(wish);
  const int error = setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.c_str(), static_cast<socklen_t>(name.size())) == 0 ? 0 : errno;
  out.in_force = congestion_control_of(fd);
  out.is_granted = error == 0 && out.in_force == wish;
  if (out.is_granted) return out;
  if (error == ENOENT) {
    out.note =
        fmt::format("this kernel has no congestion control \"{}\", {} stays; `modprobe tcp_{}` may add it", wish, out.in_force, wish);
  } else if (error == EPERM || error == EACCES) {
    out.note =
        fmt::format("congestion control \"{}\" is not permitted to this user, {} stays; add it to net.ipv4.tcp_allowed_congestion_control",
                    wish, out.in_force);
  } else {
    return fail(ErrorCode::system, "the socket refuses congestion control \"{}\": {}", wish, errno_text(error));
  }
  return out;
}

Result<Address> local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    return fail(ErrorCode::system, "a socket does not tell its address: {}", errno_text(errno));
  return Address::from_kernel(reinterpret_cast<const sockaddr*>(&storage), size);
}

Result<Address> peer_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    return fail(ErrorCode::unreachable, "a socket does not tell its peer: {}", errno_text(errno));
  return Address::from_kernel(reinterpret_cast<const sockaddr*>(&storage), size);
}

Result<PeerCredentials> peer_credentials(int fd) {
  ucred found{};
  socklen_t size = sizeof(found);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &size) != 0)
    return fail(ErrorCode::system, "the kernel does not tell who is at the other end: {}", errno_text(errno));
  return PeerCredentials{found.pid, found.uid, found.gid};
}

Status check_same_user(int fd) {
  PEAL_ASSIGN(const PeerCredentials peer, peer_credentials(fd));
  if (peer.uid == geteuid()) return {};
  return fail(ErrorCode::refused,
              "process {} belongs to user {}, this one to user {}: ranks of one job on one host must run as the same user", peer.pid,
              peer.uid, geteuid());
}

}  // namespace peal::net
