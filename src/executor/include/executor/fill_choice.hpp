// How the slots of one channel are filled: through the caches, or past them.
//
// Between cores that share a cache, plain stores are faster: the receiver finds the data there. Between cores that do not, each line has
// to be fetched out of the sender's cache, up to five times slower than out of memory (bench/RESULTS.md); then stores that bypass the
// caches win. Where the cores of two ranks lie is not known on a virtual machine and changes while it runs, so the choice is learnt from
// the stream itself, over a mebibyte a sample. The way in use is kept while its cost stays what it was; now and then, and soon after the
// cost has changed, the other way is tried. What has been filled the one way is slow to fill the other way, and all is slow to fill at
// first, so the first samples do not count, until the slots' areas (ShmLayout) have been gone round.
//
// In a long call the sender waits for slots, and so for its receiver: the time from one message to the next is that of both. In a short
// one it waits for nobody. There the time of filling counts, and that which the receiver says it took to take messages out: what was filled
// past the caches it has to fetch from memory. Short messages of short calls are timed now and then, since the clock is part of what they
// cost.
//
// Ranks that share cores: from one message to the next others have their turns, so the time of filling alone counts. To a rank of the same
// core all goes through its caches. All that a rank sends to other cores is one stream, so that little of it is enough to learn from; it
// begins past the caches, which costs a little where that is wrong, and half where it is right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <reduce/copy.hpp>
#include <transport/channel.hpp>
#include <utility>
#include <vector>

namespace peal::executor {

/// Of one sending end, or of all of a rank that shares its core to ranks of other cores; one thread at a time, as the ends themselves.
class FillChoice {
 public:
  enum class Of : std::uint8_t { one_end, all_to_other_cores };
  explicit FillChoice(Of of = Of::one_end) : is_alone_(of == Of::one_end), is_past_(of == Of::all_to_other_cores) {}

  /// Shorter messages are always filled through the caches: their receiver waits for them, and a look at the clock would cost too much.
  static constexpr std::uint64_t kLeastBytes = 8 * 1024;

  reduce::Stores stores() const noexcept { return is_past_ ? reduce::Stores::streaming : reduce::Stores::cached; }

  /// A message of `bytes` is about to be filled: true when it is to be timed, by begin() before and end() after. `is_first` of its call on
  /// this channel: what went before does not count.
  bool is_to_be_timed(std::uint64_t bytes, bool is_first) noexcept {
    if (is_first) {
      is_after_long_ = sent_in_call_ > kSlots;
      sent_in_call_ = 0;
      last_ns_ = 0;
    }
    is_paced_ = (++sent_in_call_ > kSlots || is_after_long_) && is_alone_;
    bytes_ += bytes;
    return is_paced_ || bytes >= kAlwaysTimed || untimed_++ % kTimedOf == 0;
  }
  void begin(std::int64_t now_ns) noexcept {
    is_timing_ = true;
    began_ns_ = now_ns;
  }
  bool is_timing() const noexcept { return is_timing_; }
  /// It has been filled and published. True when a sample is complete: take_sample() is to follow.
  bool end(std::uint64_t bytes, std::int64_t now_ns) noexcept {
    is_timing_ = false;
    filling_ns_ += static_cast<double>(now_ns - began_ns_);
    filled_bytes_ += bytes;
    if (is_paced_) {
      elapsed_ns_ += static_cast<double>(now_ns - (last_ns_ != 0 ? last_ns_ : began_ns_));
      paced_bytes_ += bytes;
    }
    last_ns_ = now_ns;
    return bytes_ >= kSampleBytes;
  }
  /// `drained`: what the receiver of this end has taken out so far; of several ends it tells nothing.
  void take_sample(transport::Drained drained) noexcept {
    if (!is_alone_) drained = {};
    const double cost = cost_of(drained);
    drained_ = drained;
    filling_ns_ = elapsed_ns_ = 0;
    bytes_ = filled_bytes_ = paced_bytes_ = 0;
    judge(cost);
  }

 private:
  static constexpr std::uint64_t kSampleBytes = 1 << 20;
  static constexpr std::uint64_t kAlwaysTimed = 64 * 1024;
  static constexpr std::uint32_t kTimedOf = 4;  // one of so many shorter messages is timed
  static constexpr int kSlots = 4;              // messages of a call that wait for no receiver
  static constexpr int kUncounted = 3;          // samples until the slots are as they stay
  static constexpr int kInFlight = 1;           // the same in long calls, and where nothing goes round (and nothing is timed)
  static constexpr double kFetched = 2;         // filling past the caches and fetching, of filling alone: no receiver timed it
  static constexpr int kFirstTrial = 2;         // samples that count before the other way is tried
  static constexpr int kSoonestTrial = 16;      // after the cost has changed
  static constexpr int kLatestTrial = 256;      // while it has not
  static constexpr double kPastBetter = 0.95;   // of the cost through the caches: worth a change, which costs something itself
  static constexpr double kChanged = 1.6;       // the cost is another one

