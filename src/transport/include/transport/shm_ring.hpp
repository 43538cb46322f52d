// The two ends of a ring in shared memory. This is the hot path: an 8-byte all-reduce is one send() and one peek() here. Both classes
// are final and their bodies stand in the header, so that a caller who holds the concrete type pays no virtual call. No division, no
// read-modify-write, no fence beyond release and acquire; a message of up to 88 bytes with its tag (112 without) travels in its
// descriptor's two cache lines, up to 24 (48) of them in the one that carries the flag.
#pragma once

#include <atomic>
#include <base/copy.hpp>
#include <base/result.hpp>
#include <cstring>
#include <memory>
#include <new>
#include <transport/channel.hpp>
#include <transport/shm_layout.hpp>
#include <transport/shm_slot_pool.hpp>
#include <transport/timing_turns.hpp>
#include <utility>

namespace peal::transport {

class ShmTransport;

inline constexpr std::size_t kTagBytes = sizeof(Tag);
inline constexpr std::size_t kBodyBytes = kLineStride - 16;
/// Most bytes that travel in the descriptor, with a tag and without one.
inline constexpr std::size_t kInlineBytes = kBodyBytes - kTagBytes;
inline constexpr std::size_t kInlineBytesUntagged = kBodyBytes;
/// Of the former, those in the cache line of the sequence that the receiver polls.
inline constexpr std::size_t kFlagLineBytes = 64 - (kLineStride - kBodyBytes) - kTagBytes;

namespace shm {
enum Kind : std::uint8_t {
  in_line = 0,
  in_slot = 1,
  by_reference = 2,
  shown = 3,
  shown_to_answer = 4,
  in_shared_slot = 5,
  in_timed_slot = 6
};
/// A receiver that needed longer was not running all the time.
inline constexpr std::uint64_t kSlowestNsPerByte = 4;
/// A message that lies in its sender's own memory, and how far it has come: it stands in the second of its descriptor's cache lines, where
/// the one who polls for the sequence does not look. Both ends claim parts of it, copy them, and count them as finished.
struct Reference {
  enum State : std::uint32_t {
    offered,    ///< nobody has come for it
    taken,      ///< the receiver reads it into `target`; the sender may write there
    moving,     ///< the sender copies it into a slot
    in_slot,    ///< it lies in the descriptor's slot
    refused,    ///< the receiver cannot read it: the sender is to copy it into a slot
    withdrawn,  ///< the sender's call has failed
  };
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;  ///< in `next`: nothing can be claimed any more
  std::uint64_t address;                                            ///< in the sender
  std::uint64_t bytes;
  std::atomic<std::uint64_t> target;    ///< address in the receiver
  std::atomic<std::uint64_t> next;      ///< the first byte that is not claimed
  std::atomic<std::uint64_t> finished;  ///< bytes that are there
  std::atomic<std::uint64_t> returned;  ///< 1 + offset of a part that the sender could not write; 0: none
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> is_shared;  ///< the sender has nothing else to do than to copy its part; set when it is offered
};
inline constexpr std::size_t kReferenceAt = kBodyBytes - sizeof(Reference);
static_assert(kReferenceAt >= 64 - 16 && (kReferenceAt + 16) % alignof(Reference) == 0);
inline Reference& reference_in(ShmLine& line) { return *std::launder(reinterpret_cast<Reference*>(line.body + kReferenceAt)); }

/// Where a shown message lies, or its answer may.
struct Place {
  std::uint64_t segment;
  std::uint64_t offset;
  std::uint64_t bytes;
};
struct PlaceToAnswer {
  Place message;
  Place answer;
};

/// The common sizes as single moves: a call of memcpy costs as much as the rest of a send.
inline void copy_message(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes == 16) {
    std::memcpy(to, from, 16);
  } else if (bytes != 0) {
    copy_bytes(to, from, bytes);
  }
}

/// Wakes whoever sleeps at a bell.
void ring(ShmBell& bell);

/// The publisher does not fence between its message and this look, so a rank that is just falling asleep can be missed.
/// That is why no sleep is longer than a millisecond (ShmTransport::sleep).
inline void wake_sleepers(ShmBell& bell) {
  if (bell.sleepers.load(std::memory_order_relaxed) != 0) [[unlikely]]
    ring(bell);
}
}  // namespace shm

class ShmSender final : public Sender {
 public:
  std::size_t message_bytes() const override { return slot_bytes_; }
  bool fills_shared_memory() const override { return true; }
  Drained drained() const override {
    return {credit_line_->drained_ns.load(std::memory_order_relaxed), credit_line_->drained_bytes.load(std::memory_order_relaxed)};
  }
  Drained fetched() const override {
    return {credit_line_->fetched_ns.load(std::memory_order_relaxed), credit_line_->fetched_bytes.load(std::memory_order_relaxed)};
  }

