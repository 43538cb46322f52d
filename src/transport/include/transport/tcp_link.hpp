// One connection of the TCP transport with its two ends.
#pragma once

#include <base/file_descriptor.hpp>
#include <memory>
#include <transport/channel.hpp>
#include <transport/lend_choice.hpp>
#include <transport/page_pipe.hpp>
#include <vector>

namespace peal::transport {

class TcpTransport;
class TcpLink;

struct TcpHeader {
  std::uint32_t magic = 0;
  std::uint32_t length = 0;
  std::uint32_t sequence = 0;
  std::uint32_t flags = 0;
  Tag tag;
};
inline constexpr std::size_t kTcpHeaderBytes = 40;
static_assert(sizeof(TcpHeader) == kTcpHeaderBytes);
inline constexpr std::uint32_t kTcpMagic = 0x4c414550;  // "PEAL"
/// Flags. The payload of a lent message is its sender's own memory, which must not change until an answer has said that it was received.
inline constexpr std::uint32_t kTcpHasTag = 1;
inline constexpr std::uint32_t kTcpIsLent = 2;

/// What goes the other way on the peer's connection of answers.
struct TcpAnswer {
  std::uint32_t channel = 0;
  std::uint32_t received = 0;  // lent messages of that channel so far
};

class TcpSender final : public Sender {
 public:
  explicit TcpSender(TcpLink& link) : link_(link) {}
  std::size_t message_bytes() const override;
  bool is_ready() override;
  std::byte* acquire(std::size_t bytes) override;
  void publish(std::size_t bytes, const Tag* tag) override;
  void publish_from(const std::byte* data, std::size_t bytes, const Tag* tag) override;
  void publish_runs(std::byte* room, std::span<const Run> runs, std::size_t bytes, const Tag* tag) override;
  bool send(const std::byte* data, std::size_t bytes, const Tag* tag) override;
  bool has_references() const override;
  bool send_reference(const std::byte* data, std::size_t bytes, const Tag* tag, bool is_idle = false) override;
  bool is_drained() override;
  void withdraw_references() override;
  bool flush() override;
  int poll_descriptor() const override;

 private:
  friend class TcpLink;
  struct Slot {  // header and payload, of which [begin, end) is still to go
    std::unique_ptr<std::byte[]> bytes;
    std::size_t begin = 0;
    std::size_t end = 0;
    struct Lent {                       // the payload where it is the caller's memory; then `bytes` above holds the header alone
      const std::byte* data = nullptr;  // null: it is not
      std::size_t bytes = 0;
      PagePipe::Progress progress;
    };
    Lent lent;
  };
  struct Open {  // a message of which a part has gone, straight out of the caller's memory
    TcpHeader header;
    const std::byte* data = nullptr;  // null: none
    std::size_t written = 0;          // with the header
    std::uint64_t moved = 0;          // moved_bytes() of the transport when it was last tried
    int waits = 0;                    // tries since something moved
  };
  static constexpr std::size_t kLeastWaiting = 64 * 1024;
  static constexpr int kMostWaits = 32;
  Slot& free_slot();
  Slot& head() { return slots_[head_]; }
  bool has_slot();
  bool may_wait(std::size_t bytes);
  void write_open(std::span<const Run> runs);
  void hold(const TcpHeader& header, std::span<const Run> runs, std::size_t written);
  TcpHeader next_header(std::size_t bytes, const Tag* tag);

  TcpLink& link_;
  std::vector<Slot> slots_;
  std::size_t head_ = 0;
  std::size_t count_ = 0;
  Open open_;
  std::uint32_t sequence_ = 0;
  std::uint32_t lent_ = 0;      // messages that were lent
  std::uint32_t begun_ = 0;     // of those, how many have begun to go
  std::uint32_t returned_ = 0;  // and how many the receiver has answered
  bool is_answered_ = false;    // it has said anything
  LendChoice choice_;
  bool is_acquired_ = false;
  bool is_waited_ = false;
};

class TcpReceiver final : public Receiver {
 public:
  explicit TcpReceiver(TcpLink& link) : link_(link) {}
  const Message* peek() override;
  void release() override;
  bool has_begun() override;
  bool receive(std::byte* data, std::size_t bytes, std::size_t* got, Tag* tag, bool* has_tag) override;
  bool receive_runs(std::span<const Run> runs, std::size_t* got, Tag* tag, bool* has_tag) override;
  int poll_descriptor() const override;
  /// Whether there is anything to look at; an end of the stream is nothing.
  bool has_input() const;

