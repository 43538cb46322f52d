// Messages for several ranks that are stored once: in slots that belong to no ring, named in the descriptor of every receiver.
#include <algorithm>
#include <transport/shm.hpp>

namespace peal::transport {

bool ShmTransport::find_shared_data() {
  if (shared_data_ != nullptr) return true;
  if (borrowing_.pool == nullptr || !health_) return false;
  bool is_passing = false;
  auto lent = borrowing_.pool->to_several().lend(&card(rank_), borrowing_.owner, layout_.data_bytes(), &is_passing);
  if (!lent) {
    break_down(std::move(lent).error());
    return false;
  }
  shared_data_ = *lent;
  return shared_data_ != nullptr;
}

bool ShmTransport::is_released(SharedSlot& slot) {
  while (!slot.readings.empty()) {
    const SharedSlot::Reading& last = slot.readings.back();
    if (!last.end->has_released(last.messages)) return false;
    slot.readings.pop_back();
  }
  return true;
}

std::byte* ShmTransport::acquire_shared() {
  if (!find_shared_data()) return nullptr;
  for (int i = 0; i < layout_.slots; ++i) {
    const int number = takes_lowest_ ? i : (next_shared_ + i) % layout_.slots;
    SharedSlot& slot = shared_slots_[number];
    if (slot.is_held || !is_released(slot)) continue;
    slot.is_held = true;
    next_shared_ = (number + 1) % layout_.slots;
    return shared_data_ + static_cast<std::size_t>(number) * layout_.area_bytes();
  }
  return nullptr;
}

void ShmTransport::rest_shared() {
  if (shared_data_ == nullptr) return;
  std::vector<ShmSlotPool::Sent> sent;
  for (SharedSlot& slot : shared_slots_)
    for (const SharedSlot::Reading& reading : slot.readings) sent.push_back({reading.end->credit_line_, reading.messages});
  borrowing_.pool->to_several().give_back(sent);
  shared_data_ = nullptr;
}

const void* ShmSender::shared_area() { return owner_->find_shared_data() ? owner_ : nullptr; }

std::byte* ShmSender::acquire_shared() { return owner_->acquire_shared(); }

bool ShmSender::send_shared(const std::byte* room, std::size_t bytes, const Tag* tag) {
  if (!wait_line()) return false;
  ShmLine& line = lines_[sent_ & line_mask_];
  put_tag(line, tag);
  const std::size_t number = owner_->shared_number(room);
  owner_->shared_slots_[number].readings.push_back({this, sent_ + 1});
  commit(line, shm::in_shared_slot, bytes, static_cast<std::uint32_t>(number) * kPlaces);
  return true;
}

void ShmSender::end_shared(const std::byte* room) { owner_->shared_slots_[owner_->shared_number(room)].is_held = false; }

}  // namespace peal::transport
