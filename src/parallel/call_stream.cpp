#include <algorithm>
#include <base/clock.hpp>
#include <parallel/call_stream.hpp>

namespace peal::parallel {

Result<std::int64_t> CallStream::keep(Result<std::shared_ptr<comm::WorkState>> work) {
  if (!work) return pass_on(std::move(work).error());
  flying_.push_back({std::move(*work), now_ns()});
  return begun_++;
}

Result<std::int64_t> CallStream::start(const comm::Call& call) {
  look();
  return keep(core_->start(call));
}

Result<std::int64_t> CallStream::start(std::span<const comm::PairTransfer> transfers) {
  look();
  return keep(core_->start_group(transfers));
}

void CallStream::note_end() {
  const std::int64_t now = now_ns();
  times_.took_s += static_cast<double>(now - std::max(flying_.front().begun_ns, last_end_ns_)) * 1e-9;
  last_end_ns_ = now;
  flying_.pop_front();
  ++ended_;
}

void CallStream::look() {
  while (!flying_.empty() && flying_.front().work->state.load(std::memory_order_acquire) == comm::WorkState::kDone) note_end();
}

void CallStream::drain() {
  for (const Flying& flying : flying_) core_->wait(*flying.work, 0);
  flying_.clear();
  ended_ = begun_;
}

Status CallStream::wait(std::int64_t number) {
  look();
  if (has_ended(number)) return {};
  const std::int64_t from = now_ns();
  while (!has_ended(number)) {
    comm::WorkState& front = *flying_.front().work;
    core_->wait(front, 0);
    if (front.state.load(std::memory_order_acquire) == comm::WorkState::kFailed) return pass_on(front.failure);
    note_end();
  }
  times_.waited_s += static_cast<double>(now_ns() - from) * 1e-9;
  return {};
}

}  // namespace peal::parallel
