// How the slots of one channel are filled: through the caches, or past them.
//
// Between cores that share a cache, plain stores are faster: the receiver finds the data there. Between cores that do not, each line has
// to be fetched out of the sender's cache, up to five times slower than out of memory (bench/RESULTS.md); then stores that bypass the
// caches win. Where the cores of two ranks lie is not known on a virtual machine and changes while it runs, so the choice is learnt from
// the stream itself, over a mebibyte a sample. The way in use is kept while its cost stays what it was; now and then, and soon after the
// cost has changed, the other way is tried. What has been filled the one way is slow to fill the other way, and all is slow to fill at
// first, so the first samples do not count, until the slots' areas (ShmLayout) have been gone round. A trial whose filling alone is far
// slower than all that the way in use costs, or with what the receiver takes far slower, ends after a few messages: in full it would cost
// as much as it could gain in a long time.
//
// In a long call the sender waits for slots, and so for its receiver: the time from one message to the next is that of both. In a short
// one it waits for nobody. There the time of filling counts, and that which the receiver says it took to take messages out: what was filled
// past the caches it has to fetch from memory. Filling ends when the message can be seen, not when its last store has been issued: what
// goes past the caches is on its way for 0.3 us. Short messages of short calls are timed now and then, since the clock is part of what they
// cost. The same two times count in long calls of ranks that receive, too, by turns with their sending: from one message to the next such a
// rank takes out what its peer has filled, and what it gains by its own choice is its peer's time, not its own.
//
// What a byte costs differs with the length of messages, with whether their sender waits for the receiver, and with whether it does more
// than copy on the way, by more than the two ways differ. So every such kind of messages is a stream of its own: else a trial among
// messages of one kind would be held against the cost of others. Where one kind has found that it must change, the others try soon, also
// those of the process's other communicators (ways_found.hpp), and kinds that are new begin with what was found last.
//
// Ranks that share cores: from one message to the next others have their turns, so the time of filling alone counts. To a rank of the same
// core all goes through its caches. All that a rank sends to other cores is one stream, so that little of it is enough to learn from; it
// begins past the caches, which costs a little where that is wrong, and half where it is right.
#pragma once

#include <algorithm>
#include <array>
#include <base/clock.hpp>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <executor/ways_found.hpp>
#include <limits>
#include <memory>
#include <reduce/copy.hpp>
#include <span>
#include <transport/channel.hpp>
#include <transport/timing_turns.hpp>
#include <utility>
#include <vector>

namespace peal::executor {

/// What messages of one kind cost through slots, filled by the way in use.
struct CostOfSlots {
  double ns_a_byte = 0;       ///< filling and taking out, in the last sample
  std::uint32_t samples = 0;  ///< so far, in which the receiver said something
};

inline reduce::Stores stores_for(bool is_past) noexcept { return is_past ? reduce::Stores::streaming : reduce::Stores::cached; }

/// The choice for messages of one kind, which cost alike but for how they are filled.
class FillLearner {
 public:
  /// `is_alone`: else other ranks have their turns between two messages. `is_paced`: who fills them waits for his receiver. `is_past`: the
  /// way to begin with.
  FillLearner(bool is_alone, bool is_paced, bool is_past) : is_alone_(is_alone), is_paced_(is_paced), is_past_(is_past) {}

  static constexpr int kSlots = 4;  // messages of a call that wait for no receiver

  /// That the way not in use is better, and is in use from now on; clearly: by so much that it must come from where the cores lie.
  enum class Found : std::uint8_t { nothing, better, clearly_better };

  bool is_past() const noexcept { return is_past_; }
  bool is_paced() const noexcept { return is_paced_; }