  bool is_ready() override {
    if (acquired_ != nullptr) return true;
    if (has_line() && has_slot()) return true;
    refresh_credit();
    is_waited_ = !(has_line() && has_slot());
    return !is_waited_;
  }

  std::byte* acquire(std::size_t bytes) override {
    if (acquired_ != nullptr) return acquired_;
    if (bytes <= kInlineBytes) {
      // Built in private memory: stores that trickle into the line would be torn away by the receiver's polling.
      if (!wait_line()) [[unlikely]]
        return nullptr;
      return acquired_ = staging();
    }
    return acquired_ = acquire_slot(bytes);
  }

  void publish(std::size_t bytes, const Tag* tag) override {
    if (acquired_ == staging_.get()) {
      acquired_ = nullptr;
      write_inline(staging_.get(), bytes, tag);
    } else {
      acquired_ = nullptr;
      write_slot(bytes, tag);
    }
  }

  /// send() of at most kInlineBytes.
  bool send_inline(const std::byte* data, std::size_t bytes, const Tag* tag) {
    if (!wait_line()) [[unlikely]]
      return false;
    write_inline(data, bytes, tag);
    return true;
  }

  bool send(const std::byte* data, std::size_t bytes, const Tag* tag) override {
    if (bytes <= kInlineBytes || (tag == nullptr && bytes <= kInlineBytesUntagged)) return send_inline(data, bytes, tag);
    std::byte* room = acquire_slot(bytes);
    if (room == nullptr) return false;
    copy_bytes(room, data, bytes);
    write_slot(bytes, tag);
    return true;
  }

  void set_one_way(bool is_one_way) override { is_one_way_ = is_one_way; }

  /// True once the receiver has read this process's memory for a trial.
  bool has_references() const override { return proof_->load(std::memory_order_acquire) == 1; }

  bool send_reference(const std::byte* data, std::size_t bytes, const Tag* tag, bool is_idle = false) override;
  bool copy_references() override;
  void withdraw_references() override;

  const void* shared_area() override;
  std::byte* acquire_shared() override;
  bool send_shared(const std::byte* room, std::size_t bytes, const Tag* tag) override;
  void end_shared(const std::byte* room) override;

  bool can_show(const std::byte* data, std::size_t bytes) override;
  bool show(const std::byte* data, std::size_t bytes, const Tag* tag, std::byte* answer = nullptr) override;
  bool show_theirs(const std::byte* data, std::size_t bytes, const Tag* tag) override;
  /// Where these bytes lie, as long as the segments are as they are (UserSegments::version). False: not where can_show() would be true.
  bool locate(const std::byte* data, std::size_t bytes, shm::Place& place) const;
  /// show() of what locate() has found. False while there is no room.
  bool show_located(const shm::PlaceToAnswer& places, bool has_answer, const Tag* tag);

  std::uint64_t released() const override { return credit_; }
  bool is_drained() override {
    if (credit_ >= last_unsent_) return true;
    refresh_credit();
    if (credit_ < last_reference_) {
      help_receiver();
      refresh_credit();
    }
    is_waited_ = credit_ < last_unsent_;
    return !is_waited_;
  }

 private:
  friend class ShmTransport;

  bool has_line() const { return sent_ - credit_ <= line_mask_; }
  bool is_free(std::uint32_t slot) const { return slot_owner_[slot] <= credit_; }
  bool has_slot() {
    if (takes_lowest_ && !is_free(next_slot_)) take_lowest();
    return is_free(next_slot_);
  }
  void take_lowest() {
    for (std::uint32_t slot = slot_mask_ + 1; slot-- > 0;)
      if (is_free(slot)) next_slot_ = slot;
  }
  void refresh_credit() { credit_ = credit_line_->released.load(std::memory_order_acquire); }
  bool has_released(std::uint64_t messages) {
    if (credit_ < messages) refresh_credit();
    is_waited_ = is_waited_ || credit_ < messages;
    return credit_ >= messages;
  }

  bool wait_line() {
    if (has_line()) [[likely]]
      return true;
    refresh_credit();
    if (has_line()) return true;
    is_waited_ = true;
    return false;
  }

  std::byte* acquire_slot(std::size_t bytes) {
    if (takes_lowest_) {
      refresh_credit();
      take_lowest();
    }
    if (!has_line() || !has_slot()) {
      refresh_credit();
      if (!has_line() || !has_slot()) {
        is_waited_ = true;
        return nullptr;
      }
    }
    if (data_ == nullptr) [[unlikely]] {
      if (!find_data()) return nullptr;
    }
    return data_ + find_place(bytes) * place_bytes_;
  }

