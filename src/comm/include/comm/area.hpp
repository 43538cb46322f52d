// Where a communicator's shared memory lies: a segment of its own, or one of the areas of a batch.
//
// To hand a descriptor to every process is half of what a group costs. So the parent hands out one segment for a batch of groups. Which
// areas the groups of a split get is agreed in the exchange that it begins with: each rank says which areas are free, and the lowest of
// which everybody says so are taken. Nobody holds a lock that could outlive him; of an area that a dead rank has not given back nobody
// makes use again.
#pragma once

#include <array>
#include <atomic>
#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <transport/shared_segment.hpp>

namespace peal::comm {

/// The areas of one segment as one rank of the host sees them. Behind a page with two counters an area, one area after the other.
/// All but give_back() is for the thread that splits.
class AreaBatch {
 public:
  static constexpr int kMostAreas = 32;
  /// How many a leader has ready for the next split.
  static constexpr int kPrepared = 4;
  /// The first page of the segment, which its creator allocates.
  static constexpr std::size_t kHeadBytes = 4096;
  static std::size_t bytes_for(int areas, std::size_t area_bytes) { return kHeadBytes + static_cast<std::size_t>(areas) * area_bytes; }

  /// `area_bytes`: whole pages.
  AreaBatch(transport::SharedSegment segment, int areas, std::size_t area_bytes)
      : segment_(std::move(segment)), area_bytes_(area_bytes), areas_(areas) {}

  transport::SharedSegment& segment() { return segment_; }
  std::size_t offset_of(int area) const { return kHeadBytes + static_cast<std::size_t>(area) * area_bytes_; }
  /// A bit for each area that nobody of this host uses. What was done there happens before whoever learns of the bit.
  std::uint32_t idle() const;
  /// Some of those, whose first `head_bytes` have memory. For one rank of the host. Where there is no memory, none.
  std::uint32_t prepare(std::size_t head_bytes);
  /// A group with ranks of this host gets the area. Every rank of the host says so, in the group or not.
  void take(int area);
  /// This rank, one of the group's `ranks` on this host, uses the area no more. The last of them gives its memory back to the kernel, so
  /// that it is zeroes again.
  void give_back(int area, int ranks);

 private:
  struct Counters {
    std::atomic<std::uint64_t> returned;  ///< ranks that have given the area back; 0 again once all have
    std::atomic<std::uint64_t> ended;     ///< groups that have had it and are gone
  };
  static_assert(sizeof(Counters) * kMostAreas <= kHeadBytes);
  Counters& counters(int area) const { return reinterpret_cast<Counters*>(segment_.data())[area]; }

  transport::SharedSegment segment_;
  std::size_t area_bytes_;
  int areas_;
  std::array<std::uint64_t, kMostAreas> taken_{};  // by so many groups in all
  std::uint32_t prepared_ = 0;
};

/// One communicator's memory as one rank holds it; given back with the last holder. Its head has memory; the rest comes by
/// segment().allocate().
class Area {
 public:
  /// All of a segment.
  explicit Area(transport::SharedSegment segment) : own_(std::move(segment)) {}
  /// An area of a batch that has been taken for a group with so many ranks on this host.
  Area(std::shared_ptr<AreaBatch> batch, int number, int ranks) : batch_(std::move(batch)), number_(number), ranks_(ranks) {}
  ~Area() {
    if (batch_ != nullptr) batch_->give_back(number_, ranks_);
  }
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;

  transport::SharedSegment& segment() { return batch_ == nullptr ? own_ : batch_->segment(); }
  /// Where it begins in its segment: whole pages.
  std::size_t offset() const { return batch_ == nullptr ? 0 : batch_->offset_of(number_); }
  std::byte* data() { return segment().data() + offset(); }

 private:
  transport::SharedSegment own_;
  std::shared_ptr<AreaBatch> batch_;
  int number_ = 0;
  int ranks_ = 0;
};

/// What a rank says of its parent's newest batch when groups are to be made; travels in the exchange of a split.
struct AreaClaim {
  std::uint32_t batch = 0;  ///< 0: there has been none
  std::uint32_t idle = 0;
};

/// The batches of one communicator as one rank holds them. Only the newest has areas to give; older ones live as long as their groups.
class AreaBatches {
 public:
  static constexpr int kMostOfASplit = AreaBatch::kPrepared;

  /// `prepared_bytes`: for one rank of each host, what a group needs of its area at once; else 0.
  AreaClaim claim(std::size_t prepared_bytes) const {
    if (newest_ == nullptr) return {};
    return {number_, prepared_bytes == 0 ? newest_->idle() : newest_->prepare(prepared_bytes)};
  }

  /// What follows from all ranks' claims, the same on all of them: areas of the newest batch, or of the next one, which is to be made.
  struct Choice {
    std::uint32_t areas = 0;  ///< a bit for each group of the split, in their order
    std::uint32_t batch = 0;  ///< the one that they lie in; 0: so many groups get no areas
  };
  static Choice choose(std::span<const AreaClaim> claims, int groups);
  /// Areas of the batch of that number: few at first, then more, as long as their addresses stay within bounds.
  static int areas_of(std::uint32_t batch, std::size_t area_bytes);

  std::uint32_t number() const { return number_; }
  void begin(std::uint32_t number, std::shared_ptr<AreaBatch> batch) {
    number_ = number;
    newest_ = std::move(batch);
  }
  const std::shared_ptr<AreaBatch>& newest() const { return newest_; }

 private:
  std::uint32_t number_ = 0;
  std::shared_ptr<AreaBatch> newest_;
};

}  // namespace peal::comm