  /// A message is about to be filled: true when it is to be timed.
  bool count(std::uint64_t bytes) noexcept {
    bytes_ += bytes;
    return is_paced_ || timing_turns_.next(bytes);
  }
  /// It took so long to fill, and so much time has passed since the message before it, which counts where that is paced. True when a sample
  /// is complete, or a trial is to be looked at: take_sample() is to follow.
  bool add(std::uint64_t bytes, std::int64_t filling_ns, std::int64_t elapsed_ns) noexcept {
    const auto ns = static_cast<double>(is_paced_ ? elapsed_ns : filling_ns);
    timed_ns_ += ns;
    timed_bytes_ += bytes;
    if (++timed_messages_ > first_told()) least_ns_a_byte_ = std::min(least_ns_a_byte_, ns / static_cast<double>(bytes));
    return bytes_ >= kSampleBytes || is_far_off() || is_to_be_peeked();
  }
  /// `drained_so_far`, `sent_so_far`: what the receiver has taken out, and bytes that were sent, of all kinds that learn. A sample that
  /// is not complete goes on, unless it shows that the trial is far off.
  Found take_sample(transport::Drained drained_so_far, std::uint64_t sent_so_far) noexcept {
    const transport::Drained drained{drained_so_far.ns - drained_.ns, drained_so_far.bytes - drained_.bytes};
    const std::uint64_t others = sent_so_far - sent_ - bytes_;
    const bool is_told = is_alone_ && !is_paced_ && drained.bytes > 0 && others <= kMostOthers * bytes_;
    const bool is_complete = bytes_ >= kSampleBytes;
    const bool is_given_up = is_far_off() || (!is_complete && is_told && cost_with(drained) > kFarOff * usual_[1]);
    if (!is_complete && !is_given_up) {
      next_peek_ *= 2;
      return Found::nothing;
    }
    drained_ = drained_so_far;
    sent_ = sent_so_far;
    const bool had_drained = has_drained_;
    if (is_given_up) {
      begin_sample();
      return give_trial_up();
    }
    mixed_in_a_row_ = others > 0 && !is_paced_ ? mixed_in_a_row_ + 1 : 0;
    has_drained_ = is_told;
    const bool counts = mixed_in_a_row_ == 0 || mixed_in_a_row_ >= kAlwaysMixed;
    if (!counts) has_drained_ = had_drained;
    const double cost = cost_of(drained);
    begin_sample();
    return counts ? judge(cost) : Found::nothing;
  }
  const CostOfSlots& told() const noexcept { return told_; }
  /// Another kind has found that this way is better now: it is to be tried soon, or, where that is clear and nothing speaks for the other
  /// one yet, taken at once.
  void hear(bool is_past, bool is_clear) noexcept {
    if (is_past == is_past_ || is_trial_) return;
    if (is_clear && usual_[0] == 0 && usual_[1] == 0) {
      is_past_ = is_past;
      begin_sample();
    } else {
      samples_to_trial_ = std::min(samples_to_trial_, kFirstTrial);
    }
  }

 private:
  static constexpr std::uint64_t kSampleBytes = 1 << 20;
  static constexpr int kUncounted = 3;    // samples until the slots are as they stay
  static constexpr int kInFlight = 1;     // the same past the caches, in long calls, and where nothing goes round (and nothing is timed)
  static constexpr int kAlwaysMixed = 2;  // samples in a row: this kind does not come alone; one may be left of what was before
  static constexpr std::uint64_t kMostOthers = 3;          // times its bytes: what the receiver says then is of others
  static constexpr double kFetched = 2;                    // filling past the caches and fetching, of filling alone: no receiver timed it
  static constexpr int kFirstTrial = 2;                    // samples that count before the other way is tried
  static constexpr int kMostUnlike = 8;                    // samples of a trial are waited for one that can be compared
  static constexpr int kSurelyChanged = 2;                 // samples in a row
  static constexpr int kSoonestTrial = 16;                 // after the one before, when the cost has changed
  static constexpr int kLatestTrial = 256;                 // while it has not
  static constexpr double kPastBetter = 0.95;              // of the cost through the caches: worth a change, which costs something itself
  static constexpr double kClearly = 0.75;                 // of the cost of the other way
  static constexpr double kChanged = 1.6;                  // the cost is another one
  static constexpr double kChangedPast = 1.25;             // past the caches, where near cores differ less from far ones
  static constexpr double kChangedMuch = 2;                // the other way is tried at once
  static constexpr double kFarOff = 2;                     // a trial ends
  static constexpr std::uint64_t kPeekBytes = 128 * 1024;  // of a trial, before it is looked at
  static constexpr int kPeekMessages = 2;                  // likewise, timed

