// The fake transport: n ranks inside one object, for tests. Time is a counter of ticks that every failed attempt and every sleep
// advances, delays come from a seeded generator, so a single-threaded run repeats exactly. Messages of different channels overtake each
// other as their delays fall; within a channel the order holds. Nothing is dropped in silence: what a stalled channel holds back comes
// when it is released, and a killed rank is reported by health() of everybody.
//
// Threads: all of it may be used from several threads (one mutex), then ticks depend on how these interleave.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <transport/channel.hpp>
#include <vector>

namespace peal::transport {

struct FakeOptions {
  std::uint64_t seed = 1;
  int channels = 1;
  int slots = 4;  ///< messages in flight on a channel
  std::size_t message_bytes = 256 * 1024;
  int longest_delay_ticks = 0;  ///< a message becomes visible after 0 to this many ticks
  bool has_references = true;
  int references_after = 0;           ///< times r: messages that a way to rank r has carried before it offers them
  bool has_shared_copies = false;     ///< one copy for several receivers
  bool is_by_sockets = false;         ///< as far as poll_descriptor() says; nobody polls it
  std::int64_t longest_sleep_us = 0;  ///< 0: sleep() only ticks; else threads really wait for news up to this long
};

class FakeFabric;

class FakeSender final : public Sender {
 public:
  std::size_t message_bytes() const override;
  bool is_ready() override;
  std::byte* acquire(std::size_t bytes) override;
  void publish(std::size_t bytes, const Tag* tag) override;
  bool send(const std::byte* data, std::size_t bytes, const Tag* tag) override;
  bool has_references() const override;
  bool send_reference(const std::byte* data, std::size_t bytes, const Tag* tag, bool is_idle = false) override;
  bool is_drained() override;
  const void* shared_area() override;
  std::byte* acquire_shared() override;
  bool send_shared(const std::byte* room, std::size_t bytes, const Tag* tag) override;
  void end_shared(const std::byte* room) override;
  int poll_descriptor() const override;

 private:
  friend class FakeFabric;
  FakeFabric* fabric_ = nullptr;
  std::size_t way_ = 0;
  std::vector<std::byte> room_;
  bool has_room_ = false;
};

class FakeReceiver final : public Receiver {
 public:
  const Message* peek() override;
  void release() override;
  int poll_descriptor() const override;

 private:
  friend class FakeFabric;
  FakeFabric* fabric_ = nullptr;
  std::size_t way_ = 0;
  bool has_message_ = false;
  Message message_;
};

class FakeTransport final : public Transport {
 public:
  const char* name() const override { return "fake"; }
  FakeSender* sender(int peer, int channel = 0) override;
  FakeReceiver* receiver(int peer, int channel = 0) override;
  Status health() override;
  void sleep(std::int64_t timeout_us) override;

 private:
  friend class FakeFabric;
  friend class FakeSender;
  FakeFabric* fabric_ = nullptr;
  int rank_ = 0;
  std::deque<std::vector<std::byte>> shared_rooms_;  // an empty one is free
};

class FakeFabric {
 public:
  FakeFabric(int ranks, const FakeOptions& options);
  FakeFabric(const FakeFabric&) = delete;
  FakeFabric& operator=(const FakeFabric&) = delete;

  FakeTransport& transport(int rank) { return transports_[static_cast<std::size_t>(rank)]; }
  int ranks() const { return ranks_; }
  const FakeOptions& options() const { return options_; }

  /// Lets time pass.
  void tick(std::uint64_t ticks = 1);
  std::uint64_t now();
  /// Holds back everything on the channel that has not been seen yet, until it is called with false.
  void stall(int from, int to, int channel, bool is_stalled);
  /// The rank is dead from now: it sends no more, takes no more, and every health() names it. What it had sent still arrives.
  void kill(int rank);
  /// The channel breaks as a connection does: both ends' health() name the other side.
  void break_channel(int from, int to, int channel);
  /// Messages sent and not yet released, over all channels.
  std::size_t in_flight();

 private:
  friend class FakeSender;
  friend class FakeReceiver;
  friend class FakeTransport;
  struct Parcel {
    std::vector<std::byte> bytes;
    const std::byte* reference = nullptr;
    std::size_t length = 0;
    bool has_tag = false;
    Tag tag;
    std::uint64_t visible_at = 0;
  };
  struct Way {  // one channel from one rank to another
    int from = 0;
    int to = 0;
    std::deque<Parcel> parcels;
    std::size_t references = 0;
    std::uint64_t carried = 0;  // messages, those that have gone too
    bool is_stalled = false;
    FakeSender sender;
    FakeReceiver receiver;
  };

  std::size_t way(int from, int to, int channel) const;
  bool has_room(std::size_t at) const;
  bool is_alive(int rank) const { return dead_[static_cast<std::size_t>(rank)] == 0; }
  bool has_references(std::size_t at) const;
  void put(std::size_t at, Parcel parcel, const Tag* tag);
  void fail_rank(int rank, Failure failure);
  std::uint64_t next_random();

  int ranks_;
  FakeOptions options_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::uint64_t news_count_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t random_;
  std::deque<Way> ways_;  // stable addresses: ends live here
  std::vector<FakeTransport> transports_;
  std::vector<char> dead_;
  std::vector<Status> health_;
};

}  // namespace peal::transport
