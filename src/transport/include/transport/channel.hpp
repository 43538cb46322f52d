// Channels: an ordered way between two ranks, seen from its two ends. A channel carries messages, first in, first out, each at most
// `message_bytes()` long (zero is a message too). The first message of an edge in a call carries a tag, at a place that does not
// depend on how the data travels, so that the receiver can tell a mismatched call whatever the sender chose to do.
//
// Nothing here blocks: an operation that cannot go on returns false or nullptr and is tried again. One thread at a time uses an end.
#pragma once

#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

namespace peal::transport {

/// Opaque to transports; 24 bytes that travel with the first message of an edge.
struct Tag {
  std::uint64_t words[3] = {0, 0, 0};
  bool operator==(const Tag&) const = default;
};

/// How long a receiver took to take messages out of their slots, each from its last peek() to release(), or to read references: those that
/// it has timed so far.
struct Drained {
  std::uint64_t ns = 0;
  std::uint64_t bytes = 0;
};

/// Memory in one piece, one of several that make a message.
struct Run {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

std::size_t bytes_of(std::span<const Run> runs);
/// Stores bytes [begin, begin + bytes) of the message that `runs` make, which lie at `data`.
void scatter(std::span<const Run> runs, const std::byte* data, std::size_t begin, std::size_t bytes);

/// The sending end.
class Sender {
 public:
  virtual ~Sender() = default;

  /// Most bytes of one message.
  virtual std::size_t message_bytes() const = 0;

  /// True when a slot is free, so that the next acquire or send is worth a try. It may still fail, and is to be tried again, where the
  /// slots' memory is not at hand; health() tells of memory that cannot be had at all.
  virtual bool is_ready() = 0;

  /// Room for a message of `bytes` (<= message_bytes()), to be filled and published; nullptr while no slot is free.
  /// Calling it again before publish(), with the same `bytes`, returns the same room.
  virtual std::byte* acquire(std::size_t bytes) = 0;

  /// Sends what was acquired; visible to the receiver, in order, some time after. `tag` may be null.
  virtual void publish(std::size_t bytes, const Tag* tag) = 0;

  /// Publishes a copy of `data` in place of what was acquired, out of the caller's memory where the transport can save the copy.
  virtual void publish_from(const std::byte* data, std::size_t bytes, const Tag* tag);

  /// The same of a message that lies in several runs, of `bytes` in all; `room` is what was acquired.
  virtual void publish_runs(std::byte* room, std::span<const Run> runs, std::size_t bytes, const Tag* tag);

  /// acquire + copy + publish in one, where the transport can save a copy. False: part of a message of 64 KiB and more may have gone, so
  /// call again with the same arguments, the bytes unchanged, before anything else goes this way. The source may be changed after it
  /// returned true.
  virtual bool send(const std::byte* data, std::size_t bytes, const Tag* tag) = 0;

  /// True where acquire() gives memory that the receiver itself reads: then it matters how the caller stores into it.
  virtual bool fills_shared_memory() const { return false; }
  /// A hint for the messages of more than half a slot from here on, where that is true: this rank only fills them, and their receiver only
  /// takes them out. They may then go round in more memory.
  virtual void set_one_way(bool is_one_way) { static_cast<void>(is_one_way); }
  /// Of this channel; zeros where the receiver times nothing.
  virtual Drained drained() const { return {}; }
  /// The same of references of which the receiver read the whole; zeros before there was one.
  virtual Drained fetched() const { return {}; }

  /// Pushes out what was published but is still held back (a full socket). True when nothing is held back.
  virtual bool flush() { return true; }

  /// References (protocol direct_read): a message that stays in the sender's own memory until the receiver comes for it; then both may
  /// copy, each a part. To the receiver it is a message like any other. At most message_bytes(); it takes no slot. The memory must not
  /// change until is_drained(). False while there is no room, or where there are no references: has_references() may change at any time, so
  /// it is asked for every message. `is_idle`: the sender will have nothing else to do, so that the receiver leaves a part to it.
  virtual bool has_references() const { return false; }
  virtual bool send_reference(const std::byte* data, std::size_t bytes, const Tag* tag, bool is_idle = false);
  /// True when no message lies in memory of the sender's any more. Asking is what makes the sender copy its part.
  virtual bool is_drained() { return true; }
  /// Messages that the receiver has done with, as is_drained() last saw it; always 0 where that is not known.
  virtual std::uint64_t released() const { return 0; }
  /// Copies into slots, as far as there are any, what lies in the sender's own memory and nobody has come for yet. True when nothing is
  /// left there, so that is_drained().
  virtual bool copy_references() { return is_drained(); }
  /// After a call that failed: no reference will be read any more, except what is being read at this moment; waits for that, up to 0.2 s.
  virtual void withdraw_references() {}

  /// A message that the receiver finds where it lies in memory that both ends map (user_segments.hpp); the sender's, as a rule. To the
  /// receiver it is a message like any other. The memory must not change until is_drained(). It takes no slot.
  virtual bool can_show(const std::byte* data, std::size_t bytes);
  /// Only where can_show(). False while there is no room for it; there is when is_ready(). `answer`, unless null: as many bytes, which can
  /// be shown too, where the receiver may write until is_drained() (Message::answer); it may be `data` itself.
  virtual bool show(const std::byte* data, std::size_t bytes, const Tag* tag, std::byte* answer = nullptr);
  /// The same of what lies in memory of the receiver's, where this rank has written it: is_drained() does not wait for it. False while
  /// there is no room for it, or where it cannot be shown.
  virtual bool show_theirs(const std::byte* data, std::size_t bytes, const Tag* tag);

