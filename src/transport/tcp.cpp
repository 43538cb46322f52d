#include <transport/tcp.hpp>

#include <fcntl.h>
#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <net/socket.hpp>

#include <transport/tcp_link.hpp>

namespace peal::transport {
namespace {

/// The number in a file of /proc/sys; 0 where it cannot be read.
long kernel_limit(const char* path) {
  const FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC));
  char text[32] = {};
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return 0;
  return std::strtol(text, nullptr, 10);
}

bool is_within_host(int fd) {
  const auto here = net::local_address(fd);
  const auto there = net::peer_address(fd);
  return here && there && net::is_same_host(*here, *there);
}

}  // namespace

TcpTransport::TcpTransport(TcpListener& listener, std::uint64_t communicator, int rank, std::vector<net::Address> peers,
                           const TcpOptions& options)
    : listener_(listener),
      communicator_(communicator),
      rank_(rank),
      peers_(std::move(peers)),
      options_(options),
      poll_set_(std::make_unique<std::vector<pollfd>>()) {
  links_.resize(peers_.size() * static_cast<std::size_t>(options.channels + 1));
}

Result<std::unique_ptr<TcpTransport>> TcpTransport::open(TcpListener& listener, std::uint64_t communicator, int rank,
                                                         std::vector<net::Address> peers, const TcpOptions& options) {
  const int ranks = static_cast<int>(peers.size());
  if (rank < 0 || rank >= ranks) return fail(ErrorCode::invalid_argument, "rank {} is not below {}", rank, ranks);
  if (options.channels < 1 || options.channels > 1024 || options.slots < 1 || options.slots > 1024 || options.message_bytes < 1 ||
      options.message_bytes > (std::size_t{1} << 30)) {
    return fail(ErrorCode::invalid_argument,
                "TCP with {} channels, {} slots and messages of {} bytes: 1 to 1024, 1 to 1024 and up to 1 GiB", options.channels,
                options.slots, options.message_bytes);
  }
  if (!options.is_on_machine.empty() && options.is_on_machine.size() != peers.size())
    return fail(ErrorCode::invalid_argument, "TCP among {} ranks is told of {} whether they are on this machine", ranks,
                options.is_on_machine.size());
  std::unique_ptr<TcpTransport> transport(new TcpTransport(listener, communicator, rank, std::move(peers), options));
  if (transport->mailbox_.descriptor() < 0) {
    return fail(ErrorCode::system, "cannot make an eventfd; too many open files? See `ulimit -n`");
  }
  PEAL_TRY(listener.add(communicator, rank, ranks, options.channels + 1, transport->mailbox_));
  transport->is_registered_ = true;
  return transport;
}

TcpTransport::~TcpTransport() {
  if (is_registered_) listener_.remove(communicator_, rank_);
  push_pending();
}

void TcpTransport::break_down(Failure failure) {
  if (health_) health_ = pass_on(std::move(failure));
}

std::unique_ptr<TcpLink>& TcpTransport::place_of(int peer, int channel) {
  return links_[static_cast<std::size_t>(peer) * static_cast<std::size_t>(options_.channels + 1) + static_cast<std::size_t>(channel)];
}

TcpLink* TcpTransport::link(int peer, int channel) {
  if (mailbox_.has_mail()) take_mail();
  if (peer < 0 || peer >= static_cast<int>(peers_.size()) || channel < 0 || channel >= options_.channels || peer == rank_) {
    break_down(Failure{
        ErrorCode::invalid_argument, fmt::format("rank {} has no channel {} to rank {} over TCP", rank_, channel, peer), -1, -1, {}});
    return nullptr;
  }
  TcpLink* const open = open_link(peer, channel);
  if (open == nullptr) push_pending();
  return open;
}

TcpLink* TcpTransport::open_link(int peer, int channel) {
  auto& place = place_of(peer, channel);
  if (place == nullptr) place = std::make_unique<TcpLink>(*this, peer, channel);
  if (place->is_open()) return place.get();
  if (!place->is_asked_for() && rank_ < peer) {
    place->ask();
    listener_.connect(
        {communicator_, static_cast<std::uint32_t>(rank_), static_cast<std::uint32_t>(peer), static_cast<std::uint32_t>(channel)},
        peers_[static_cast<std::size_t>(peer)], options_.connect_timeout_ns);
  }
  return nullptr;
}

TcpLink* TcpTransport::answers(int peer) {
  if (mailbox_.has_mail()) take_mail();
  return open_link(peer, options_.channels);
}

bool TcpTransport::waits_for_answers(int peer) {
  for (int channel = 0; channel < options_.channels; ++channel) {
    const auto& place = place_of(peer, channel);
    if (place != nullptr && place->waits_for_answers()) return true;
  }
  return false;
}

