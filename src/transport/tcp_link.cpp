// The sending end of a TCP connection, and what both ends share.
#include <transport/tcp_link.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <base/clock.hpp>
#include <base/log.hpp>
#include <bit>
#include <cerrno>
#include <cstring>
#include <net/socket.hpp>
#include <transport/tcp.hpp>
#include <utility>

namespace peal::transport {

static_assert(std::endian::native == std::endian::little, "frame headers travel in the host's order, which must be little-endian");

std::size_t TcpLink::message_bytes() const { return owner_.options_.message_bytes; }

void TcpLink::attach(FileDescriptor fd, bool is_within_machine, bool may_lend) {
  if (is_open_) return;  // a second connection for one route is closed again
  fd_ = std::move(fd);
  is_within_machine_ = is_within_machine;
  may_lend_ = may_lend;
  sender_.slots_.resize(static_cast<std::size_t>(owner_.options_.slots));
  is_open_ = true;
}

void TcpLink::lose(int error) {
  is_broken_ = true;
  if (is_for_answers() && !owner_.waits_for_answers(peer_)) return;  // nobody misses it
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

bool TcpLink::push_bytes(const std::byte* data, std::size_t bytes, std::size_t& written, bool is_followed) {
  auto moved = net::send_now(fd_.get(), data + written, bytes - written, is_followed);
  if (!moved || moved->closed) {
    lose(moved ? EPIPE : EIO);
    return false;
  }
  written += owner_.moved(moved->bytes);
  return written == bytes;
}

bool TcpLink::push_slot(TcpSender::Slot& slot) {
  if (slot.begin < slot.end && !push_bytes(slot.bytes.get(), slot.end, slot.begin, slot.lent.data != nullptr)) return false;
  return slot.lent.data == nullptr || push_lent(slot.lent);
}

// What cannot be lent is copied by the kernel, as ever; what has been lent stays so until it is answered.
bool TcpLink::push_lent(TcpSender::Slot::Lent& lent) {
  if (pipe_ == nullptr) pipe_ = std::make_unique<PagePipe>();
  PagePipe::Progress& progress = lent.progress;
  const std::size_t lent_until = may_lend_ ? lent.bytes : progress.lent;
  if (progress.written < lent_until) {
    const std::size_t before = progress.written;
    const PagePipe::Outcome outcome = pipe_->move(fd_.get(), lent.data, lent_until, progress);
    owner_.moved(progress.written - before);
    if (outcome == PagePipe::Outcome::lost) lose(pipe_->error());
    if (outcome == PagePipe::Outcome::lost || outcome == PagePipe::Outcome::full) return false;
    if (outcome == PagePipe::Outcome::refused && std::exchange(may_lend_, false))
      log(LogLevel::info, "rank {} copies what it sends to rank {}: its memory cannot be lent to a socket ({})", owner_.rank_, peer_,
          errno_text(pipe_->error()));
  }
  return progress.written == lent.bytes || push_bytes(lent.data, lent.bytes, progress.written, false);
}

// More under way than the receiver's socket has room for would be packed anew by the kernel, copy by copy.
bool TcpLink::has_lent_enough() {
  constexpr std::uint32_t kMostUnderWay = 2;
  if (sender_.begun_ - sender_.returned_ < kMostUnderWay) return false;
  owner_.take_answers(*this, true);
  return sender_.begun_ - sender_.returned_ >= kMostUnderWay;
}

bool TcpLink::push() {
  TcpSender& s = sender_;
  while (s.count_ > 0 && !is_broken_) {
    TcpSender::Slot& slot = s.head();
    const bool begins = slot.lent.data != nullptr && slot.begin == 0;
    if (begins && has_lent_enough()) return false;
    const bool has_gone = push_slot(slot);
    if (begins && slot.begin > 0) ++s.begun_;
    if (!has_gone) return false;
    slot.lent = {};
    s.head_ = (s.head_ + 1) % s.slots_.size();
    --s.count_;
  }
  return s.count_ == 0;
}

// Whoever sends long messages may come to lend them, once it has heard on the connection of answers that there is one.
void TcpLink::answer(const TcpHeader& header) {
  const bool is_lent = (header.flags & kTcpIsLent) != 0;
  const std::size_t least = owner_.options_.lending == Lending::always ? 0 : kLeastLentBytes;
  if (!is_lent && (has_answered_ || !is_within_machine_ || is_for_answers() || header.length < least)) return;
  TcpLink* const way = owner_.answers(peer_);
  if (way == nullptr) return;
  has_answered_ = true;
  if (is_lent) ++borrowed_;
  const TcpAnswer answer{static_cast<std::uint32_t>(channel_), borrowed_};
  const bool has_gone = way->sender_.send(reinterpret_cast<const std::byte*>(&answer), sizeof answer, nullptr);
  if (!has_gone && !way->is_broken_) spoil("more was lent than may be at once");
}

void TcpLink::take(const TcpAnswer& answer) {
  if (answer.received - sender_.returned_ > sender_.begun_ - sender_.returned_) return spoil("an answer to what was not lent");
  sender_.returned_ = answer.received;
  sender_.is_answered_ = true;
}

bool TcpLink::can_lend() {
  if (!may_lend_) return false;
  if (!sender_.is_answered_) owner_.take_answers(*this, false);
  if (!sender_.is_answered_) return false;
  const TcpLink* const way = owner_.answers(peer_);
  return way != nullptr && !way->is_broken_;
}

bool TcpLink::is_for_answers() const { return channel_ == owner_.options_.channels; }

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
  if (count_ == 0 || (bytes >= kLeastWaiting && link_.push())) write_open({&run, 1});
  const bool has_gone = open_.written == kTcpHeaderBytes + bytes;
  if (!has_gone && (link_.is_broken_ || may_wait(bytes))) return false;
  if (!has_gone) hold(open_.header, {&run, 1}, open_.written);
  open_.data = nullptr;
  return true;
}

void TcpSender::write_open(std::span<const Run> runs) {
  const bool is_timed = link_.may_lend_ && open_.header.length >= kLeastLentBytes;
  const std::int64_t since = is_timed ? now_ns() : 0;
  const std::size_t written = link_.write(open_.header, runs, open_.written);
  open_.written += written;
  if (!is_timed || written < kLeastLentBytes) return;
  const std::int64_t now = now_ns();
  choice_.note_copied(written, now - since, now);
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

// A message of which a part has gone as a copy goes on as one.
bool TcpSender::has_references() const {
  return link_.can_lend() && open_.data == nullptr && (link_.owner_.options_.lending == Lending::always || choice_.lends(now_ns()));
}

// Also where copies have become fast meanwhile, or its pages cannot be lent any more: who was told that there are references may send one.
bool TcpSender::send_reference(const std::byte* data, std::size_t bytes, const Tag* tag, bool) {
  if (!is_answered_ || open_.data != nullptr || !has_slot()) return false;
  Slot& slot = free_slot();
  TcpHeader header = next_header(bytes, tag);
  header.flags |= kTcpIsLent;
  std::memcpy(slot.bytes.get(), &header, kTcpHeaderBytes);
  slot.begin = 0;
  slot.end = kTcpHeaderBytes;
  slot.lent = {data, bytes, {}};
  choice_.note_lent();
  ++lent_;
  ++count_;
  if (!link_.push()) link_.hold_back();
  return true;
}

bool TcpSender::is_drained() {
  if (returned_ == lent_ || link_.is_broken_) return true;
  link_.push();
  link_.owner_.take_answers(link_, true);
  if (returned_ == lent_) return true;
  is_waited_ = count_ > 0;
  link_.push_others();
  return false;
}

// What has not gone yet is copied: its memory may be anything from now on. What has gone stays what it is to the kernel.
void TcpSender::withdraw_references() {
  for (std::size_t i = 0; i < count_; ++i) {
    Slot& slot = slots_[(head_ + i) % slots_.size()];
    Slot::Lent& lent = slot.lent;
    if (lent.data == nullptr) continue;
    std::byte* const kept = slot.bytes.get() + kTcpHeaderBytes;
    std::memcpy(kept + lent.progress.lent, lent.data + lent.progress.lent, lent.bytes - lent.progress.lent);
    lent.data = kept;
    link_.may_lend_ = false;
  }
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
