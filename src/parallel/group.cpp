#include <algorithm>
#include <base/clock.hpp>
#include <numeric>
#include <parallel/group.hpp>

namespace peal::parallel {

Status Group::run(const comm::Call& call) {
  const std::int64_t from = now_ns();
  PEAL_TRY(core_->run(call));
  waited_s_ += static_cast<double>(now_ns() - from) * 1e-9;
  return {};
}

Status Group::run(Collective collective, const float* send, float* receive, std::int64_t count, ReduceOp op) {
  if (size() == 1) {
    if (send != receive) std::copy_n(send, count, receive);
    return {};
  }
  comm::Call call;
  call.collective = collective;
  call.send = send;
  call.receive = receive;
  call.count = static_cast<std::uint64_t>(count);
  call.type = DataType::f32;
  call.op = op;
  return run(call);
}

Status Group::sum(float* data, std::int64_t count, ReduceOp op) { return run(Collective::all_reduce, data, data, count, op); }

Status Group::gather(const float* mine, float* all, std::int64_t count) {
  return run(Collective::all_gather, mine, all, count, ReduceOp::sum);
}

Status Group::scatter_sum(const float* all, float* mine, std::int64_t count) {
  return run(Collective::reduce_scatter, all, mine, count, ReduceOp::sum);
}

float* Group::scratch(std::int64_t count) {
  if (scratch_.size() < static_cast<std::size_t>(count)) scratch_.resize(static_cast<std::size_t>(count));
  return scratch_.data();
}

Status Group::exchange_counts(std::span<const std::uint64_t> mine, std::span<std::uint64_t> theirs) {
  if (size() == 1) {
    std::copy(mine.begin(), mine.end(), theirs.begin());
    return {};
  }
  comm::Call call;
  call.collective = Collective::all_to_all;
  call.send = mine.data();
  call.receive = theirs.data();
  call.count = mine.size() / static_cast<std::size_t>(size());
  call.type = DataType::u64;
  return run(call);
}

Status Group::exchange(const float* send, std::span<const std::uint64_t> send_counts, float* receive,
                       std::span<const std::uint64_t> receive_counts) {
  if (size() == 1) {
    std::copy_n(send, send_counts[0], receive);
    return {};
  }
  const auto firsts = [](std::span<const std::uint64_t> counts) {
    std::vector<std::uint64_t> first(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), first.begin(), std::uint64_t{0});
    return first;
  };
  const std::vector<std::uint64_t> send_firsts = firsts(send_counts), receive_firsts = firsts(receive_counts);
  comm::Call call;
  call.collective = Collective::all_to_all_v;
  call.send = send;
  call.receive = receive;
  call.type = DataType::f32;
  call.send_counts = send_counts;
  call.send_displs = send_firsts;
  call.receive_counts = receive_counts;
  call.receive_displs = receive_firsts;
  return run(call);
}

}  // namespace peal::parallel