  // Messages go round in their slot's area, so that a place is filled again only when it has left the caches of both cores: a line that the
  // receiver's core still holds is slow to fill. Those of more than half a slot do so where they go one way: else four of them are a
  // mebibyte anyway, and more would only take room in the common cache from what the ranks work on. Short ones go from the end of the area
  // to its beginning: prefetchers fetch what lies behind the bytes that a core reads, and so would fetch the place that is filled next,
  // from where its sender must get it back (bench/RESULTS.md).
  std::uint32_t find_place(std::size_t bytes) {
    std::uint32_t in_area = 0;
    if (goes_round_ && bytes >= kLeastPlacedBytes && (is_one_way_ || bytes <= slot_bytes_ / 2)) {
      const auto places = static_cast<std::uint32_t>((bytes + place_bytes_ - 1) / place_bytes_);
      Round& round = rounds_[next_slot_];
      if (bytes <= kMostBackwardsBytes) {
        if (round.end < places) round.end = kPlaces;
        in_area = round.end = static_cast<std::uint8_t>(round.end - places);
      } else {
        if (round.next + places > kPlaces) round.next = 0;
        in_area = std::exchange(round.next, static_cast<std::uint8_t>(round.next + places));
      }
    }
    return place_ = next_slot_ * kPlaces + in_area;
  }

  /// Where the payload starts, after the tag if there is one.
  static std::size_t put_tag(ShmLine& line, const Tag* tag) {
    line.has_tag = tag != nullptr;
    if (tag == nullptr) return 0;
    std::memcpy(line.body, tag, kTagBytes);
    return kTagBytes;
  }

  void write_inline(const std::byte* data, std::size_t bytes, const Tag* tag) {
    ShmLine& line = lines_[sent_ & line_mask_];
    shm::copy_message(line.body + put_tag(line, tag), data, bytes);
    commit(line, shm::in_line, bytes, 0);
  }

  /// A message that is not moved: only where it lies goes.
  template <class Where>
  void write_place(ShmLine& line, const Where& where, shm::Kind kind, const Tag* tag) {
    static_assert(sizeof(Where) <= kInlineBytes);
    std::memcpy(line.body + put_tag(line, tag), &where, sizeof where);
    commit(line, kind, sizeof where, 0);
  }

  void write_slot(std::size_t bytes, const Tag* tag) {
    ShmLine& line = lines_[sent_ & line_mask_];
    put_tag(line, tag);
    slot_owner_[next_slot_] = sent_ + 1;
    const bool is_timed = goes_round_ && bytes >= kLeastPlacedBytes && is_turn_to_time(bytes);
    next_slot_ = (next_slot_ + 1) & slot_mask_;
    commit(line, is_timed ? shm::in_timed_slot : shm::in_slot, bytes, first_place_ + place_);
  }

  // By its receiver: of long messages that of one slot.
  bool is_turn_to_time(std::size_t bytes) { return bytes < TimingTurns::kEach ? timing_turns_.next(bytes) : next_slot_ == 0; }

  void commit(ShmLine& line, shm::Kind kind, std::size_t bytes, std::uint32_t place) {
    line.length = static_cast<std::uint32_t>(bytes);
    line.kind = kind;
    line.place = static_cast<std::uint16_t>(place);
    line.sequence.store(++sent_, std::memory_order_release);
    shm::wake_sleepers(*peer_bell_);
  }

  std::byte* staging() {
    if (staging_ == nullptr) [[unlikely]]
      staging_ = std::make_unique<std::byte[]>(kInlineBytes);
    return staging_.get();
  }

  void help_receiver();
  void write_parts(shm::Reference& reference);
  bool copy_into_slot(ShmLine& line, std::uint64_t number);

  // Cold: memory for slots, lent or of its own.
  bool find_data();
  bool allocate_own();
  bool is_worth_waiting();
  void rest();

