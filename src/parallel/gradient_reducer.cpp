#include <algorithm>
#include <numeric>
#include <parallel/gradient_reducer.hpp>

namespace peal::parallel {

Result<std::unique_ptr<GradientReducer>> GradientReducer::make(std::shared_ptr<comm::Core> core, std::span<float> gradients,
                                                               std::span<const std::size_t> sizes, std::size_t bucket_bytes, ReduceOp op) {
  const std::size_t sum = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  if (sum != gradients.size())
    return fail(ErrorCode::invalid_argument, "the sizes of parameters add up to {} and there are {} gradients; give every parameter's size",
                sum, gradients.size());
  std::unique_ptr<GradientReducer> reducer(new GradientReducer(std::move(core), op));
  reducer->bucket_of_.resize(sizes.size());
  reducer->is_ready_.assign(sizes.size(), false);
  std::vector<Bucket>& buckets = reducer->buckets_;
  std::size_t end = gradients.size();
  for (std::size_t parameter = sizes.size(); parameter-- > 0;) {
    const std::size_t size = sizes[parameter], first = end - size;
    const bool fits = !buckets.empty() && (buckets.back().gradients.size() + size) * sizeof(float) <= bucket_bytes;
    if (!fits) buckets.push_back({gradients.subspan(end, 0), 0, 0});
    Bucket& bucket = buckets.back();
    bucket.gradients = gradients.subspan(first, bucket.gradients.size() + size);
    bucket.missing = ++bucket.parameters;
    reducer->bucket_of_[parameter] = buckets.size() - 1;
    end = first;
  }
  return reducer;
}

Status GradientReducer::ready(std::size_t parameter) {
  if (parameter >= bucket_of_.size())
    return fail(ErrorCode::invalid_argument, "there is no parameter {} among {}, which count from 0", parameter, bucket_of_.size());
  calls_.look();
  if (is_accumulating_) return {};
  if (is_ready_[parameter])
    return fail(ErrorCode::invalid_argument, "parameter {} was ready before in this step; call finish() between steps", parameter);
  is_ready_[parameter] = true;
  --buckets_[bucket_of_[parameter]].missing;
  return start_full();
}

// A later bucket that is full waits for those before it: all ranks make the same calls in the same order.
Status GradientReducer::start_full() {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) {
    comm::Call call;
    call.collective = Collective::all_reduce;
    call.send = call.receive = buckets_[next_].gradients.data();
    call.count = buckets_[next_].gradients.size();
    call.type = DataType::f32;
    call.op = op_;
    PEAL_TRY(calls_.start(call));
  }
  return {};
}

Status GradientReducer::finish() {
  if (is_accumulating_) return {};
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  PEAL_TRY(start_full());
  PEAL_TRY(calls_.wait_for_all());
  std::fill(is_ready_.begin(), is_ready_.end(), false);
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
  next_ = 0;
  return {};
}

}  // namespace peal::parallel
