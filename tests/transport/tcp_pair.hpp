// Two ranks that reach each other over TCP, in one process, and what their tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <base/clock.hpp>
#include <memory>
#include <net/handshake.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>
#include <thread>
#include <transport/tcp.hpp>
#include <transport/tcp_link.hpp>
#include <vector>

namespace peal::transport {

inline constexpr std::int64_t kSecond = 1'000'000'000;
inline constexpr std::uint64_t kCommunicator = 99;

template <class Done>
bool wait_for(Done done, std::int64_t limit_ns = 10 * kSecond) {
  const std::int64_t deadline = now_ns() + limit_ns;
  while (!done()) {
    if (now_ns() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

inline net::Key key_of(std::uint8_t seed) {
  net::Key key;
  key.bytes.fill(seed);
  return key;
}

inline std::unique_ptr<TcpListener> listen(std::uint32_t rank, std::uint8_t key = 1, std::int64_t registration_ns = 5 * kSecond) {
  TcpListenerOptions options;
  options.address = net::Address::loopback_v4(0);
  options.key = key_of(key);
  options.job = 5;
  options.rank = rank;
  options.size = 4;
  options.registration_timeout_ns = registration_ns;
  auto listener = TcpListener::start(options);
  if (!listener) ADD_FAILURE() << listener.error().message;
  return std::move(*listener);
}

struct TcpPair {
  std::unique_ptr<TcpListener> door0, door1;
  std::vector<net::Address> peers;
  std::unique_ptr<TcpTransport> zero, one;
  explicit TcpPair(std::uint8_t key1 = 1, const TcpOptions& options = {})
      : door0(listen(0)), door1(listen(1, key1)), peers{door0->address(), door1->address()} {
    zero = open(*door0, 0, options);
    one = open(*door1, 1, options);
  }
  std::unique_ptr<TcpTransport> open(TcpListener& door, int rank, TcpOptions options = {}) {
    options.connect_timeout_ns = std::min(options.connect_timeout_ns, 3 * kSecond);
    auto transport = TcpTransport::open(door, kCommunicator, rank, peers, options);
    if (!transport) ADD_FAILURE() << transport.error().message;
    return std::move(*transport);
  }
  bool connect() {
    return wait_for([&] { return zero->sender(1) != nullptr && one->receiver(0) != nullptr; });
  }
};

/// A connection that has proven the key and said its route, in the hands of the test.
inline FileDescriptor intruder(const TcpListener& door, const TcpRoute& route) {
  auto fd = net::connect_to(door.address(), net::deadline_in(3));
  EXPECT_TRUE(fd);
  const net::Party mine{net::Role::data_connector, 0, 4, 5};
  EXPECT_TRUE(net::connector_handshake(fd->get(), key_of(1), mine, "door", net::deadline_in(3)));
  net::WireWriter writer;
  writer.u64(route.communicator).u32(route.from).u32(route.to).u32(route.channel).u32(0);
  EXPECT_TRUE(net::send_all(fd->get(), writer.bytes().data(), writer.bytes().size(), net::deadline_in(3)));
  return std::move(*fd);
}

}  // namespace peal::transport
