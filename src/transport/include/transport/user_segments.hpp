// Memory of the user's that the ranks of a host share, so that a message need not be copied to be sent: the sender shows where it lies,
// and the receiver reads it there (Sender::show).
//
// A segment has a page for its ranks to say that they have given their parts back, and then one part a rank. Every rank of the host that
// took part in making it maps all of it, and keeps it mapped until the last of them has given its part back: until then a message may be
// on its way that lies there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <transport/shared_segment.hpp>
#include <vector>

namespace peal::transport {

class UserSegment {
 public:
  static constexpr std::size_t kHeadBytes = 4096;

  /// `holders`: the ranks that map it, by their numbers in the job, ascending. `id` is the same on all of them and is no other segment's.
  UserSegment(std::uint64_t id, SharedSegment memory, std::vector<int> holders)
      : id_(id), memory_(std::move(memory)), holders_(std::move(holders)) {
    memory_.close_descriptor();
  }

  std::uint64_t id() const { return id_; }
  std::byte* data() const { return memory_.data(); }
  std::size_t bytes() const { return memory_.bytes(); }
  const std::vector<int>& holders() const { return holders_; }

  /// This rank's part will not be used again; once a holder.
  void give_back() { returned().fetch_add(1, std::memory_order_acq_rel); }
  /// True when all holders have: then no message lies here any more.
  bool is_abandoned() const { return returned().load(std::memory_order_acquire) == holders_.size(); }

 private:
  std::atomic<std::uint64_t>& returned() const { return *reinterpret_cast<std::atomic<std::uint64_t>*>(memory_.data()); }

  std::uint64_t id_;
  SharedSegment memory_;
  std::vector<int> holders_;
};

/// All segments that one rank of the job maps. Any thread.
class UserSegments {
 public:
  using List = std::vector<std::shared_ptr<const UserSegment>>;

  void add(std::shared_ptr<UserSegment> segment);
  /// This rank gives its part back. Segments that everybody has given back are forgotten.
  void give_back(UserSegment& segment);

  List list() const;
  /// Goes up with every change of the list; 0: there has never been a segment.
  std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  void forget_abandoned();

  mutable std::mutex mutex_;
  List list_;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace peal::transport