  void begin_sample() noexcept {
    next_peek_ = kPeekBytes;
    timed_ns_ = 0;
    bytes_ = timed_bytes_ = 0;
    timed_messages_ = 0;
    least_ns_a_byte_ = std::numeric_limits<double>::max();
  }

  /// The trial's filling alone takes so much longer than all that the other way takes that the rest of it need not be known. By its fastest
  /// message, since a core may be taken from the rank for a while.
  bool is_far_off() const noexcept {
    return is_trial_ && bytes_ >= kPeekBytes && timed_messages_ >= first_told() + kPeekMessages && low_ > 0 &&
           least_ns_a_byte_ > kFarOff * low_;
  }
  /// So it may be by what the receiver has said by then, if the way in use was judged by that, too. He goes on taking out what was filled
  /// before for a few messages, so the trial is looked at more than once.
  bool is_to_be_peeked() const noexcept { return is_trial_ && usual_[1] > 0 && bytes_ >= next_peek_ && timed_messages_ >= kPeekMessages; }
  /// Messages of a sample that do not tell: while slots are free their sender waits for nobody.
  int first_told() const noexcept { return is_paced_ ? kSlots : 0; }

  // ns a byte.
  double timed() const noexcept { return timed_ns_ / static_cast<double>(timed_bytes_); }
  double cost_with(transport::Drained drained) const noexcept {
    return timed() + static_cast<double>(drained.ns) / static_cast<double>(drained.bytes);
  }
  double cost_of(transport::Drained drained) const noexcept {
    if (has_drained_) return cost_with(drained);
    return is_past_ && !is_paced_ ? kFetched * timed() : timed();
  }

  Found judge(double cost) noexcept {
    if (uncounted_ > 0) {
      --uncounted_;
      return Found::nothing;
    }
    double& usual = usual_[has_drained_ ? 1 : 0];
    // A receiver that has said something will again, and tells more than none.
    const bool is_like = usual > 0 && (has_drained_ || usual_[1] == 0);
    if (is_trial_) {
      if (!is_like && ++unlike_ < kMostUnlike) return Found::nothing;
      if (cost >= (is_past_ ? kPastBetter : 1) * usual) return give_trial_up();
      return keep_trial(cost, cost < kClearly * usual);
    }
    if (has_drained_) told_ = {cost, told_.samples + 1};
    if (usual == 0) usual = cost;
    const bool has_changed = is_past_ ? cost * kChangedPast < usual : cost > usual * kChanged;
    changed_in_a_row_ = has_changed ? changed_in_a_row_ + 1 : 0;
    const bool is_far_more = cost > kChangedMuch * usual;
    usual += (cost - usual) / 4;
    low_ = low_ == 0 || cost < low_ ? cost : low_ + (cost - low_) / 32;
    ++since_trial_;
    if (changed_in_a_row_ >= kSurelyChanged) {
      interval_ = kSoonestTrial;
      samples_to_trial_ = is_far_more ? 1 : std::min(samples_to_trial_, std::max(1, kSoonestTrial - since_trial_));
    }
    if (--samples_to_trial_ > 0) return Found::nothing;
    is_trial_ = true;
    change();
    return Found::nothing;
  }

  void change() noexcept {
    is_past_ = !is_past_;
    uncounted_ = is_past_ || is_paced_ || !has_drained_ ? kInFlight : kUncounted;
  }

  /// The way on trial, which costs so much, is in use from now on.
  Found keep_trial(double cost, bool is_clear) noexcept {
    usual_ = {};
    usual_[has_drained_ ? 1 : 0] = low_ = cost;
    interval_ = kSoonestTrial;
    end_trial();
    return is_clear ? Found::clearly_better : Found::better;
  }
  /// Back to the other one.
  Found give_trial_up() noexcept {
    change();
    interval_ = interval_ * 2 < kLatestTrial ? interval_ * 2 : kLatestTrial;
    end_trial();
    return Found::nothing;
  }
  void end_trial() noexcept {
    is_trial_ = false;
    since_trial_ = changed_in_a_row_ = unlike_ = 0;
    samples_to_trial_ = interval_;
  }

