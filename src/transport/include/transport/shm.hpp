// The shared-memory transport: the ranks of one communicator on one host, as processes or as threads, over one SharedSegment.
//
// Start: one rank creates the segment (SharedSegment::create(layout.total_bytes(), ...)), the others map it; each opens a ShmTransport.
// A way offers references (Sender::has_references) once its receiver has taken a message out of a slot and could read a secret number in
// its sender's memory.
//
// Death of a peer is not seen here (there is no connection to lose): the rooms above watch processes.
#pragma once

#include <memory>
#include <string>
#include <transport/shared_segment.hpp>
#include <transport/shm_ring.hpp>
#include <transport/user_segments.hpp>
#include <vector>

namespace peal::transport {

/// Whether processes like this one may read each other's memory, as far as the kernel's settings say: the trial between two ranks decides.
bool may_read_processes();

class ShmTransport final : public Transport {
 public:
  /// `segment` must outlive the transport and hold `layout` from its base on, which is the same on all ranks. Threads that are ranks may
  /// share one mapping.
  static Result<std::unique_ptr<ShmTransport>> open(SharedSegment& segment, const ShmLayout& layout, int rank, ShmBorrowing borrowing = {});
  ~ShmTransport() override;
  ShmTransport(const ShmTransport&) = delete;
  ShmTransport& operator=(const ShmTransport&) = delete;

  const char* name() const override { return "shm"; }
  /// Null when `peer` or `channel` does not exist or memory ran out; health() says which.
  ShmSender* sender(int peer, int channel = 0) override {
    ShmSender* end = find(senders_, peer, channel);
    return end != nullptr ? end : open_sender(peer, channel);
  }
  ShmReceiver* receiver(int peer, int channel = 0) override {
    ShmReceiver* end = find(receivers_, peer, channel);
    return end != nullptr ? end : open_receiver(peer, channel);
  }
  Status health() override { return health_; }
  /// Sleeps at most one millisecond, whatever is asked for: see wake_sleepers. Only what has been found missing or full since the last
  /// sleep can wake it.
  void sleep(std::int64_t timeout_us) override;

  /// The call is over, successfully: slots that were borrowed for it may be lent to another communicator.
  void rest() {
    if (borrowing_.pool != nullptr && borrowing_.pool->is_shared()) rest_now();
  }

  /// This rank will not try to reach any other's memory, so that nobody sends it references. Before the first message.
  void refuse_references() { reach_.assign(reach_.size(), Reach::none); }

  /// Ranks take turns on their cores: every message takes the lowest free slot, so that few are in use and stay in the caches. Before the
  /// first message.
  void keep_slots_few() { takes_lowest_ = true; }

  /// From now on messages that lie in `segments` need not be copied. `numbers`: those of this transport's ranks in the job.
  void read_from(std::shared_ptr<const UserSegments> segments, std::vector<int> numbers);
  /// To be asked before a call: true when `data` lies in a segment that all ranks of this transport map.
  bool can_show(const std::byte* data, std::size_t bytes) { return has_segments() && find_segment(data, bytes) != nullptr; }

  const ShmLayout& layout() const { return layout_; }
  int rank() const { return rank_; }
  /// The zeroed area for the rooms above, `layout().control_bytes` long.
  std::byte* control() const { return segment_.data() + layout_.base; }

 private:
  friend class ShmSender;
  friend class ShmReceiver;
  ShmTransport(SharedSegment& segment, const ShmLayout& layout, int rank, ShmBorrowing borrowing);
  /// Of this rank's messages to several others.
  struct SharedSlot {
    struct Reading {
      ShmSender* end;
      std::uint64_t messages;  // so many have gone on its ring with this one
    };
    bool is_held = false;  // until end_shared
    std::vector<Reading> readings;
  };
  void rest_now();
  bool find_shared_data();
  std::byte* acquire_shared();
  std::size_t shared_number(const std::byte* room) const { return static_cast<std::size_t>(room - shared_data_) / layout_.area_bytes(); }
  static bool is_released(SharedSlot& slot);
  void rest_shared();
  bool has_segments() {
    const std::uint64_t version = segments_ == nullptr ? 0 : segments_->version();
    if (version != seen_segments_) [[unlikely]]
      look_at_segments(version);
    return !views_.empty();
  }
  void look_at_segments(std::uint64_t version);
  const UserSegment* find_segment(const std::byte* data, std::size_t bytes) const;
  /// Null when no such bytes are mapped here; health() says so.
  std::byte* find_shown(const shm::Place& place, int peer);

  std::size_t index(int peer, int channel) const {
    return static_cast<std::size_t>(channel) * static_cast<std::size_t>(layout_.ranks) + static_cast<std::size_t>(peer);
  }
  /// Null when it has not been opened, or there is no such end.
  template <class End>
  End* find(const std::vector<std::unique_ptr<End>>& ends, int peer, int channel) const {
    const std::size_t place = index(peer, channel);
    return peer >= 0 && peer < layout_.ranks && place < ends.size() ? ends[place].get() : nullptr;
  }
  template <class End>
  End* keep(std::vector<std::unique_ptr<End>>& ends, std::unique_ptr<End> end, int peer, int channel);
  /// Whether messages go round in their slots' areas: between two ranks with a core each.
  bool goes_round() const { return layout_.spread > 1 && !takes_lowest_; }
  ShmSender* open_sender(int peer, int channel);
  ShmReceiver* open_receiver(int peer, int channel);
  bool prepare_ring(int from, int to, int channel);
  bool has_news();
  void break_down(Failure failure);
  ShmCard& card(int rank) const;
  std::atomic<std::uint8_t>& proof(int reader, int owner) const;
  /// How this rank gets at another's memory, by a trial when it is first asked for. A refusal is logged with what would change it.
  enum class Reach : std::int8_t { unknown, none, by_kernel, by_address };
  Reach reach(int owner);
  int try_reading(int owner, bool* is_beside) const;

  SharedSegment& segment_;
  ShmLayout layout_;
  int rank_;
  Status health_;
  ShmBorrowing borrowing_;
  std::vector<ShmSender*> with_data_;     // ends that have found memory since the last rest
  std::vector<ShmReceiver*> with_aside_;  // and those to which the pool has lent memory for what they read
  std::byte* shared_data_ = nullptr;      // null: not at hand
  SharedSlot shared_slots_[kMaxShmSlots];
  int next_shared_ = 0;
  bool takes_lowest_ = false;                        // of the free slots
  std::uint64_t nonce_ = 0;                          // read by the other ranks for a trial
  std::vector<std::unique_ptr<ShmSender>> senders_;  // by channel and peer, of the channels that are used
  std::vector<std::unique_ptr<ShmReceiver>> receivers_;
  std::vector<Reach> reach_;  // by rank
  struct View {
    std::shared_ptr<const UserSegment> segment;
    bool is_everywhere = false;  // all ranks of this transport map it
  };
  std::shared_ptr<const UserSegments> segments_;
  std::vector<int> numbers_;
  std::uint64_t seen_segments_ = 0;
  std::vector<View> views_;  // by address
};

}  // namespace peal::transport
