// The receiving end of a TCP connection. Bytes come into a buffer that holds at least one whole frame; the payload of a long message that
// receive() asks for goes straight into the caller's memory, save for what came along with its header.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <base/copy.hpp>
#include <cerrno>
#include <cstring>
#include <net/socket.hpp>
#include <transport/tcp.hpp>

#include <transport/tcp_link.hpp>

namespace peal::transport {
namespace {
constexpr std::size_t kEagerBytes = 8192;  // read along with a header: small messages come many at a time, long ones are copied little
}

int TcpReceiver::poll_descriptor() const { return link_.fd(); }

bool TcpReceiver::has_input() const {
  std::byte one;
  return available() > 0 || ::recv(link_.fd(), &one, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool TcpReceiver::miss() {
  is_waited_ = true;
  if (!link_.is_for_answers()) link_.push_others();  // who pushes looks for answers
  return false;
}

bool TcpReceiver::read_more(std::size_t at_most) {
  if (link_.is_broken_) return false;
  if (buffer_ == nullptr) {
    capacity_ = kTcpHeaderBytes + link_.message_bytes() + kEagerBytes;
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(capacity_);
  }
  const std::size_t needed = has_header_ ? kTcpHeaderBytes + header_.length : kTcpHeaderBytes;
  if (begin_ + needed > capacity_) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, available());
    end_ -= begin_;
    begin_ = 0;
  }
  auto moved = net::recv_now(link_.fd(), buffer_.get() + end_, std::min(at_most, capacity_ - end_));
  if (!moved || moved->closed) {
    link_.lose(moved ? 0 : EIO);
    return false;
  }
  end_ += link_.owner_.moved(moved->bytes);
  return moved->bytes > 0;
}

bool TcpReceiver::parse_header() {
  if (has_header_) return true;
  if (available() < kTcpHeaderBytes) return false;
  std::memcpy(&header_, buffer_.get() + begin_, kTcpHeaderBytes);
  const std::uint32_t most_flags = link_.is_within_machine_ ? kTcpHasTag | kTcpIsLent : kTcpHasTag;
  const char* wrong = nullptr;
  if (header_.magic != kTcpMagic || header_.flags > most_flags) wrong = "wrong header";
  if (wrong == nullptr && header_.length > link_.message_bytes()) wrong = "too long";
  if (wrong == nullptr && header_.sequence != sequence_) wrong = "out of sequence";
  if (wrong != nullptr) {
    link_.spoil(wrong);
    begin_ = end_ = 0;
    return false;
  }
  ++sequence_;
  has_header_ = true;
  return true;
}

void TcpReceiver::open_message() {
  message_.data = buffer_.get() + begin_ + kTcpHeaderBytes;
  message_.bytes = header_.length;
  message_.tag = (header_.flags & kTcpHasTag) != 0 ? &header_.tag : nullptr;
  has_message_ = true;
}

const Message* TcpReceiver::peek() {
  if (has_message_) return &message_;
  if (is_direct_) return nullptr;
  parse_header();
  while (!has_whole()) {
    if (!read_more(capacity_ != 0 ? capacity_ : kEagerBytes)) {
      miss();
      return nullptr;
    }
    parse_header();
  }
  open_message();
  return &message_;
}

void TcpReceiver::release() {
  begin_ += kTcpHeaderBytes + header_.length;
  if (begin_ == end_) begin_ = end_ = 0;
  forget_message();
}

void TcpReceiver::forget_message() {
  has_message_ = has_header_ = is_direct_ = false;
  link_.answer(header_);
}

void TcpReceiver::finish(std::size_t* got, Tag* tag, bool* has_tag) {
  *got = header_.length;
  *has_tag = (header_.flags & kTcpHasTag) != 0;
  *tag = *has_tag ? header_.tag : Tag{};
}

bool TcpReceiver::receive_direct(std::span<const Run> runs) {
  constexpr std::size_t kMostRuns = 32;
  while (stored_ < header_.length && !link_.is_broken_) {
    iovec parts[kMostRuns + 1];
    std::size_t count = 0;
    std::size_t room = 0;
    std::size_t skipped = stored_;
    for (const Run& run : runs) {
      const std::size_t full = std::min(skipped, run.bytes);
      skipped -= full;
      if (full == run.bytes || count == kMostRuns) continue;
      parts[count++] = {run.data + full, run.bytes - full};
      room += run.bytes - full;
    }
    if (room == header_.length - stored_) parts[count++] = {buffer_.get(), kEagerBytes};
    const ssize_t got = ::readv(link_.fd(), parts, static_cast<int>(count));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return miss();
    if (got <= 0) {
      link_.lose(got == 0 ? 0 : errno);
      return false;
    }
    const std::size_t here = std::min(link_.owner_.moved(static_cast<std::size_t>(got)), header_.length - stored_);
    stored_ += here;
    end_ = static_cast<std::size_t>(got) - here;  // the start of the next frame
  }
  return stored_ == header_.length;
}

// As long as it takes until a header has come, as far as it has.
bool TcpReceiver::read_header() {
  while (!parse_header())
    if (!read_more(kEagerBytes)) return miss();
  return true;
}

// The head of a long message comes first: who takes what there is, again and again, holds the socket up while its sender puts more there.
bool TcpReceiver::has_begun() { return has_message_ || is_direct_ || read_header(); }

bool TcpReceiver::receive(std::byte* data, std::size_t bytes, std::size_t* got, Tag* tag, bool* has_tag) {
  if (!is_direct_ && !read_header()) return false;
  const Run run{data, std::min<std::size_t>(bytes, header_.length)};
  return receive_runs({&run, 1}, got, tag, has_tag);
}

bool TcpReceiver::receive_runs(std::span<const Run> runs, std::size_t* got, Tag* tag, bool* has_tag) {
  if (!is_direct_) {
    if (!read_header()) return false;
    const bool fits = header_.length == bytes_of(runs);
    if (!fits || header_.length <= kEagerBytes || has_whole()) {
      const Message* message = peek();
      if (message == nullptr) return false;
      if (fits) scatter(runs, message->data, 0, message->bytes);
      finish(got, tag, has_tag);
      release();
      return true;
    }
    stored_ = available() - kTcpHeaderBytes;
    scatter(runs, buffer_.get() + begin_ + kTcpHeaderBytes, 0, stored_);
    begin_ = end_ = 0;
    is_direct_ = true;
  }
  if (!receive_direct(runs)) return false;
  finish(got, tag, has_tag);
  forget_message();
  return true;
}

}  // namespace peal::transport
