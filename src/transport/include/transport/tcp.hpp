// The TCP transport: one connection for each pair of ranks, communicator and channel, made at first use (the lower rank connects, the
// higher one accepts). Callers poll: every peek or acquire that fails pushes out what other ends hold back, so two ranks that wait for each
// other cannot both sit on unsent bytes; a call is over for the peer only when flush() has said so.
//
// A frame is a header of 40 bytes (magic, length, sequence, flags, tag) and the payload. send() writes both with one system call out of
// the caller's memory. What the kernel does not take of a long message stays there, to be tried again, while other bytes come or go;
// else, and of a short one, it is copied into a slot. receive() reads long payloads straight into place.
// References (send_reference) are messages to a rank of this machine whose pages are lent to the socket (page_pipe.hpp): only the receiver
// copies. That it did it says on a connection of its own, as the other way of this one may be full of what nobody is to receive yet.
// A lost connection, a peer that closes while somebody waits for more, and bytes that are no frames are reported by health(), with the
// peer.
//
// Nothing on the wire is encrypted or signed after the handshake (SECURITY.md).
#pragma once

#include <memory>
#include <string>
#include <transport/channel.hpp>
#include <transport/tcp_listener.hpp>
#include <vector>

struct pollfd;

namespace peal::transport {

/// Copies of less cost no more than the system calls and the answer of a message that is lent.
inline constexpr std::size_t kLeastLentBytes = 32 * 1024;

/// Which references go to ranks of this machine without a copy (page_pipe.hpp): none, all, or, over loopback, those that would take long to
/// copy.
enum class Lending : std::uint8_t { never, where_copies_are_slow, always };

struct TcpOptions {
  int channels = 1;
  std::size_t message_bytes = 256 * 1024;
  int slots = 4;                              ///< messages held back per channel while the kernel takes no more
  int socket_buffer_bytes = 4 * 1024 * 1024;  ///< a wish: the kernel's limits (net.core.wmem_max) hold, see notes()
  std::string congestion_control;             ///< a wish; empty: reno within a machine, else the system's
  std::vector<bool> is_on_machine;            ///< by peer: it is on this machine, whatever its address; empty: who has this address is
  Lending lending = Lending::where_copies_are_slow;
  std::int64_t connect_timeout_ns = 10'000'000'000;
};

class TcpLink;

class TcpTransport final : public Transport {
 public:
  /// `listener` is this rank's and must outlive the transport. `peers` are the addresses of all ranks' listeners, in rank order (the own
  /// one is not used). `communicator` is a number that all its ranks share and no other communicator of the job has.
  static Result<std::unique_ptr<TcpTransport>> open(TcpListener& listener, std::uint64_t communicator, int rank,
                                                    std::vector<net::Address> peers, const TcpOptions& options = {});
  /// Sends what the kernel takes at once of what is still held back, then closes: flush() the senders before.
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  const char* name() const override { return "tcp"; }
  Sender* sender(int peer, int channel = 0) override;
  Receiver* receiver(int peer, int channel = 0) override;
  Status health() override;
  void sleep(std::int64_t timeout_us) override;

  /// What the kernel did not grant (buffer sizes, congestion control), each thing once.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class TcpLink;
  friend class TcpSender;
  friend class TcpReceiver;
  TcpTransport(TcpListener& listener, std::uint64_t communicator, int rank, std::vector<net::Address> peers, const TcpOptions& options);
  TcpLink* link(int peer, int channel);
  TcpLink* open_link(int peer, int channel);
  std::unique_ptr<TcpLink>& place_of(int peer, int channel);
  /// The connection on which a peer of this machine says what it has received of what was lent to it: one for all channels, as one channel
  /// more. Null as long as it is not there.
  TcpLink* answers(int peer);
  bool waits_for_answers(int peer);
  /// As many as `asker` lacks. `is_waiting`: for nothing else, so that a peer that has ended is a fault.
  void take_answers(const TcpLink& asker, bool is_waiting);
  void take_mail();
  bool is_within_machine(int fd, int peer) const;
  void tune(int fd, bool is_within);
  void size_buffers(int fd);
  void note(std::string text);
  /// Counts bytes that came or went, and returns them.
  std::size_t moved(std::size_t bytes) {
    moved_bytes_ += bytes;
    return bytes;
  }
  std::uint64_t moved_bytes() const { return moved_bytes_; }
  void push_pending();
  void break_down(Failure failure);

  TcpListener& listener_;
  std::uint64_t communicator_;
  int rank_;
  std::vector<net::Address> peers_;
  TcpOptions options_;
  TcpMailbox mailbox_;
  Status health_;
  std::vector<std::unique_ptr<TcpLink>> links_;  // by peer and channel, the last one for answers
  std::vector<TcpLink*> open_links_;
  std::vector<TcpLink*> pending_;  // links with bytes held back
  std::uint64_t moved_bytes_ = 0;
  std::vector<std::string> notes_;
  std::unique_ptr<std::vector<pollfd>> poll_set_;
  bool is_registered_ = false;
};

}  // namespace peal::transport