void TcpTransport::take_answers(const TcpLink& asker, bool is_waiting) {
  TcpLink* const way = answers(asker.peer_);
  if (way == nullptr) return;
  if (way->is_broken_ && is_waiting && asker.waits_for_answers()) return way->lose(0);
  while (asker.lacks_answers() && (is_waiting || way->receiver().has_input())) {
    const Message* const message = way->receiver().peek();
    if (message == nullptr) return;
    TcpAnswer answer;
    if (message->bytes == sizeof answer) std::memcpy(&answer, message->data, sizeof answer);
    TcpLink* const asked = answer.channel < static_cast<std::uint32_t>(options_.channels)
                               ? place_of(asker.peer_, static_cast<int>(answer.channel)).get()
                               : nullptr;
    if (message->bytes != sizeof answer || asked == nullptr) return way->spoil("no answer");
    way->receiver().release();
    asked->take(answer);
  }
}

Sender* TcpTransport::sender(int peer, int channel) {
  TcpLink* way = link(peer, channel);
  return way != nullptr ? &way->sender() : nullptr;
}

Receiver* TcpTransport::receiver(int peer, int channel) {
  TcpLink* way = link(peer, channel);
  return way != nullptr ? &way->receiver() : nullptr;
}

void TcpTransport::take_mail() {
  for (auto& mail : mailbox_.take()) {
    if (!mail.connection) {
      // Without answers nothing is lent; a peer that is gone may have no more to do with us.
      if (mail.channel != options_.channels) break_down(std::move(mail.connection).error());
      continue;
    }
    if (mail.peer < 0 || mail.peer >= static_cast<int>(peers_.size()) || mail.channel < 0 || mail.channel > options_.channels) continue;
    auto& place = place_of(mail.peer, mail.channel);
    if (place == nullptr) place = std::make_unique<TcpLink>(*this, mail.peer, mail.channel);
    if (place->is_open()) continue;
    const bool is_within = is_within_machine(mail.connection->get(), mail.peer);
    tune(mail.connection->get(), is_within);
    // What a copy takes tells nothing of the cores where the packets pass through more than lo, as between containers.
    const bool may_lend = is_within && (options_.lending == Lending::always ||
                                        (options_.lending == Lending::where_copies_are_slow && is_within_host(mail.connection->get())));
    place->attach(std::move(*mail.connection), is_within, may_lend);
    open_links_.push_back(place.get());
  }
}

void TcpTransport::note(std::string text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
}

// Asking for more than the limit would cut the buffer to the limit and switch the kernel's own growth off, which goes further.
void TcpTransport::size_buffers(int fd) {
  const int wish = options_.socket_buffer_bytes;
  if (wish <= 0) return;
  const long limit = std::min(kernel_limit("/proc/sys/net/core/wmem_max"), kernel_limit("/proc/sys/net/core/rmem_max"));
  if (limit < wish) {
    return note(
        fmt::format("socket buffers of {} bytes are not permitted (the limit is {}), the kernel chooses their size; "
                    "`sysctl -w net.core.wmem_max={} net.core.rmem_max={}` raises the limit",
                    wish, limit, wish, wish));
  }
  if (auto done = net::set_buffer_sizes(fd, wish, wish); !done) note(done.error().message);
}

bool TcpTransport::is_within_machine(int fd, int peer) const {
  return options_.is_on_machine.empty() ? is_within_host(fd) : options_.is_on_machine[static_cast<std::size_t>(peer)];
}

void TcpTransport::tune(int fd, bool is_within) {
  if (auto done = net::set_no_delay(fd); !done) note(done.error().message);
  size_buffers(fd);
  net::set_quick_ack(fd);  // the first exchanges are questions and answers
  // Within a machine it keeps what it has begun with: there is no network to be fair to.
  std::string wish = options_.congestion_control;
  if (wish.empty() && !is_within) wish = net::system_congestion_control();
  if (wish.empty()) return;
  const auto control = net::request_congestion_control(fd, wish);
  if (!control) note(control.error().message);
  if (control && !control->is_granted) note(control->note);
}

Status TcpTransport::health() {
  if (mailbox_.has_mail()) take_mail();
  return health_;
}

void TcpTransport::sleep(std::int64_t timeout_us) {
  push_pending();
  if (timeout_us <= 0 || mailbox_.has_mail() || !health_) return;
  std::vector<pollfd>& set = *poll_set_;
  set.clear();
  set.push_back({mailbox_.descriptor(), POLLIN, 0});
  for (TcpLink* way : open_links_) {
    if (const short events = way->take_wanted_events(); events != 0) set.push_back({way->fd(), events, 0});
  }
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(timeout_us / 1'000'000);
  timeout.tv_nsec = static_cast<long>(timeout_us % 1'000'000 * 1000);
  (void)::ppoll(set.data(), set.size(), &timeout, nullptr);
  push_pending();
}

}  // namespace peal::transport