  transport::Drained drained_;  // at the last sample
  std::uint64_t sent_ = 0;      // likewise
  double timed_ns_ = 0;         // of timed_bytes_
  std::uint64_t bytes_ = 0;
  std::uint64_t next_peek_ = kPeekBytes;                         // of bytes_
  std::uint64_t timed_bytes_ = 0;                                // those of them that were timed
  int timed_messages_ = 0;                                       // likewise
  double least_ns_a_byte_ = std::numeric_limits<double>::max();  // of these, but for the first_told()
  CostOfSlots told_;
  std::array<double, 2> usual_{};  // ns a byte of the way in use, smoothed; 0: not known. Without and with what the receiver said
  double low_ = 0;                 // the same where others disturbed least, which it leaves slowly
  int samples_to_trial_ = kFirstTrial;
  int interval_ = kSoonestTrial;
  int uncounted_ = kUncounted;
  int mixed_in_a_row_ = 0;
  int changed_in_a_row_ = 0;
  int since_trial_ = 0;  // samples
  int unlike_ = 0;       // samples of this trial that could not be compared
  transport::TimingTurns timing_turns_;
  bool is_trial_ = false;
  bool has_drained_ = false;  // its receiver said something that counts
  bool is_alone_;
  bool is_paced_;
  bool is_past_;
};

/// Of one sending end, or of all of a rank that shares its core to ranks of other cores; one thread at a time, as the ends themselves.
class FillChoice {
 public:
  enum class Of : std::uint8_t { one_end, all_to_other_cores };
  /// `found`: to its receiver, shared with other communicators; must outlive this. Null: not shared.
  explicit FillChoice(Of of = Of::one_end, WayFound* found = nullptr)
      : found_(found), is_alone_(of == Of::one_end), is_past_(of == Of::all_to_other_cores) {}

  /// Shorter messages go through the caches.
  static constexpr std::uint64_t kLeastBytes = 2 * 1024;
  /// Shorter ones, of which learning costs a few percent, go through the caches until longer ones have found the other way better, and
  /// learn from then on whether that is right for them. One-way they stay there: who only sends need not wait until they are filled.
  static constexpr std::uint64_t kLeastAlwaysLearntBytes = 4 * 1024;
  /// As kLeastBytes, where ranks share cores, and shorter ones go through the caches: the choice begins past the caches, which near costs
  /// such messages a quarter more.
  static constexpr std::uint64_t kLeastBytesToOtherCores = 8 * 1024;

  /// What a sender does while it fills a message. Reducing, or keeping the data as well, is no part of what the slots cost.
  enum class Work : std::uint8_t { copies, does_more };

  /// A message of `bytes` is about to be filled: true when it is to be timed, by begin() before and end() after. `is_first` of its call on
  /// this channel: what went before does not count.
  bool is_to_be_timed(std::uint64_t bytes, bool is_first, Work work = Work::copies) {
    stays_ = bytes < kLeastAlwaysLearntBytes && !(receives_ && found_ != nullptr && WayFound::is_past_in(found_->version(false)));
    if (stays_) return false;
    if (is_first) {
      is_after_long_ = sent_in_call_ > FillLearner::kSlots;
      sent_in_call_ = 0;
      last_ns_ = 0;
      if (found_ != nullptr && found_->version(false) != heard_) hear();
    }
    is_paced_ = (++sent_in_call_ > FillLearner::kSlots || is_after_long_) && is_alone_ && !(receives_ && is_told_);
    current_ = learner(bytes, work);
    sent_ += bytes;
    return current_->count(bytes);
  }
  /// Of messages of `bytes` that are no more than copied, where their receiver says how long it takes.
  CostOfSlots told(std::uint64_t bytes) const noexcept {
    const std::unique_ptr<FillLearner>& learner = learners_[static_cast<std::size_t>(kind_of(bytes, false, Work::copies))];
    return learner == nullptr || !is_alone_ ? CostOfSlots{} : learner->told();
  }
  /// Whether the rank receives in this call as well.
  void set_receives(bool receives) noexcept { receives_ = receives; }
  /// How to fill it.
  reduce::Stores stores() const noexcept {
    if (stays_) return reduce::Stores::cached;
    return stores_for(current_ != nullptr ? current_->is_past() : is_past_);
  }
  void begin(std::int64_t now_ns) noexcept {
    is_timing_ = true;
    began_ns_ = now_ns;
  }
  bool is_timing() const noexcept { return is_timing_; }
  /// The message that is timed has been filled and published to `to`: end() and, when the sample is to be looked at, take_sample().
  void end_timed(std::uint64_t bytes, const transport::Sender& to);
  /// It has been filled and published. True when the sample is to be looked at: take_sample() is to follow.
  bool end(std::uint64_t bytes, std::int64_t now_ns) noexcept {
    is_timing_ = false;
    const bool is_complete = current_->add(bytes, now_ns - began_ns_, now_ns - (last_ns_ != 0 ? last_ns_ : began_ns_));
    last_ns_ = now_ns;
    return is_complete;
  }
  /// `drained`: what the receiver of this end has taken out so far; of several ends it tells nothing.
  void take_sample(transport::Drained drained) noexcept {
    is_told_ = drained.bytes > 0;
    const FillLearner::Found found = current_->take_sample(drained, sent_);
    if (found == FillLearner::Found::nothing) return;
    const bool is_clear = found == FillLearner::Found::clearly_better;
    for (const std::unique_ptr<FillLearner>& other : learners_)
      if (other != nullptr && other.get() != current_) other->hear(current_->is_past(), is_clear);
    if (found_ == nullptr || !is_clear) return;
    found_->note(current_->is_past(), current_->is_paced());
    if (!current_->is_paced()) heard_ = found_->version(false);
  }

