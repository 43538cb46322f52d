#include <algorithm>
#include <transport/user_segments.hpp>

namespace peal::transport {

void UserSegments::add(std::shared_ptr<UserSegment> segment) {
  const std::lock_guard lock(mutex_);
  forget_abandoned();
  list_.push_back(std::move(segment));
  version_.fetch_add(1, std::memory_order_acq_rel);
}

void UserSegments::give_back(UserSegment& segment) {
  const std::lock_guard lock(mutex_);
  segment.give_back();
  forget_abandoned();
  version_.fetch_add(1, std::memory_order_acq_rel);
}

UserSegments::List UserSegments::list() const {
  const std::lock_guard lock(mutex_);
  return list_;
}

void UserSegments::forget_abandoned() {
  std::erase_if(list_, [](const auto& segment) { return segment->is_abandoned(); });
}

}  // namespace peal::transport
