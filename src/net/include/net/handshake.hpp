// The authenticated handshake: four messages of fixed size, before any field of variable length is read.
//
//   connector                                   acceptor
//     Hello (64 bytes)               ------->     magic? version? role and job?
//     version?                       <-------     Hello
//     Proof = MAC(key, "connector", both Hellos) -------> equal in constant time? size and rank?
//     MAC right?                     <-------     Verdict {u32 code, u32 0, MAC(key, "acceptor", both Hellos)}
//
// A Hello carries role, rank, size, job and a fresh nonce, so the MACs (HMAC-SHA-512-256, libsodium) bind all of them and cannot be
// replayed or reflected. Refusals that come before the proof carry a zero MAC and serve only to word the error of the other side.
// A stranger who does not begin with the magic is closed without a byte of answer. The first 12 bytes (magic, version) never change.
// What this does not do: nothing after the handshake is encrypted or signed.
#pragma once

#include <array>
#include <base/file_descriptor.hpp>
#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <net/key.hpp>
#include <span>
#include <string>

namespace peal::net {

inline constexpr std::uint32_t kWireVersion = 3;
inline constexpr std::size_t kHelloBytes = 64;
inline constexpr std::size_t kMacBytes = 32;
inline constexpr std::size_t kVerdictBytes = 8 + kMacBytes;
inline constexpr std::int64_t kHandshakeTimeoutNs = 5'000'000'000;

/// What an end of the connection is. A root accepts members; a data acceptor accepts data connectors.
enum class Role : std::uint32_t { root = 1, member = 2, data_acceptor = 3, data_connector = 4 };

/// What one end says of itself.
struct Party {
  Role role = Role::member;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint64_t job = 0;
  std::uint32_t wire_version = kWireVersion;  ///< tests set another
};

struct Hello {
  Party party;
  std::array<std::uint8_t, 32> nonce{};
};
std::array<std::uint8_t, kHelloBytes> encode(const Hello& hello);
/// `corrupt` when the magic is wrong ("these are not Peal's bytes"). The version is not judged here.
Result<Hello> parse_hello(std::span<const std::uint8_t, kHelloBytes> bytes);

enum class Verdict : std::uint32_t {
  accepted = 1,
  wrong_key = 2,
  wrong_version = 3,
  wrong_job = 4,
  wrong_role = 5,
  wrong_size = 6,  ///< proven: the key was right
  wrong_rank = 7,  ///< proven: rank not below size, or the acceptor's own
  no_verdict = 0   ///< stranger, silence, closed
};

/// The connecting side, blocking until the deadline. Returns what the acceptor proved to be.
/// `peer` names the other end in errors. Codes: `refused` (key, version, job, role, size), `timeout`, `unreachable` (closed early: worth
/// another try).
Result<Party> connector_handshake(int fd, const Key& key, const Party& mine, std::string_view peer, std::int64_t deadline_ns);

/// The accepting side as a state machine, for one thread that serves many: poll for wanted_events(), then advance().
class AcceptorHandshake {
 public:
  AcceptorHandshake(const Key& key, const Party& mine, std::string peer, std::int64_t deadline_ns);

  enum class State : std::uint8_t { in_progress, accepted, refused };
  /// Moves as far as it can without waiting; also notices the deadline.
  State advance(int fd);
  State state() const { return state_; }
  short wanted_events() const { return is_writing() ? short{4} : short{1}; }  // POLLOUT, POLLIN

  std::int64_t deadline_ns() const { return deadline_ns_; }
  const Party& peer() const { return theirs_.party; }  ///< meaningful once accepted, or refused with a proven verdict
  Verdict verdict() const { return verdict_; }
  bool is_proven() const { return is_proven_; }  ///< the other side knows the key
  const Failure& failure() const { return failure_; }

 private:
  bool is_writing() const { return sent_ < out_size_; }
  bool read_hello(int fd);
  bool read_proof(int fd);
  bool write_out(int fd);
  bool fill(int fd, std::size_t bytes);
  void judge_hello();
  void judge_proof();
  void answer_hello();
  void answer(Verdict verdict, bool with_mac);
  void refuse(Verdict verdict, Failure failure);

  Key key_;
  Hello mine_;
  Hello theirs_;
  std::string peer_;
  std::int64_t deadline_ns_;
  enum class Step : std::uint8_t { hello, proof, finish } step_ = Step::hello;
  State state_ = State::in_progress;
  State after_write_ = State::in_progress;
  Verdict verdict_ = Verdict::no_verdict;
  bool is_proven_ = false;
  Failure failure_;
  std::array<std::uint8_t, kHelloBytes> in_{};
  std::size_t got_ = 0;
  std::array<std::uint8_t, kHelloBytes + kVerdictBytes> out_{};
  std::size_t out_size_ = 0;
  std::size_t sent_ = 0;
};

/// The accepting side, blocking.
Result<Party> acceptor_handshake(int fd, const Key& key, const Party& mine, std::string_view peer, std::int64_t deadline_ns);

/// Role of the other end that `role` talks to.
Role counterpart(Role role);

}  // namespace peal::net
