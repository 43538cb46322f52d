// Stream sockets with deadlines. Every descriptor is close-on-exec and non-blocking, no call raises SIGPIPE.
// Deadlines are absolute, on the clock of base/clock.hpp; kNoDeadline waits for ever.
#pragma once

#include <base/file_descriptor.hpp>
#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <net/address.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace peal::net {

inline constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();
/// The deadline that is `seconds` from now.
std::int64_t deadline_in(double seconds);

/// Connections that may wait to be accepted.
inline constexpr int kBacklog = 4096;
/// Binds to exactly `address` (port 0: the kernel chooses one, see local_address) and listens.
/// `congestion_control`: what the connections that it accepts begin with, where the kernel has it and permits it; empty: the system's. A
/// socket that had one that paces (bbr) is paced for good, also under another: who wants none of that asks before there is a connection.
/// Errors: a port that is taken, an address that this host does not have.
Result<FileDescriptor> listen_on(const Address& address, int backlog = kBacklog, std::string_view congestion_control = {});

/// Connects; tries again while nobody listens there, until the deadline. TCP_NODELAY is set. `congestion_control` as above.
/// Errors (`unreachable`): nobody listens, host unreachable, no answer; each names the address.
Result<FileDescriptor> connect_to(const Address& address, std::int64_t deadline_ns, std::string_view congestion_control = {});

/// The next waiting connection, or nothing when none waits now.
Result<std::optional<FileDescriptor>> accept_now(int listener);
/// Waits for a connection (`timeout` after the deadline).
Result<FileDescriptor> accept_before(int listener, std::int64_t deadline_ns);

/// Sends or receives exactly `bytes`, whether the socket is blocking or not.
/// Errors: `timeout`; `unreachable` when the other side has closed or died.
Status send_all(int fd, const void* data, std::size_t bytes, std::int64_t deadline_ns);
Status recv_all(int fd, void* data, std::size_t bytes, std::int64_t deadline_ns);

/// One attempt without waiting: how many bytes moved; 0 when it would block. `closed` is the end of the stream (receive) or a dead peer.
struct Moved {
  std::size_t bytes = 0;
  bool closed = false;
};
/// `is_followed`: more comes at once, so that the kernel need not send a short packet.
Result<Moved> send_now(int fd, const void* data, std::size_t bytes, bool is_followed = false);
Result<Moved> recv_now(int fd, void* data, std::size_t bytes);

/// Sleeps until the descriptor is readable (writable), has failed, or the deadline passes (then `timeout`).
Status wait_readable(int fd, std::int64_t deadline_ns);
Status wait_writable(int fd, std::int64_t deadline_ns);
/// Milliseconds for poll(2) until the deadline, rounded up, at most one minute; -1 never.
int poll_milliseconds(std::int64_t deadline_ns);

Status set_nonblocking(int fd, bool on);
Status set_no_delay(int fd);
/// Acknowledge at once (Linux forgets this after a while: call it again after receives that matter).
void set_quick_ack(int fd) noexcept;
Status set_buffer_sizes(int fd, int send_bytes, int receive_bytes);
/// The kernel notices a peer's host that has vanished after idle + interval * count seconds. A stopped process still answers.
Status set_keepalive(int fd, int idle_s, int interval_s, int count);

/// Congestion control is a wish: the kernel may lack the algorithm or not permit it.
struct CongestionControl {
  std::string in_force;  ///< what the socket uses now
  bool is_granted = false;
  std::string note;  ///< empty, or why the wish was not granted and what would make it so
};
Result<CongestionControl> request_congestion_control(int fd, std::string_view wish);
/// What a new TCP socket begins with; empty where none can be opened.
std::string system_congestion_control();
/// Of a TCP socket; empty where it does not tell.
std::string congestion_control_of(int fd);

Result<Address> local_address(int fd);
Result<Address> peer_address(int fd);

/// Who is at the other end of a Unix socket (SO_PEERCRED: the kernel's word, as of connect or listen).
struct PeerCredentials {
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};
Result<PeerCredentials> peer_credentials(int fd);
/// Fails with `refused` unless the other end of the Unix socket belongs to this process's effective user.
Status check_same_user(int fd);

}  // namespace peal::net