 private:
  static constexpr int kLengths = 6;  // from kLeastBytes on, each up to twice its beginning; the last has all that is longer
  static constexpr int kPaces = 2;
  static constexpr int kWorks = 2;

  static int kind_of(std::uint64_t bytes, bool is_paced, Work work) noexcept {
    const int length = std::clamp(static_cast<int>(std::bit_width(bytes / kLeastBytes)) - 1, 0, kLengths - 1);
    return (length * kPaces + (is_paced ? 1 : 0)) * kWorks + static_cast<int>(work);
  }
  /// Another communicator has found a change. Only of messages that are not paced: long calls change for less than cores that are moved.
  void hear() noexcept {
    heard_ = found_->version(false);
    for (const std::unique_ptr<FillLearner>& learner : learners_)
      if (learner != nullptr && !learner->is_paced()) learner->hear(WayFound::is_past_in(heard_), true);
  }
  /// A kind that comes for the first time begins with what was found last, or with what is right for the one before it.
  bool begins_past() const noexcept {
    for (const bool is_paced : {is_paced_, !is_paced_})
      if (const WayFound::Version found = found_ == nullptr ? 0 : found_->version(is_paced); found != 0) return WayFound::is_past_in(found);
    return current_ != nullptr ? current_->is_past() : is_past_;
  }
  /// Of several ends all is of one kind.
  FillLearner* learner(std::uint64_t bytes, Work work) {
    const int kind = is_alone_ ? kind_of(bytes, is_paced_, work) : 0;
    std::unique_ptr<FillLearner>& place = learners_[static_cast<std::size_t>(kind)];
    if (place == nullptr) [[unlikely]]
      place = std::make_unique<FillLearner>(is_alone_, is_paced_, begins_past());
    return place.get();
  }

