// Asynchronous calls of one communicator, one after the other, beside computing: what they took and what was waited for.
#pragma once

#include <comm/core.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

namespace peal::parallel {

/// One thread's. Calls end in the order in which they began, as the communicator has it.
class CallStream {
 public:
  /// Of `core`, or of nobody (null): then there is nothing to start.
  explicit CallStream(std::shared_ptr<comm::Core> core) : core_(std::move(core)) {}
  /// A number to wait for. Buffers belong to the call until it has ended.
  Result<std::int64_t> start(const comm::Call& call);
  Result<std::int64_t> start(std::span<const comm::PairTransfer> transfers);
  Status wait(std::int64_t number);
  Status wait_for_all() { return wait(begun_ - 1); }
  /// Waits until nothing flies, whatever has become of it: before buffers go away.
  void drain();
  /// Notes which calls have ended since the last look: the more often, the truer the times.
  void look();
  bool has_ended(std::int64_t number) const { return number < ended_; }

  struct Times {
    double took_s = 0;    ///< of all calls, each from its start or the end of the one before
    double waited_s = 0;  ///< that the thread stood in wait()
  };
  const Times& times() const { return times_; }
  void forget_times() { times_ = {}; }

 private:
  struct Flying {
    std::shared_ptr<comm::WorkState> work;
    std::int64_t begun_ns = 0;
  };
  Result<std::int64_t> keep(Result<std::shared_ptr<comm::WorkState>> work);
  void note_end();

  std::shared_ptr<comm::Core> core_;
  std::deque<Flying> flying_;
  std::int64_t begun_ = 0, ended_ = 0;
  std::int64_t last_end_ns_ = 0;
  Times times_;
};

}  // namespace peal::parallel
