// The sending end of a TCP connection, and what both ends share.
#include <transport/tcp_link.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <net/socket.hpp>
#include <transport/tcp.hpp>
#include <utility>

namespace peal::transport {

static_assert(std::endian::native == std::endian::little, "frame headers travel in the host's order, which must be little-endian");

std::size_t TcpLink::message_bytes() const { return owner_.options_.message_bytes; }

void TcpLink::attach(FileDescriptor fd) {
  if (is_open_) return;  // a second connection for one route is closed again
  fd_ = std::move(fd);
  sender_.slots_.resize(static_cast<std::size_t>(owner_.options_.slots));
  is_open_ = true;
}

void TcpLink::lose(int error) {
  is_broken_ = true;
  const std::string cause = error == 0 ? std::string("the other side closed it") : errno_text(error);
  owner_.break_down(Failure{ErrorCode::rank_dead,
                            fmt::format("the connection to rank {} at {} was lost ({}): its process has ended, or the network broke", peer_,
                                        owner_.peers_[static_cast<std::size_t>(peer_)].text(), cause),
                            peer_,
                            owner_.rank_,
                            {}});
}

void TcpLink::spoil(const char* what) {
  is_broken_ = true;
  owner_.break_down(Failure{ErrorCode::corrupt,
                            fmt::format("what came from rank {} at {} is no frame of Peal ({}); the connection is not used any more", peer_,
                                        owner_.peers_[static_cast<std::size_t>(peer_)].text(), what),
                            peer_,
                            owner_.rank_,
                            {}});
}

std::size_t TcpLink::write(const TcpHeader& header, std::span<const Run> runs, std::size_t skipped) {
  constexpr std::size_t kMostParts = 32;
  if (is_broken_) return 0;
  iovec parts[kMostParts];
  msghdr message{};
  message.msg_iov = parts;
  const auto add = [&](std::byte* data, std::size_t bytes) {
    const std::size_t gone = std::min(skipped, bytes);
    skipped -= gone;
    if (gone < bytes && message.msg_iovlen < kMostParts) parts[message.msg_iovlen++] = {data + gone, bytes - gone};
  };
  add(reinterpret_cast<std::byte*>(const_cast<TcpHeader*>(&header)), kTcpHeaderBytes);
  for (const Run& run : runs) add(run.data, run.bytes);
  for (;;) {
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return owner_.moved(static_cast<std::size_t>(sent));
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) lose(errno);
    return 0;
  }
}

bool TcpLink::push() {
  TcpSender& s = sender_;
  while (s.count_ > 0 && !is_broken_) {
    TcpSender::Slot& slot = s.slots_[s.head_];
    auto moved = net::send_now(fd_.get(), slot.bytes.get() + slot.begin, slot.end - slot.begin);
    if (!moved || moved->closed) {
      lose(moved ? EPIPE : EIO);
      return false;
    }
    if (moved->bytes == 0) return false;
    slot.begin += owner_.moved(moved->bytes);
    if (slot.begin < slot.end) return false;
    s.head_ = (s.head_ + 1) % s.slots_.size();
    --s.count_;
  }
  return s.count_ == 0;
}

void TcpLink::hold_back() {
  if (is_listed_) return;
  is_listed_ = true;
  owner_.pending_.push_back(this);
}

void TcpLink::push_others() {
  if (!owner_.pending_.empty()) owner_.push_pending();
}

void TcpTransport::push_pending() {
  std::erase_if(pending_, [](TcpLink* link) {
    if (!link->push()) return false;
    link->unlist();
    return true;
  });
}

short TcpLink::take_wanted_events() {
  short events = 0;
  if (!is_open_ || is_broken_) return 0;
  if (receiver_.is_waited_) events = POLLIN;
  if (sender_.is_waited_ || sender_.count_ > 0) events = static_cast<short>(events | POLLOUT);
  receiver_.is_waited_ = sender_.is_waited_ = false;
  return events;
}

std::size_t TcpSender::message_bytes() const { return link_.message_bytes(); }
int TcpSender::poll_descriptor() const { return link_.fd(); }

TcpHeader TcpSender::next_header(std::size_t bytes, const Tag* tag) {
  TcpHeader header{kTcpMagic, static_cast<std::uint32_t>(bytes), sequence_++, tag != nullptr ? kTcpHasTag : 0, {}};
  if (tag != nullptr) header.tag = *tag;
  return header;
}

