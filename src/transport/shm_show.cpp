// Messages that stay where they lie: in memory of the user's that both ends map (user_segments.hpp).
#include <algorithm>
#include <transport/shm.hpp>

namespace peal::transport {

void ShmTransport::read_from(std::shared_ptr<const UserSegments> segments, std::vector<int> numbers) {
  segments_ = std::move(segments);
  numbers_ = std::move(numbers);
  std::sort(numbers_.begin(), numbers_.end());
}

void ShmTransport::look_at_segments(std::uint64_t version) {
  seen_segments_ = version;
  views_.clear();
  for (auto& segment : segments_->list()) {
    const auto& holders = segment->holders();
    const bool is_everywhere = std::includes(holders.begin(), holders.end(), numbers_.begin(), numbers_.end());
    views_.push_back({std::move(segment), is_everywhere});
  }
  std::sort(views_.begin(), views_.end(), [](const View& a, const View& b) { return a.segment->data() < b.segment->data(); });
}

const UserSegment* ShmTransport::find_segment(const std::byte* data, std::size_t bytes) const {
  auto after =
      std::upper_bound(views_.begin(), views_.end(), data, [](const std::byte* at, const View& view) { return at < view.segment->data(); });
  if (after == views_.begin()) return nullptr;
  const View& view = *--after;
  const auto offset = static_cast<std::size_t>(data - view.segment->data());
  const bool lies_within = offset <= view.segment->bytes() && bytes <= view.segment->bytes() - offset;
  return lies_within && view.is_everywhere ? view.segment.get() : nullptr;
}

std::byte* ShmTransport::find_shown(const shm::Place& place, int peer) {
  has_segments();  // the sender may have seen a segment before this rank has looked
  for (const View& view : views_) {
    const UserSegment& segment = *view.segment;
    if (segment.id() != place.segment) continue;
    if (place.offset > segment.bytes() || place.bytes > segment.bytes() - place.offset) break;
    return segment.data() + place.offset;
  }
  break_down({ErrorCode::internal,
              fmt::format("rank {} sent {} bytes that lie in memory which rank {} does not map", peer, place.bytes, rank_),
              peer,
              rank_,
              {}});
  return nullptr;
}

bool ShmSender::can_show(const std::byte* data, std::size_t bytes) { return owner_->can_show(data, bytes); }

bool ShmSender::locate(const std::byte* data, std::size_t bytes, shm::Place& place) const {
  const UserSegment* segment = owner_->has_segments() ? owner_->find_segment(data, bytes) : nullptr;
  if (segment != nullptr) place = {segment->id(), static_cast<std::uint64_t>(data - segment->data()), bytes};
  return segment != nullptr;
}

bool ShmSender::show(const std::byte* data, std::size_t bytes, const Tag* tag, std::byte* answer) {
  shm::PlaceToAnswer places{};
  if (!locate(data, bytes, places.message) || (answer != nullptr && !locate(answer, bytes, places.answer))) return false;
  return show_located(places, answer != nullptr, tag);
}

bool ShmSender::show_located(const shm::PlaceToAnswer& places, bool has_answer, const Tag* tag) {
  if (!wait_line()) return false;
  ShmLine& line = lines_[sent_ & line_mask_];
  last_unsent_ = sent_ + 1;
  if (has_answer)
    write_place(line, places, shm::shown_to_answer, tag);
  else
    write_place(line, places.message, shm::shown, tag);
  return true;
}

bool ShmSender::show_theirs(const std::byte* data, std::size_t bytes, const Tag* tag) {
  shm::Place place{};
  if (!locate(data, bytes, place) || !wait_line()) return false;
  write_place(lines_[sent_ & line_mask_], place, shm::shown, tag);
  return true;
}

bool ShmReceiver::find_shown(const std::byte* from, bool is_to_answer) {
  shm::PlaceToAnswer places{};
  std::memcpy(&places, from, is_to_answer ? sizeof places : sizeof places.message);
  message_.data = owner_->find_shown(places.message, peer_);
  message_.bytes = places.message.bytes;
  if (message_.data == nullptr || !is_to_answer) return message_.data != nullptr;
  return (message_.answer = owner_->find_shown(places.answer, peer_)) != nullptr;
}

}  // namespace peal::transport
