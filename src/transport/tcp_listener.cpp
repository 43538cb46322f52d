#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <base/clock.hpp>
#include <cerrno>
#include <net/socket.hpp>
#include <net/wire.hpp>

#include "tcp_service.hpp"

namespace peal::transport {
namespace {

constexpr std::int64_t kRouteTimeoutNs = 5'000'000'000;

/// A connection between its handshake and its transport.
struct Arriving {
  FileDescriptor fd;
  std::int64_t deadline_ns = 0;
  std::array<std::uint8_t, kRouteBytes> bytes{};
  std::size_t got = 0;
  TcpRoute route;
};

enum class Outcome : std::uint8_t { wait, parked, refused, delivered };

void ring(int bell) {
  const std::uint64_t one = 1;
  if (bell >= 0) (void)!::write(bell, &one, sizeof one);
}

TcpRoute parse_route(const std::array<std::uint8_t, kRouteBytes>& bytes) {
  net::WireReader reader{std::span<const std::uint8_t>(bytes)};
  TcpRoute route;
  route.communicator = reader.u64();
  route.from = reader.u32();
  route.to = reader.u32();
  route.channel = reader.u32();
  return route;
}

/// Threads of ours take no signals: these belong to the user's threads.
template <class Body>
std::thread quiet_thread(const char* name, Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

Outcome read_route(Arriving& one) {
  while (one.got < kRouteBytes) {
    auto moved = net::recv_now(one.fd.get(), one.bytes.data() + one.got, kRouteBytes - one.got);
    if (!moved || moved->closed) return Outcome::refused;
    if (moved->bytes == 0) return Outcome::wait;
    one.got += moved->bytes;
  }
  one.route = parse_route(one.bytes);
  return Outcome::parked;
}

}  // namespace

TcpMailbox::TcpMailbox() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void TcpMailbox::put(Mail mail) {
  const std::lock_guard lock(mutex_);
  mail_.push_back(std::move(mail));
  has_mail_.store(true, std::memory_order_release);
  ring(bell_.get());
}

std::vector<TcpMailbox::Mail> TcpMailbox::take() {
  const std::lock_guard lock(mutex_);
  has_mail_.store(false, std::memory_order_release);
  std::uint64_t count = 0;
  if (bell_) (void)!::read(bell_.get(), &count, sizeof count);
  return std::exchange(mail_, {});
}

TcpListener::TcpListener(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<TcpListener>> TcpListener::start(const TcpListenerOptions& options) {
  auto state = std::make_unique<State>(options);
  state->wake = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->wake) return fail(ErrorCode::system, "cannot make an eventfd: {}; too many open files? See `ulimit -n`", errno_text(errno));
  PEAL_ASSIGN(FileDescriptor listener, net::listen_on(options.address, net::kBacklog, kFirstCongestionControl));
  PEAL_ASSIGN(state->address, net::local_address(listener.get()));
  const net::Party mine{net::Role::data_acceptor, options.rank, options.size, options.job};
  state->acceptor = std::make_unique<net::Acceptor>(std::move(listener), options.key, mine);
  State* s = state.get();
  std::unique_ptr<TcpListener> self(new TcpListener(std::move(state)));
  s->accepting = quiet_thread("peal-accept", [s] { s->accept_loop(); });
  s->connecting = quiet_thread("peal-connect", [s] { s->connect_loop(); });
  return self;
}

TcpListener::~TcpListener() {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    s.is_ending.store(true);
    if (s.connecting_fd >= 0) ::shutdown(s.connecting_fd, SHUT_RDWR);
  }
  s.has_request.notify_all();
  ring(s.wake.get());
  if (s.accepting.joinable()) s.accepting.join();
  if (s.connecting.joinable()) s.connecting.join();
}

const net::Address& TcpListener::address() const { return state_->address; }
std::uint64_t TcpListener::refused_count() const { return state_->refused.load(); }

Status TcpListener::add(std::uint64_t communicator, int rank, int ranks, int channels, TcpMailbox& mailbox) {
  {
    const std::lock_guard lock(state_->mutex);
    const auto key = std::make_pair(communicator, static_cast<std::uint32_t>(rank));
    if (state_->registry.contains(key)) {
      return fail(ErrorCode::internal, "rank {} of communicator {:#x} is registered for TCP already", rank, communicator);
    }
    state_->registry[key] = {ranks, channels, &mailbox, ++state_->registrations};
  }
  ring(state_->wake.get());  // connections that came too early wait for this
  return {};
}

void TcpListener::remove(std::uint64_t communicator, int rank) {
  const std::lock_guard lock(state_->mutex);
  state_->registry.erase({communicator, static_cast<std::uint32_t>(rank)});
  std::erase_if(state_->requests, [&](const State::Request& r) {
    return r.route.communicator == communicator && r.route.from == static_cast<std::uint32_t>(rank);
  });
}

void TcpListener::connect(const TcpRoute& route, const net::Address& to, std::int64_t timeout_ns) {
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->registry.find({route.communicator, route.from});
    if (found == state_->registry.end()) return;
    state_->requests.push_back({route, to, now_ns() + timeout_ns, found->second.number});
  }
  state_->has_request.notify_one();
}

