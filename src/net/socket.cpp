#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <base/clock.hpp>
#include <cerrno>
#include <net/socket.hpp>

#include "set_option.hpp"

namespace peal::net {
namespace {

constexpr std::int64_t kFirstPauseNs = 1'000'000;
constexpr std::int64_t kLongestPauseNs = 50'000'000;

bool is_dead_peer(int error) { return error == EPIPE || error == ECONNRESET || error == ETIMEDOUT || error == ENOTCONN; }

Result<FileDescriptor> open_stream(const Address& address, std::string_view congestion_control) {
  if (address.family() == Family::none) return fail(ErrorCode::invalid_argument, "no address was given");
  FileDescriptor fd(::socket(address.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(ErrorCode::system, "cannot open a socket for {}: {}", address.text(), errno_text(errno));
  if (address.is_ip() && !congestion_control.empty()) (void)request_congestion_control(fd.get(), congestion_control);
  return fd;
}

void pause_until(std::int64_t wake_ns) {
  const std::int64_t left = wake_ns - now_ns();
  if (left <= 0) return;
  const timespec pause{left / 1'000'000'000, left % 1'000'000'000};
  nanosleep(&pause, nullptr);
}

/// A connect to a free port of the same host can meet itself (simultaneous open). Then nobody listens there.
bool is_connected_to_itself(int fd) {
  const auto here = local_address(fd);
  const auto there = peer_address(fd);
  return here && there && here->is_ip() && *here == *there;
}

/// One attempt: 0, or the errno that it ended with.
int try_connect(int fd, const Address& address, std::int64_t deadline_ns) {
  if (::connect(fd, address.data(), address.size()) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!wait_writable(fd, deadline_ns)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

bool is_worth_another_try(int error) {
  return error == ECONNREFUSED || error == EAGAIN || error == ECONNRESET || error == ECONNABORTED || error == EADDRNOTAVAIL ||
         error == EINTR;
}

tl::unexpected<Failure> connect_failure(const Address& address, int error) {
  const std::string where = address.text();
  if (error == ECONNREFUSED)
    return fail(ErrorCode::unreachable, "nobody listens at {}: the process there has not started or has ended, or the address is wrong",
                where);
  if (error == EAGAIN) return fail(ErrorCode::unreachable, "{} listens but does not accept: its queue is full", where);
  if (error == EHOSTUNREACH || error == ENETUNREACH)
    return fail(ErrorCode::unreachable, "host unreachable: there is no way to {} ({}): check the address, the cable, and PEAL_INTERFACE",
                where, errno_text(error));
  if (error == ETIMEDOUT)
    return fail(ErrorCode::unreachable, "{} does not answer: the host is down, or a firewall drops what is sent to it", where);
  return fail(ErrorCode::unreachable, "cannot connect to {}: {}", where, errno_text(error));
}

Status wait_for(int fd, short events, std::int64_t deadline_ns, const char* what) {
  pollfd entry{fd, events, 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, poll_milliseconds(deadline_ns));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(ErrorCode::system, "poll failed: {}", errno_text(errno));
    if (now_ns() >= deadline_ns) return fail(ErrorCode::timeout, "the deadline passed while waiting to {}", what);
  }
}

bool is_tcp(int fd) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain != AF_UNIX;
}

}  // namespace

std::int64_t deadline_in(double seconds) {
  const std::int64_t now = now_ns();
  if (seconds >= 1e9) return kNoDeadline;
  return now + static_cast<std::int64_t>(std::max(seconds, 0.0) * 1e9);
}

int poll_milliseconds(std::int64_t deadline_ns) {
  if (deadline_ns == kNoDeadline) return -1;
  const std::int64_t left = deadline_ns - now_ns();
  if (left <= 0) return 0;
  return static_cast<int>(std::min<std::int64_t>((left + 999'999) / 1'000'000, 60'000));
}

Result<FileDescriptor> listen_on(const Address& address, int backlog, std::string_view congestion_control) {
  PEAL_ASSIGN(FileDescriptor fd, open_stream(address, congestion_control));
  if (address.is_ip()) PEAL_TRY(set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
  if (address.family() == Family::ipv6) PEAL_TRY(set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY"));
  if (::bind(fd.get(), address.data(), address.size()) != 0 || ::listen(fd.get(), backlog) != 0) {
    const int error = errno;
    if (error == EADDRINUSE && address.is_unix())
      return fail(ErrorCode::system,
                  "the name {} is taken by another process: is the same job running twice? Give this one another PEAL_JOB", address.text());
    if (error == EADDRINUSE)
      return fail(ErrorCode::system,
                  "port taken: another process listens at {}; type `ss -ltnp 'sport = :{}'` to see which, or choose another port",
                  address.text(), address.port());
    if (error == EADDRNOTAVAIL)
      return fail(ErrorCode::invalid_argument, "{} is not an address of this host: `ip address` lists those it has", address.text());
    if (error == EACCES)
      return fail(ErrorCode::system, "not permitted to listen at {}: ports below 1024 belong to root, choose another one", address.text());
    return fail(ErrorCode::system, "cannot listen at {}: {}", address.text(), errno_text(error));
  }
  return fd;
}

Result<FileDescriptor> connect_to(const Address& address, std::int64_t deadline_ns, std::string_view congestion_control) {
  std::int64_t pause_ns = kFirstPauseNs;
  int refused_with = ETIMEDOUT;
  for (;;) {
    PEAL_ASSIGN(FileDescriptor fd, open_stream(address, congestion_control));
    int error = try_connect(fd.get(), address, deadline_ns);
    if (error == 0 && is_connected_to_itself(fd.get())) error = ECONNREFUSED;
    if (error == 0) {
      if (address.is_ip()) PEAL_TRY(set_no_delay(fd.get()));
      return fd;
    }
    if (!is_worth_another_try(error)) return connect_failure(address, error == ETIMEDOUT ? refused_with : error);
    refused_with = error;
    const std::int64_t now = now_ns();
    if (now >= deadline_ns) return connect_failure(address, error);
    fd.reset();
    pause_until(std::min(deadline_ns, now + pause_ns));
    pause_ns = std::min(pause_ns * 2, kLongestPauseNs);
  }
}

Result<std::optional<FileDescriptor>> accept_now(int listener) {
  for (;;) {
    FileDescriptor fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      if (is_tcp(fd.get())) (void)set_no_delay(fd.get());
      return std::optional<FileDescriptor>(std::move(fd));
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    // Errors of the network that accept(2) reports concern one connection that is already gone.
    const bool is_gone = errno == EAGAIN || errno == EWOULDBLOCK || errno == EPROTO || errno == ENETDOWN || errno == EHOSTUNREACH ||
                         errno == ENETUNREACH || errno == EPERM;
    if (is_gone) return std::optional<FileDescriptor>();
    return fail(ErrorCode::system, "cannot accept a connection: {}", errno_text(errno));
  }
}

Result<FileDescriptor> accept_before(int listener, std::int64_t deadline_ns) {
  // A listener that the caller left blocking must not hold us past the deadline.
  PEAL_TRY(set_nonblocking(listener, true));
  for (;;) {
    PEAL_ASSIGN(auto found, accept_now(listener));
    if (found) return std::move(*found);
    PEAL_TRY(wait_readable(listener, deadline_ns));
  }
}

Result<Moved> send_now(int fd, const void* data, std::size_t bytes, bool is_followed) {
  for (;;) {
    const ssize_t sent = ::send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT | (is_followed ? MSG_MORE : 0));
    if (sent >= 0) return Moved{static_cast<std::size_t>(sent), false};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Moved{};
    if (is_dead_peer(errno)) return Moved{0, true};
    return fail(ErrorCode::system, "cannot send: {}", errno_text(errno));
  }
}

Result<Moved> recv_now(int fd, void* data, std::size_t bytes) {
  for (;;) {
    const ssize_t got = ::recv(fd, data, bytes, MSG_DONTWAIT);
    if (got > 0) return Moved{static_cast<std::size_t>(got), false};
    if (got == 0) return Moved{0, bytes != 0};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Moved{};
    if (is_dead_peer(errno)) return Moved{0, true};
    return fail(ErrorCode::system, "cannot receive: {}", errno_text(errno));
  }
}

Status send_all(int fd, const void* data, std::size_t bytes, std::int64_t deadline_ns) {
  const char* at = static_cast<const char*>(data);
  while (bytes != 0) {
    PEAL_ASSIGN(const Moved moved, send_now(fd, at, bytes));
    if (moved.closed) return fail(ErrorCode::unreachable, "the other side has closed the connection ({} bytes were still to send)", bytes);
    at += moved.bytes;
    bytes -= moved.bytes;
    if (moved.bytes == 0) PEAL_TRY(wait_for(fd, POLLOUT, deadline_ns, "send"));
  }
  return {};
}

Status recv_all(int fd, void* data, std::size_t bytes, std::int64_t deadline_ns) {
  char* at = static_cast<char*>(data);
  while (bytes != 0) {
    PEAL_ASSIGN(const Moved moved, recv_now(fd, at, bytes));
    if (moved.closed) return fail(ErrorCode::unreachable, "the other side has closed the connection ({} bytes were still to come)", bytes);
    at += moved.bytes;
    bytes -= moved.bytes;
    if (moved.bytes == 0) PEAL_TRY(wait_for(fd, POLLIN, deadline_ns, "receive"));
  }
  return {};
}

Status wait_readable(int fd, std::int64_t deadline_ns) { return wait_for(fd, POLLIN, deadline_ns, "receive"); }
Status wait_writable(int fd, std::int64_t deadline_ns) { return wait_for(fd, POLLOUT, deadline_ns, "send"); }

}  // namespace peal::net
