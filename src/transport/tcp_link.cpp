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

std::size_t TcpLink::write(const TcpHeader& header, const std::byte* data, std::size_t bytes) {
  if (is_broken_) return 0;
  iovec parts[2] = {{const_cast<TcpHeader*>(&header), kTcpHeaderBytes}, {const_cast<std::byte*>(data), bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = bytes > 0 ? 2 : 1;
  for (;;) {
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
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
    slot.begin += moved->bytes;
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

bool TcpSender::is_ready() { return is_acquired_ || has_slot(); }

std::byte* TcpSender::acquire(std::size_t) {
  if (!is_acquired_ && !has_slot()) return nullptr;
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

bool TcpSender::send(const std::byte* data, std::size_t bytes, const Tag* tag) {
  if (!has_slot()) return false;
  std::size_t written = 0;
  const TcpHeader header = next_header(bytes, tag);
  if (count_ == 0) {
    written = link_.write(header, data, bytes);
    if (written == kTcpHeaderBytes + bytes) return true;
    if (link_.is_broken_) return false;
  }
  // The rest goes into a slot even where the kernel took nothing: a schedule may count on `slots` messages that go without a receiver.
  Slot& slot = free_slot();
  std::memcpy(slot.bytes.get(), &header, kTcpHeaderBytes);
  const std::size_t skipped = written > kTcpHeaderBytes ? written - kTcpHeaderBytes : 0;
  if (bytes > skipped) std::memcpy(slot.bytes.get() + kTcpHeaderBytes + skipped, data + skipped, bytes - skipped);
  slot.begin = written;
  slot.end = kTcpHeaderBytes + bytes;
  ++count_;
  link_.hold_back();
  return true;
}

bool TcpSender::flush() {
  if (count_ == 0) return true;
  if (link_.push()) return true;
  is_waited_ = true;
  link_.push_others();
  return false;
}

}  // namespace peal::transport
