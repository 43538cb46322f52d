// Ranks that share the rows of a matrix or the sum of one: blocking calls that computing waits for, with the time it waited.
#pragma once

#include <comm/core.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace peal::parallel {

/// One thread's. Copies share the communicator, and count their own time.
class Group {
 public:
  /// Of `core`; null: a group of one, whose calls do nothing but copy.
  explicit Group(std::shared_ptr<comm::Core> core = nullptr) : core_(std::move(core)) {}
  int size() const { return core_ == nullptr ? 1 : core_->size(); }
  int rank() const { return core_ == nullptr ? 0 : core_->rank(); }
  const std::shared_ptr<comm::Core>& core() const { return core_; }

  /// In place.
  Status sum(float* data, std::int64_t count, ReduceOp op = ReduceOp::sum);
  /// Everybody's `count`, by rank.
  Status gather(const float* mine, float* all, std::int64_t count);
  /// Sum of everybody's `all`, of which this rank gets its part of `count`.
  Status scatter_sum(const float* all, float* mine, std::int64_t count);
  /// As many numbers to each rank, in rank order; `theirs` is as long as `mine`, and the ranks divide it.
  Status exchange_counts(std::span<const std::uint64_t> mine, std::span<std::uint64_t> theirs);
  /// Elements to each rank and from each, by rank, one part behind the other.
  Status exchange(const float* send, std::span<const std::uint64_t> send_counts, float* receive,
                  std::span<const std::uint64_t> receive_counts);

  /// Memory for what a call takes or brings, kept from call to call; what is in it is anybody's, until the next scratch().
  float* scratch(std::int64_t count);

  double waited_s() const { return waited_s_; }
  void forget_times() { waited_s_ = 0; }

 private:
  Status run(Collective collective, const float* send, float* receive, std::int64_t count, ReduceOp op);
  Status run(const comm::Call& call);

  std::shared_ptr<comm::Core> core_;
  std::vector<float> scratch_;
  double waited_s_ = 0;
};

}  // namespace peal::parallel