  // ns a byte.
  double cost_of(transport::Drained drained) const noexcept {
    if (2 * paced_bytes_ > filled_bytes_) return elapsed_ns_ / static_cast<double>(paced_bytes_);
    const double filling = filling_ns_ / static_cast<double>(filled_bytes_);
    const std::uint64_t taken = drained.bytes - drained_.bytes;
    if (taken == 0) return is_past_ ? kFetched * filling : filling;
    return filling + static_cast<double>(drained.ns - drained_.ns) / static_cast<double>(taken);
  }

  void judge(double cost) noexcept {
    if (uncounted_ > 0) {
      --uncounted_;
      return;
    }
    if (is_trial_) return end_trial(cost);
    if (cost_ == 0) cost_ = cost;
    const bool has_changed = cost > cost_ * kChanged || cost * kChanged < cost_;
    cost_ += (cost - cost_) / 4;
    if (has_changed && samples_to_trial_ > kSoonestTrial) samples_to_trial_ = interval_ = kSoonestTrial;
    if (--samples_to_trial_ > 0) return;
    is_trial_ = true;
    change();
  }

  void change() noexcept {
    is_past_ = !is_past_;
    uncounted_ = is_paced_ || drained_.bytes == 0 ? kInFlight : kUncounted;
  }

  void end_trial(double cost) noexcept {
    is_trial_ = false;
    if (is_past_ ? cost < kPastBetter * cost_ : cost < cost_) {
      cost_ = cost;
      interval_ = kSoonestTrial;
    } else {
      change();
      interval_ = interval_ * 2 < kLatestTrial ? interval_ * 2 : kLatestTrial;
    }
    samples_to_trial_ = interval_;
  }

  double filling_ns_ = 0;  // of filled_bytes_
  double elapsed_ns_ = 0;  // from one message to the next, of paced_bytes_
  std::uint64_t bytes_ = 0;
  std::uint64_t filled_bytes_ = 0;  // those of them that were timed
  std::uint64_t paced_bytes_ = 0;   // those of them that were sent in long calls
  transport::Drained drained_;
  std::int64_t began_ns_ = 0;
  std::int64_t last_ns_ = 0;  // 0: of another call
  int sent_in_call_ = 0;
  std::uint32_t untimed_ = 0;
  bool is_after_long_ = false;  // the call before was a long one: this will be another
  bool is_paced_ = false;       // the message that is being sent
  bool is_timing_ = false;
  double cost_ = 0;  // ns a byte of the way in use, smoothed
  int samples_to_trial_ = kFirstTrial;
  int interval_ = kSoonestTrial;
  int uncounted_ = kUncounted;
  bool is_trial_ = false;
  bool is_alone_;  // else other ranks have their turns between two messages
  bool is_past_;
};

/// Those of a communicator's sending ends, each from its first large message on: a communicator may be one of hundreds.
class FillChoices {
 public:
  void resize(std::size_t ends) {
    if (is_beside_.empty()) choices_.resize(ends);
  }
  /// The rank shares its core. `is_beside`: by peer, whether it does with that one. Ends are numbered as by edge_index(). Before resize().
  void share_core(std::vector<bool> is_beside) { is_beside_ = std::move(is_beside); }
  /// Null: nothing is to choose, all goes through the caches.
  FillChoice* find(std::size_t end) {
    if (!is_beside_.empty()) return is_beside_[end % is_beside_.size()] ? nullptr : &to_other_cores_;
    std::unique_ptr<FillChoice>& choice = choices_[end];
    if (choice == nullptr) [[unlikely]]
      choice = std::make_unique<FillChoice>();
    return choice.get();
  }
  /// Of what is filled once for several ends, of which this is one: some are on other cores.
  FillChoice* find_shared(std::size_t end) { return is_beside_.empty() ? find(end) : &to_other_cores_; }

 private:
  std::vector<std::unique_ptr<FillChoice>> choices_;
  std::vector<bool> is_beside_;  // empty: ranks have a core each
  FillChoice to_other_cores_{FillChoice::Of::all_to_other_cores};
};

}  // namespace peal::executor