void TcpListener::State::accept_loop() {
  std::vector<Arriving> arriving;
  const auto settle = [&](Arriving& one) {
    Outcome outcome = one.got < kRouteBytes ? read_route(one) : Outcome::parked;
    if (outcome == Outcome::parked) {
      const std::lock_guard lock(mutex);
      const auto found = registry.find({one.route.communicator, one.route.to});
      if (found != registry.end()) {
        const Registration& r = found->second;
        // Crossing connects cannot be: only the lower rank connects.
        const bool is_sane = one.route.from < one.route.to && one.route.channel < static_cast<std::uint32_t>(r.channels);
        if (!is_sane) return Outcome::refused;
        r.mailbox->put({static_cast<int>(one.route.from), static_cast<int>(one.route.channel), std::move(one.fd)});
        return Outcome::delivered;
      }
      // From here on its time is that of a registration; counted once.
    }
    return now_ns() > one.deadline_ns ? Outcome::refused : outcome;
  };

  std::vector<pollfd> set;
  while (!is_ending.load()) {
    set.clear();
    set.push_back({wake.get(), POLLIN, 0});
    acceptor->add_poll(set);
    std::int64_t wake_ns = acceptor->wake_ns();
    for (const Arriving& one : arriving) {
      if (one.got < kRouteBytes) set.push_back({one.fd.get(), POLLIN, 0});
      wake_ns = std::min(wake_ns, one.deadline_ns + 1'000'000);
    }
    (void)::poll(set.data(), set.size(), net::poll_milliseconds(wake_ns));
    std::uint64_t count = 0;
    (void)!::read(wake.get(), &count, sizeof count);
    const std::uint64_t refused_before = acceptor->refused_count();
    for (auto& admitted : acceptor->advance()) {
      arriving.push_back({std::move(admitted.fd), now_ns() + kRouteTimeoutNs, {}, 0, {}});
    }
    refused.fetch_add(acceptor->refused_count() - refused_before);
    for (auto& one : arriving) {
      const bool was_parked = one.got == kRouteBytes;
      const Outcome outcome = settle(one);
      if (outcome == Outcome::parked && !was_parked) one.deadline_ns = now_ns() + options.registration_timeout_ns;
      if (outcome == Outcome::refused) refused.fetch_add(1);
      if (outcome == Outcome::refused) one.fd.reset();
    }
    std::erase_if(arriving, [](const Arriving& one) { return one.fd.get() < 0; });
    while (arriving.size() > kMaxParked) {
      arriving.erase(arriving.begin());
      refused.fetch_add(1);
    }
  }
}

}  // namespace peal::transport
