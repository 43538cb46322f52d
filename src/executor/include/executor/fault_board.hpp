// The fault board: memory that the ranks of a communicator on one host share, with the first fault (it wins; everybody reports it)
// and what every rank is calling. Written with plain atomics, so that a rank that dies while writing cannot lock the others out.
#pragma once

#include <atomic>
#include <base/result.hpp>
#include <cstddef>
#include <cstdint>
#include <executor/call_signature.hpp>

namespace peal::executor {

/// A fault as it is stored and sent: fixed size, no pointers.
struct FaultRecord {
  std::int32_t code = 0;       ///< ErrorCode
  std::int32_t rank = -1;      ///< culprit in the communicator, or -1
  std::int32_t reporter = -1;  ///< rank that recorded it
  std::int32_t peer = -1;
  char operation[32] = {};
  char text[336] = {};  ///< zero terminated
};
static_assert(sizeof(FaultRecord) == 384);

FaultRecord to_record(const Failure& failure, int reporter);
Failure to_failure(const FaultRecord& record);

/// What one rank is doing, for "who has not called yet" and for status.
struct CallState {
  CallSignature call;
  std::uint64_t calls = 0;  ///< collectives entered so far
  bool inside = false;
  bool is_whole = false;  ///< false: the rank is just entering another call, and `call` may be half of each
};

class FaultBoard {
 public:
  FaultBoard() = default;
  /// `memory`: bytes_for(ranks) bytes, zeroed before first use, cache-line aligned; not owned. Rank numbers are the communicator's.
  FaultBoard(std::byte* memory, int ranks);
  static std::size_t bytes_for(int ranks);

  /// True as soon as somebody has begun to record a fault. One load.
  bool is_set() const { return header_ != nullptr && header_->state.load(std::memory_order_acquire) != 0; }
  /// Records a fault unless there is one; true when this one won.
  bool record(const FaultRecord& fault);
  /// The first fault; only when is_set(). Waits at most 100 ms for a reporter that is still writing.
  FaultRecord first() const;

  /// `tag` is to_tag() of the call that the rank enters.
  void enter(int rank, const transport::Tag& tag) {
    Line& line = lines_[rank];
    const std::uint64_t calls = line.calls.load(std::memory_order_relaxed) + 1;
    line.begun.store(calls, std::memory_order_relaxed);
    for (int i = 0; i < 3; ++i) line.words[i].store(tag.words[i], std::memory_order_release);
    line.calls.store(calls, std::memory_order_release);
    line.inside.store(kInside, std::memory_order_release);
  }
  void leave(int rank) { lines_[rank].inside.store(kOutside, std::memory_order_release); }
  /// The rank destroys its communicator in order: its end is no fault any more.
  void depart(int rank) { lines_[rank].inside.store(kDeparted, std::memory_order_release); }
  bool has_departed(int rank) const { return lines_[rank].inside.load(std::memory_order_acquire) == kDeparted; }
  CallState state_of(int rank) const;
  /// A word from one rank to the others of its host: what it is about to hand out. What was written before is visible to who reads it.
  void announce(int rank, std::uint64_t word) { lines_[rank].announced.store(word, std::memory_order_release); }
  std::uint64_t announced(int rank) const { return lines_[rank].announced.load(std::memory_order_acquire); }
  int ranks() const { return ranks_; }

 private:
  enum : std::uint64_t { kOutside, kInside, kDeparted };
  struct Header {
    std::atomic<std::uint32_t> state;  // 0 none, 1 being written, 2 written
    std::uint32_t reserved[31];
    FaultRecord fault;
  };
  struct alignas(128) Line {
    std::atomic<std::uint64_t> begun;  // calls whose words are being written, or were
    std::atomic<std::uint64_t> calls;  // calls whose words stand here whole
    std::atomic<std::uint64_t> inside;
    std::atomic<std::uint64_t> words[3];
    std::atomic<std::uint64_t> announced;
  };

  Header* header_ = nullptr;
  Line* lines_ = nullptr;
  int ranks_ = 0;
};

}  // namespace peal::executor
