// How ranks find each other: a star around one rank, the hub, which stays open as control links for the news of faults.
//
// The hub (rank 0 unless job.hub says another) listens on job.root (one host: an abstract Unix name and no TCP listener, the kernel
// vouches for the user; several hosts: TCP on exactly that address, with the key). Everybody else connects, passes the handshake, hands in
// a Contact and gets the table of all. The listener closes when all have come. Strangers, silent connections and wrong keys are turned away
// while the rest goes on.
//
// Threads: join, all_gather and barrier from one thread; the control functions from any thread, but not while one of those three runs.
#pragma once

#include <base/file_descriptor.hpp>
#include <base/result.hpp>
#include <bootstrap/contact.hpp>
#include <bootstrap/job.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <net/key.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace peal::bootstrap {

inline constexpr std::size_t kMaxBlobBytes = 64 * 1024;
inline constexpr std::size_t kMaxControlBytes = 4096;

/// The way to one neighbour in the star: the hub has one to everybody, everybody else has one to the hub.
struct ControlLink {
  int rank = -1;
  int fd = -1;  ///< for poll only (POLLIN); owned by the Rendezvous
};

struct ControlEvent {
  enum class Kind : std::uint8_t {
    none,     ///< nothing (more) now
    message,  ///< `bytes` from rank `from`
    goodbye,  ///< rank `from` (the neighbour) ends in order: its link will close and that is no fault
    closed    ///< the neighbour's end is gone without a goodbye: it died
  };
  Kind kind = Kind::none;
  int from = -1;
  std::string bytes;
};

class Star;  // private to the room

class Rendezvous {
 public:
  /// Collective. Fails on every rank that came, with the same sentence, when a rank is missing after job.start_timeout_s (`unreachable`,
  /// naming the missing ranks), when two say the same rank or another size (`mismatch`), and with `refused` for key, version or job.
  /// A hub may hand in what listen() gave it.
  static Result<std::unique_ptr<Rendezvous>> join(const Job& job, Contact mine, FileDescriptor listener = {});
  /// The hub's listener ahead of join, for a port that the kernel chooses (job.root with port 0; net::local_address says which it was).
  static Result<FileDescriptor> listen(const Job& job);
  /// Closes all links; without goodbye() the others take that for a death.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const;
  int size() const;
  const std::vector<Contact>& contacts() const;  ///< in rank order
  /// A key that all ranks of this job share and nobody else, for the handshakes of data connections.
  const net::Key& data_key() const;
  /// A number that all ranks share and that differs from start to start: names made from it do not collide.
  std::uint64_t session_id() const;
  /// Connections that the hub turned away while it waited, in words (at most 16).
  const std::vector<std::string>& notes() const;

  /// Collective: everybody's blob (at most kMaxBlobBytes) in rank order. Deadline: job.start_timeout_s, naming who did not come.
  Result<std::vector<std::string>> all_gather(std::string blob);
  Status barrier();

  std::vector<ControlLink> control_links() const;
  /// Never waits. To any rank; the hub relays between others. At most kMaxControlBytes. What the kernel does not take at once is kept
  /// (256 KiB a link) and goes out with the next control call; a link that is full or gone gives `unreachable`.
  Status send_control(int to, std::string_view bytes);
  /// To all other ranks.
  Status broadcast_control(std::string_view bytes);
  /// Never waits. Call until `none`, also once for every link before the first poll: one poll may stand for several messages, and some may
  /// have come during start-up. On the hub this also relays. After `goodbye` or `closed` take the descriptor out of the poll set.
  Result<ControlEvent> receive_control(int fd);

  /// Tells the neighbours that this rank ends in order. Waits at most one second.
  void goodbye();

 private:
  explicit Rendezvous(std::unique_ptr<Star> star);
  std::unique_ptr<Star> star_;
};

}  // namespace peal::bootstrap
