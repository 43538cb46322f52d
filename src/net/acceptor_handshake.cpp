#include <poll.h>

#include <algorithm>
#include <base/clock.hpp>
#include <cstring>
#include <net/handshake.hpp>
#include <net/socket.hpp>
#include <net/wire.hpp>

#include "crypto.hpp"
#include "handshake_words.hpp"

namespace peal::net {

static_assert(POLLIN == 1 && POLLOUT == 4, "wanted_events() spells these as numbers");

AcceptorHandshake::AcceptorHandshake(const Key& key, const Party& mine, std::string peer, std::int64_t deadline_ns)
    : key_(key), mine_{mine, {}}, peer_(std::move(peer)), deadline_ns_(deadline_ns) {}

void AcceptorHandshake::refuse(Verdict verdict, Failure failure) {
  verdict_ = verdict;
  failure_ = std::move(failure);
  state_ = State::refused;
}

/// True when `in_` holds the first `bytes` of the current message.
bool AcceptorHandshake::fill(int fd, std::size_t bytes) {
  while (got_ < bytes) {
    const auto moved = recv_now(fd, in_.data() + got_, bytes - got_);
    if (!moved) {
      refuse(Verdict::no_verdict, moved.error());
      return false;
    }
    if (moved->closed) {
      refuse(Verdict::no_verdict,
             fail(ErrorCode::unreachable, "the connection from {} was closed after {} bytes of the handshake", peer_, got_).value());
      return false;
    }
    if (moved->bytes == 0) return false;
    got_ += moved->bytes;
  }
  return true;
}

void AcceptorHandshake::answer(Verdict verdict, bool with_mac) {
  const std::string code = WireWriter().u32(static_cast<std::uint32_t>(verdict)).u32(0).bytes();
  std::memcpy(out_.data() + out_size_, code.data(), code.size());
  Mac mac{};
  if (with_mac) mac = proof_of(key_, kAcceptorSide, theirs_, mine_);
  std::memcpy(out_.data() + out_size_ + code.size(), mac.data(), mac.size());
  out_size_ += kVerdictBytes;
  step_ = Step::finish;
  after_write_ = verdict == Verdict::accepted ? State::accepted : State::refused;
  verdict_ = verdict;
}

void AcceptorHandshake::answer_hello() {
  fill_random(mine_.nonce);
  const auto bytes = encode(mine_);
  std::memcpy(out_.data(), bytes.data(), bytes.size());
  out_size_ = bytes.size();
}

void AcceptorHandshake::judge_hello() {
  answer_hello();
  if (theirs_.party.job != mine_.party.job) {
    failure_ = jobs_differ(peer_, theirs_.party.job, mine_.party.job);
    answer(Verdict::wrong_job, false);
  } else if (theirs_.party.role != counterpart(mine_.party.role)) {
    failure_ = fail(ErrorCode::refused, "the peer at {} came for another part of the job", peer_).value();
    answer(Verdict::wrong_role, false);
  } else {
    step_ = Step::proof;
    got_ = 0;
  }
}

/// Judges as early as it can: strangers after 8 bytes, other versions after 12.
bool AcceptorHandshake::read_hello(int fd) {
  const bool has_prefix = fill(fd, kHelloPrefixBytes);
  const std::size_t seen = std::min(got_, kHelloMagic.size());
  if (std::memcmp(in_.data(), kHelloMagic.data(), seen) != 0) {
    refuse(Verdict::no_verdict, not_peal(peer_));
    return false;
  }
  if (!has_prefix) return false;
  WireReader prefix{std::span<const std::uint8_t>(in_.data() + kHelloMagic.size(), 4)};
  if (const std::uint32_t version = prefix.u32(); version != mine_.party.wire_version) {
    answer_hello();
    failure_ = versions_differ(peer_, version, mine_.party.wire_version);
    answer(Verdict::wrong_version, false);
    return true;
  }
  if (!fill(fd, kHelloBytes)) return false;
  auto parsed = parse_hello(in_);
  if (!parsed) {
    refuse(Verdict::no_verdict, not_peal(peer_));
    return false;
  }
  theirs_ = *parsed;
  judge_hello();
  return true;
}

void AcceptorHandshake::judge_proof() {
  const Mac expected = proof_of(key_, kConnectorSide, theirs_, mine_);
  if (!is_equal(expected, std::span<const std::uint8_t, kHelloBytes>(in_).first<kMacBytes>())) {
    failure_ = keys_differ(peer_);
    return answer(Verdict::wrong_key, false);
  }
  is_proven_ = true;
  if (theirs_.party.size != mine_.party.size) {
    failure_ = sizes_differ(peer_, theirs_.party, mine_.party);
    return answer(Verdict::wrong_size, true);
  }
  if (theirs_.party.rank >= mine_.party.size || theirs_.party.rank == mine_.party.rank) {
    failure_ = rank_is_wrong(peer_, theirs_.party, mine_.party);
    return answer(Verdict::wrong_rank, true);
  }
  answer(Verdict::accepted, true);
}

bool AcceptorHandshake::read_proof(int fd) {
  if (!fill(fd, kMacBytes)) return false;
  judge_proof();
  return true;
}

bool AcceptorHandshake::write_out(int fd) {
  const auto moved = send_now(fd, out_.data() + sent_, out_size_ - sent_);
  if (!moved || moved->closed) {
    // A refusal keeps its own words even when nobody is there to hear them.
    if (after_write_ == State::refused) {
      state_ = State::refused;
    } else {
      refuse(Verdict::no_verdict, fail(ErrorCode::unreachable, "the connection from {} was closed during the handshake", peer_).value());
    }
    return false;
  }
  sent_ += moved->bytes;
  if (moved->bytes == 0) return false;
  if (!is_writing()) {
    sent_ = out_size_ = 0;
    if (step_ == Step::finish) state_ = after_write_;
  }
  return true;
}

AcceptorHandshake::State AcceptorHandshake::advance(int fd) {
  while (state_ == State::in_progress) {
    bool has_moved = false;
    if (is_writing()) {
      has_moved = write_out(fd);
    } else if (step_ == Step::hello) {
      has_moved = read_hello(fd);
    } else if (step_ == Step::proof) {
      has_moved = read_proof(fd);
    }
    if (!has_moved) break;
  }
  if (state_ == State::in_progress && now_ns() >= deadline_ns_)
    refuse(Verdict::no_verdict,
           fail(ErrorCode::timeout, "the connection from {} did not finish the handshake in time ({} bytes came)", peer_, got_).value());
  return state_;
}

Result<Party> acceptor_handshake(int fd, const Key& key, const Party& mine, std::string_view peer, std::int64_t deadline_ns) {
  AcceptorHandshake handshake(key, mine, std::string(peer), deadline_ns);
  while (handshake.advance(fd) == AcceptorHandshake::State::in_progress) {
    // The deadline itself is noticed, and worded, by advance().
    (void)((handshake.wanted_events() & POLLOUT) != 0 ? wait_writable(fd, deadline_ns) : wait_readable(fd, deadline_ns));
  }
  if (handshake.state() == AcceptorHandshake::State::accepted) return handshake.peer();
  return pass_on(handshake.failure());
}

}  // namespace peal::net