  /// One copy for several receivers: channels of one rank with the same shared_area(), unless null, can carry a message that is stored
  /// once. acquire_shared() gives room for message_bytes(), to be filled and then sent by send_shared() on any of them, or nullptr while
  /// there is none: a schedule must not wait for that, because it may be the next message of another channel that frees it. The room is
  /// kept until end_shared(), and its bytes until all that it was sent to have received them. It takes no slot of a channel. To a receiver
  /// it is a message like any other.
  virtual const void* shared_area() { return nullptr; }
  virtual std::byte* acquire_shared() { return nullptr; }
  /// False while the channel has no room.
  virtual bool send_shared(const std::byte* room, std::size_t bytes, const Tag* tag);
  virtual void end_shared(const std::byte* room);

  /// File descriptor on which to poll for POLLOUT while not ready, or -1 (shared memory).
  virtual int poll_descriptor() const { return -1; }
};

/// A message as its receiver sees it.
struct Message {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  const Tag* tag = nullptr;     ///< null when it carries none
  std::byte* answer = nullptr;  ///< as many bytes as the message has, where its receiver may write until release(); or null
};

/// References that one system call reads, which then is less than a twentieth of their copies: to offer more at once saves nothing.
inline constexpr std::size_t kMostReadAtOnce = 4;

/// The receiving end.
class Receiver {
 public:
  virtual ~Receiver() = default;

  /// True where peek() gives memory that the sender itself filled: then it matters how the caller stores what is copied out of it.
  virtual bool reads_shared_memory() const { return false; }

  /// The next message, or nullptr while it is not wholly there. Stays valid, and the same, until release().
  virtual const Message* peek() = 0;

  /// The same; a message that this end must copy from the sender's own memory to see it may be copied to `room`, of `bytes`, and lies there
  /// then. To be called again with the same arguments until the message is there; `room` may be overwritten by then.
  virtual const Message* peek_into(std::byte* room, std::size_t bytes);

  /// Gives the slot of the peeked message back to the sender.
  virtual void release() = 0;

  /// To be called between peek() and release() where more was done with the message than to take it out: Drained does not count it then.
  virtual void forgo_timing() {}

  /// Receives the next message straight into `data` where that saves a copy. False while it is not wholly there (part of it may
  /// already have been stored: call again with the same arguments). On true, *got is the message's length, *tag its tag if it had one
  /// (else zero words and *has_tag false). A message longer than `bytes` is not stored: true with *got > bytes, and the message is dropped.
  virtual bool receive(std::byte* data, std::size_t bytes, std::size_t* got, Tag* tag, bool* has_tag);

  /// The same into several runs, which the message fills in turn; its length must be theirs, or it is dropped. The runs may lie elsewhere
  /// at the next try, but must name the same memory.
  virtual bool receive_runs(std::span<const Run> runs, std::size_t* got, Tag* tag, bool* has_tag);

  /// A hint for the next receive() alone: others will follow, whose messages without tags go right behind its own, into `bytes_behind`
  /// bytes. What is there already may be fetched together, so all of them may be written from then on; each is received as before.
  virtual void expect(std::size_t bytes_behind) { static_cast<void>(bytes_behind); }

  /// Whether the last message that came in a slot or by reference was a reference that this end read; false before there was one.
  virtual bool has_fetched() const { return false; }

  /// True when the next message is wholly there, or peek() has to fetch it; costs less than peek() then.
  virtual bool has_message() { return peek() != nullptr; }
  /// True when receive() is worth a try: it can put what comes in where it belongs as soon as its length is known.
  virtual bool has_begun() { return has_message(); }

  /// After a call that failed: nobody will write for the sender any more into the memory that receive() was given; waits for who is at
  /// it, up to 0.2 s.
  virtual void give_up() {}

  /// File descriptor on which to poll for POLLIN while nothing is there, or -1.
  virtual int poll_descriptor() const { return -1; }
};

/// The channels of one communicator as one rank holds them. Ends are made on first use.
/// One thread at a time uses a transport, all of its ends included.
class Transport {
 public:
  virtual ~Transport() = default;
  /// "shm", "tcp", "fake".
  virtual const char* name() const = 0;
  /// The end towards or from `peer`; owned by the transport, stable. Null while the way to the peer is not there yet (a connection
  /// that is being made): ask again. A way that cannot be had at all is reported by health().
  virtual Sender* sender(int peer, int channel = 0) = 0;
  virtual Receiver* receiver(int peer, int channel = 0) = 0;
  /// Ok, or the first thing that broke (connection lost, refused, out of memory), with `rank` = the peer concerned.
  virtual Status health() = 0;
  /// Sleeps until something may have changed for this rank, at most `timeout_us`; may wake early.
  virtual void sleep(std::int64_t timeout_us) = 0;
};

}  // namespace peal::transport
