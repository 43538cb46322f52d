// The state that TcpListener's two threads share.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <net/acceptor.hpp>
#include <thread>
#include <transport/tcp_listener.hpp>
#include <utility>

namespace peal::transport {

/// Every connection begins with this congestion control, which paces nothing, and keeps it within a machine; one that has begun with one
/// that paces is paced for good (docs/decisions/reno-within-a-host.md).
inline constexpr std::string_view kFirstCongestionControl = "reno";

struct TcpListener::State {
  explicit State(const TcpListenerOptions& wanted) : options(wanted) {}

  TcpListenerOptions options;
  net::Address address;
  std::unique_ptr<net::Acceptor> acceptor;  // used by the accepting thread only
  FileDescriptor wake;                      // eventfd: something was registered, or the end has come
  std::atomic<bool> is_ending{false};
  std::atomic<std::uint64_t> refused{0};

  struct Registration {
    int ranks = 0;
    int channels = 0;
    TcpMailbox* mailbox = nullptr;
    std::uint64_t number = 0;  // tells a registration from an earlier one of the same name
  };
  std::mutex mutex;  // registry and requests
  std::condition_variable has_request;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Registration> registry;
  std::uint64_t registrations = 0;
  struct Request {
    TcpRoute route;
    net::Address to;
    std::int64_t deadline_ns = 0;
    std::uint64_t registration = 0;
  };
  std::deque<Request> requests;
  int connecting_fd = -1;  // of the handshake that is under way, so that the end can interrupt it

  std::thread accepting;
  std::thread connecting;

  void accept_loop();
  void connect_loop();
  Result<FileDescriptor> connect_one(const Request& request);
};

}  // namespace peal::transport
