// Whether what a rank sends to its peer goes through slots or stays in its own memory, where the peer reads it: learnt.
//
// Through slots every byte is copied twice, by reference once, by the kernel. Between cores that share a cache two copies are faster,
// between others one is (docs/decisions/messages-read-in-the-senders-memory.md), and where the cores of two ranks lie is not known on a
// virtual machine and changes while it runs. Where both ranks send and receive in one call, each fills slots and takes out what its peer
// has filled, or reads what its peer offers; so what a byte costs is the sum of filling and taking out, or reading alone, whoever does it.
// The sender knows the one (FillChoice), the receiver tells the other and how long it reads (Sender::drained, fetched).
#pragma once

#include <algorithm>
#include <cstdint>
#include <executor/fill_choice.hpp>
#include <transport/channel.hpp>

namespace peal::executor {

/// Of calls that send messages of one kind to one peer, which sends as much; one thread at a time.
class ReferenceChoice {
 public:
  /// A call is about to send `bytes`. True: as references. `fetched`: what the receiver has said so far of those.
  bool choose(std::uint64_t bytes, const CostOfSlots& slots, transport::Drained fetched) {
    switch (way_) {
      case Way::slots:
        if (passed_ >= interval_ && slots.samples > 0) go(Way::trial, fetched);
        break;
      case Way::trial: end_trial(slots, fetched); break;
      case Way::references:
        if (told(fetched).bytes >= kSample) ns_a_byte_ += (take_sample(fetched) - ns_a_byte_) / 4;
        if (passed_ < interval_) break;
        samples_ = slots.samples;
        go(Way::review, fetched);
        break;
      case Way::review:
        if (slots.samples - samples_ >= kReviewSamples || passed_ >= kMostUntold) end_review(slots, fetched);
        break;
    }
    passed_ += bytes;
    return way_ == Way::trial || way_ == Way::references;
  }

 private:
  /// A trial is a few calls by reference, of which the first do not count: what the peer has not read before it has to fetch. Where data is
  /// not written between two calls it has read them in steady use; where it is, each trial shows what that costs. A review is a few calls
  /// through slots.
  enum class Way : std::uint8_t { slots, trial, references, review };
  static constexpr std::uint64_t kSample = 1 << 20;
  static constexpr std::uint64_t kMostUntold = 4 << 20;  // bytes of a trial or a review of which nobody says what they cost
  static constexpr std::uint32_t kReviewSamples = 3;     // of FillChoice: the last of them counts
  static constexpr std::uint64_t kSoonest = 4 << 20;     // bytes between two trials or reviews
  static constexpr std::uint64_t kLatest = 512 << 20;    // while nothing changes
  static constexpr double kBetter = 0.95;                // of what is in use: worth a change

  transport::Drained told(transport::Drained fetched) const { return {fetched.ns - since_.ns, fetched.bytes - since_.bytes}; }

  void go(Way way, transport::Drained fetched) {
    way_ = way;
    passed_ = 0;
    since_ = fetched;
    is_warm_ = false;
  }
  double take_sample(transport::Drained fetched) {
    const double ns_a_byte = static_cast<double>(told(fetched).ns) / static_cast<double>(told(fetched).bytes);
    since_ = fetched;
    return ns_a_byte;
  }
  /// A change, or what is in use was right: then it is held against the other way less often.
  void settle(Way way, bool is_change, transport::Drained fetched) {
    interval_ = is_change ? kSoonest : std::min(2 * interval_, kLatest);
    go(way, fetched);
  }
  void end_trial(const CostOfSlots& slots, transport::Drained fetched) {
    if (!is_warm_ && passed_ >= kSample) {
      is_warm_ = true;
      since_ = fetched;
      return;
    }
    if (!is_warm_ || told(fetched).bytes < kSample) {
      if (passed_ >= kMostUntold) settle(Way::slots, false, fetched);
      return;
    }
    ns_a_byte_ = take_sample(fetched);
    const bool is_better = ns_a_byte_ < kBetter * slots.ns_a_byte;
    settle(is_better ? Way::references : Way::slots, is_better, fetched);
  }
  void end_review(const CostOfSlots& slots, transport::Drained fetched) {
    const bool is_told = slots.samples - samples_ >= kReviewSamples;
    const bool is_better = is_told && slots.ns_a_byte < kBetter * ns_a_byte_;
    settle(is_better ? Way::slots : Way::references, is_better, fetched);
  }

  Way way_ = Way::slots;
  bool is_warm_ = false;      // a trial counts
  std::uint64_t passed_ = 0;  // bytes since the way was changed
  std::uint64_t interval_ = kSoonest;
  transport::Drained since_;   // what the receiver had said at the last sample of references
  double ns_a_byte_ = 0;       // of these, smoothed
  std::uint32_t samples_ = 0;  // through slots, when the review began
};

}  // namespace peal::executor
