// Gradients of a program's own parameters, summed in buckets beside its backward pass (<peal/parallel.hpp>).
#pragma once

#include <parallel/call_stream.hpp>
#include <span>
#include <vector>

namespace peal::parallel {

class GradientReducer {
 public:
  /// Sizes are elements, in the order of the forward pass; their sum is that of `gradients`.
  static Result<std::unique_ptr<GradientReducer>> make(std::shared_ptr<comm::Core> core, std::span<float> gradients,
                                                       std::span<const std::size_t> sizes, std::size_t bucket_bytes, ReduceOp op);
  ~GradientReducer() { calls_.drain(); }

  Status ready(std::size_t parameter);
  Status finish();
  void set_accumulating(bool is_accumulating) { is_accumulating_ = is_accumulating; }
  std::size_t buckets() const { return buckets_.size(); }
  const CallStream::Times& times() const { return calls_.times(); }

 private:
  struct Bucket {
    std::span<float> gradients;
    std::size_t parameters = 0, missing = 0;
  };
  explicit GradientReducer(std::shared_ptr<comm::Core> core, ReduceOp op) : calls_(std::move(core)), op_(op) {}
  Status start_full();

  CallStream calls_;
  ReduceOp op_;
  std::vector<Bucket> buckets_;         // in the order of the backward pass, in which they leave on all ranks
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<bool> is_ready_;
  std::size_t next_ = 0;  // the first bucket that has not left
  bool is_accumulating_ = false;
};

}  // namespace peal::parallel