 private:
  friend class TcpLink;
  std::size_t available() const { return end_ - begin_; }
  bool miss();
  bool read_more(std::size_t at_most);
  bool read_header();
  bool parse_header();
  void forget_message();
  bool has_whole() const { return has_header_ && available() >= kTcpHeaderBytes + header_.length; }
  void open_message();
  bool receive_direct(std::span<const Run> runs);
  void finish(std::size_t* got, Tag* tag, bool* has_tag);

  TcpLink& link_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  TcpHeader header_;
  bool has_header_ = false;
  bool has_message_ = false;
  bool is_direct_ = false;  // the payload is going straight into the caller's memory
  std::size_t stored_ = 0;  // of it so far
  std::uint32_t sequence_ = 0;
  bool is_waited_ = false;
  Message message_;
};

class TcpLink {
 public:
  TcpLink(TcpTransport& owner, int peer, int channel) : owner_(owner), peer_(peer), channel_(channel), sender_(*this), receiver_(*this) {}

  int fd() const { return fd_.get(); }
  bool is_open() const { return is_open_; }
  bool is_asked_for() const { return is_asked_for_; }
  void ask() { is_asked_for_ = true; }
  /// `may_lend`: only within a machine.
  void attach(FileDescriptor fd, bool is_within_machine, bool may_lend);
  /// Writes what is held back, as far as the kernel takes it. True when nothing is left.
  bool push();
  void unlist() { is_listed_ = false; }
  /// POLLIN, POLLOUT for what was found missing or full since the last call.
  short take_wanted_events();

  TcpSender& sender() { return sender_; }
  TcpReceiver& receiver() { return receiver_; }

 private:
  friend class TcpSender;
  friend class TcpReceiver;
  friend class TcpTransport;
  /// Bytes written of header and payload behind the first `skipped`; 0 when the kernel takes none, or when the link broke.
  std::size_t write(const TcpHeader& header, std::span<const Run> runs, std::size_t skipped);
  /// The same of what lies in a slot; false when the kernel takes no more, or when the link broke.
  bool push_slot(TcpSender::Slot& slot);
  bool push_lent(TcpSender::Slot::Lent& lent);
  bool push_bytes(const std::byte* data, std::size_t bytes, std::size_t& written, bool is_followed);
  /// What is to be said of a message that was received.
  void answer(const TcpHeader& header);
  void take(const TcpAnswer& answer);
  bool waits_for_answers() const { return sender_.returned_ != sender_.begun_; }
  bool lacks_answers() const { return !sender_.is_answered_ || waits_for_answers(); }
  bool can_lend();
  bool has_lent_enough();
  void lose(int error);
  void spoil(const char* what);
  std::size_t message_bytes() const;
  bool is_for_answers() const;
  void hold_back();
  void push_others();

  TcpTransport& owner_;
  int peer_;
  int channel_;
  FileDescriptor fd_;
  bool is_open_ = false;  // once attached; stays so when it breaks, so that ends remain valid
  bool is_broken_ = false;
  bool is_asked_for_ = false;
  bool is_listed_ = false;  // in the transport's list of links with bytes held back
  bool is_within_machine_ = false;
  bool may_lend_ = false;  // within a machine, until something keeps pages from being lent
  std::unique_ptr<PagePipe> pipe_;
  std::uint32_t borrowed_ = 0;  // lent messages that were received
  bool has_answered_ = false;   // said so much, if only that it would
  TcpSender sender_;
  TcpReceiver receiver_;
};

}  // namespace peal::transport