  ShmLine* lines_ = nullptr;
  std::uint64_t line_mask_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t credit_ = 0;  // last seen value of credit_line_
  const ShmCredit* credit_line_ = nullptr;
  ShmBell* peer_bell_ = nullptr;
  std::byte* acquired_ = nullptr;
  std::byte* data_ = nullptr;  // null: none at hand
  std::size_t slot_bytes_ = 0;
  std::size_t place_bytes_ = 0;
  std::uint32_t first_place_ = 0;  // what the first place of data_ is called in descriptors
  std::uint32_t place_ = 0;        // of the message that is being filled
  std::uint32_t next_slot_ = 0;
  std::uint32_t slot_mask_ = 0;
  bool goes_round_ = false;    // long messages in their slots' areas; and they are timed
  bool is_one_way_ = false;    // so do those of more than half a slot
  bool takes_lowest_ = false;  // of the free slots; else they follow one another
  bool has_own_ = false;
  bool is_waited_ = false;            // the last attempt found no room
  bool cannot_write_ = false;         // into the receiver's memory
  std::int64_t waits_since_ns_ = 0;   // for the area; 0: not
  std::uint64_t last_unsent_ = 0;     // the last message that stayed in this rank's memory
  std::uint64_t last_reference_ = 0;  // the last of these that is a reference
  std::uint64_t helped_ = 0;          // what was sent before has no part left to claim
  const std::atomic<std::uint8_t>* proof_ = nullptr;
  ShmTransport* owner_ = nullptr;
  ShmSlotPool::Area* area_ = nullptr;  // null: not to be had
  int peer_ = -1;
  int channel_ = 0;
  std::unique_ptr<std::byte[]> staging_;  // kInlineBytes, from the first small message that is acquired on
  struct Round {
    static_assert(kPlaces <= UINT8_MAX);
    std::uint8_t next = 0;  // place for a long message
    std::uint8_t end = 0;   // short ones lie before it
  };
  Round rounds_[kMaxShmSlots];                   // of each slot's area
  TimingTurns timing_turns_;                     // of short messages
  std::uint64_t slot_owner_[kMaxShmSlots] = {};  // sequence of the message that used the slot last
};

class ShmReceiver final : public Receiver {
 public:
  bool reads_shared_memory() const override { return true; }

  const Message* peek() override {
    if (has_message_) {
      if (timed_since_ns_ != 0) [[unlikely]]
        begin_timing();
      return &message_;
    }
    ShmLine& line = lines_[taken_ & line_mask_];
    if (line.sequence.load(std::memory_order_acquire) != taken_ + 1) {
      is_waited_ = true;
      return nullptr;
    }
    return open(line);
  }

  const Message* peek_into(std::byte* room, std::size_t bytes) override {
    ShmLine& line = lines_[taken_ & line_mask_];
    const bool is_there = !has_message_ && line.sequence.load(std::memory_order_acquire) == taken_ + 1;
    if (!is_there || line.kind != shm::by_reference || shm::reference_in(line).bytes > bytes) return peek();
    return fetch(line, room, bytes, 0, true) ? &message_ : nullptr;
  }

  void release() override {
    has_message_ = false;
    if (timed_since_ns_ != 0) [[unlikely]]
      end_timing();
    release_inline();
  }
  void forgo_timing() override { timed_since_ns_ = 0; }

  /// The payload of the next message where it is there, travels in its descriptor and is of this length and with this tag (null: none).
  /// Null: it is not there, or peek() has more to say of it. It stays until release_inline().
  const std::byte* find_inline(std::size_t bytes, const Tag* tag) const {
    const ShmLine& line = lines_[taken_ & line_mask_];
    if (line.sequence.load(std::memory_order_acquire) != taken_ + 1 || has_message_) return nullptr;
    if (line.kind != shm::in_line || line.length != bytes || (line.has_tag != 0) != (tag != nullptr)) return nullptr;
    if (tag == nullptr) return line.body;
    return std::memcmp(line.body, tag, kTagBytes) == 0 ? line.body + kTagBytes : nullptr;
  }
  /// The bytes of the open message, which lie at `from`, to where they are wanted.
  void take_out(std::byte* to, const std::byte* from, std::size_t bytes) const {
    if (bytes >= kLeastLongCopy && comes_round_) return copy_long_from_other_core(to, from, bytes);
    shm::copy_message(to, from, bytes);
  }
  void release_inline() {
    credit_line_->released.store(++taken_, std::memory_order_release);
    shm::wake_sleepers(*peer_bell_);
  }

  bool receive(std::byte* data, std::size_t bytes, std::size_t* got, Tag* tag, bool* has_tag) override {
    if (!has_message_) {
      ShmLine& line = lines_[taken_ & line_mask_];
      if (line.sequence.load(std::memory_order_acquire) != taken_ + 1) {
        is_waited_ = true;
        return false;
      }
      if (line.kind == shm::by_reference) [[unlikely]] {
        if (!fetch(line, data, bytes, std::exchange(expected_, 0), false)) return false;
      } else if (open(line) == nullptr) {
        return false;
      }
    }
    *got = message_.bytes;
    *has_tag = message_.tag != nullptr;
    *tag = tag_;
    // Else it was shown where it is wanted, or has been fetched to there.
    if (message_.bytes <= bytes && data != message_.data) take_out(data, message_.data, message_.bytes);
    release();
    return true;
  }

