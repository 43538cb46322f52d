// A listener that admits only those who pass the handshake, and stays up whatever strangers do.
// At most kMaxHalfOpen connections are between accept and verdict. When all places are taken, newcomers wait in the kernel's
// backlog, and a place that has been silent for longer than kHalfOpenGraceNs is taken from its holder.
// On a Unix socket, connections of another user are closed before a byte is read.
#pragma once

#include <poll.h>

#include <base/file_descriptor.hpp>
#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <net/address.hpp>
#include <net/handshake.hpp>
#include <net/key.hpp>
#include <string>
#include <vector>

namespace peal::net {

inline constexpr std::size_t kMaxHalfOpen = 64;
inline constexpr std::int64_t kHalfOpenGraceNs = 250'000'000;

struct Admitted {
  FileDescriptor fd;
  Party peer;
  std::string from;  ///< address, or "pid 123" on a Unix socket
};

/// One connection that was turned away.
struct Refusal {
  Verdict verdict = Verdict::no_verdict;
  bool is_proven = false;  ///< it knew the key: then it is one of ours and something is wrong with the job
  Party peer;              ///< meaningful when is_proven
  Failure failure;
};

/// One thread.
class Acceptor {
 public:
  Acceptor(FileDescriptor listener, const Key& key, const Party& mine, std::int64_t handshake_timeout_ns = kHandshakeTimeoutNs);

  /// Adds the descriptors to wait for; then call advance() whenever poll returns, at the latest after wake_ns().
  void add_poll(std::vector<pollfd>& set) const;
  std::int64_t wake_ns() const;
  /// Accepts and moves every handshake as far as it can without waiting; returns those that finished.
  std::vector<Admitted> advance();
  /// Waits for at least one admitted connection, or returns none at the deadline.
  std::vector<Admitted> wait(std::int64_t deadline_ns);

  std::size_t half_open() const { return half_open_.size(); }
  /// The most recent refusals (at most 64) since the last call.
  std::vector<Refusal> take_refusals();
  std::uint64_t refused_count() const { return refused_count_; }
  int listener() const { return listener_.get(); }

 private:
  struct HalfOpen {
    FileDescriptor fd;
    std::string from;
    std::int64_t since_ns;
    AcceptorHandshake handshake;
  };
  void accept_waiting();
  bool make_room();
  void note(Refusal refusal);

  FileDescriptor listener_;
  bool is_unix_ = false;
  Key key_;
  Party mine_;
  std::int64_t handshake_timeout_ns_;
  std::int64_t retry_at_ns_ = 0;     // when accept(2) has failed for want of descriptors
  std::vector<HalfOpen> half_open_;  // oldest first
  std::vector<Refusal> refusals_;
  std::uint64_t refused_count_ = 0;
};

}  // namespace peal::net