  std::array<std::unique_ptr<FillLearner>, kLengths * kPaces * kWorks> learners_;
  FillLearner* current_ = nullptr;  // of the message at hand
  WayFound* found_;                 // null: not shared
  WayFound::Version heard_ = 0;
  std::int64_t began_ns_ = 0;
  std::int64_t last_ns_ = 0;  // 0: of another call
  std::uint64_t sent_ = 0;    // bytes of all kinds that learn
  int sent_in_call_ = 0;
  bool is_after_long_ = false;  // the call before was a long one: this will be another
  bool is_paced_ = false;       // the message at hand
  bool receives_ = false;       // the rank, in this call
  bool is_told_ = false;        // by the receiver how long it takes
  bool is_timing_ = false;
  bool stays_ = false;  // the message at hand: in the caches
  bool is_alone_;       // one end
  bool is_past_;        // at first
};

/// Before a message of `bytes` is filled by `fill`, and after it has been published to `to`. Null: there is nothing to choose.
inline void begin_fill(FillChoice* fill, std::uint64_t bytes, bool is_first, FillChoice::Work work = FillChoice::Work::copies) {
  if (fill != nullptr && fill->is_to_be_timed(bytes, is_first, work)) fill->begin(now_ns());
}
inline void end_fill(FillChoice* fill, std::uint64_t bytes, const transport::Sender& to) {
  if (fill != nullptr && fill->is_timing()) [[unlikely]]
    fill->end_timed(bytes, to);
}
inline reduce::Stores stores_by(const FillChoice* fill) { return fill == nullptr ? reduce::Stores::cached : fill->stores(); }
/// Where what is sent is to be kept as well: done with the first copy of it, in the same pass, and then nowhere.
struct KeptBeside {
  std::byte* place = nullptr;  // null: nowhere
  reduce::Stores stores = reduce::Stores::cached;
  reduce::Both both = reduce::Both::at_once;
  FillChoice::Work work() const { return place == nullptr ? FillChoice::Work::copies : FillChoice::Work::does_more; }
  void copy(std::byte* room, const std::byte* data, std::size_t bytes, reduce::Stores room_stores) {
    if (place == nullptr) return reduce::copy(room, data, bytes, room_stores);
    reduce::copy_twice(room, room_stores, std::exchange(place, nullptr), stores, data, bytes, both);
  }
};
/// `data` as one message through a slot of `to`, which fills shared memory. False: there is no room yet.
inline bool send_filled(FillChoice* fill, transport::Sender& to, const std::byte* data, std::size_t bytes, const transport::Tag* tag,
                        KeptBeside& kept) {
  std::byte* const room = to.acquire(bytes);
  if (room == nullptr) return false;
  begin_fill(fill, bytes, tag != nullptr, kept.work());
  kept.copy(room, data, bytes, stores_by(fill));
  to.publish(bytes, tag);
  end_fill(fill, bytes, to);
  return true;
}

/// Those of a communicator's sending ends, each from its first large message on: a communicator may be one of hundreds.
class FillChoices {
 public:
  void resize(std::size_t ends) {
    if (is_beside_.empty()) choices_.resize(ends);
  }
  /// The rank shares its core. `is_beside`: by peer, whether it does with that one. Ends are numbered as by edge_index(). Before resize().
  void share_core(std::vector<bool> is_beside) {
    is_beside_ = std::move(is_beside);
    to_other_cores_ = std::make_unique<FillChoice>(FillChoice::Of::all_to_other_cores);
    least_bytes_ = FillChoice::kLeastBytesToOtherCores;
  }
  /// What is found is shared with other communicators: `job_ranks` are those of the peers. Both must outlive this.
  void share(WaysFound& found, std::span<const int> job_ranks) {
    found_ = &found;
    job_ranks_ = job_ranks;
  }
  /// Shorter messages are filled through the caches.
  std::uint64_t least_bytes() const { return least_bytes_; }
  /// Null: nothing is to choose, all goes through the caches.
  FillChoice* find(std::size_t end) {
    if (!is_beside_.empty()) return is_beside_[end % is_beside_.size()] ? nullptr : to_other_cores_.get();
    std::unique_ptr<FillChoice>& choice = choices_[end];
    if (choice == nullptr) [[unlikely]]
      choice = std::make_unique<FillChoice>(FillChoice::Of::one_end,
                                            found_ == nullptr ? nullptr : &found_->to(job_ranks_[end % job_ranks_.size()]));
    return choice.get();
  }
  /// Of what is filled once for several ends, of which this is one: some are on other cores.
  FillChoice* find_shared(std::size_t end) { return to_other_cores_ == nullptr ? find(end) : to_other_cores_.get(); }

 private:
  std::vector<std::unique_ptr<FillChoice>> choices_;
  WaysFound* found_ = nullptr;  // null: not shared
  std::span<const int> job_ranks_;
  std::vector<bool> is_beside_;  // empty: ranks have a core each
  std::uint64_t least_bytes_ = FillChoice::kLeastBytes;
  std::unique_ptr<FillChoice> to_other_cores_;  // null: ranks have a core each
};

}  // namespace peal::executor