  void expect(std::size_t bytes_behind) override { expected_ = bytes_behind; }

  bool has_message() override {
    if (has_message_ || lines_[taken_ & line_mask_].sequence.load(std::memory_order_acquire) == taken_ + 1) return true;
    is_waited_ = true;
    return false;
  }

  bool has_fetched() const override { return has_fetched_; }
  void give_up() override;

 private:
  friend class ShmTransport;

  const Message* open(ShmLine& line) {
    const std::size_t payload = open_tag(line);
    message_.bytes = line.length;
    message_.answer = nullptr;
    if (line.kind == shm::in_line) [[likely]] {
      message_.data = line.body + payload;
    } else if (line.kind == shm::in_slot || line.kind == shm::in_timed_slot) {
      open_slot(line);
    } else if (line.kind == shm::in_shared_slot) {
      message_.data = shared_data_ + line.place * place_bytes_;
    } else if (line.kind == shm::shown || line.kind == shm::shown_to_answer) {
      if (!find_shown(line.body + payload, line.kind == shm::shown_to_answer)) return nullptr;
    } else {
      return fetch_aside(line) ? &message_ : nullptr;
    }
    has_message_ = true;
    return &message_;
  }

  /// Where the payload starts.
  std::size_t open_tag(const ShmLine& line) {
    if (line.has_tag == 0) {
      tag_ = Tag{};
      message_.tag = nullptr;
      return 0;
    }
    std::memcpy(&tag_, line.body, kTagBytes);
    message_.tag = &tag_;
    return kTagBytes;
  }

  void open_slot(const ShmLine& line) {
    if (!has_proof_) [[unlikely]]
      prove();  // who sends by slots may send references, if its memory can be read
    has_fetched_ = false;
    message_.data = (line.place < kLentPlaces ? data_ : lent_data_) + line.place % kLentPlaces * place_bytes_;
    if (line.kind == shm::in_timed_slot) begin_timing();
  }

  // Out of the way of what small messages do.
  void begin_timing();
  void end_timing();
  void note_fetched(std::int64_t since_ns, std::uint64_t bytes);

  void prove();
  /// Goes on fetching a reference of at most `most` bytes (a longer one is dropped); true when it is there: opened as any message is.
  /// `behind`: room behind them for those that follow. `is_read_next`: here, so that what the sender copied would have to come back.
  bool fetch(ShmLine& line, std::byte* to, std::size_t most, std::size_t behind, bool is_read_next);
  /// The same into memory of this rank's own, which the pool lends where there is one.
  bool fetch_aside(ShmLine& line);
  /// Gives that memory back to the pool; false while a message lies there that has not been released.
  bool rest();
  /// False when this rank cannot read the sender's memory.
  bool read_parts(shm::Reference& reference);
  void read_with_those_behind(shm::Reference& first, std::size_t room);
  bool stop_reading(shm::Reference& reference, std::uint64_t part, int error);

  bool find_shown(const std::byte* place, bool is_to_answer);

  ShmLine* lines_ = nullptr;
  std::uint64_t line_mask_ = 0;
  std::uint64_t taken_ = 0;
  ShmCredit* credit_line_ = nullptr;
  ShmBell* peer_bell_ = nullptr;
  int peer_ = -1;
  bool has_message_ = false;
  bool is_waited_ = false;           // the last peek found nothing
  bool comes_round_ = false;         // what is sent: the peer is on another core, and writes its slots anew long after they were read
  std::int64_t timed_since_ns_ = 0;  // the open message's last peek; 0: it is not timed
  Message message_;
  Tag tag_;
  const std::byte* data_ = nullptr;         // the peer's own slots
  const std::byte* lent_data_ = nullptr;    // and those that it borrows
  const std::byte* shared_data_ = nullptr;  // those that several ranks read
  std::size_t slot_bytes_ = 0;
  std::size_t place_bytes_ = 0;
  bool has_fetched_ = false;           // the last message in a slot or by reference was the latter
  bool has_proof_ = false;             // that the peer's memory can be read, or cannot
  shm::Reference* fetched_ = nullptr;  // being read at the moment
  std::byte* fetched_to_ = nullptr;
  std::size_t expected_ = 0;            // room behind the message that receive() is called for
  std::uint64_t ahead_until_ = 0;       // references before this one are this end's, with one before them
  std::unique_ptr<std::byte[]> aside_;  // for messages that are looked at before they are received; slot_bytes_ long
  ShmTransport* owner_ = nullptr;
};

}  // namespace peal::transport
