// Protocols: how a channel moves a message. An axis of its own beside the algorithm; the executor's routines, the simulator's costs
// and the verifier's rules all start from this table (their constants are data of `topology`).
#pragma once

#include <base/result.hpp>
#include <cstdint>
#include <span>
#include <string_view>

namespace peal::schedule {

enum class Protocol : std::uint8_t {
  line,          ///< data and flag in one pair of cache lines (128 bytes, as the prefetcher moves them)
  staged,        ///< through k slots: the sender copies in, the receiver reduces or copies out
  direct_read,   ///< the receiver reads the sender's buffer; the sender learns when it may write there again
  direct_write,  ///< the sender writes into the receiver's buffer once the receiver has named it
  fused,         ///< a hand-written routine that equals a named schedule
};
inline constexpr int kProtocolCount = 5;

struct ProtocolTraits {
  Protocol protocol;
  std::string_view name;
  std::string_view what;
  std::int32_t slots;           ///< messages that a channel holds before its sender blocks
  std::uint64_t message_bytes;  ///< the most that one message carries
  bool snapshots;               ///< the message is taken when it is sent; false: when it is received (the source must not change before)
  bool rendezvous;              ///< a send completes only with its receive
};

/// Messages of up to so many bytes lie beside their flag in shared memory also under staged; longer ones lie in a slot.
inline constexpr std::uint64_t kBesideFlagBytes = 88;
/// Of those, messages of up to so many bytes share the flag's cache line, and longer ones reach into a second.
inline constexpr std::uint64_t kFlagLineBytes = 24;
/// Messages of up to so many bytes are not cut: in memory; by sockets, where a second message costs system calls and acknowledgements; by
/// sockets between two ranks of one host, where the receiver takes out what has come while the sender's one call goes on; and by sockets
/// where the messages of several ranks meet on the way to one host, whose link's queue longer ones overflow (bench/RESULTS.md, "Whole
/// messages over sockets", "A mebibyte by one call", "Between containers").
inline constexpr std::uint64_t kWholeMessageBytes = 32 * 1024;
inline constexpr std::uint64_t kWholeSocketMessageBytes = 160 * 1024;
inline constexpr std::uint64_t kWholePairMessageBytes = 1024 * 1024;
inline constexpr std::uint64_t kWholeMeetingMessageBytes = 64 * 1024;
/// The most that a message carries in a slot of shared memory (what is under way on both ways should fill few slots); by sockets, where a
/// later rank waits to send it on; and where none does and all goes by sockets (kWholePairMessageBytes between two ranks of one host).
inline constexpr std::uint64_t kSlotMessageBytes = 256 * 1024;
inline constexpr std::uint64_t kRelayedSocketMessageBytes = 128 * 1024;
inline constexpr std::uint64_t kSocketMessageBytes = 512 * 1024;
/// Messages through slots of shared memory that go to several ranks are stored once from here on; below, a copy costs less than the longer
/// way.
inline constexpr std::uint64_t kLeastSharedBytes = 8 * 1024;
/// From here on they are read in lanes where that is asked for.
inline constexpr std::uint64_t kLeastInLanesBytes = 64 * 1024;
/// The most that one message carries which is read in the sender's memory.
inline constexpr std::uint64_t kMostReferencedBytes = 256 * 1024;
/// Bytes of one message where `whole` bytes go through slots. What goes through a slot is copied in and then out: in two halves, the
/// second is copied in while the first is copied out (bench/RESULTS.md). Short messages stay whole, long ones fill slots.
std::uint64_t staged_message_bytes(std::uint64_t whole) noexcept;
/// The same where the sender may let the receiver read its memory instead, from `least` bytes on: what can be read is not cut.
std::uint64_t referenced_message_bytes(std::uint64_t whole, std::uint64_t least) noexcept;
/// The same where messages go by sockets: a message costs system calls and, where ranks wait for one another, a wake, so that they are cut
/// less finely. `uncut`: what is not (kWholeSocketMessageBytes and the like). `most`: what the longest may carry, whatever `uncut` is:
/// kRelayedSocketMessageBytes, kSocketMessageBytes or kWholePairMessageBytes.
std::uint64_t socket_message_bytes(std::uint64_t whole, std::uint64_t uncut, std::uint64_t most) noexcept;

const ProtocolTraits& traits_of(Protocol protocol) noexcept;
std::span<const ProtocolTraits> all_protocols() noexcept;
std::string_view name_of(Protocol protocol) noexcept;
Result<Protocol> parse_protocol(std::string_view text);

}  // namespace peal::schedule
