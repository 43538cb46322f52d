#include <net/acceptor.hpp>

#include <algorithm>
#include <base/clock.hpp>
#include <net/socket.hpp>

namespace peal::net {
namespace {

constexpr std::size_t kMaxRefusalsKept = 64;
/// Between attempts when the process has no descriptor left for accept(2).
constexpr std::int64_t kRetryNs = 50'000'000;

std::string name_of_peer(int fd, bool is_unix) {
  if (is_unix) {
    const auto who = peer_credentials(fd);
    return who ? fmt::format("pid {}", who->pid) : std::string("an unknown process");
  }
  const auto address = peer_address(fd);
  return address ? address->text() : std::string("an unknown address");
}

}  // namespace

Acceptor::Acceptor(FileDescriptor listener, const Key& key, const Party& mine, std::int64_t handshake_timeout_ns)
    : listener_(std::move(listener)), key_(key), mine_(mine), handshake_timeout_ns_(handshake_timeout_ns) {
  const auto address = local_address(listener_.get());
  is_unix_ = address && address->is_unix();
}

void Acceptor::note(Refusal refusal) {
  ++refused_count_;
  // Proven ones concern the job itself and must not be pushed out by a flood of strangers.
  if (refusals_.size() >= kMaxRefusalsKept) {
    const auto stranger = std::find_if(refusals_.begin(), refusals_.end(), [](const Refusal& r) { return !r.is_proven; });
    refusals_.erase(stranger == refusals_.end() ? refusals_.begin() : stranger);
  }
  refusals_.push_back(std::move(refusal));
}

std::vector<Refusal> Acceptor::take_refusals() { return std::exchange(refusals_, {}); }

bool Acceptor::make_room() {
  if (half_open_.size() < kMaxHalfOpen) return true;
  const HalfOpen& oldest = half_open_.front();
  if (now_ns() - oldest.since_ns < kHalfOpenGraceNs) return false;
  note({Verdict::no_verdict,
        false,
        {},
        fail(ErrorCode::refused, "the connection from {} was silent and gave its place to a newer one ({} were half open)", oldest.from,
             kMaxHalfOpen)
            .value()});
  half_open_.erase(half_open_.begin());
  return true;
}

void Acceptor::accept_waiting() {
  if (now_ns() < retry_at_ns_) return;
  // Bounded, so that a flood cannot keep this call from returning.
  for (std::size_t i = 0; i < 2 * kMaxHalfOpen && make_room(); ++i) {
    auto found = accept_now(listener_.get());
    if (!found) {
      retry_at_ns_ = now_ns() + kRetryNs;
      return note({Verdict::no_verdict, false, {}, found.error()});
    }
    if (!*found) return;
    FileDescriptor fd = std::move(**found);
    if (is_unix_) {
      if (auto same = check_same_user(fd.get()); !same) {
        note({Verdict::no_verdict, false, {}, same.error()});
        continue;
      }
    }
    std::string from = name_of_peer(fd.get(), is_unix_);
    const std::int64_t now = now_ns();
    half_open_.push_back({std::move(fd), from, now, AcceptorHandshake(key_, mine_, from, now + handshake_timeout_ns_)});
  }
}

void Acceptor::add_poll(std::vector<pollfd>& set) const {
  if (half_open_.size() < kMaxHalfOpen && now_ns() >= retry_at_ns_) set.push_back({listener_.get(), POLLIN, 0});
  for (const HalfOpen& one : half_open_) set.push_back({one.fd.get(), one.handshake.wanted_events(), 0});
}

std::int64_t Acceptor::wake_ns() const {
  std::int64_t wake = kNoDeadline;
  for (const HalfOpen& one : half_open_) wake = std::min(wake, one.handshake.deadline_ns());
  if (now_ns() < retry_at_ns_) wake = std::min(wake, retry_at_ns_);
  if (half_open_.size() >= kMaxHalfOpen) wake = std::min(wake, std::max(half_open_.front().since_ns + kHalfOpenGraceNs, now_ns()));
  return wake;
}

std::vector<Admitted> Acceptor::advance() {
  std::vector<Admitted> out;
  accept_waiting();
  for (HalfOpen& one : half_open_) {
    const auto state = one.handshake.advance(one.fd.get());
    if (state == AcceptorHandshake::State::in_progress) continue;
    if (state == AcceptorHandshake::State::accepted) {
      out.push_back({std::move(one.fd), one.handshake.peer(), one.from});
    } else {
      note({one.handshake.verdict(), one.handshake.is_proven(), one.handshake.peer(), one.handshake.failure()});
      one.fd.reset();
    }
  }
  std::erase_if(half_open_, [](const HalfOpen& one) { return one.handshake.state() != AcceptorHandshake::State::in_progress; });
  return out;
}

std::vector<Admitted> Acceptor::wait(std::int64_t deadline_ns) {
  for (;;) {
    auto out = advance();
    if (!out.empty() || now_ns() >= deadline_ns) return out;
    std::vector<pollfd> set;
    add_poll(set);
    (void)::poll(set.data(), set.size(), poll_milliseconds(std::min(deadline_ns, wake_ns())));
  }
}

}  // namespace peal::net
