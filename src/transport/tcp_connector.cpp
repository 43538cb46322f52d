// The outgoing half of TcpListener. One connection after another: a handshake waits for the other side's accepting thread only, which
// never waits for anybody, so no circle of waiting ranks can form.
#include <base/clock.hpp>
#include <net/handshake.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>

#include "tcp_service.hpp"

namespace peal::transport {
namespace {

constexpr std::int64_t kAttemptNs = 1'000'000'000;  // bounds how long the end must wait for us

std::string encode(const TcpRoute& route) {
  net::WireWriter writer;
  writer.u64(route.communicator).u32(route.from).u32(route.to).u32(route.channel).u32(0);
  return writer.bytes();
}

}  // namespace

Result<FileDescriptor> TcpListener::State::connect_one(const Request& request) {
  for (;;) {
    auto connected = net::connect_to(request.to, std::min(request.deadline_ns, now_ns() + kAttemptNs), kFirstCongestionControl);
    const bool may_retry = !is_ending.load() && now_ns() < request.deadline_ns;
    if (!connected && may_retry && connected.error().code == ErrorCode::unreachable) continue;
    PEAL_ASSIGN(FileDescriptor fd, std::move(connected));
    {
      const std::lock_guard lock(mutex);
      if (is_ending.load()) return fail(ErrorCode::aborted, "the rank ends");
      connecting_fd = fd.get();
    }
    const net::Party mine{net::Role::data_connector, options.rank, options.size, options.job};
    auto proven = net::connector_handshake(fd.get(), options.key, mine, request.to.text(), request.deadline_ns);
    {
      const std::lock_guard lock(mutex);
      connecting_fd = -1;
    }
    // Closed early: its places for half-open connections were taken by others. Worth another try.
    if (!proven && proven.error().code == ErrorCode::unreachable && !is_ending.load() && now_ns() < request.deadline_ns) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    if (!proven) return pass_on(std::move(proven).error());
    const std::string route = encode(request.route);
    PEAL_TRY(net::send_all(fd.get(), route.data(), route.size(), request.deadline_ns));
    return fd;
  }
}

void TcpListener::State::connect_loop() {
  for (;;) {
    Request request;
    {
      std::unique_lock lock(mutex);
      has_request.wait(lock, [&] { return is_ending.load() || !requests.empty(); });
      if (is_ending.load()) return;
      request = std::move(requests.front());
      requests.pop_front();
    }
    auto connection = connect_one(request);
    if (!connection) {
      Failure& failure = connection.error();
      failure.rank = static_cast<int>(request.route.to);
      failure.message = fmt::format("rank {} cannot be reached: {}", request.route.to, failure.message);
    }
    const std::lock_guard lock(mutex);
    const auto found = registry.find({request.route.communicator, request.route.from});
    if (found == registry.end() || found->second.number != request.registration) continue;  // the transport is gone
    found->second.mailbox->put({static_cast<int>(request.route.to), static_cast<int>(request.route.channel), std::move(connection)});
  }
}

}  // namespace peal::transport
