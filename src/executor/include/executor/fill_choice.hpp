// How the slots of one channel are filled: through the caches, or past them.
//
// Between cores that share a cache, plain stores are faster: the receiver finds the data there. Between cores that do not, each line has
// to be fetched out of the sender's cache, up to five times slower than out of memory (bench/RESULTS.md); then stores that bypass the
// caches win. Where the cores of two ranks lie is not known on a virtual machine and changes while it runs, so the choice is learnt from
// the stream itself, over a mebibyte a sample. The way in use is kept while its cost stays what it was; now and then, and soon after the
// cost has changed, the other way is tried for two samples, of which the first only flushes what was in flight.
//
// In a long call the sender waits for slots, and so for its receiver: the time from one message to the next is that of both. In a short
// one it waits for nobody. There the time of filling counts, and twice past the caches, because the receiver has to fetch what went to
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <reduce/copy.hpp>
#include <vector>

namespace peal::executor {

/// Of one sending end; one thread at a time, as the end itself.
class FillChoice {
 public:
  /// Shorter messages are always filled through the caches: their receiver waits for them, and a look at the clock would cost too much.
  static constexpr std::uint64_t kLeastBytes = 8 * 1024;

  reduce::Stores stores() const noexcept { return is_past_ ? reduce::Stores::streaming : reduce::Stores::cached; }

  /// A message is about to be filled. `is_first` of its call on this channel: what went before does not count.
  void begin(bool is_first, std::int64_t now_ns) noexcept {
    began_ns_ = now_ns;
    if (!is_first) return;
    last_ns_ = now_ns;
    is_after_long_ = sent_in_call_ > kSlots;
    sent_in_call_ = 0;
  }
  /// A message of `bytes` has been filled and published.
  void sent(std::uint64_t bytes, std::int64_t now_ns) noexcept {
    filling_ns_ += static_cast<double>(now_ns - began_ns_);
    elapsed_ns_ += static_cast<double>(now_ns - last_ns_);
    last_ns_ = now_ns;
    bytes_ += bytes;
    if (++sent_in_call_ > kSlots || is_after_long_) paced_bytes_ += bytes;
    if (bytes_ >= kSampleBytes) take_sample();
  }

 private:
  static constexpr std::uint64_t kSampleBytes = 1 << 20;
  static constexpr int kSlots = 4;          // messages of a call that wait for no receiver
  static constexpr double kFetched = 2;     // filling past the caches and fetching what was filled, of filling alone
  static constexpr int kFirstTrial = 4;     // samples before the other way is tried
  static constexpr int kSoonestTrial = 16;  // after the cost has changed
  static constexpr int kLatestTrial = 256;  // while it has not
  static constexpr double kBetter = 0.95;   // of the cost of the way in use: worth a change
  static constexpr double kChanged = 1.6;   // the cost is another one

  enum class Phase : std::uint8_t { steady, trial_begins, trial };

  void take_sample() noexcept {
    const bool is_paced = 2 * paced_bytes_ > bytes_;
    const double time = is_paced ? elapsed_ns_ : is_past_ ? kFetched * filling_ns_ : filling_ns_;
    const double cost = time / static_cast<double>(bytes_);
    filling_ns_ = elapsed_ns_ = 0;
    bytes_ = paced_bytes_ = 0;
    switch (phase_) {
      case Phase::trial_begins: phase_ = Phase::trial; return;
      case Phase::trial: end_trial(cost); return;
      case Phase::steady: break;
    }
    if (cost_ == 0) cost_ = cost;
    const bool has_changed = cost > cost_ * kChanged || cost * kChanged < cost_;
    cost_ += (cost - cost_) / 4;
    if (has_changed && samples_to_trial_ > kSoonestTrial) samples_to_trial_ = interval_ = kSoonestTrial;
    if (--samples_to_trial_ > 0) return;
    is_past_ = !is_past_;
    phase_ = Phase::trial_begins;
  }

  void end_trial(double cost) noexcept {
    phase_ = Phase::steady;
    if (cost < cost_ * kBetter) {
      cost_ = cost;
      interval_ = kSoonestTrial;
    } else {
      is_past_ = !is_past_;
      interval_ = interval_ * 2 < kLatestTrial ? interval_ * 2 : kLatestTrial;
    }
    samples_to_trial_ = interval_;
  }

  double filling_ns_ = 0;
  double elapsed_ns_ = 0;  // from one message to the next
  std::uint64_t bytes_ = 0;
  std::uint64_t paced_bytes_ = 0;  // those of them that were sent in long calls
  std::int64_t began_ns_ = 0;
  std::int64_t last_ns_ = 0;
  int sent_in_call_ = 0;
  bool is_after_long_ = false;  // the call before was a long one: this will be another
  double cost_ = 0;             // ns a byte of the way in use, smoothed
  int samples_to_trial_ = kFirstTrial;
  int interval_ = kSoonestTrial;
  Phase phase_ = Phase::steady;
  bool is_past_ = false;
};

/// Those of a communicator's sending ends, each from its first large message on: a communicator may be one of hundreds.
class FillChoices {
 public:
  void resize(std::size_t ends) { choices_.resize(ends); }
  FillChoice& operator[](std::size_t end) {
    std::unique_ptr<FillChoice>& choice = choices_[end];
    if (choice == nullptr) [[unlikely]]
      choice = std::make_unique<FillChoice>();
    return *choice;
  }

 private:
  std::vector<std::unique_ptr<FillChoice>> choices_;
};

}  // namespace peal::executor
