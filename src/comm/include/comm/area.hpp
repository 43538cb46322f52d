// Where a communicator's shared memory lies: a segment of its own, or one of the areas of a batch.
//
// Groups of all ranks of a parent are many where there are many groups at all, and to hand a descriptor to every process is half of what
// they cost. So the parent hands out one segment for a batch of them. Which area a group gets is agreed in the exchange that every split
// begins with: each rank says which areas it does not use, and the lowest that nobody uses is taken. Nobody holds a lock that could outlive
// him; of an area that a dead rank has not given back nobody makes use again.
#pragma once

#include <atomic>
#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <transport/shared_segment.hpp>

namespace peal::comm {

/// The areas of one segment as one rank of the host sees them. Behind a page with a counter an area, one area after the other.
class AreaBatch {
 public:
  static constexpr int kMostAreas = 32;
  /// The first page of the segment, which its creator allocates.
  static constexpr std::size_t kHeadBytes = 4096;
  static std::size_t bytes_for(int areas, std::size_t area_bytes) { return kHeadBytes + static_cast<std::size_t>(areas) * area_bytes; }

  /// `area_bytes`: whole pages. `ranks`: of this host, which all use each area.
  AreaBatch(transport::SharedSegment segment, int areas, std::size_t area_bytes, int ranks)
      : segment_(std::move(segment)), area_bytes_(area_bytes), ranks_(ranks), idle_(static_cast<std::uint32_t>((1ull << areas) - 1)) {}

  transport::SharedSegment& segment() { return segment_; }
  std::size_t offset_of(int area) const { return kHeadBytes + static_cast<std::size_t>(area) * area_bytes_; }
  /// A bit for each area that this rank does not use. What it has done there before happens before whoever learns of the bit.
  std::uint32_t idle() const { return idle_.load(std::memory_order_acquire); }
  /// Of the areas that this rank does not use some whose first `head_bytes` have memory. For one rank of the host: what it prepares is not
  /// given back under its hands, because everybody has done so before. Where there is no memory, none.
  std::uint32_t prepare(std::size_t head_bytes);
  void take(int area) { idle_.fetch_and(~(1u << area), std::memory_order_acq_rel); }
  /// This rank uses the area no more. The last rank of the host gives its memory back to the kernel, so that it is zeroes again.
  void give_back(int area);

 private:
  static constexpr int kPrepared = 4;
  /// How many ranks have given the area back; 0 again once all have.
  std::atomic<std::uint64_t>& returned(int area) { return reinterpret_cast<std::atomic<std::uint64_t>*>(segment_.data())[area]; }

  transport::SharedSegment segment_;
  std::size_t area_bytes_;
  int ranks_;
  std::atomic<std::uint32_t> idle_;
  std::atomic<std::uint32_t> prepared_{0};
};

/// One communicator's memory as one rank holds it; given back with the last holder. Its head has memory; the rest comes by
/// segment().allocate().
class Area {
 public:
  /// All of a segment.
  explicit Area(transport::SharedSegment segment) : own_(std::move(segment)) {}
  /// An area of a batch, which all ranks of the host take.
  Area(std::shared_ptr<AreaBatch> batch, int number) : batch_(std::move(batch)), number_(number) { batch_->take(number_); }
  ~Area() {
    if (batch_ != nullptr) batch_->give_back(number_);
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
};

/// What a rank says of its parent's newest batch when a group is to be made; travels in the exchange of a split.
struct AreaClaim {
  std::uint32_t batch = 0;  ///< 0: there has been none
  std::uint32_t idle = 0;
};

/// The batches of one communicator as one rank holds them. Only the newest has areas to give; older ones live as long as their groups.
class AreaBatches {
 public:
  /// `prepared_bytes`: for one rank of each host, what a group needs of its area at once; else 0.
  AreaClaim claim(std::size_t prepared_bytes) const {
    if (newest_ == nullptr) return {};
    return {number_, prepared_bytes == 0 ? newest_->idle() : newest_->prepare(prepared_bytes)};
  }

  /// What follows from all ranks' claims, the same on all of them: an area of the newest batch, or the number of the batch to be made.
  struct Choice {
    int area = -1;            ///< -1: none is free, or not all ranks have the newest batch
    std::uint32_t batch = 0;  ///< the one that it lies in
  };
  static Choice choose(std::span<const AreaClaim> claims);
  /// Areas of the batch of that number: few at first, then more, as long as their addresses stay within bounds.
  static int areas_of(std::uint32_t batch, std::size_t area_bytes);

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
