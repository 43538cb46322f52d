// A rank's door for TCP connections, and its way out: one listener a rank (not a process: threads that are ranks have one each), shared by
// all of that rank's communicators. Two service threads that sleep in the kernel: one accepts, authenticates (net/handshake.hpp) and
// reads the route of 24 bytes that says which channel the connection is for; the other makes outgoing connections one after another.
//
// Strangers: at most net::kMaxHalfOpen unauthenticated connections; 24 bytes, bounded in time, until the route is known; a route to a
// communicator that is not registered yet waits (kMaxParked of them, for `registration_timeout_ns`) and is then closed.
#pragma once

#include <atomic>
#include <base/file_descriptor.hpp>
#include <base/result.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <net/address.hpp>
#include <net/key.hpp>
#include <vector>

namespace peal::transport {

inline constexpr std::size_t kRouteBytes = 24;
inline constexpr std::size_t kMaxParked = 4096;

/// Which channel a connection is for. `from` connects, `to` accepts; ranks count in the communicator.
struct TcpRoute {
  std::uint64_t communicator = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t channel = 0;
};

struct TcpListenerOptions {
  net::Address address;  ///< bound to exactly this one; port 0 lets the kernel choose
  net::Key key;          ///< both sides prove it
  std::uint64_t job = 0;
  std::uint32_t rank = 0;  ///< in the job, as the handshake says it
  std::uint32_t size = 1;  ///< ranks in the job
  std::int64_t registration_timeout_ns = 30'000'000'000;
};

/// Where connections arrive for one rank of one communicator. Thread safe.
class TcpMailbox {
 public:
  struct Mail {
    int peer = -1;
    int channel = 0;
    Result<FileDescriptor> connection;
  };
  TcpMailbox();
  void put(Mail mail);
  bool has_mail() const { return has_mail_.load(std::memory_order_acquire); }
  std::vector<Mail> take();
  /// Readable while mail waits; -1 when the process has no descriptor left.
  int descriptor() const { return bell_.get(); }

 private:
  std::mutex mutex_;
  std::vector<Mail> mail_;
  std::atomic<bool> has_mail_{false};
  FileDescriptor bell_;
};

class TcpListener {
 public:
  static Result<std::unique_ptr<TcpListener>> start(const TcpListenerOptions& options);
  /// Ends the threads (an attempt to connect that is under way may hold it for up to a second). Transports must be gone before.
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  /// What the others are to connect to, port included.
  const net::Address& address() const;

  /// Registers a communicator's rank; fails when it is registered already.
  Status add(std::uint64_t communicator, int rank, int ranks, int channels, TcpMailbox& mailbox);
  /// After this returns the mailbox is not touched any more.
  void remove(std::uint64_t communicator, int rank);
  /// Connects in the background; the result comes to the mailbox that (communicator, from) has registered.
  void connect(const TcpRoute& route, const net::Address& to, std::int64_t timeout_ns);

  /// Connections turned away so far (wrong key, garbage, silence, unknown communicator).
  std::uint64_t refused_count() const;

 private:
  struct State;
  explicit TcpListener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace peal::transport