bool TcpSender::has_slot() {
  if (link_.is_broken_) return false;
  if (count_ < slots_.size()) return true;
  link_.push();
  if (count_ < slots_.size()) return true;
  is_waited_ = true;
  link_.push_others();
  return false;
}

TcpSender::Slot& TcpSender::free_slot() {
  Slot& slot = slots_[(head_ + count_) % slots_.size()];
  if (slot.bytes == nullptr) slot.bytes = std::make_unique_for_overwrite<std::byte[]>(kTcpHeaderBytes + message_bytes());
  return slot;
}

bool TcpSender::is_ready() { return is_acquired_ || open_.data != nullptr || has_slot(); }

std::byte* TcpSender::acquire(std::size_t) {
  if (!is_acquired_ && (open_.data != nullptr || !has_slot())) return nullptr;
  is_acquired_ = true;
  return free_slot().bytes.get() + kTcpHeaderBytes;
}

void TcpSender::publish(std::size_t bytes, const Tag* tag) {
  is_acquired_ = false;
  Slot& slot = free_slot();
  const TcpHeader header = next_header(bytes, tag);
  std::memcpy(slot.bytes.get(), &header, kTcpHeaderBytes);
  slot.begin = 0;
  slot.end = kTcpHeaderBytes + bytes;
  ++count_;
  if (!link_.push()) link_.hold_back();
}

void TcpSender::publish_from(const std::byte* data, std::size_t bytes, const Tag* tag) {
  const Run run{const_cast<std::byte*>(data), bytes};
  publish_runs(nullptr, {&run, 1}, bytes, tag);
}

void TcpSender::publish_runs(std::byte*, std::span<const Run> runs, std::size_t bytes, const Tag* tag) {
  is_acquired_ = false;
  const TcpHeader header = next_header(bytes, tag);
  const std::size_t written = count_ == 0 ? link_.write(header, runs, 0) : 0;
  if (written < kTcpHeaderBytes + bytes) hold(header, runs, written);
}

bool TcpSender::send(const std::byte* data, std::size_t bytes, const Tag* tag) {
  if (open_.data == nullptr) {
    if (!has_slot()) return false;
    open_ = {next_header(bytes, tag), data, 0, 0, 0};
  } else if (open_.data != data) {
    return false;  // another one is on its way
  }
  const Run run{const_cast<std::byte*>(data), bytes};
  if (count_ == 0 || (bytes >= kLeastWaiting && link_.push())) open_.written += link_.write(open_.header, {&run, 1}, open_.written);
  const bool has_gone = open_.written == kTcpHeaderBytes + bytes;
  if (!has_gone && (link_.is_broken_ || may_wait(bytes))) return false;
  if (!has_gone) hold(open_.header, {&run, 1}, open_.written);
  open_.data = nullptr;
  return true;
}

// A copy of a long message costs more than some polls. But for no longer than something moves: a schedule may count on `slots` messages
// that go without a receiver.
bool TcpSender::may_wait(std::size_t bytes) {
  if (bytes < kLeastWaiting) return false;
  const std::uint64_t moved = link_.owner_.moved_bytes();
  if (std::exchange(open_.moved, moved) != moved) open_.waits = 0;
  if (++open_.waits > kMostWaits) return false;
  is_waited_ = true;
  link_.push_others();
  return true;
}

// What the kernel has not taken goes into a slot.
void TcpSender::hold(const TcpHeader& header, std::span<const Run> runs, std::size_t written) {
  Slot& slot = free_slot();
  std::memcpy(slot.bytes.get(), &header, kTcpHeaderBytes);
  slot.begin = written;
  slot.end = kTcpHeaderBytes;
  for (const Run& run : runs) {
    const std::size_t gone = written > slot.end ? std::min(written - slot.end, run.bytes) : 0;
    if (run.bytes > gone) std::memcpy(slot.bytes.get() + slot.end + gone, run.data + gone, run.bytes - gone);
    slot.end += run.bytes;
  }
  ++count_;
  link_.hold_back();
}

bool TcpSender::flush() {
  if (open_.data != nullptr) return false;
  if (count_ == 0) return true;
  if (link_.push()) return true;
  is_waited_ = true;
  link_.push_others();
  return false;
}

}  // namespace peal::transport
