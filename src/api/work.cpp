#include "handles.hpp"

#include <base/clock.hpp>

namespace peal {

namespace {
void throw_if_failed(const comm::WorkState& state) {
  if (state.state.load(std::memory_order_acquire) == comm::WorkState::kFailed) throw_failure(state.failure);
}
}  // namespace

Work::Work() = default;
Work::Work(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Work::Work(Work&&) noexcept = default;

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    if (impl_ != nullptr) impl_->core->wait(*impl_->state, 0);
    impl_ = std::move(other.impl_);
  }
  return *this;
}

// A failure that nobody asked for stays on the fault board: the next call reports it.
Work::~Work() {
  if (impl_ != nullptr) impl_->core->wait(*impl_->state, 0);
}

void Work::wait() {
  if (impl_ == nullptr) return;
  impl_->core->wait(*impl_->state, 0);
  throw_if_failed(*impl_->state);
}

bool Work::test() { return wait_for(std::chrono::nanoseconds(0)); }

bool Work::wait_for(std::chrono::nanoseconds limit) {
  if (impl_ == nullptr) return true;
  if (!impl_->core->wait(*impl_->state, now_ns() + limit.count())) return false;
  throw_if_failed(*impl_->state);
  return true;
}

}  // namespace peal
