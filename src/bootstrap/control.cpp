// News over the star after start-up: small, never waiting, relayed by the hub.
#include <poll.h>

#include <algorithm>
#include <base/clock.hpp>
#include <bootstrap/rendezvous.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>

#include "star.hpp"

namespace peal::bootstrap {
namespace {

constexpr std::size_t kMaxWaiting = 256 * 1024;
constexpr std::uint32_t kToAll = 0xffffffff;
constexpr double kGoodbyeS = 1;

std::string control_frame(int from, std::uint32_t to, std::string_view bytes) {
  return net::frame_bytes(static_cast<std::uint32_t>(Message::control),
                          net::WireWriter().u32(static_cast<std::uint32_t>(from)).u32(to).text(bytes).bytes());
}

Status send_on(Link& link, const std::string& frame) {
  if (link.is_gone) return fail(ErrorCode::unreachable, "the control link to rank {} is gone", link.rank);
  if (link.out.size() + frame.size() > kMaxWaiting)
    return fail(ErrorCode::unreachable, "rank {} takes no control messages: {} bytes wait for it (is it stopped?)", link.rank,
                link.out.size());
  link.out += frame;
  return flush_now(link);
}

Status send_to_all(Star& star, int from, std::string_view bytes) {
  const std::string frame = control_frame(from, kToAll, bytes);
  Status out;
  for (Link& link : star.links) {
    if (link.rank == from || link.has_said_goodbye) continue;
    // The first trouble is reported, the others still hear the news.
    if (auto sent = send_on(link, frame); !sent && out) out = std::move(sent);
  }
  return out;
}

Status check_size(std::string_view bytes) {
  if (bytes.size() <= kMaxControlBytes) return {};
  return fail(ErrorCode::invalid_argument, "a control message of {} bytes: the limit is {}", bytes.size(), kMaxControlBytes);
}

/// A message for this rank, or nothing when it was only passed through.
Result<ControlEvent> take_control(Star& star, Link& link, std::string_view payload) {
  net::WireReader in(payload);
  int from = static_cast<int>(in.u32());
  const std::uint32_t to = in.u32();
  const std::string_view bytes = in.text(kMaxControlBytes);
  if (!in.is_finished())
    return fail(ErrorCode::corrupt, "a control message of {} bytes from rank {} does not parse", payload.size(), link.rank);
  // A member may only speak for itself.
  if (star.is_root()) from = link.rank;
  ControlEvent event{ControlEvent::Kind::message, from, std::string(bytes)};
  if (to == static_cast<std::uint32_t>(star.job.rank)) return event;
  if (to == kToAll) {
    if (star.is_root()) (void)send_to_all(star, from, bytes);
    return event;
  }
  Link* next = star.is_root() && to < static_cast<std::uint32_t>(star.job.size) ? star.find(static_cast<int>(to)) : nullptr;
  if (next != nullptr) (void)send_on(*next, control_frame(from, to, bytes));
  return ControlEvent{};
}

Result<ControlEvent> next_event(Star& star, Link& link) {
  for (;;) {
    PEAL_ASSIGN(auto frame, link.reader.next(link.fd.get()));
    if (!frame) {
      if (!link.reader.is_closed() || link.has_said_goodbye || link.is_gone) return ControlEvent{};
      link.is_gone = true;
      return ControlEvent{ControlEvent::Kind::closed, link.rank, {}};
    }
    if (frame->type == static_cast<std::uint32_t>(Message::goodbye)) {
      link.has_said_goodbye = true;
      return ControlEvent{ControlEvent::Kind::goodbye, link.rank, {}};
    }
    if (frame->type != static_cast<std::uint32_t>(Message::control))
      return fail(ErrorCode::mismatch, "rank {} sent a message of type {} on its control link: do all ranks make the same calls?",
                  link.rank, frame->type);
    PEAL_ASSIGN(auto event, take_control(star, link, frame->payload));
    if (event.kind != ControlEvent::Kind::none) return event;
  }
}

}  // namespace

Status flush_now(Link& link) {
  while (!link.out.empty()) {
    PEAL_ASSIGN(const net::Moved moved, net::send_now(link.fd.get(), link.out.data(), link.out.size()));
    // The end of the stream is told by receive_control, which may still have news to read before it.
    if (moved.closed) {
      link.out.clear();
      return fail(ErrorCode::unreachable, "the control link to rank {} is gone", link.rank);
    }
    if (moved.bytes == 0) break;
    link.out.erase(0, moved.bytes);
  }
  return {};
}

Status flush_before(Link& link, std::int64_t deadline_ns) {
  for (;;) {
    PEAL_TRY(flush_now(link));
    if (link.out.empty()) return {};
    PEAL_TRY(net::wait_writable(link.fd.get(), deadline_ns));
  }
}

std::vector<ControlLink> Rendezvous::control_links() const {
  std::vector<ControlLink> out;
  for (const Link& link : star_->links) out.push_back({link.rank, link.fd.get()});
  return out;
}

Status Rendezvous::send_control(int to, std::string_view bytes) {
  const std::lock_guard lock(star_->control);
  PEAL_TRY(check_size(bytes));
  if (to < 0 || to >= size() || to == rank())
    return fail(ErrorCode::invalid_argument, "rank {} cannot send a control message to rank {} of {}", rank(), to, size());
  Link* link = star_->is_root() ? star_->find(to) : &star_->links.front();
  return send_on(*link, control_frame(rank(), static_cast<std::uint32_t>(to), bytes));
}

Status Rendezvous::broadcast_control(std::string_view bytes) {
  const std::lock_guard lock(star_->control);
  PEAL_TRY(check_size(bytes));
  return send_to_all(*star_, rank(), bytes);
}

Result<ControlEvent> Rendezvous::receive_control(int fd) {
  const std::lock_guard lock(star_->control);
  for (Link& link : star_->links) (void)flush_now(link);
  const auto found = std::find_if(star_->links.begin(), star_->links.end(), [fd](const Link& link) { return link.fd.get() == fd; });
  if (found == star_->links.end()) return fail(ErrorCode::invalid_argument, "descriptor {} is no control link", fd);
  while (!found->pending.empty()) {
    const std::string payload = std::move(found->pending.front());
    found->pending.pop_front();
    PEAL_ASSIGN(auto event, take_control(*star_, *found, payload));
    if (event.kind != ControlEvent::Kind::none) return event;
  }
  return next_event(*star_, *found);
}

void Rendezvous::goodbye() {
  const std::lock_guard lock(star_->control);
  const std::string frame = net::frame_bytes(static_cast<std::uint32_t>(Message::goodbye), {});
  const std::int64_t deadline_ns = net::deadline_in(kGoodbyeS);
  for (Link& link : star_->links) {
    if (link.is_gone) continue;
    link.out += frame;
    (void)flush_now(link);
  }
  for (Link& link : star_->links)
    if (!link.is_gone) (void)flush_before(link, deadline_ns);
}

}  // namespace peal::bootstrap
